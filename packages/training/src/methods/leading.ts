// The leading eigenvectors of a large symmetric matrix without negative eigenvalues: subspace
// iteration with Rayleigh and Ritz's quotients (Golub and Van Loan, "Matrix Computations", §8.2.4).
// Products with the matrix run in onnxruntime in single precision. Where neighbouring eigenvalues
// are close, the subspace settles slowly, and which of their axes comes first does not matter.

import { Random } from '@hers/vectors/random';
import { product } from '../training/products.ts';
import { symmetric } from './covariance.ts';
import { type Eigen, symmetricEigen } from './eigen.ts';

/** Axes beside those asked for, which carry what would disturb the last of them. */
const SPARE = 16;

/** For matrices of one size; each search begins where the last one ended. */
export class LeadingEigen {
  readonly #n: number;
  readonly #threads: number;
  /** Where the last search ended, for a matrix that is like the last one. */
  #start: Float64Array | undefined;

  constructor(n: number, threads: number) {
    this.#n = n;
    this.#threads = threads;
  }

  /** The first `count` eigenvalues and vectors, from the largest. */
  async of(matrix: Float64Array, count: number, iterations: number): Promise<Eigen> {
    const [n, threads] = [this.#n, this.#threads];
    const rows = Math.min(n, count + SPARE);
    // There is nothing to gain where most axes are wanted.
    if (2 * rows >= n) return first(symmetricEigen(matrix, n), count, n);
    const m = { data: new Float32Array(matrix), columns: n };
    const times = async (x: Float64Array) =>
      new Float64Array(await product({ data: new Float32Array(x), columns: n }, m, { threads }));
    let axes = this.#start?.length === rows * n ? this.#start : await orthonormal(drawnAxes(rows, n), rows, n, threads);
    for (let i = 0; i < iterations; i++) axes = await orthonormal(await times(axes), rows, n, threads);
    const along = { data: axes, columns: n };
    const quotients = await product(along, { data: await times(axes), columns: n }, { threads, transposed: 'second' });
    const small = symmetricEigen(symmetric(quotients, rows), rows);
    const turned = await product({ data: small.vectors, columns: rows }, along, { threads });
    this.#start = turned;
    return first({ values: small.values, vectors: turned }, count, n);
  }
}

function first({ values, vectors }: Eigen, count: number, n: number): Eigen {
  return { values: values.slice(0, count), vectors: vectors.slice(0, count * n) };
}

function drawnAxes(rows: number, n: number): Float64Array {
  const random = new Random(n, rows);
  return Float64Array.from({ length: rows * n }, () => random.normal());
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

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += a[k] * b[k];
  return sum;
}
