// Records: a table with pages, and one record with all that is in it.

import type { CollectionDescription, Filter, Payload, StoredRecord } from '@hers/client';
import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { FilterForm, filterOf, type Row } from './filter-form.tsx';
import { Button, Confirm, Dialog, Fact, Field, Form, Problem, Table, TextArea, useTask } from './parts.tsx';
import { useLoaded } from './state.ts';
import { count, counted, messageOf, valueText } from './text.ts';
import { unlocked } from './unlocked.ts';

const PAGE = 50;
/** Coordinates of a vector that are shown. */
const SHOWN = 16;

interface Page {
  readonly records: readonly { readonly id: string; readonly fields: Readonly<Record<string, unknown>> }[];
  readonly total: number;
  readonly hasMore: boolean;
}

interface RecordsProps {
  readonly description: CollectionDescription;
  readonly onChange: () => void;
}

export function RecordsView({ description, onChange }: RecordsProps): JSX.Element {
  const { name, fields } = description;
  const { database } = unlocked.value!;
  const fieldNames = Object.keys(fields);
  const rows = useSignal<readonly Row[]>([]);
  const filter = useSignal<Filter | undefined>(undefined);
  /** The last ids of the pages before. */
  const before = useSignal<readonly string[]>([]);
  const chosen = useSignal<string | undefined>(undefined);
  const isDeletingAll = useSignal(false);
  const said = useSignal('');
  const { loaded, reload } = useLoaded<Page>(async () => {
    const collection = await database.collection(name);
    const after = before.value.at(-1);
    const options = { ...(filter.value ? { filter: filter.value } : {}) };
    const found = await Array.fromAsync(
      collection.listFields(fieldNames, { ...options, limit: PAGE + 1, ...(after === undefined ? {} : { after }) }),
    );
    return { records: found.slice(0, PAGE), hasMore: found.length > PAGE, total: await collection.count(options) };
  }, [before.value, filter.value]);
  const { value, problem, isLoading } = loaded.value;
  const changed = () => {
    reload();
    onChange();
  };
  const first = before.value.length * PAGE;
  const open = (id: string) => (
    <Button class="link id" onClick={() => (chosen.value = id)}>
      {id}
    </Button>
  );
  return (
    <div class="records">
      <Form
        class="card"
        onSubmit={() => {
          before.value = [];
          filter.value = filterOf(rows.value, fields);
        }}
      >
        <FilterForm fields={fields} rows={rows.value} onChange={(next) => (rows.value = next)} />
        <div class="actions">
          <button type="submit">Apply</button>
          <span class="hint">This page filters. The server does not learn that there is a filter.</span>
        </div>
      </Form>
      <Problem text={problem} />
      <div class="card">
        <div class="heading">
          <h2>
            {value ? counted(value.total, 'record') : isLoading ? 'Reading …' : 'Records'}
            {filter.value && value ? ' pass' : ''}
          </h2>
          <div class="actions">
            {filter.value && value && value.total > 0 ? (
              <Button class="danger" onClick={() => (isDeletingAll.value = true)}>
                Delete these …
              </Button>
            ) : null}
            <Button
              disabled={before.value.length === 0 || isLoading}
              onClick={() => (before.value = before.value.slice(0, -1))}
            >
              ← Before
            </Button>
            <span class="number faint">
              {value && value.records.length > 0 ? `${count(first + 1)}–${count(first + value.records.length)}` : '–'}
            </span>
            <Button
              disabled={!value?.hasMore || isLoading}
              onClick={() => (before.value = [...before.value, value!.records.at(-1)!.id])}
            >
              Next →
            </Button>
          </div>
        </div>
        <p class="hint" role="status">
          {said.value}
        </p>
        {value && value.records.length > 0 ? (
          <div class="ids">
            {fieldNames.length === 0 ? (
              <ul>
                {value.records.map(({ id }) => (
                  <li key={id}>{open(id)}</li>
                ))}
              </ul>
            ) : (
              <Table label="Records" columns={['id', ...fieldNames]}>
                {value.records.map(({ id, fields: values }) => (
                  <tr key={id}>
                    <th scope="row">{open(id)}</th>
                    {fieldNames.map((field) => (
                      <td key={field}>{valueText(values[field])}</td>
                    ))}
                  </tr>
                ))}
              </Table>
            )}
          </div>
        ) : null}
        <p class="hint">
          Ids and fields are in lists that this page has decrypted. Opening a record fetches it, which shows the server
          which one.
        </p>
      </div>
      {chosen.value === undefined ? null : (
        <RecordDialog
          collection={name}
          id={chosen.value}
          onClose={() => (chosen.value = undefined)}
          onChange={(text) => {
            said.value = text;
            chosen.value = undefined;
            changed();
          }}
        />
      )}
      {isDeletingAll.value ? (
        <Confirm
          title={`Delete ${counted(value?.total ?? 0, 'record')}`}
          word={name}
          action="Delete them"
          onClose={() => (isDeletingAll.value = false)}
          onConfirm={async () => {
            try {
              const collection = await database.collection(name);
              said.value = `${counted(await collection.delete({ filter: filter.value ?? {} }), 'record')} deleted.`;
            } catch (error) {
              said.value = messageOf(error);
            }
            isDeletingAll.value = false;
            before.value = [];
            changed();
          }}
        >
          <p>All records that pass the filter are deleted. The server sees their handles.</p>
        </Confirm>
      ) : null}
    </div>
  );
}

interface RecordDialogProps {
  readonly collection: string;
  readonly id: string;
  readonly onClose: () => void;
  readonly onChange: (said: string) => void;
}

function RecordDialog({ collection: name, id, onClose, onChange }: RecordDialogProps): JSX.Element {
  const { database } = unlocked.value!;
  const { loaded } = useLoaded<StoredRecord | undefined>(async () => {
    const [record] = await (await database.collection(name)).get(id);
    return record;
  }, [id]);
  const text = useSignal<string | undefined>(undefined);
  const { isBusy, problem, run } = useTask();
  const record = loaded.value.value;
  const written = record?.payload === undefined ? '' : JSON.stringify(record.payload, null, 2);

  const write = () =>
    run(async () => {
      const content = (text.value ?? written).trim();
      let payload: Payload | undefined;
      try {
        payload = content === '' ? undefined : JSON.parse(content);
      } catch {
        throw new Error('this is not JSON');
      }
      const collection = await database.collection(name);
      await collection.updatePayload({ id, ...(payload === undefined ? {} : { payload }) });
      onChange(`The payload of ${id} is written.`);
    });
  const remove = () =>
    run(async () => {
      await (await database.collection(name)).delete(id);
      onChange(`${id} is deleted.`);
    });

  return (
    <Dialog title={id} onClose={onClose}>
      <Form onSubmit={write}>
        <p class="hint" role="status">
          {loaded.value.isLoading
            ? 'Fetching …'
            : record
              ? 'The server has seen its handle.'
              : 'It is not there any more.'}
        </p>
        <Problem text={loaded.value.problem} />
        {record ? (
          <>
            <dl class="facts">
              <Fact term={`${record.vector.length} numbers`}>
                <code>
                  {[...record.vector.subarray(0, SHOWN)].map((each) => each.toFixed(3)).join(' ')}
                  {record.vector.length > SHOWN ? ' …' : ''}
                </code>
              </Fact>
            </dl>
            <Field label="Payload" hint="JSON. Written again, it is sealed in this page; the server sees which record.">
              <TextArea rows={8} value={text.value ?? written} onText={(next) => (text.value = next)} />
            </Field>
            <Problem text={problem} />
            <div class="actions">
              <button type="submit" class="main" disabled={isBusy || text.value === undefined}>
                Write the payload
              </button>
              <Button class="danger" disabled={isBusy} onClick={() => void remove()}>
                Delete the record
              </Button>
              <Button onClick={onClose}>Close</Button>
            </div>
          </>
        ) : null}
      </Form>
    </Dialog>
  );
}
