// Whether a store can tell by its clock that a search had a filter.
//
// Searches come in pairs, one with a filter and one without, in an order that a coin decides. Two
// times of each are compared, as the store sees them: from the end of the request before to the
// search, and from the end of the search to the fetch that follows. If a filter made no difference,
// either of a pair would be the longer one with probability 1/2, whatever else the machine does
// meanwhile: a slow moment hits either with the same chance. So the number of pairs in which the
// one with the filter took longer would be binomial, and the sign test is exact.
//
// It does make one: compiling a filter and looking its answer up takes 20 to 30 µs, and leaving
// records out some 2 µs, which a store that shares the clock sees in a thousand pairs. What is
// tested is that it is no more than MARGIN_MS: that at most every other pair differs by more. A
// p-value below FALSE_ALARM for one of the two times says that it is more; if it is not, that
// happens in one of a million trials at most.
//
//   node packages/client/testing/filter-timing.ts --pairs 1000 --delay 2

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { Database, type Filter, MasterSeed } from '../src/index.ts';
import { Choices } from '../src/search/choice.ts';
import { vectorOf } from './client.ts';

/** Of each of the two times: together one in a million. */
export const FALSE_ALARM = 5e-7;

/** What a filter may add. */
const MARGIN_MS = 1;

/** The exact one-sided p-value of so many positive differences, if half are so at most. */
export function signTest(differences: readonly number[]): number {
  const signs = differences.filter((each) => each !== 0);
  const positive = signs.filter((each) => each > 0).length;
  let tail = 0;
  let logChoose = 0;
  for (let k = signs.length; k >= positive; k--) {
    tail += Math.exp(logChoose - signs.length * Math.LN2);
    logChoose += Math.log(k) - Math.log(signs.length - k + 1);
  }
  return Math.min(1, tail);
}

interface Gaps {
  /** From the end of the request before to the search. */
  readonly before: number;
  /** From the end of the search to the fetch. */
  readonly after: number;
}

/** When requests begin and end. */
function timed(service: Service, times: { readonly method: string; readonly begin: number; end: number }[]): Service {
  const watch = (method: 'search' | 'getRecords') =>
    async function* (...args: never[]) {
      const entry = { method, begin: performance.now(), end: 0 };
      times.push(entry);
      yield* (service[method] as (...args: never[]) => AsyncIterable<never>)(...args);
      entry.end = performance.now();
    };
  return withMethods(service, { search: watch('search'), getRecords: watch('getRecords') });
}

export interface TimingOptions {
  readonly pairs: number;
  /** Makes every filter take so much longer, to see whether it is noticed. */
  readonly delayMs?: number;
  readonly records?: number;
}

interface Compared {
  /** That a filter adds no more than the margin. */
  readonly p: number;
  /** That it adds nothing. */
  readonly pOfNothing: number;
  readonly medianMs: number;
}

export interface TimingResult {
  readonly before: Compared;
  readonly after: Compared;
}

const FILTER: Filter = { must: { field: 'even', match: true } };

export async function timeFilters({ pairs, delayMs = 0, records = 300 }: TimingOptions): Promise<TimingResult> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-timing-'));
  const { of: original } = Choices.prototype;
  try {
    const times: Parameters<typeof timed>[1] = [];
    const store = timed(await openStore(folder), times);
    await using db = new Database(store, { key: MasterSeed.generate(), threads: 1 });
    const dimension = 8;
    const people = await db.createCollection('people', { dimension, fields: { even: 'boolean' } });
    await people.upsert(
      Array.from({ length: records }, (_, i) => ({
        id: `r${i}`,
        vector: vectorOf(i, dimension),
        payload: { even: i % 2 === 0 },
      })),
    );
    await people.optimize();
    Choices.prototype.of = function (view, filter, now) {
      const until = performance.now() + (filter ? delayMs : 0);
      while (performance.now() < until);
      return original.call(this, view, filter, now);
    };
    const search = async (withFilter: boolean, i: number): Promise<Gaps> => {
      const last = times.at(-1)?.end ?? Number.NaN;
      await people.search(vectorOf(i, dimension), {
        limit: 5,
        payload: true,
        ...(withFilter ? { filter: FILTER } : {}),
      });
      const [scan, fetch] = times.slice(-2);
      return { before: scan.begin - last, after: fetch.begin - scan.end };
    };
    // Until everything is compiled, and the filter's answer kept.
    for (let i = 0; i < 10; i++) await search(i % 2 === 0, i);
    const differences: Gaps[] = [];
    for (let i = 0; i < pairs; i++) {
      const isFirst = Math.random() < 0.5;
      const [one, two] = [await search(isFirst, i), await search(!isFirst, i)];
      const [filtered, plain] = isFirst ? [one, two] : [two, one];
      differences.push({ before: filtered.before - plain.before, after: filtered.after - plain.after });
    }
    const result = (which: keyof Gaps) => {
      const all = differences.map((each) => each[which]);
      return {
        p: signTest(all.map((each) => each - MARGIN_MS)),
        pOfNothing: signTest(all),
        medianMs: all.toSorted((a, b) => a - b)[all.length >> 1],
      };
    };
    return { before: result('before'), after: result('after') };
  } finally {
    Choices.prototype.of = original;
    await rm(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { pairs: { type: 'string', default: '1000' }, delay: { type: 'string', default: '2' } },
  });
  for (const delayMs of [0, Number(values.delay)]) {
    const { before, after } = await timeFilters({ pairs: Number(values.pairs), delayMs });
    const text = ({ p, pOfNothing, medianMs }: Compared) =>
      `median ${(1000 * medianMs).toFixed(1)} µs more; p = ${p.toExponential(1)} for at most ${MARGIN_MS} ms${p < FALSE_ALARM ? ', so it is more' : ''}; p = ${pOfNothing.toExponential(1)} for nothing`;
    console.log(`a filter delayed by ${delayMs} ms, ${values.pairs} pairs`);
    console.log(`  before the search: ${text(before)}`);
    console.log(`  after its answer:  ${text(after)}`);
  }
}
