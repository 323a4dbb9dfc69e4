// What a compressor is worth to strangers: measured on identities it has not seen.

import { multiplyTransposed } from '@hers/compress/multiply';
import { matedPlaces } from '@hers/vectors/accuracy';
import { appliedLinear, type Body, loadBody } from '../methods/compressor-graph.ts';
import type { LinearMap } from '../methods/linear.ts';
import { product } from './session.ts';
import { firstColumns, gather, split, type TrainingSet, unitRows } from './training-set.ts';

/** Vectors of held-out identities at most: a measurement costs their number squared. */
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
  const compressor = await loadBody(body);
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

/**
 * Several ways of holding identities out: one alone is too small to tell neighbours apart. Empty
 * when there are too few vectors.
 */
export function draws(
  set: TrainingSet,
  share: number,
  seed: number,
  count: number,
): { learn: TrainingSet; heldOut: TrainingSet }[] {
  const all = Array.from({ length: count }, (_, draw) => withValidation(set, share, seed + draw));
  return all.flatMap(({ learn, heldOut }) => (heldOut ? [{ learn, heldOut }] : []));
}

// Rank-1 identification, leave one out: a probe is any vector whose class has another one, all
// other vectors are the gallery, and a probe is identified when the most similar of them is of its
// class. Strangers can be added to the gallery: a larger one is harder.

const TILE = 64;

/**
 * The share of probes that are identified; NaN when there are none. `strangers` are of no class in
 * `classes`. Can be stopped between tiles.
 *
 * @param vectors - One after the other.
 * @param classes - Of each vector.
 * @param strangers - More vectors for the gallery, of no class in `classes`.
 * @param signal - Ends it between tiles, with its reason.
 * @throws {AbortError} or another reason of the signal, when it aborts.
 */
export async function rankOne(
  vectors: Float32Array,
  classes: Int32Array,
  strangers?: Float32Array,
  signal?: AbortSignal,
): Promise<number> {
  const { gallery, dimension, count, probes } = gathered(vectors, classes, strangers);
  const unit = Float64Array.from(gallery);
  const scores = new Float64Array(TILE * count);
  let found = 0;
  for (let start = 0; start < probes.length; start += TILE) {
    const tile = probes.slice(start, start + TILE);
    const rows = Float64Array.from(gather({ vectors: gallery, dimension }, tile));
    multiplyTransposed(rows, unit, scores, { rows: tile.length, inner: dimension, columns: count });
    found += identified(scores, tile, classes, count);
    await new Promise<void>((resolve) => setTimeout(resolve));
    signal?.throwIfAborted();
  }
  return found / probes.length;
}

/** The same in onnxruntime, which blocks the thread, but for equal scores: for many maps. */
export async function rankOneFast(
  vectors: Float32Array,
  classes: Int32Array,
  strangers?: Float32Array,
): Promise<number> {
  const { gallery, dimension, count, probes } = gathered(vectors, classes, strangers);
  let found = 0;
  for (let start = 0; start < probes.length; start += TILE) {
    const tile = probes.slice(start, start + TILE);
    const rows = { data: gather({ vectors: gallery, dimension }, tile), columns: dimension };
    const scores = await product(rows, { data: gallery, columns: dimension }, { transposed: 'second' });
    found += identified(scores, tile, classes, count);
  }
  return found / probes.length;
}

/** The gallery as unit vectors, strangers last, and the places of the probes in it. */
function gathered(vectors: Float32Array, classes: Int32Array, strangers: Float32Array = new Float32Array()) {
  const dimension = vectors.length / classes.length;
  const all = new Float32Array(vectors.length + strangers.length);
  all.set(vectors);
  all.set(strangers, vectors.length);
  const gallery = unitRows(all, dimension);
  return { gallery, dimension, count: gallery.length / dimension, probes: Array.from(matedPlaces(classes)) };
}

/** Counts probes that have their own class first. Writes over their scores with themselves. */
function identified(scores: Float32Array | Float64Array, probes: number[], classes: Int32Array, count: number): number {
  let found = 0;
  probes.forEach((probe, r) => {
    const row = scores.subarray(r * count, (r + 1) * count);
    row[probe] = -Infinity;
    let best = 0;
    for (let i = 1; i < count; i++) if (row[i] > row[best]) best = i;
    if (classes[best] === classes[probe]) found++;
  });
  return found;
}
