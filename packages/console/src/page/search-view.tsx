// Search: a probe, what comes of it, and beside it what the server saw.

import type { Collection, CollectionDescription, Match, SearchOptions, SearchResult } from '@hers/client';
import { type Signal, useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { ClearPane } from './clear-pane.tsx';
import { isExample, plainCollection } from './example.ts';
import { FilterForm, filterOf, type Row } from './filter-form.tsx';
import { type FoundFace, modelKinds, modelOf, PhotoProbe, TextProbe } from './model-probe.tsx';
import { embed } from './models.ts';
import {
  Button,
  Check,
  Fact,
  Field,
  FileChoice,
  Form,
  Input,
  Problem,
  Select,
  Table,
  type Task,
  TextArea,
  useTask,
} from './parts.tsx';
import { pictureIn } from './pictures.tsx';
import { type Npy, openNpy, vectorOf } from './rows.ts';
import { useLoaded } from './state.ts';
import { count, counted, messageOf, scoreText, size, valueText } from './text.ts';
import { type Account, accounted, Timeline } from './timeline.tsx';
import { unlocked } from './unlocked.ts';
import { Handles, Noise } from './wire-pane.tsx';

type Source = 'picture' | 'text' | 'vector' | 'file' | 'record';

interface Found {
  readonly probe: ArrayLike<number>;
  /** By a filter, groups or a threshold. */
  readonly isLimited: boolean;
  readonly result: SearchResult;
  readonly account: Account;
  readonly hasPayload: boolean;
  readonly fieldNames: readonly string[];
}

const EMPTY = {
  source: 'vector' as Source,
  text: '',
  sentence: '',
  npy: undefined as { readonly name: string; readonly content: Npy } | undefined,
  row: '0',
  id: '',
  limit: '10',
  threshold: '',
  groupBy: '',
  payload: false,
  rerank: false,
  filter: [] as readonly Row[],
};

type FormValues = Readonly<typeof EMPTY>;

const SOURCES: readonly (readonly [Source, string])[] = [
  ['picture', 'Photo'],
  ['text', 'Sentence'],
  ['vector', 'Vector'],
  ['file', '.npy file'],
  ['record', 'Record'],
];

async function probeOf(collection: Collection, form: FormValues, face: FoundFace | undefined, dimension: number) {
  if (form.source === 'vector') return vectorOf(form.text);
  if (form.source === 'picture') {
    if (!face) throw new Error('choose a picture with a face first');
    return face.vector;
  }
  if (form.source === 'text') {
    const model = modelOf('text', dimension);
    if (!model) throw new Error('there is no model for sentences here');
    return (await embed(model, form.sentence))[0]!.vector;
  }
  if (form.source === 'file') {
    if (!form.npy) throw new Error('choose a .npy file first');
    const row = Number(form.row);
    if (!(Number.isInteger(row) && row >= 0 && row < form.npy.content.rows))
      throw new Error(`the file has rows 0 to ${form.npy.content.rows - 1}`);
    return (await form.npy.content.read(row, 1))[0]!;
  }
  const [record] = await collection.get(form.id);
  if (!record) throw new Error(`there is no record ${JSON.stringify(form.id)}`);
  return record.vector;
}

export function SearchView({ description }: { readonly description: CollectionDescription }): JSX.Element {
  const { name, fields, dimension } = description;
  const { database } = unlocked.value!;
  const [source = 'vector'] = modelKinds(dimension).filter((kind) => modelOf(kind, dimension));
  const form = useSignal<FormValues>({ ...EMPTY, source });
  const faces = useSignal<readonly FoundFace[]>([]);
  const face = useSignal(0);
  const task = useTask();
  const found = useSignal<Found | undefined>(undefined);
  const running = useSignal<AbortController | undefined>(undefined);
  useEffect(() => {
    // The first search waits for no worker. What is wrong, that search will say.
    database
      .collection(name)
      .then((collection) => collection.prepare())
      .catch(() => {});
  }, [name]);

  const search = async () => {
    const { limit, threshold, groupBy, payload, rerank, filter: rows } = form.value;
    const controller = new AbortController();
    running.value = controller;
    const fieldNames = Object.keys(fields);
    await task.run(
      async () => {
        const filter = filterOf(rows, fields);
        const options: SearchOptions = {
          limit: Number(limit),
          ...(threshold.trim() === '' ? {} : { threshold: Number(threshold) }),
          ...(groupBy === '' ? {} : { groupBy }),
          ...(filter ? { filter } : {}),
          ...(fieldNames.length > 0 ? { select: fieldNames } : {}),
          ...(payload ? { payload } : {}),
          ...(rerank ? { rerank } : {}),
          signal: controller.signal,
        };
        const collection = await database.collection(name);
        const probe = await probeOf(collection, form.value, faces.value[face.value], dimension);
        const { result, account } = await accounted(() => collection.search(probe, options));
        found.value = {
          ...{ result, account, probe },
          isLimited: filter !== undefined || groupBy !== '' || threshold.trim() !== '',
          hasPayload: payload,
          fieldNames: payload ? [] : fieldNames,
        };
      },
      (error) => {
        found.value = undefined;
        return controller.signal.aborted ? 'It was stopped.' : messageOf(error);
      },
    );
    running.value = undefined;
  };

  return (
    <div class="search">
      <Form class="card" onSubmit={search}>
        <SearchForm form={form} description={description} task={task} faces={faces} face={face} />
        <Problem text={task.problem} />
        <div class="actions">
          <button type="submit" class="main" disabled={running.value !== undefined}>
            {running.value ? 'Searching …' : 'Search'}
          </button>
          {running.value ? <Button onClick={() => running.value?.abort()}>Stop</Button> : null}
          <span class="hint">The {dimension} numbers are encrypted in this page.</span>
        </div>
      </Form>
      <Results found={found.value} metric={description.metric} />
      <div class="stack">
        <Saw found={found.value} />
        {found.value && isExample(name) ? (
          <ClearPane
            collection={name}
            metric={description.metric}
            probe={found.value.probe}
            matches={found.value.result.matches}
            isLimited={found.value.isLimited}
          />
        ) : null}
      </div>
    </div>
  );
}

/** Probes of the example, where it has some. */
function ExampleProbes({ name, onChoose }: { readonly name: string; readonly onChoose: (text: string) => void }) {
  const { loaded } = useLoaded(async () => (isExample(name) ? (await plainCollection(name)).probes : []), [name]);
  const probes = loaded.value.value ?? [];
  if (probes.length === 0) return null;
  return (
    <Field label="From the example">
      <select
        onChange={({ currentTarget: { value } }) => {
          const chosen = probes.find(({ label }) => label === value);
          if (chosen) onChoose(chosen.vector.map((each) => each.toFixed(5)).join(' '));
        }}
      >
        <option value="">choose a probe …</option>
        {probes.map(({ label }) => (
          <option key={label}>{label}</option>
        ))}
      </select>
    </Field>
  );
}

interface SearchFormProps {
  readonly form: Signal<FormValues>;
  readonly description: CollectionDescription;
  readonly task: Task;
  readonly faces: Signal<readonly FoundFace[]>;
  /** The one that is searched for. */
  readonly face: Signal<number>;
}

function SearchForm({ form, description, task, faces, face }: SearchFormProps): JSX.Element {
  const { value } = form;
  const { fields, dimension, metric } = description;
  const set = (part: Partial<FormValues>) => {
    form.value = { ...form.value, ...part };
  };
  const choose = (file: File) =>
    task.run(async () => {
      const content = await openNpy(file);
      if (content.dimension !== dimension)
        throw new Error(
          `the vectors of this file have ${content.dimension} dimensions, and the collection ${dimension}`,
        );
      set({ npy: { name: file.name, content }, row: '0' });
    });
  const kinds: readonly Source[] = ['vector', 'file', 'record', ...modelKinds(dimension)];
  const keywords = Object.entries(fields).filter(([, type]) => type === 'keyword');
  return (
    <>
      <h2>Probe</h2>
      <fieldset class="segments" aria-label="Where the probe comes from">
        {SOURCES.filter(([source]) => kinds.includes(source)).map(([source, label]) => (
          <Button key={source} aria-pressed={value.source === source} onClick={() => set({ source })}>
            {label}
          </Button>
        ))}
      </fieldset>
      <div class="probe">
        {value.source === 'picture' ? (
          <PhotoProbe dimension={dimension} faces={faces} chosen={face} task={task} />
        ) : null}
        {value.source === 'text' ? (
          <TextProbe dimension={dimension} value={value.sentence} onInput={(sentence) => set({ sentence })} />
        ) : null}
        {value.source === 'vector' ? (
          <ExampleProbes name={description.name} onChoose={(text) => set({ text })} />
        ) : null}
        {value.source === 'vector' ? (
          <Field label={`${dimension} numbers`} hint="Separated by commas, spaces or lines.">
            <TextArea rows={4} value={value.text} onText={(text) => set({ text })} />
          </Field>
        ) : null}
        {value.source === 'file' ? (
          <>
            <div class="field">
              <FileChoice
                id="npy-file"
                label="File"
                chosen={value.npy && `${value.npy.name}, ${counted(value.npy.content.rows, 'row')}`}
                accept=".npy"
                onFile={(file) => file && void choose(file)}
              />
            </div>
            <Field label="Row">
              <Input
                type="number"
                min="0"
                max={value.npy ? value.npy.content.rows - 1 : undefined}
                value={value.row}
                onText={(row) => set({ row })}
              />
            </Field>
          </>
        ) : null}
        {value.source === 'record' ? (
          <Field label="Id of a record" hint="It is fetched first: the server sees which record, by its handle.">
            <Input value={value.id} spellcheck={false} onText={(id) => set({ id })} />
          </Field>
        ) : null}
      </div>
      <div class="grid four">
        <Field label="Matches">
          <Input type="number" min="1" max="10000" value={value.limit} onText={(limit) => set({ limit })} />
        </Field>
        <Field label={metric === 'euclidean' ? 'At most' : 'At least'}>
          <Input
            type="number"
            step="any"
            placeholder="any score"
            value={value.threshold}
            onText={(threshold) => set({ threshold })}
          />
        </Field>
        <Field label="Best of each">
          <Select
            value={value.groupBy}
            disabled={keywords.length === 0}
            options={[['', 'record'], ...keywords.map(([field]) => [field, field] as const)]}
            onText={(groupBy) => set({ groupBy })}
          />
        </Field>
      </div>
      <FilterForm fields={fields} rows={value.filter} onChange={(filter) => set({ filter })} />
      <Check checked={value.payload} onCheck={(payload) => set({ payload })}>
        Fetch payloads <span class="warn">this shows the server which records</span>
      </Check>
      <Check checked={value.rerank} onCheck={(rerank) => set({ rerank })}>
        Rank by full vectors <span class="warn">this too, and more of them</span>
      </Check>
    </>
  );
}

const ORIGINS: Readonly<Record<Match['scoreOrigin'], string>> = {
  noisy: 'decrypted, with a small error; for you alone',
  exact: 'decrypted, exact',
  recomputed: 'computed in this page from the record',
};

/** How long a bar for a score is, of 1. */
function share(score: number, metric: string, best: number): number {
  if (metric === 'cosine') return Math.max(0, score);
  if (metric === 'euclidean') return score <= 0 ? 1 : Math.min(1, best / score);
  return best > 0 ? Math.max(0, score / best) : 0;
}

const LONG_ID = 32;

function Results({ found, metric }: { readonly found: Found | undefined; readonly metric: string }): JSX.Element {
  const chosen = useSignal<'cards' | 'table' | undefined>(undefined);
  if (!found)
    return (
      <div class="card results empty" role="status">
        <h2>Matches</h2>
        <p class="faint">What is found is shown here. Scores and ids are decrypted in this page.</p>
      </div>
    );
  const { result, account } = found;
  const { matches, coverage } = result;
  // Pictures need room, and so do sentences.
  const isLarge = matches.some(({ id, payload }) => id.length > LONG_ID || pictureIn(payload) !== undefined);
  const layout = chosen.value ?? (isLarge ? 'cards' : 'table');
  return (
    <div class="card results">
      <div class="heading">
        <h2>
          <span role="status">
            {matches.length === 0 ? 'Nobody matches' : counted(matches.length, 'match').replace('matchs', 'matches')}
          </span>
        </h2>
        <fieldset class="segments small" aria-label="Matches as">
          {(['cards', 'table'] as const).map((each) => (
            <Button key={each} aria-pressed={layout === each} onClick={() => (chosen.value = each)}>
              {each}
            </Button>
          ))}
        </fieldset>
      </div>
      <Timeline account={account} />
      {layout === 'cards' ? <MatchCards found={found} metric={metric} /> : <MatchTable found={found} metric={metric} />}
      <p class="hint">
        {count(coverage.searched)} of {count(coverage.total)} records were compared.{' '}
        {matches[0] ? `Scores are ${ORIGINS[matches[0].scoreOrigin]}.` : ''}
      </p>
    </div>
  );
}

interface MatchesProps {
  readonly found: Found;
  readonly metric: string;
}

function MatchScore({ match, metric, best }: { match: Match; metric: string; best: number }): JSX.Element {
  return (
    <>
      <span class="number">{scoreText(match.score)}</span>
      <meter min={0} max={1} value={share(match.score, metric, best)} aria-label="score as a bar" />
    </>
  );
}

function MatchCards({ found, metric }: MatchesProps): JSX.Element {
  const { matches } = found.result;
  return (
    <ol class="matches">
      {matches.map((match) => {
        const picture = pictureIn(match.payload);
        const values = found.fieldNames.map((field) => valueText(match.fields?.[field])).filter((text) => text !== '');
        return (
          <li key={match.id}>
            {picture === undefined ? null : <img src={picture} alt="" width={72} height={72} />}
            <div>
              <strong class="id">{match.id}</strong>
              <span class="score" title={ORIGINS[match.scoreOrigin]}>
                <MatchScore match={match} metric={metric} best={matches[0]!.score} />
              </span>
              <span class="hint">{values.join(' · ')}</span>
              {found.hasPayload && picture === undefined && match.payload !== undefined ? (
                <code>{JSON.stringify(match.payload)}</code>
              ) : null}
            </div>
          </li>
        );
      })}
    </ol>
  );
}

function MatchTable({ found, metric }: MatchesProps): JSX.Element {
  const { result, hasPayload, fieldNames } = found;
  const { matches } = result;
  const best = matches[0]?.score ?? 0;
  return (
    <Table
      label="Matches"
      columns={[
        ['#', 'number'],
        'id',
        [metric === 'euclidean' ? 'distance' : 'score', 'score'],
        ...fieldNames,
        ...(hasPayload ? ['payload'] : []),
      ]}
    >
      {matches.map((match, at) => (
        <tr key={match.id}>
          <td class="number faint">{at + 1}</td>
          <th scope="row" class="id">
            {match.id}
          </th>
          <td class="score" title={ORIGINS[match.scoreOrigin]}>
            <MatchScore match={match} metric={metric} best={best} />
          </td>
          {fieldNames.map((field) => (
            <td key={field}>{valueText(match.fields?.[field])}</td>
          ))}
          {hasPayload ? (
            <td class="payload">
              <code>{match.payload === undefined ? '' : JSON.stringify(match.payload)}</code>
            </td>
          ) : null}
        </tr>
      ))}
    </Table>
  );
}

/** What the server saw of the last search. */
function Saw({ found }: { readonly found: Found | undefined }): JSX.Element {
  const query = found?.account.query;
  const handles = found?.account.fetches.flatMap((fetch) => fetch.handles) ?? [];
  return (
    <div class="card saw">
      <h2>What the server saw of it</h2>
      {!found ? <p class="faint">The query as it left this page, once there is one.</p> : null}
      {found && !query ? <p>No query: all records are still pending, and this page compared them itself.</p> : null}
      {query ? (
        <div class="seen">
          <Noise bytes={query.sample} label="the encrypted query, as grey dots: noise" />
          <dl class="facts">
            <Fact term="the query">{size(query.sent)} of ciphertext</Fact>
            <Fact term="its answer">{size(query.received)} of encrypted scores</Fact>
            <Fact term="it concludes">that there was a search, when, and over how many blocks</Fact>
            <Fact term="it cannot tell">what was searched for, any score, who matched, whether anyone did</Fact>
          </dl>
        </div>
      ) : null}
      {handles.length > 0 ? (
        <>
          <p class="warn">Then this page fetched {counted(handles.length, 'record')}, and showed it which.</p>
          <Handles handles={handles} />
        </>
      ) : null}
      {query && handles.length === 0 ? (
        <p class="hint">
          No record was fetched, so it saw no handle. Stripes in the picture are how numbers are laid out; what they are
          is noise.
        </p>
      ) : null}
    </div>
  );
}
