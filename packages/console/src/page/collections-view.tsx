// The collections of this key: what there is, and a new one.

import type { CollectionOptions, CollectionSummary, Fields, FieldType, Plan } from '@hers/client';
import { plan } from '@hers/scheme';
import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { type ModelFacts, shelf } from './models.ts';
import { Button, Dialog, Fact, Field, Form, Input, Problem, Select, Table, useForm, useTask } from './parts.tsx';
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
          <Button onClick={reload} disabled={isLoading}>
            Refresh
          </Button>
          <Button class="main" onClick={() => (isMaking.value = true)}>
            New collection
          </Button>
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

export const TYPES: readonly FieldType[] = ['keyword', 'number', 'date', 'boolean', 'keyword[]'];

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

type Choices<T> = readonly (readonly [value: NonNullable<T>, text: string])[];
const METRICS: Choices<CollectionOptions['metric']> = [
  ['cosine', 'cosine'],
  ['dot', 'dot product'],
  ['euclidean', 'euclidean distance'],
];
const PROFILES: Choices<CollectionOptions['profile']> = [
  ['compact', 'compact: 4 bytes a coordinate'],
  ['small', 'small: 3 bytes, a larger error'],
  ['exact', 'exact: 8 bytes, no error'],
];
const INTEGRITIES: Choices<CollectionOptions['integrity']> = [
  ['standard', 'standard'],
  ['strong', 'strong: shows one changed score'],
];

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
  const { isBusy, problem, run } = useTask();
  const { value } = form;
  const options = (): CollectionOptions => {
    const { dimension, metric, profile, integrity, normBound, fields } = form.value;
    return {
      ...{ dimension: Number(dimension), metric, profile, integrity },
      ...(metric === 'cosine' ? {} : { normBound: Number(normBound) }),
      ...(fields.trim() === '' ? {} : { fields: fieldsIn(fields) }),
    };
  };
  const make = () =>
    run(async () => {
      await database.createCollection(form.value.name, options());
      onClose();
      go({ view: 'collection', name: form.value.name, tab: 'overview' });
    });
  return (
    <Dialog title="New collection" onClose={onClose}>
      <Form onSubmit={make}>
        <ForModel
          onChoose={({ dimension, metric, normBound = 1 }) =>
            set({ dimension: String(dimension), metric, normBound: String(normBound) })
          }
        />
        <div class="grid">
          <Field label="Name" hint="The server sees it.">
            <Input value={value.name} required spellcheck={false} onText={(name) => set({ name })} />
          </Field>
          <Field label="Dimension" hint="Coordinates of a vector, 2 to 4096.">
            <Input
              type="number"
              min="2"
              max="4096"
              required
              value={value.dimension}
              onText={(dimension) => set({ dimension })}
            />
          </Field>
          <Field label="Metric">
            <Select value={value.metric} options={METRICS} onText={(metric) => set({ metric })} />
          </Field>
          <Field label="Longest vector" hint="For dot and euclidean.">
            <Input
              type="number"
              step="any"
              min="0"
              disabled={value.metric === 'cosine'}
              value={value.normBound}
              onText={(normBound) => set({ normBound })}
            />
          </Field>
          <Field label="Profile">
            <Select value={value.profile} options={PROFILES} onText={(profile) => set({ profile })} />
          </Field>
          <Field label="Integrity">
            <Select value={value.integrity} options={INTEGRITIES} onText={(integrity) => set({ integrity })} />
          </Field>
        </div>
        <Field
          label="Fields to filter by"
          hint="Such as country:keyword, age:number, expires:date. More can be added later."
        >
          <Input value={value.fields} spellcheck={false} onText={(fields) => set({ fields })} />
        </Field>
        <PlannerPromise options={options} />
        <Problem text={problem} />
        <div class="actions">
          <button type="submit" class="main" disabled={isBusy}>
            Make it
          </button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </Form>
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
        <Button key={model.name} onClick={() => onChoose(model)}>
          {model.name}
        </Button>
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
