// Rank-1 identification, leave one out: a probe is any vector whose class has another one, all
// other vectors are the gallery, and a probe is identified when the most similar of them is of its
// class. Strangers can be added to the gallery: a larger one is harder.

import { multiplyTransposed } from '@hers/compress/multiply';
import { product } from './products.ts';

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
    const rows = Float64Array.from(rowsOf(gallery, dimension, tile));
    multiplyTransposed(rows, unit, scores, { rows: tile.length, inner: dimension, columns: count });
    found += identified(scores, tile, classes, count);
    await new Promise<void>((resolve) => setTimeout(resolve));
    signal?.throwIfAborted();
  }
  return found / probes.length;
}

/**
 * The same in onnxruntime, which blocks the thread: for measuring many maps. Equal scores aside,
 * the result is the same.
 */
export async function rankOneFast(
  vectors: Float32Array,
  classes: Int32Array,
  strangers?: Float32Array,
): Promise<number> {
  const { gallery, dimension, count, probes } = gathered(vectors, classes, strangers);
  let found = 0;
  for (let start = 0; start < probes.length; start += TILE) {
    const tile = probes.slice(start, start + TILE);
    const rows = { data: rowsOf(gallery, dimension, tile), columns: dimension };
    const scores = await product(rows, { data: gallery, columns: dimension }, { transposed: 'second' });
    found += identified(scores, tile, classes, count);
  }
  return found / probes.length;
}

/** The gallery as unit vectors, strangers last, and the places of the probes in it. */
function gathered(vectors: Float32Array, classes: Int32Array, strangers: Float32Array = new Float32Array()) {
  const dimension = vectors.length / classes.length;
  const gallery = new Float32Array(vectors.length + strangers.length);
  gallery.set(vectors);
  gallery.set(strangers, vectors.length);
  for (let at = 0; at < gallery.length; at += dimension) {
    let squares = 0;
    for (let i = at; i < at + dimension; i++) squares += gallery[i] ** 2;
    const scale = 1 / (Math.sqrt(squares) || 1);
    for (let i = at; i < at + dimension; i++) gallery[i] *= scale;
  }
  const sizes = new Map<number, number>();
  for (const klass of classes) sizes.set(klass, (sizes.get(klass) ?? 0) + 1);
  const probes = Array.from(classes.keys()).filter((i) => sizes.get(classes[i])! > 1);
  return { gallery, dimension, count: gallery.length / dimension, probes };
}

function rowsOf(gallery: Float32Array, dimension: number, places: number[]): Float32Array {
  const rows = new Float32Array(places.length * dimension);
  places.forEach((place, r) => rows.set(gallery.subarray(place * dimension, (place + 1) * dimension), r * dimension));
  return rows;
}

/**
 * How many of these probes have their own class first. Writes over their scores with themselves.
 */
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
