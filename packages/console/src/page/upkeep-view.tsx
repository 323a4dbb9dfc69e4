// Upkeep: what keeps a collection small, fresh and safe. Each can be stopped, and goes on later.

import type { Collection, CollectionDescription, FieldType } from '@hers/client';
import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { Button, Field, Problem, Select, save } from './parts.tsx';
import { isRunning, type JobTools, run } from './state.ts';
import { counted, messageOf, size } from './text.ts';
import { unlocked } from './unlocked.ts';

interface ActionProps {
  readonly title: string;
  readonly text: string;
  readonly label: string;
  readonly onRun: () => void;
  readonly children?: JSX.Element;
}

function Action({ title, text, label, onRun, children }: ActionProps): JSX.Element {
  return (
    <div class="card action">
      <div>
        <h2>{title}</h2>
        <p class="hint">{text}</p>
        {children}
      </div>
      <Button disabled={isRunning()} onClick={onRun}>
        {label}
      </Button>
    </div>
  );
}

const TYPES: readonly FieldType[] = ['keyword', 'number', 'date', 'boolean', 'keyword[]'];

export function UpkeepView({ description }: { readonly description: CollectionDescription }): JSX.Element {
  const { name, dimension, compressor } = description;
  const { database } = unlocked.value!;
  const added = useSignal({ name: '', type: 'keyword' as FieldType });
  const problem = useSignal<string | undefined>(undefined);
  const start = (title: string, work: (collection: Collection, tools: JobTools) => Promise<string>) =>
    void run(title, name, async (tools) => work(await database.collection(name), tools));

  const restore = async (file: File | undefined) => {
    if (!file) return;
    problem.value = undefined;
    const target = freeName(file.name, name);
    start(`Restore ${target}`, async (_, { signal, onProgress }) => {
      const restored = await database.restore(target, watched(file, onProgress), { signal });
      return `${counted(await restored.count(), 'record')} are in ${target}.`;
    });
  };

  const reindex = async (file: File | null | undefined) => {
    if (file === undefined) return;
    start(file ? `Reindex through ${file.name}` : 'Reindex without a compressor', async (collection, tools) => {
      await collection.reindex(file ? new Uint8Array(await file.arrayBuffer()) : null, tools);
      const { plan } = await collection.index();
      return `Searches compare ${plan.dimension} dimensions.`;
    });
  };

  return (
    <div class="stack">
      <Problem text={problem.value} />
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
      <div class="card action">
        <div>
          <h2>Restore</h2>
          <p class="hint">A snapshot becomes a collection of its own, beside this one.</p>
        </div>
        <label class={`button ${isRunning() ? 'disabled' : ''}`}>
          Choose a snapshot …
          <input
            type="file"
            class="hidden"
            accept=".snapshot"
            disabled={isRunning()}
            onChange={({ currentTarget }) => void restore(currentTarget.files?.[0])}
          />
        </label>
      </div>
      <div class="card action">
        <div>
          <h2>Reindex</h2>
          <p class="hint">
            {compressor
              ? `Searches compare ${compressor.dimension} of ${dimension} dimensions (${compressor.method}). Another compressor can take its place, or none.`
              : 'A compressor (from hers compress train) lets searches compare fewer dimensions. Nothing is enrolled again; the gallery can be searched meanwhile.'}
          </p>
        </div>
        <div class="actions">
          <label class={`button ${isRunning() ? 'disabled' : ''}`}>
            Choose a compressor …
            <input
              type="file"
              class="hidden"
              aria-label="Compressor"
              disabled={isRunning()}
              onChange={({ currentTarget }) => void reindex(currentTarget.files?.[0])}
            />
          </label>
          {compressor ? (
            <Button disabled={isRunning()} onClick={() => void reindex(null)}>
              Without one
            </Button>
          ) : null}
        </div>
      </div>
      <Action
        title="Add a field"
        text="A property of the payload to filter by. It is filled from the records that there are; nothing is encrypted again."
        label="Add it"
        onRun={() => {
          const { name: field, type } = added.value;
          start(`Add the field ${field}`, async (collection, tools) => {
            try {
              await collection.addFields({ [field]: type }, tools);
              return `Records can be filtered by ${field}.`;
            } catch (error) {
              throw new Error(messageOf(error));
            }
          });
        }}
      >
        <div class="row">
          <Field label="Name">
            <input
              value={added.value.name}
              autocomplete="off"
              onInput={({ currentTarget }) => (added.value = { ...added.value, name: currentTarget.value })}
            />
          </Field>
          <Field label="Type">
            <Select
              value={added.value.type}
              options={TYPES.map((type) => [type, type] as const)}
              onText={(type) => (added.value = { ...added.value, type })}
            />
          </Field>
        </div>
      </Action>
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
