// Rank-1 identification, leave one out: a probe is any vector whose class has another one, all other vectors are the gallery, and a probe is
// identified when the most similar of them is of its class. Strangers can be added to the gallery: a larger one is harder.

import { multiplyTransposed } from './apply/multiply.ts';

const TILE = 64;

/** The share of probes that are identified; NaN when there are none. `strangers` are of no class in `classes`. */
export function rankOne(vectors: Float32Array, classes: Int32Array, strangers = new Float32Array()): number {
  const dimension = vectors.length / classes.length;
  const count = classes.length + strangers.length / dimension;
  const unit = new Float64Array(count * dimension);
  unit.set(vectors);
  unit.set(strangers, vectors.length);
  for (let at = 0; at < unit.length; at += dimension) {
    let squares = 0;
    for (let i = at; i < at + dimension; i++) squares += unit[i] ** 2;
    const scale = 1 / (Math.sqrt(squares) || 1);
    for (let i = at; i < at + dimension; i++) unit[i] *= scale;
  }
  const sizes = new Map<number, number>();
  for (const klass of classes) sizes.set(klass, (sizes.get(klass) ?? 0) + 1);
  const probes = Array.from(classes.keys()).filter((i) => sizes.get(classes[i])! > 1);
  const tile = new Float64Array(TILE * dimension);
  const scores = new Float64Array(TILE * count);
  let found = 0;
  for (let start = 0; start < probes.length; start += TILE) {
    const rows = Math.min(TILE, probes.length - start);
    for (let r = 0; r < rows; r++) {
      const at = probes[start + r] * dimension;
      tile.set(unit.subarray(at, at + dimension), r * dimension);
    }
    multiplyTransposed(tile, unit, scores, { rows, inner: dimension, columns: count });
    for (let r = 0; r < rows; r++) {
      const probe = probes[start + r];
      const row = scores.subarray(r * count, (r + 1) * count);
      row[probe] = -Infinity;
      let best = 0;
      for (let i = 1; i < count; i++) if (row[i] > row[best]) best = i;
      if (classes[best] === classes[probe]) found++;
    }
  }
  return found / probes.length;
}
