// Enrol: records out of a file, or one by hand. They are encrypted and sealed in this page.

import type { CollectionDescription, Payload, VectorRecord } from '@hers/client';
import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { EnrolPictures, EnrolSentences } from './enrol-models.tsx';
import { modelKinds } from './model-probe.tsx';
import { Button, Drop, Field, FileChoice, Form, Input, Problem, Table, TextArea, useForm, useTask } from './parts.tsx';
import { openRows, type Rows, vectorOf } from './rows.ts';
import { isRunning, type JobTools, run } from './state.ts';
import { count, counted } from './text.ts';
import { unlocked } from './unlocked.ts';

const PREVIEW = 5;
const SHOWN = 6;

interface Chosen {
  readonly name: string;
  readonly rows: Rows;
  readonly preview: readonly VectorRecord[];
}

export function EnrolView({ description }: { readonly description: CollectionDescription }): JSX.Element {
  const { name, dimension, fields } = description;
  const { database } = unlocked.value!;
  const file = useSignal<File | undefined>(undefined);
  const prefix = useSignal('row-');
  const chosen = useSignal<Chosen | undefined>(undefined);
  const { problem, run: tryTo } = useTask();

  const look = () =>
    tryTo(async () => {
      chosen.value = undefined;
      if (!file.value) return;
      const rows = await openRows(file.value, { prefix: prefix.value, fields });
      const preview: VectorRecord[] = [];
      for await (const record of rows.records()) if (preview.push(record) === PREVIEW) break;
      const wrong = preview.find(({ vector }) => vector.length !== dimension);
      if (wrong)
        throw new Error(
          `the first vectors of this file have ${wrong.vector.length} dimensions, and the collection ${dimension}`,
        );
      if (preview.length === 0) throw new Error('there is no record in this file');
      chosen.value = { name: file.value.name, rows, preview };
    });

  const choose = (next: File | undefined) => {
    file.value = next;
    void look();
  };

  const enrol = (
    title: string,
    records: (tools: JobTools) => Iterable<VectorRecord> | AsyncIterable<VectorRecord>,
    total?: number,
  ) =>
    void run(title, name, async (tools) => {
      const { signal, onProgress } = tools;
      const collection = await database.collection(name);
      const { inserted, replaced, unchanged } = await collection.upsert(records(tools), {
        signal,
        onProgress: ({ acknowledged }) => onProgress({ done: acknowledged, total }),
      });
      return `${count(inserted)} new, ${count(replaced)} replaced, ${count(unchanged)} unchanged.`;
    });

  const kinds = modelKinds(dimension);
  return (
    <div class="stack">
      {kinds.includes('picture') ? <EnrolPictures description={description} onEnrol={enrol} /> : null}
      {kinds.includes('text') ? <EnrolSentences description={description} onEnrol={enrol} /> : null}
      <Drop class="card" onFiles={([dropped]) => choose(dropped)}>
        <h2>From a file</h2>
        <div class="row">
          <div class="field">
            <FileChoice
              id="import-file"
              label=".npy, .jsonl, .csv or .tsv"
              chosen={file.value?.name}
              none="none chosen; or drop it here"
              accept=".npy,.jsonl,.ndjson,.csv,.tsv"
              onFile={choose}
            />
          </div>
          <Field label="Ids of rows without one" hint={`${prefix.value}0, ${prefix.value}1, …`}>
            <Input value={prefix.value} onText={(text) => (prefix.value = text)} onChange={() => void look()} />
          </Field>
        </div>
        <Problem text={problem} />
        {chosen.value ? (
          <Preview chosen={chosen.value} />
        ) : (
          <p class="faint">The first records are shown here before anything is sent.</p>
        )}
        <div class="actions">
          <Button
            class="main"
            disabled={!chosen.value || isRunning()}
            onClick={() => {
              const { name: title, rows } = chosen.value!;
              enrol(`Import ${title}`, () => rows.records(), rows.total);
            }}
          >
            {chosen.value?.rows.total === undefined ? 'Import' : `Import ${counted(chosen.value.rows.total, 'record')}`}
          </Button>
          <span class="hint">
            Records that are there already, exactly so, are skipped: an import can be stopped and run again.
          </span>
        </div>
      </Drop>
      <One description={description} onEnrol={(record) => enrol(`Enrol ${record.id}`, () => [record], 1)} />
    </div>
  );
}

function Preview({ chosen }: { readonly chosen: Chosen }): JSX.Element {
  return (
    <Table label="The first records" columns={['id', 'vector', 'payload']}>
      {chosen.preview.map(({ id, vector, payload }) => (
        <tr key={id}>
          <th scope="row" class="id">
            {id}
          </th>
          <td>
            <code>
              {Array.from(vector)
                .slice(0, SHOWN)
                .map((each) => each.toFixed(3))
                .join(' ')}
              {vector.length > SHOWN ? ` … (${vector.length})` : ''}
            </code>
          </td>
          <td class="payload">
            <code>{payload === undefined ? '' : JSON.stringify(payload)}</code>
          </td>
        </tr>
      ))}
    </Table>
  );
}

interface OneProps {
  readonly description: CollectionDescription;
  readonly onEnrol: (record: VectorRecord) => void;
}

function One({ description, onEnrol }: OneProps): JSX.Element {
  const { form, set } = useForm({ id: '', vector: '', payload: '' });
  const { problem, run } = useTask();
  const submit = () =>
    run(() => {
      const { id, vector: text, payload: json } = form.value;
      const vector = vectorOf(text);
      if (vector.length !== description.dimension)
        throw new Error(
          `there are ${vector.length} numbers, and the collection has ${description.dimension} dimensions`,
        );
      let payload: Payload | undefined;
      try {
        payload = json.trim() === '' ? undefined : JSON.parse(json);
      } catch {
        throw new Error('the payload is not JSON');
      }
      onEnrol({ id, vector, ...(payload === undefined ? {} : { payload }) });
    });
  return (
    <Form class="card" onSubmit={submit}>
      <h2>One record</h2>
      <Field label="Id" hint="The server sees a keyed hash of it.">
        <Input value={form.value.id} required spellcheck={false} onText={(id) => set({ id })} />
      </Field>
      <div class="grid">
        <Field label={`Vector, ${description.dimension} numbers`}>
          <TextArea rows={3} required value={form.value.vector} onText={(vector) => set({ vector })} />
        </Field>
        <Field label="Payload, JSON">
          <TextArea rows={3} value={form.value.payload} onText={(payload) => set({ payload })} />
        </Field>
      </div>
      <Problem text={problem} />
      <div class="actions">
        <button type="submit" disabled={isRunning()}>
          Enrol it
        </button>
      </div>
    </Form>
  );
}
