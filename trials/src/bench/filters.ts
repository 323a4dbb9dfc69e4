// `npm run bench -- filters`: what fields and filters cost a client. Searches with a filter beside
// searches without, memory, opening for the first time and from the cache of lists, and the bytes
// that lists and columns take in the store.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Database, MasterSeed } from '@hers/client';
import { heldBytes, type OpenView, openView, passing } from '@hers/client/testing/view';
import { compared, progress, type Report, type Result } from '@hers/paper/lab/report';
import type { Values } from '@hers/paper/lab/runner';
import { minimum } from '@hers/paper/lab/timing';
import { quantile } from '@hers/service/testing/phases';
import { openStore } from '@hers/store';
import { machine } from '@hers/vectors/machine';
import { ServiceProcess } from '../service-process.ts';
import { FIELDS, FILTERS, peopleOf, SCALAR_FIELDS } from './filtered-gallery.ts';
import type { FiltersAnswer, FiltersOrder } from './filters-child.ts';
import { inFolder, numbersOf } from './settings.ts';

export async function run(options: Values): Promise<Report> {
  const numbers = numbersOf(options, { count: 100_000, dimension: 16, searches: 40, opens: 3 });
  if (options['lists-only']) return (await import('./lists.ts')).run(numbers);
  const results = await inFolder(options.folder, (folder) => measure(folder, numbers));
  return { bench: 'filters', parameters: { ...numbers, fields: Object.keys(FIELDS) }, machine: machine(), results };
}

type Numbers = Record<'count' | 'dimension' | 'searches' | 'opens', number>;

async function measure(folder: string, { count, dimension, searches, opens }: Numbers): Promise<Result[]> {
  using key = MasterSeed.generate();
  progress('enrolling');
  const served = join(folder, 'served');
  const enrolMs = await enrol(served, key, count, dimension);
  progress('adding up');
  const store = await openStore(served);
  const opened = await openView(store, key, 'bench');
  const evaluations = evaluate(opened, searches);
  const held = heldBytes(opened);
  await store.close();

  const server = await ServiceProcess.start(served, { limits: { requestsPerSecond: 1_000_000 } });
  try {
    const client = (cache: string, rounds: number) =>
      inClient({
        ...{ url: server.url, key: [...key.reveal()], dimension },
        cache: join(folder, cache),
        searches: rounds,
      });
    progress('opening for the first time');
    const first: number[] = [];
    for (let i = 0; i < opens; i++) first.push((await client(`cache ${i}`, 0)).openMs);
    progress('opening from the cache');
    const cached: number[] = [];
    for (let i = 0; i < opens; i++) cached.push((await client('cache 0', 0)).openMs);
    progress('searching with filters and without');
    const { bytes, filters } = await client('cache 0', searches);
    return [
      { name: 'enrol-rate', value: (count * 1000) / enrolMs, unit: 'records/s' },
      ...filterResults(filters, evaluations),
      ...openResults(first, cached),
      ...byteResults(count, held, bytes),
    ];
  } finally {
    await server.stop();
  }
}

async function enrol(folder: string, key: MasterSeed, count: number, dimension: number): Promise<number> {
  const db = new Database(await openStore(folder), { key });
  const people = await db.createCollection('bench', { dimension, fields: FIELDS });
  const start = performance.now();
  let next = count / 8;
  await people.upsert(peopleOf(count, dimension), {
    onProgress: ({ acknowledged }) => {
      if (acknowledged < next) return;
      progress(`  ${acknowledged} of ${count}`);
      next += count / 8;
    },
  });
  const enrolMs = performance.now() - start;
  await people.optimize();
  await db.close();
  return enrolMs;
}

interface Evaluation {
  readonly share: number;
  /** Milliseconds to find out which do, without a search. */
  readonly ms: number;
}

function evaluate({ view }: OpenView, rounds: number): Record<string, Evaluation> {
  const total = passing(view, {});
  const evaluation = (make: (typeof FILTERS)[string]): Evaluation => {
    const share = passing(view, make(0)) / total;
    const { min } = minimum(() => passing(view, make(0)), { atLeastRuns: rounds, atLeastMs: 0 });
    return { share, ms: min };
  };
  return Object.fromEntries(Object.entries(FILTERS).map(([name, make]) => [name, evaluation(make)]));
}

async function inClient(order: FiltersOrder): Promise<FiltersAnswer> {
  const child = fork(fileURLToPath(new URL('./filters-child.ts', import.meta.url)), { execArgv: ['--expose-gc'] });
  child.send(order);
  const ended = once(child, 'exit');
  const failed = ended.then(([code]) => Promise.reject(new Error(`the client ended with ${code}`)));
  failed.catch(() => {});
  const [answer] = (await Promise.race([once(child, 'message'), failed])) as [FiltersAnswer];
  await ended;
  return answer;
}

/** The fastest: other load on a machine only ever adds time. */
const least = (numbers: readonly number[]) => Math.min(...numbers);

/**
 * The median of the differences between searches that followed one another: a minimum of each kind
 * compares their luckiest moments, and those of a search with two processes and six threads differ
 * by more than a filter takes.
 */
const added = (of: readonly number[], to: readonly number[]) =>
  quantile(
    of.map((ms, i) => ms - to[i]),
    0.5,
  );

function filterResults(filters: FiltersAnswer['filters'], evaluations: Record<string, Evaluation>): Result[] {
  const results: Result[] = [];
  const all = Object.values(filters).flatMap(({ plain }) => plain);
  const without = { name: 'search-min', value: least(all), unit: 'ms' };
  const firsts = new Map<string, number>();
  for (const [name, { plain, first, again }] of Object.entries(filters)) {
    const { share, ms } = evaluations[name];
    firsts.set(name, added(first, plain));
    results.push(
      { name: `filter-${name}-share`, value: share, unit: 'share' },
      compared({ name: `filter-${name}-min`, value: least(first), unit: 'ms' }, without),
      { name: `filter-${name}-first-added-ms`, value: firsts.get(name)!, unit: 'ms' },
      { name: `filter-${name}-first-added-min-ms`, value: least(first) - least(plain), unit: 'ms' },
      { name: `filter-${name}-cached-added-ms`, value: added(again, plain), unit: 'ms' },
      { name: `filter-${name}-evaluate-ms`, value: ms, unit: 'ms' },
    );
  }
  const { tags, ...scalar } = Object.fromEntries(firsts);
  return [
    { name: 'search-p50', value: quantile(all, 0.5), unit: 'ms' },
    without,
    ...results,
    { name: 'filter-added-ms', value: Math.max(...Object.values(scalar)), unit: 'ms' },
    { name: 'filter-tags-added-ms', value: tags, unit: 'ms' },
  ];
}

function openResults(first: readonly number[], cached: readonly number[]): Result[] {
  const fetching = { name: 'open-first-ms', value: least(first), unit: 'ms' };
  return [fetching, compared({ name: 'open-cached-ms', value: least(cached), unit: 'ms' }, fetching)];
}

function byteResults(count: number, { memory, sealed }: ReturnType<typeof heldBytes>, used: number): Result[] {
  const each = (name: string, bytes: number): Result => ({ name, value: bytes / count, unit: 'bytes' });
  const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);
  const scalar = sum(Object.keys(SCALAR_FIELDS).map((field) => memory.columns[field]));
  const { lists, places, columns } = memory;
  const all = each('held-bytes-per-record', lists + places + sum(Object.values(columns)));
  return [
    each('bytes-per-record', lists + places + scalar),
    each('lists-bytes-per-record', lists),
    each('places-bytes-per-record', places),
    each('fields-bytes-per-record', scalar),
    each('tags-bytes-per-record', columns.tags),
    all,
    compared(each('process-bytes-per-record', used), all),
    each('disk-lists-bytes-per-record', sealed.lists),
    each('disk-fields-bytes-per-record', sum(Object.keys(SCALAR_FIELDS).map((field) => sealed.columns[field]))),
    each('disk-tags-bytes-per-record', sealed.columns.tags),
  ];
}
