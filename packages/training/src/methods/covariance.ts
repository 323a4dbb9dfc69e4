// Means and covariances of a training set. The products run in onnxruntime in single precision over
// a thousand rows at a time; sums of these are in double precision, so that a million rows lose no
// digits.

import { product } from '../training/products.ts';
import type { TrainingSet } from '../training/training-set.ts';

export function mean({ vectors, dimension, count }: TrainingSet): Float64Array {
  const sum = new Float64Array(dimension);
  for (let at = 0; at < vectors.length; ) for (let k = 0; k < dimension; k++) sum[k] += vectors[at++];
  return sum.map((x) => x / count);
}

const ROWS = 1024;

/** `Σ (x − centre)(x − centre)ᵀ`, where each row may have a centre of its own. */
export async function scatter(
  set: Pick<TrainingSet, 'vectors' | 'dimension' | 'count'>,
  centreOf: (row: number) => Float64Array,
  threads: number,
): Promise<Float64Array> {
  const { vectors, dimension, count } = set;
  const total = new Float64Array(dimension * dimension);
  for (let start = 0; start < count; start += ROWS) {
    const rows = Math.min(ROWS, count - start);
    const centred = new Float32Array(rows * dimension);
    for (let r = 0, at = 0; r < rows; r++) {
      const centre = centreOf(start + r);
      for (let k = 0; k < dimension; k++, at++) centred[at] = vectors[start * dimension + at] - centre[k];
    }
    const x = { data: centred, columns: dimension };
    const part = await product(x, x, { transposed: 'first', threads });
    for (let i = 0; i < total.length; i++) total[i] += part[i];
  }
  return symmetric(total, dimension);
}

/** The two halves differ in their last digits; what follows wants them equal. */
export function symmetric(matrix: Float64Array, n: number): Float64Array {
  for (let i = 0; i < n; i++)
    for (let j = 0; j < i; j++) matrix[i * n + j] = matrix[j * n + i] = (matrix[i * n + j] + matrix[j * n + i]) / 2;
  return matrix;
}

/** The mean of each class, and how many vectors it has. */
export function classMeans({ vectors, dimension, classes, classCount }: TrainingSet): {
  means: Float64Array[];
  sizes: Int32Array;
} {
  const means = Array.from({ length: classCount }, () => new Float64Array(dimension));
  const sizes = new Int32Array(classCount);
  for (let i = 0; i < classes.length; i++) {
    const sum = means[classes[i]];
    sizes[classes[i]]++;
    for (let k = 0; k < dimension; k++) sum[k] += vectors[i * dimension + k];
  }
  for (let c = 0; c < classCount; c++) for (let k = 0; k < dimension; k++) means[c][k] /= sizes[c];
  return { means, sizes };
}

/** The covariance of the means, each with a weight, and their centre. */
export async function spreadOfMeans(
  means: Float64Array[],
  weights: ArrayLike<number>,
  dimension: number,
  threads: number,
): Promise<{ centre: Float64Array; spread: Float64Array }> {
  let total = 0;
  const centre = new Float64Array(dimension);
  means.forEach((each, c) => {
    total += weights[c];
    for (let k = 0; k < dimension; k++) centre[k] += weights[c] * each[k];
  });
  for (let k = 0; k < dimension; k++) centre[k] /= total;
  const rows = new Float32Array(means.length * dimension);
  means.forEach((each, c) => {
    const root = Math.sqrt(weights[c] / total);
    for (let k = 0; k < dimension; k++) rows[c * dimension + k] = root * (each[k] - centre[k]);
  });
  const zero = new Float64Array(dimension);
  return { centre, spread: await scatter({ vectors: rows, dimension, count: means.length }, () => zero, threads) };
}
