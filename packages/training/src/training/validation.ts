// What a compressor is worth to strangers: measured on identities it has not seen.

import { load } from '@hers/compress';
import { appliedLinear, type Body, encodeCompressor } from '../methods/compressor-graph.ts';
import type { LinearMap } from '../methods/linear.ts';
import { rankOneFast } from './rank-one.ts';
import { split, type TrainingSet } from './training-set.ts';

/**
 * Vectors of the held-out identities that are used at most: a measurement costs their number
 * squared.
 */
const MOST = 4000;

/** Part of the identities held out, when that leaves enough on both sides. */
export function withValidation(
  set: TrainingSet,
  share: number,
  seed: number,
): { learn: TrainingSet; heldOut?: TrainingSet } {
  if (share === 0) return { learn: set };
  const parts = split(set, share, seed);
  const few = (each: TrainingSet) => each.count === each.classCount || each.classCount < 2;
  if (few(parts.learn) || few(parts.heldOut)) return { learn: set };
  const enough = MOST / parts.heldOut.count;
  return enough < 1 ? { ...parts, heldOut: split(parts.heldOut, enough, seed).heldOut } : parts;
}

/**
 * Rank-1 on identities that were held out, among the vectors that were learned from as strangers,
 * through the model as it will be saved; NaN when there is nothing to identify.
 */
export async function measured(body: Body, heldOut: TrainingSet, learn: TrainingSet): Promise<number> {
  const metadata = { method: '', metric: 'cosine', settings: {}, figures: {}, notes: [] } as const;
  const compressor = await load(encodeCompressor(body, metadata));
  return rankOneFast(
    await compressor.transform(heldOut.vectors),
    heldOut.classes,
    await compressor.transform(strangersOf(learn)),
  );
}

function strangersOf({ vectors, count, dimension }: TrainingSet): Float32Array {
  return vectors.subarray(0, Math.min(count, 2 * MOST) * dimension);
}

/** The same of a linear map, for the first so many of its axes each. */
export async function measuredAlong(
  map: LinearMap,
  dimensions: readonly number[],
  heldOut: TrainingSet,
  learn: TrainingSet,
  threads: number,
): Promise<number[]> {
  const own = await appliedLinear(map, heldOut.vectors, threads);
  const others = await appliedLinear(map, strangersOf(learn), threads);
  const ranks: number[] = [];
  for (const dimension of dimensions) {
    const [short, strangers] = [own, others].map((rows) => firstColumns(rows, map.outputDimension, dimension));
    ranks.push(await rankOneFast(short, heldOut.classes, strangers));
  }
  return ranks;
}

function firstColumns(rows: Float32Array, columns: number, kept: number): Float32Array {
  if (kept >= columns) return rows;
  const out = new Float32Array((rows.length / columns) * kept);
  for (let from = 0, to = 0; from < rows.length; from += columns, to += kept)
    out.set(rows.subarray(from, from + kept), to);
  return out;
}

/**
 * Several ways of holding identities out: one alone is too small to tell neighbours apart. Empty
 * when there are too few vectors.
 */
export function draws(
  set: TrainingSet,
  share: number,
  seed: number,
  count: number,
): {
  learn: TrainingSet;
  heldOut: TrainingSet;
}[] {
  const all = [];
  for (let draw = 0; draw < count; draw++) {
    const { learn, heldOut } = withValidation(set, share, seed + draw);
    if (heldOut) all.push({ learn, heldOut });
  }
  return all;
}
