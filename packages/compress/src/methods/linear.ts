// The linear methods, as affine maps on unit vectors: `y = (x − centre) · rows`, compared by
// cosine.

import { CompressError } from '../apply/errors.ts';
import type { TrainingSet } from '../training/training-set.ts';
import { classMeans, mean, scatter } from './covariance.ts';
import { type Eigen, symmetricEigen } from './eigen.ts';

export interface LinearMap {
  /** One axis after the other, each as long as the input. */
  axes: Float64Array;
  centre: Float64Array;
  /** Added to the result. */
  offset?: Float64Array;
  inputDimension: number;
  outputDimension: number;
}

/**
 * Principal components: the axes along which the centred vectors vary most. Also says what share of
 * the variance they keep.
 */
export async function fitPca(set: TrainingSet, dimension: number): Promise<LinearMap & { varianceKept: number }> {
  const centre = mean(set);
  const { values, vectors } = symmetricEigen(await scatter(set, () => centre), set.dimension);
  const sum = (list: Float64Array) => list.reduce((total, value) => total + Math.max(0, value), 0);
  return {
    axes: vectors.slice(0, dimension * set.dimension),
    centre,
    inputDimension: set.dimension,
    outputDimension: dimension,
    varianceKept: sum(values.subarray(0, dimension)) / sum(values),
  };
}

/**
 * Where the axes of the classes are looked for: in the scatter of all vectors, or of the classes'
 * means, where each class counts once.
 */
export type Between = 'vectors' | 'classes';

/**
 * Linear discriminants: whiten what varies within classes, then keep the principal components of
 * what is left. Few vectors per class make a poor estimate of the within-class covariance, so it is
 * drawn towards a sphere: `(1 − s) W + s · (tr W / d) · I`. What does not depend on the shrinkage
 * is computed once, for all that will be tried.
 */
export async function discriminants(
  set: TrainingSet,
  between: Between,
): Promise<(dimension: number, shrinkage: number) => LinearMap> {
  const d = set.dimension;
  const { means, sizes } = classMeans(set);
  const eigen = await withinClass(set, means);
  const centre = mean(set);
  const spread = between === 'vectors' ? await scatter(set, () => centre) : spreadOfMeans(means, sizes, d);
  return (dimension: number, shrinkage: number): LinearMap => {
    const whitening = symmetricPower(shrunk(eigen, shrinkage), -0.5, d);
    const { vectors } = symmetricEigen(congruence(whitening, spread, d), d);
    const axes = multiply(vectors.subarray(0, dimension * d), whitening, dimension, d, d);
    return { axes, centre, inputDimension: d, outputDimension: dimension };
  };
}

/** The eigenvalues and axes of the within-class covariance. */
async function withinClass(set: TrainingSet, means: Float64Array[]): Promise<Eigen> {
  const free = set.count - set.classCount;
  const within = await scatter(set, (row) => means[set.classes[row]]);
  const eigen = symmetricEigen(
    within.map((x) => x / free),
    set.dimension,
  );
  if (!(eigen.values[0] > 0))
    throw new CompressError(
      'INVALID_LABELS',
      'All vectors of a class are the same, in every class: there is nothing to learn from.',
    );
  return eigen;
}

export function shrunk({ values, vectors }: Eigen, shrinkage: number): Eigen {
  const positive = values.map((value) => Math.max(0, value));
  const average = positive.reduce((sum, value) => sum + value, 0) / values.length;
  // Never quite zero: a direction without any noise would get an infinite weight.
  return {
    values: positive.map((value) => Math.max(1e-9 * average, (1 - shrinkage) * value + shrinkage * average)),
    vectors,
  };
}

/** A power of a symmetric matrix given by its eigenvalues. */
function symmetricPower({ values, vectors }: Eigen, power: number, n: number): Float64Array {
  const scaled = new Float64Array(n * n);
  for (let i = 0; i < n; i++) for (let k = 0; k < n; k++) scaled[i * n + k] = vectors[i * n + k] * values[i] ** power;
  return multiplyAtB(vectors, scaled, n);
}

function spreadOfMeans(means: Float64Array[], sizes: Int32Array, d: number): Float64Array {
  const centre = new Float64Array(d);
  for (const each of means) for (let k = 0; k < d; k++) centre[k] += each[k] / sizes.length;
  const spread = new Float64Array(d * d);
  const off = new Float64Array(d);
  for (const each of means) {
    for (let k = 0; k < d; k++) off[k] = each[k] - centre[k];
    for (let i = 0; i < d; i++) for (let j = 0, at = i * d; j < d; j++) spread[at + j] += off[i] * off[j];
  }
  return spread;
}

/** `a b`, of sizes n × k and k × m. */
function multiply(a: Float64Array, b: Float64Array, n: number, k: number, m: number): Float64Array {
  const out = new Float64Array(n * m);
  for (let i = 0; i < n; i++)
    for (let p = 0; p < k; p++) {
      const x = a[i * k + p];
      for (let j = 0, at = i * m, from = p * m; j < m; j++) out[at + j] += x * b[from + j];
    }
  return out;
}

/** `aᵀ b`, both n × n. */
function multiplyAtB(a: Float64Array, b: Float64Array, n: number): Float64Array {
  const out = new Float64Array(n * n);
  for (let p = 0; p < n; p++)
    for (let i = 0; i < n; i++) {
      const x = a[p * n + i];
      for (let j = 0, at = i * n, from = p * n; j < n; j++) out[at + j] += x * b[from + j];
    }
  return out;
}

/** `s m s` for symmetric s and m; symmetric again, to the last digit. */
function congruence(s: Float64Array, m: Float64Array, n: number): Float64Array {
  const out = multiply(multiply(s, m, n, n, n), s, n, n, n);
  for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) out[i * n + j] = out[j * n + i];
  return out;
}
