// Linear support vector machines, one class against the rest, by dual coordinate descent (Hsieh,
// Chang, Lin, Keerthi and Sundararajan, ICML 2008, algorithm 1 with the squared hinge loss). The
// threshold is a further coordinate that is 1 for all.

import { Random } from '@hers/vectors/random';

export interface SvmOptions {
  /** Weight of the errors. */
  readonly cost?: number;
  /** Passes over the data at most. */
  readonly passes?: number;
  /** Stops when no projected gradient of a pass was larger. */
  readonly tolerance?: number;
}

export interface LinearSvm {
  readonly classes: Int32Array;
  /** A row for every class: weights, and the threshold last. */
  readonly weights: Float64Array;
  readonly dimension: number;
}

export function trainSvm(
  vectors: Float32Array,
  dimension: number,
  labels: ArrayLike<number>,
  { cost = 1, passes = 100, tolerance = 0.01 }: SvmOptions = {},
): LinearSvm {
  const count = labels.length;
  if (vectors.length !== count * dimension) throw new RangeError('there must be a label for every vector');
  const classes = Int32Array.from(new Set(Array.from(labels))).sort();
  if (classes.length < 2) throw new RangeError('there must be two classes at least');
  const squares = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    squares[i] = 1 + 1 / (2 * cost);
    for (let c = i * dimension; c < (i + 1) * dimension; c++) squares[i] += vectors[c] ** 2;
  }
  const weights = new Float64Array(classes.length * (dimension + 1));
  for (const [n, label] of classes.entries()) {
    const w = weights.subarray(n * (dimension + 1), (n + 1) * (dimension + 1));
    descend(vectors, dimension, labels, label, squares, { cost, passes, tolerance }, w);
  }
  return { classes, weights, dimension };
}

function descend(
  vectors: Float32Array,
  dimension: number,
  labels: ArrayLike<number>,
  label: number,
  squares: Float64Array,
  { cost, passes, tolerance }: Required<SvmOptions>,
  w: Float64Array,
): void {
  const count = labels.length;
  const alpha = new Float64Array(count);
  const order = Int32Array.from({ length: count }, (_, i) => i);
  const random = new Random();
  random.seed(label, count);
  const keys = new Float64Array(count);
  for (let pass = 0; pass < passes; pass++) {
    random.fill(keys, 1);
    order.sort((a, b) => keys[a] - keys[b]);
    let largest = 0;
    for (const i of order) {
      const sign = labels[i] === label ? 1 : -1;
      let sum = w[dimension];
      for (let c = 0, at = i * dimension; c < dimension; c++, at++) sum += w[c] * vectors[at];
      const gradient = sign * sum - 1 + alpha[i] / (2 * cost);
      const projected = alpha[i] === 0 ? Math.min(gradient, 0) : gradient;
      largest = Math.max(largest, Math.abs(projected));
      if (projected === 0) continue;
      const changed = Math.max(0, alpha[i] - gradient / squares[i]);
      const step = sign * (changed - alpha[i]);
      alpha[i] = changed;
      for (let c = 0, at = i * dimension; c < dimension; c++, at++) w[c] += step * vectors[at];
      w[dimension] += step;
    }
    if (largest < tolerance) return;
  }
}

/** How far each vector is on the side of each class: a row of decision values for every vector. */
export function decide({ classes, weights, dimension }: LinearSvm, vectors: Float32Array): Float64Array {
  const count = vectors.length / dimension;
  const out = new Float64Array(count * classes.length);
  for (let i = 0; i < count; i++)
    for (let n = 0; n < classes.length; n++) {
      const row = n * (dimension + 1);
      let sum = weights[row + dimension];
      for (let c = 0; c < dimension; c++) sum += weights[row + c] * vectors[i * dimension + c];
      out[i * classes.length + n] = sum;
    }
  return out;
}

/** The share of vectors for which the class with the largest decision value is theirs. */
export function top1Accuracy({ classes }: LinearSvm, decisions: Float64Array, labels: ArrayLike<number>): number {
  let right = 0;
  for (let i = 0; i < labels.length; i++) {
    const row = decisions.subarray(i * classes.length, (i + 1) * classes.length);
    if (classes[row.indexOf(Math.max(...row))] === labels[i]) right++;
  }
  return right / labels.length;
}
