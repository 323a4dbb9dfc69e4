// Covariances of a training set, and eigenvectors of such matrices: all, or those that lead.
//
// All of a symmetric matrix: Householder's reduction to three diagonals, then QL with implicit
// shifts (Wilkinson and Reinsch, "Handbook for Automatic Computation" II, contributions 2 and 3).
// Vectors lie in rows, so that the inner loops run along memory.

import { dot } from '@hers/vectors/linear-algebra';
import { Random } from '@hers/vectors/random';
import { product } from '../training/session.ts';
import type { TrainingSet } from '../training/training-set.ts';

export interface Eigen {
  /** From the largest to the smallest. */
  values: Float64Array;
  /** Row i belongs to value i; rows are orthonormal. */
  vectors: Float64Array;
}

export function symmetricEigen(matrix: Float64Array, n: number): Eigen {
  const a = Float64Array.from(matrix);
  const diagonal = new Float64Array(n);
  const off = new Float64Array(n);
  const z = tridiagonalise(a, n, diagonal, off);
  implicitQl(diagonal, off, z, n);
  const order = Array.from(diagonal.keys()).sort((i, j) => diagonal[j] - diagonal[i]);
  const vectors = new Float64Array(n * n);
  order.forEach((from, to) => vectors.set(signed(z.subarray(from * n, (from + 1) * n)), to * n));
  return { values: Float64Array.from(order, (i) => diagonal[i]), vectors };
}

/** An eigenvector may point either way: its largest entry is made positive. */
function signed(vector: Float64Array): Float64Array {
  let largest = 0;
  for (let i = 1; i < vector.length; i++) if (Math.abs(vector[i]) > Math.abs(vector[largest])) largest = i;
  return vector[largest] < 0 ? vector.map((x) => -x) : vector;
}

/**
 * Turns `a` into three diagonals by n − 2 reflections; returns the product of the reflections,
 * transposed: rows are the new axes.
 */
function tridiagonalise(a: Float64Array, n: number, diagonal: Float64Array, off: Float64Array): Float64Array {
  const reflections: { v: Float64Array; k: number }[] = [];
  const p = new Float64Array(n);
  for (let k = 0; k < n - 2; k++) {
    let squares = 0;
    for (let i = k + 1; i < n; i++) squares += a[k * n + i] ** 2;
    const head = a[k * n + k + 1];
    const length = Math.sqrt(squares);
    off[k] = head > 0 ? -length : length;
    if (squares - head * head <= 0) {
      off[k] = head; // nothing to remove in this row
      continue;
    }
    const v = a.slice(k * n + k + 1, k * n + n);
    v[0] -= off[k];
    let norm = 0;
    for (const x of v) norm += x * x;
    const scale = Math.sqrt(2 / norm);
    for (let i = 0; i < v.length; i++) v[i] *= scale; // the reflection is now I − v vᵀ
    reflections.push({ v, k });
    reflectBothSides(a, n, k + 1, v, p);
  }
  for (let i = 0; i < n; i++) diagonal[i] = a[i * n + i];
  if (n > 1) off[n - 2] = a[(n - 2) * n + n - 1];
  const z = new Float64Array(n * n);
  for (let i = 0; i < n; i++) z[i * n + i] = 1;
  for (const { v, k } of reflections.reverse()) reflectColumns(z, n, k + 1, v);
  return z;
}

/** The lower right part, from `start`: A ← (I − v vᵀ) A (I − v vᵀ) = A − v wᵀ − w vᵀ. */
function reflectBothSides(a: Float64Array, n: number, start: number, v: Float64Array, p: Float64Array): void {
  const m = n - start;
  for (let i = 0; i < m; i++) {
    const row = (start + i) * n + start;
    let sum = 0;
    for (let j = 0; j < m; j++) sum += a[row + j] * v[j];
    p[i] = sum;
  }
  let half = 0;
  for (let i = 0; i < m; i++) half += p[i] * v[i];
  half /= 2;
  for (let i = 0; i < m; i++) p[i] -= half * v[i];
  for (let i = 0; i < m; i++) {
    const row = (start + i) * n + start;
    const [vi, pi] = [v[i], p[i]];
    for (let j = 0; j < m; j++) a[row + j] -= vi * p[j] + pi * v[j];
  }
}

/** Z ← Z (I − v vᵀ) for rows of Z from `start` on, where Z is still the identity before it. */
function reflectColumns(z: Float64Array, n: number, start: number, v: Float64Array): void {
  const m = n - start;
  for (let i = 0; i < m; i++) {
    const row = (start + i) * n + start;
    let sum = 0;
    for (let j = 0; j < m; j++) sum += z[row + j] * v[j];
    for (let j = 0; j < m; j++) z[row + j] -= sum * v[j];
  }
}

/** Makes the off-diagonal vanish by plane rotations, each applied to two rows of `z`, too. */
function implicitQl(d: Float64Array, e: Float64Array, z: Float64Array, n: number): void {
  let size = 0;
  for (let i = 0; i < n; i++) size = Math.max(size, Math.abs(d[i]) + Math.abs(e[i]));
  // Against the whole matrix and not against its neighbours: where the rank is low, all that is
  // left there are roundings, and they never settle.
  const nothing = Number.EPSILON * size;
  for (let l = 0; l < n; l++) {
    for (let iteration = 0; ; iteration++) {
      let m = l;
      while (m < n - 1 && Math.abs(e[m]) > nothing) m++;
      if (m === l) break;
      if (iteration > 60)
        throw new Error('The eigenvalues do not converge: the matrix holds something that is no number.');
      let g = (d[l + 1] - d[l]) / (2 * e[l]);
      let r = Math.hypot(g, 1);
      g = d[m] - d[l] + e[l] / (g + (g >= 0 ? r : -r));
      let [s, c, p] = [1, 1, 0];
      let i = m - 1;
      for (; i >= l; i--) {
        const f = s * e[i];
        const b = c * e[i];
        r = Math.hypot(f, g);
        e[i + 1] = r;
        if (r === 0) {
          d[i + 1] -= p;
          e[m] = 0;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        rotateRows(z, n, i, s, c);
      }
      if (r === 0 && i >= l) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
}

function rotateRows(z: Float64Array, n: number, i: number, s: number, c: number): void {
  const upper = z.subarray(i * n, (i + 1) * n);
  const lower = z.subarray((i + 1) * n, (i + 2) * n);
  for (let k = 0; k < n; k++) {
    const x = upper[k];
    const y = lower[k];
    lower[k] = s * x + c * y;
    upper[k] = c * x - s * y;
  }
}

// The leading eigenvectors of a large symmetric matrix without negative eigenvalues: subspace
// iteration with Rayleigh and Ritz's quotients (Golub and Van Loan, "Matrix Computations", §8.2.4).
// Products with the matrix run in onnxruntime in single precision. Where neighbouring eigenvalues
// are close, the subspace settles slowly, and which of their axes comes first does not matter.

/** Axes beside those asked for, which carry what would disturb the last of them. */
const SPARE = 16;

/**
 * Finds the first `count` eigenvalues and vectors, from the largest, of matrices of one size. Each
 * search begins where the last one ended.
 */
export function leadingEigen(n: number, threads: number) {
  let start: Float64Array | undefined;
  return async (matrix: Float64Array, count: number, iterations: number): Promise<Eigen> => {
    const rows = Math.min(n, count + SPARE);
    // There is nothing to gain where most axes are wanted.
    if (2 * rows >= n) return first(symmetricEigen(matrix, n), count, n);
    const m = { data: new Float32Array(matrix), columns: n };
    const times = async (x: Float64Array) =>
      new Float64Array(await product({ data: new Float32Array(x), columns: n }, m, { threads }));
    const random = new Random(n, rows);
    const drawn = () => Float64Array.from({ length: rows * n }, () => random.normal());
    let axes = start?.length === rows * n ? start : await orthonormal(drawn(), rows, n, threads);
    for (let i = 0; i < iterations; i++) axes = await orthonormal(await times(axes), rows, n, threads);
    const along = { data: axes, columns: n };
    const quotients = await product(along, { data: await times(axes), columns: n }, { threads, transposed: 'second' });
    const small = symmetricEigen(symmetric(quotients, rows), rows);
    const turned = await product({ data: small.vectors, columns: rows }, along, { threads });
    start = turned;
    return first({ values: small.values, vectors: turned }, count, n);
  };
}

function first({ values, vectors }: Eigen, count: number, n: number): Eigen {
  return { values: values.slice(0, count), vectors: vectors.slice(0, count * n) };
}

/**
 * Rows made orthonormal. With G = Y Yᵀ = L Lᵀ, the rows of L⁻¹ Y are what Gram and Schmidt find one
 * by one. That squares the condition of Y, so it is for rows that are far from dependent.
 */
async function orthonormal(given: Float64Array, rows: number, n: number, threads: number): Promise<Float64Array> {
  const y = { data: given, columns: n };
  const inverse = inverseFactor(await product(y, y, { threads, transposed: 'second' }), rows);
  return inverse ? product({ data: inverse, columns: rows }, y, { threads }) : oneByOne(given, rows, n);
}

/** Rows are nearly dependent below this share of their square that is left. */
const LITTLE = 1e-8;

/** L⁻¹ of a matrix L Lᵀ; nothing where a row is nearly dependent on those before it. */
function inverseFactor(a: Float64Array, n: number): Float64Array | undefined {
  const inverse = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    const [row, whole] = [i * n, a[i * n + i]];
    for (let j = 0; j <= i; j++) {
      const other = j * n;
      let sum = a[row + j];
      for (let k = 0; k < j; k++) sum -= a[row + k] * a[other + k];
      if (j < i) a[row + j] = sum / a[other + j];
      else if (sum > LITTLE * whole) a[row + i] = Math.sqrt(sum);
      else return undefined;
    }
    // Row i of the inverse: what the rows before it leave of the unit vector.
    for (let k = 0; k < i; k++) {
      const weight = a[row + k];
      for (let j = 0, from = k * n; j <= k; j++) inverse[row + j] -= weight * inverse[from + j];
    }
    inverse[row + i] = 1;
    for (let j = 0; j <= i; j++) inverse[row + j] /= a[row + i];
  }
  return inverse;
}

/**
 * Rows made orthonormal by Gram and Schmidt, each against those before it. A row of which nothing
 * is left becomes one drawn at random: the matrix has no more axes, and any will do.
 */
function oneByOne(given: Float64Array, rows: number, n: number): Float64Array {
  const random = new Random(n, rows, 0x6a7);
  for (let i = 0; i < rows; i++) {
    const row = given.subarray(i * n, (i + 1) * n);
    for (;;) {
      const before = Math.sqrt(dot(row, row));
      for (let j = 0; j < i; j++) {
        const other = given.subarray(j * n, (j + 1) * n);
        const along = dot(row, other);
        for (let k = 0; k < n; k++) row[k] -= along * other[k];
      }
      const length = Math.sqrt(dot(row, row));
      if (length > 1e-6 * before && length > 0) {
        for (let k = 0; k < n; k++) row[k] /= length;
        break;
      }
      for (let k = 0; k < n; k++) row[k] = random.normal();
    }
  }
  return given;
}

// Means and covariances of a training set. The products run in onnxruntime in single precision over
// a thousand rows at a time; sums of these are in double precision, so that a million rows lose no
// digits.

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
