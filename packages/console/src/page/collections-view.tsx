// The collections of this key: what there is, and a new one.

import type { CollectionOptions, CollectionSummary, Fields, FieldType, Plan } from '@hers/client';
import { plan } from '@hers/scheme';
import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { type ModelFacts, shelf } from './models.ts';
import { Dialog, Fact, Field, Problem, Table, useForm } from './parts.tsx';
import { go, hrefOf } from './route.ts';
import { useLoaded } from './state.ts';
import { count, counted, messageOf, size } from './text.ts';
import { unlocked } from './unlocked.ts';

interface Listed {
  readonly own: readonly CollectionSummary[];
  /** Collections that this key does not open. */
  readonly others: number;
}

export function CollectionsView(): JSX.Element {
  const { database, service, keyName, remembers } = unlocked.value!;
  const isMaking = useSignal(false);
  const { loaded, reload } = useLoaded<Listed>(async () => {
    const [own, all] = await Promise.all([database.listCollections(), service.listCollections()]);
    return { own, others: all.length - own.length };
  }, []);
  const { value, problem, isLoading } = loaded.value;
  return (
    <section>
      <header class="heading">
        <h1>Collections</h1>
        <div class="actions">
          <button type="button" onClick={reload} disabled={isLoading}>
            Refresh
          </button>
          <button type="button" class="main" onClick={() => (isMaking.value = true)}>
            New collection
          </button>
        </div>
      </header>
      <Problem text={problem} />
      {value ? <CollectionsTable collections={value.own} /> : <p class="faint">{isLoading ? 'Reading …' : ''}</p>}
      <p class="hint">
        {value && value.others > 0
          ? `${counted(value.others, 'collection')} more ${value.others === 1 ? 'is' : 'are'} here under other keys. `
          : ''}
        Opened with {keyName}.
        {remembers
          ? ''
          : ' This browser keeps nothing: a gallery that was rolled back before this visit goes unnoticed.'}
      </p>
      {isMaking.value ? <NewCollection onClose={() => (isMaking.value = false)} /> : null}
    </section>
  );
}

function CollectionsTable({ collections }: { readonly collections: readonly CollectionSummary[] }): JSX.Element {
  if (collections.length === 0)
    return (
      <div class="card empty">
        <h2>No collection yet</h2>
        <p>A collection holds vectors of one dimension, compared by one metric, under this key.</p>
      </div>
    );
  return (
    <Table
      label="Collections of this key"
      columns={[
        'name',
        ['records', 'number'],
        ['dimension', 'number'],
        'metric',
        'profile',
        ['blocks', 'number'],
        ['on disk', 'number'],
        ['version', 'number'],
      ]}
    >
      {collections.map(({ name, records, dimension, metric, profile, blocks, bytes, version, compressor }) => (
        <tr key={name}>
          <th scope="row">
            <a href={hrefOf({ view: 'collection', name, tab: 'overview' })}>{name}</a>
          </th>
          <td class="number">{count(records)}</td>
          <td class="number">{compressor ? `${dimension} → ${compressor.dimension}` : dimension}</td>
          <td>{metric}</td>
          <td>{profile}</td>
          <td class="number">{count(blocks)}</td>
          <td class="number">{size(bytes)}</td>
          <td class="number">{version}</td>
        </tr>
      ))}
    </Table>
  );
}

const TYPES: readonly FieldType[] = ['keyword', 'number', 'date', 'boolean', 'keyword[]'];

/** `country:keyword, age:number` */
function fieldsIn(text: string): Fields {
  const fields: Record<string, FieldType> = {};
  for (const part of text.split(/[,\n]/).map((each) => each.trim())) {
    if (part === '') continue;
    const [name = '', kind = 'keyword'] = part.split(':').map((each) => each.trim());
    const type = TYPES.find((each) => each === kind);
    if (!type) throw new Error(`${JSON.stringify(kind)} is no type of a field; there are ${TYPES.join(', ')}`);
    fields[name] = type;
  }
  return fields;
}

/** The error of a score, in words. */
export function errorText({ profile, noise }: Plan): string {
  return profile.startsWith('exact') ? 'none beyond rounding' : `${noise.score.toPrecision(2)} (rms)`;
}

function NewCollection({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const { database } = unlocked.value!;
  const { form, set } = useForm({
    name: '',
    dimension: '128',
    metric: 'cosine' as NonNullable<CollectionOptions['metric']>,
    profile: 'compact' as NonNullable<CollectionOptions['profile']>,
    integrity: 'standard' as NonNullable<CollectionOptions['integrity']>,
    normBound: '1',
    fields: '',
  });
  const problem = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const { value } = form;
  const options = (): CollectionOptions => {
    const { dimension, metric, profile, integrity, normBound, fields } = form.value;
    return {
      dimension: Number(dimension),
      metric,
      profile,
      integrity,
      ...(metric === 'cosine' ? {} : { normBound: Number(normBound) }),
      ...(fields.trim() === '' ? {} : { fields: fieldsIn(fields) }),
    };
  };
  const make = async () => {
    isBusy.value = true;
    problem.value = undefined;
    try {
      await database.createCollection(form.value.name, options());
      onClose();
      go({ view: 'collection', name: form.value.name, tab: 'overview' });
    } catch (error) {
      problem.value = messageOf(error);
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <Dialog title="New collection" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void make();
        }}
      >
        <ForModel
          onChoose={({ dimension, metric, normBound = 1 }) =>
            set({ dimension: String(dimension), metric, normBound: String(normBound) })
          }
        />
        <div class="grid">
          <Field label="Name" hint="The server sees it.">
            <input
              value={value.name}
              required
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => set({ name: event.currentTarget.value })}
            />
          </Field>
          <Field label="Dimension" hint="Coordinates of a vector, 2 to 4096.">
            <input
              type="number"
              min="2"
              max="4096"
              required
              value={value.dimension}
              onInput={(event) => set({ dimension: event.currentTarget.value })}
            />
          </Field>
          <Field label="Metric">
            <select value={value.metric} onChange={(event) => set({ metric: event.currentTarget.value as 'cosine' })}>
              <option value="cosine">cosine</option>
              <option value="dot">dot product</option>
              <option value="euclidean">euclidean distance</option>
            </select>
          </Field>
          <Field label="Longest vector" hint="For dot and euclidean.">
            <input
              type="number"
              step="any"
              min="0"
              disabled={value.metric === 'cosine'}
              value={value.normBound}
              onInput={(event) => set({ normBound: event.currentTarget.value })}
            />
          </Field>
          <Field label="Profile">
            <select
              value={value.profile}
              onChange={(event) => set({ profile: event.currentTarget.value as 'compact' })}
            >
              <option value="compact">compact: 4 bytes a coordinate</option>
              <option value="small">small: 3 bytes, a larger error</option>
              <option value="exact">exact: 8 bytes, no error</option>
            </select>
          </Field>
          <Field label="Integrity">
            <select
              value={value.integrity}
              onChange={(event) => set({ integrity: event.currentTarget.value as 'standard' })}
            >
              <option value="standard">standard</option>
              <option value="strong">strong: shows one changed score</option>
            </select>
          </Field>
        </div>
        <Field
          label="Fields to filter by"
          hint="Such as country:keyword, age:number, expires:date. More can be added later."
        >
          <input
            value={value.fields}
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => set({ fields: event.currentTarget.value })}
          />
        </Field>
        <PlannerPromise options={options} />
        <Problem text={problem.value} />
        <div class="actions">
          <button type="submit" class="main" disabled={isBusy.value}>
            Make it
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Choices that fit the vectors of a model. */
function ForModel({ onChoose }: { readonly onChoose: (model: ModelFacts) => void }): JSX.Element | null {
  const { models } = shelf.value;
  if (models.length === 0) return null;
  return (
    <div class="actions">
      <span class="faint">For what a model in this page understands:</span>
      {models.map((model) => (
        <button type="button" key={model.name} onClick={() => onChoose(model)}>
          {model.name}
        </button>
      ))}
    </div>
  );
}

/** What the planner promises for these choices, or why they cannot be had. */
function PlannerPromise({ options }: { readonly options: () => CollectionOptions }): JSX.Element {
  let planned: Plan | undefined;
  let why = '';
  try {
    const { fields: __, ...request } = options();
    planned = plan(request);
  } catch (error) {
    why = messageOf(error);
  }
  return (
    <div class="promise" aria-live="polite">
      {planned ? (
        <dl class="facts columns">
          <Fact term="error of a score">{errorText(planned)}</Fact>
          <Fact term="a stored vector">{size(planned.bytes.perTemplate)}</Fact>
          <Fact term="a query">{size(planned.bytes.query)}</Fact>
          <Fact term="security">{planned.security.coreSvp.quantum} bits, quantum</Fact>
        </dl>
      ) : (
        <p class="faint">{why}</p>
      )}
    </div>
  );
}
