// A client in a process of its own, for `npm run bench -- filters`: opens the collection of a
// server as a program does that has just started, and then, if it is told to, measures its memory
// and searches with filters and without.

import { type Collection, connect, openListCache } from '@hers/client';
import { FILTERS, vectorOf } from './filtered-gallery.ts';

export interface FiltersOrder {
  readonly url: string;
  readonly key: number[];
  /** The folder of the cache of lists. */
  readonly cache: string;
  readonly dimension: number;
  /** Rounds of searches; 0 opens the collection and no more. */
  readonly searches: number;
}

/** Milliseconds of each search: without a filter, with a filter that is new, and with it again. */
export interface FilterTimes {
  readonly plain: readonly number[];
  readonly first: readonly number[];
  readonly again: readonly number[];
}

export interface FiltersAnswer {
  readonly openMs: number;
  /**
   * Memory that the open collection takes, with its table of places; 0 where it was not asked for.
   */
  readonly bytes: number;
  readonly filters: Readonly<Record<string, FilterTimes>>;
}

/** Of everything that is alive: garbage that is collected only in the second round leaves more. */
function usedBytes(): number {
  for (let i = 0; i < 3; i++) globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

const WARM_UPS = 5;

async function measure(people: Collection, { dimension, searches }: FiltersOrder): Promise<FiltersAnswer['filters']> {
  const total = await people.count();
  let number = 0;
  const search = (filter?: ReturnType<(typeof FILTERS)[string]>) =>
    timed(() => people.search(vectorOf(total + number, dimension), { limit: 10, ...(filter ? { filter } : {}) }));
  const filters: Record<string, { [name in keyof FilterTimes]: number[] }> = {};
  for (const [name, make] of Object.entries(FILTERS)) {
    filters[name] = { plain: [], first: [], again: [] };
    // Negative numbers: a filter that was used to warm up is not used again.
    for (let i = 1; i <= WARM_UPS; i++) await search(make(-i));
  }
  // All in turns, so that other load on the machine affects them alike; in every other round the
  // search without a filter comes last.
  for (number = 1; number <= searches; number++)
    for (const [name, make] of Object.entries(FILTERS)) {
      const { plain, first, again } = filters[name];
      if (number % 2 === 1) plain.push(await search());
      first.push(await search(make(number)));
      again.push(await search(make(number)));
      if (number % 2 === 0) plain.push(await search());
    }
  return filters;
}

process.once('message', async (order: FiltersOrder) => {
  const key = Uint8Array.from(order.key);
  const before = order.searches > 0 ? usedBytes() : 0;
  const start = performance.now();
  const db = await connect(order.url, { key, cache: await openListCache(order.cache) });
  const people = await db.collection('bench');
  const openMs = performance.now() - start;
  let bytes = 0;
  if (order.searches > 0) {
    const [first] = await Array.fromAsync(people.list({ limit: 1 }));
    await Array.fromAsync(people.list({ limit: 1, after: first })); // makes the table of places
    bytes = usedBytes() - before;
  }
  const filters = order.searches > 0 ? await measure(people, order) : {};
  process.send?.({ openMs, bytes, filters } satisfies FiltersAnswer);
  await db.close();
  process.disconnect();
});
