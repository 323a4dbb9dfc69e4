// Upkeep: what keeps a collection small, fresh and safe. Each can be stopped, and goes on later.

import type { Collection, CollectionDescription, FieldType } from '@hers/client';
import type { ComponentChildren, JSX } from 'preact';
import { TYPES } from './collections-view.tsx';
import { Button, Field, FileButton, Input, Select, save, useForm } from './parts.tsx';
import { isRunning, type JobTools, run } from './state.ts';
import { counted, size } from './text.ts';
import { unlocked } from './unlocked.ts';

interface AboutProps {
  readonly title: string;
  readonly text: string;
  /** A form below the text. */
  readonly form?: JSX.Element;
  /** The button that begins it. */
  readonly children: ComponentChildren;
}

function Card({ title, text, form, children }: AboutProps): JSX.Element {
  return (
    <div class="card action">
      <div>
        <h2>{title}</h2>
        <p class="hint">{text}</p>
        {form}
      </div>
      {children}
    </div>
  );
}

interface ActionProps extends Omit<AboutProps, 'children'> {
  readonly label: string;
  readonly onRun: () => void;
}

function Action({ label, onRun, ...rest }: ActionProps): JSX.Element {
  return (
    <Card {...rest}>
      <Button disabled={isRunning()} onClick={onRun}>
        {label}
      </Button>
    </Card>
  );
}

export function UpkeepView({ description }: { readonly description: CollectionDescription }): JSX.Element {
  const { name, dimension, compressor } = description;
  const { database } = unlocked.value!;
  const { form, set } = useForm({ name: '', type: 'keyword' as FieldType });
  const start = (title: string, work: (collection: Collection, tools: JobTools) => Promise<string>) =>
    void run(title, name, async (tools) => work(await database.collection(name), tools));

  const restore = (file: File | undefined) => {
    if (!file) return;
    const target = freeName(file.name, name);
    start(`Restore ${target}`, async (_, { signal, onProgress }) => {
      const restored = await database.restore(target, watched(file, onProgress), { signal });
      return `${counted(await restored.count(), 'record')} are in ${target}.`;
    });
  };

  const reindex = (file: File | null | undefined) => {
    if (file === undefined) return;
    start(file ? `Reindex through ${file.name}` : 'Reindex without a compressor', async (collection, tools) => {
      await collection.reindex(file ? new Uint8Array(await file.arrayBuffer()) : null, tools);
      const { plan } = await collection.index();
      return `Searches compare ${plan.dimension} dimensions.`;
    });
  };

  return (
    <div class="stack">
      <Action
        title="Optimize"
        text="Puts pending records into blocks, makes deletions final, and completes fields."
        label="Optimize"
        onRun={() =>
          start('Optimize', async (collection, tools) => {
            await collection.optimize(tools);
            return 'Everything is in blocks, and what was deleted is gone from the disk.';
          })
        }
      />
      <Action
        title="Delete what has expired"
        text="Records whose field expires has passed are never found; this deletes them."
        label="Expire"
        onRun={() =>
          start('Expire', async (collection, { signal }) => {
            const { count } = await collection.expire({ signal });
            return `${counted(count, 'record')} had expired, and ${count === 1 ? 'is' : 'are'} deleted.`;
          })
        }
      />
      <Action
        title="Rotate the key"
        text="Encrypts everything again under the next key from the same seed. The gallery can be searched meanwhile."
        label="Rotate"
        onRun={() =>
          start(
            'Rotate the key',
            async (collection, tools) => `The key is of epoch ${await collection.rotateKey(tools)}.`,
          )
        }
      />
      <Action
        title="Snapshot"
        text="The whole collection as one file, as encrypted as it is stored. It needs the same key."
        label="Save one"
        onRun={() =>
          start('Snapshot', async (collection, { signal, onProgress }) => {
            const pieces: BlobPart[] = [];
            let bytes = 0;
            for await (const piece of collection.snapshot({ signal })) {
              pieces.push(piece.slice());
              bytes += piece.length;
              onProgress({ done: bytes, total: Math.max(bytes, description.bytes) });
            }
            save(`${name}.snapshot`, pieces);
            return `${size(bytes)} are saved as ${name}.snapshot.`;
          })
        }
      />
      <Card title="Restore" text="A snapshot becomes a collection of its own, beside this one.">
        <FileButton
          text="Choose a snapshot …"
          accept=".snapshot"
          disabled={isRunning()}
          onFiles={([file]) => restore(file)}
        />
      </Card>
      <Card
        title="Reindex"
        text={
          compressor
            ? `Searches compare ${compressor.dimension} of ${dimension} dimensions (${compressor.method}). Another compressor can take its place, or none.`
            : 'A compressor (from hers compress train) lets searches compare fewer dimensions. Nothing is enrolled again; the gallery can be searched meanwhile.'
        }
      >
        <div class="actions">
          <FileButton
            text="Choose a compressor …"
            aria-label="Compressor"
            disabled={isRunning()}
            onFiles={([file]) => reindex(file)}
          />
          {compressor ? (
            <Button disabled={isRunning()} onClick={() => reindex(null)}>
              Without one
            </Button>
          ) : null}
        </div>
      </Card>
      <Action
        title="Add a field"
        text="A property of the payload to filter by. It is filled from the records that there are; nothing is encrypted again."
        label="Add it"
        onRun={() => {
          const { name: field, type } = form.value;
          start(`Add the field ${field}`, async (collection, tools) => {
            await collection.addFields({ [field]: type }, tools);
            return `Records can be filtered by ${field}.`;
          });
        }}
        form={
          <div class="row">
            <Field label="Name">
              <Input value={form.value.name} onText={(name) => set({ name })} />
            </Field>
            <Field label="Type">
              <Select
                value={form.value.type}
                options={TYPES.map((type) => [type, type] as const)}
                onText={(type) => set({ type })}
              />
            </Field>
          </div>
        }
      />
    </div>
  );
}

/** A name that is free: the file's, unless it is this collection's. */
function freeName(file: string, name: string): string {
  const own = file.replace(/\.snapshot$/i, '').replace(/[^\w.-]/g, '-');
  return own === name || own === '' ? `${name}-restored` : own;
}

async function* watched(file: File, onProgress: JobTools['onProgress']): AsyncGenerator<Uint8Array> {
  const piece = 2 ** 20;
  for (let at = 0; at < file.size; at += piece) {
    yield new Uint8Array(await file.slice(at, at + piece).arrayBuffer());
    onProgress({ done: Math.min(file.size, at + piece), total: file.size });
  }
}
