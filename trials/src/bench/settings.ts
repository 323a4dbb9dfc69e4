// Shared by benchmarks: options that are numbers, a folder that is gone afterwards, records.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HersError, type VectorRecord } from '@hers/client';
import type { Values } from '@hers/paper/lab/runner';
import { quantile } from '@hers/service/testing/phases';

/** Takes whole numbers from 1 on, each by the name of its option; the others are as given here. */
export function numbersOf<K extends string>(values: Values, otherwise: Readonly<Record<K, number>>): Record<K, number> {
  const numbers: Record<K, number> = { ...otherwise };
  for (const name of Object.keys(otherwise) as K[])
    if (values[name] !== undefined) numbers[name] = Number(values[name]);
  for (const number of Object.values<number>(numbers))
    if (!(Number.isInteger(number) && number > 0))
      throw new HersError('INVALID_ARGUMENT', 'options take positive whole numbers');
  return numbers;
}

/** Runs `work` in a new folder, in the one that was named or among temporary files. */
export async function inFolder<T>(named: Values[string], work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(typeof named === 'string' ? named : tmpdir(), 'hers-bench-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Makes records of vectors, whose numbers are the ids. */
export function* recordsOf(vectors: Float32Array, dimension: number): Generator<VectorRecord> {
  for (let at = 0; at < vectors.length; at += dimension)
    yield { id: String(at / dimension), vector: vectors.subarray(at, at + dimension) };
}

/** Returns a function for the median, or another quantile, of one phase of all searches. */
export const quantilesOf =
  <P extends string>(all: readonly { readonly [phase in P]: number }[]) =>
  (phase: P, p = 0.5): number =>
    quantile(
      all.map((each) => each[phase]),
      p,
    );
