// The leading eigenvectors of a large symmetric matrix without negative eigenvalues: subspace
// iteration with Rayleigh and Ritz's quotients (Golub and Van Loan, "Matrix Computations", §8.2.4).
// Products run in onnxruntime in single precision. Where neighbouring eigenvalues are close, the
// subspace settles slowly, and which of their axes comes first does not matter.

import { Random } from '@hers/vectors/random';
import { openSession, type Session } from '../training/session.ts';
import { type Eigen, symmetricEigen } from './eigen.ts';

/** Axes beside those asked for, which carry what would disturb the last of them. */
const SPARE = 16;

/** For matrices of one size; each search begins where the last one ended. */
export class LeadingEigen {
  readonly #product: Session;
  readonly #n: number;
  /** Where the last search ended, for a matrix that is like the last one. */
  #start: Float64Array | undefined;

  private constructor(product: Session, n: number) {
    this.#product = product;
    this.#n = n;
  }

  static async open(n: number, threads: number): Promise<LeadingEigen> {
    const model = {
      nodes: [{ op: 'MatMul', inputs: ['x', 'm'], outputs: ['y'] }],
      tensors: [],
      inputs: [
        { name: 'x', shape: ['rows', n] },
        { name: 'm', shape: [n, n] },
      ],
      outputs: [{ name: 'y', shape: ['rows', n] }],
    };
    return new LeadingEigen(await openSession(model, { threads }), n);
  }

  /** The first `count` eigenvalues and vectors, from the largest. */
  async of(matrix: Float64Array, count: number, iterations: number): Promise<Eigen> {
    const n = this.#n;
    const rows = Math.min(n, count + SPARE);
    // There is nothing to gain where most axes are wanted.
    if (2 * rows >= n) return first(symmetricEigen(matrix, n), count, n);
    const m = { data: Float32Array.from(matrix), shape: [n, n] };
    const times = async (x: Float64Array) => {
      const { y } = await this.#product({ x: { data: Float32Array.from(x), shape: [rows, n] }, m });
      return Float64Array.from(y.data);
    };
    let axes = this.#start?.length === rows * n ? this.#start : drawnAxes(rows, n);
    for (let i = 0; i < iterations; i++) axes = orthonormal(await times(axes), rows, n);
    const small = symmetricEigen(between(axes, await times(axes), rows, n), rows);
    const turned = new Float64Array(rows * n);
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < rows; j++) {
        const weight = small.vectors[i * rows + j];
        for (let k = 0, to = i * n, from = j * n; k < n; k++) turned[to + k] += weight * axes[from + k];
      }
    this.#start = turned;
    return first({ values: small.values, vectors: turned }, count, n);
  }
}

function first({ values, vectors }: Eigen, count: number, n: number): Eigen {
  return { values: values.slice(0, count), vectors: vectors.slice(0, count * n) };
}

function drawnAxes(rows: number, n: number): Float64Array {
  const random = new Random(n, rows);
  return orthonormal(
    Float64Array.from({ length: rows * n }, () => random.normal()),
    rows,
    n,
  );
}

/** `axes · productsᵀ`, symmetric to the last digit. */
function between(axes: Float64Array, products: Float64Array, rows: number, n: number): Float64Array {
  const out = new Float64Array(rows * rows);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j <= i; j++) {
      let sum = 0;
      for (let k = 0, a = i * n, b = j * n; k < n; k++) sum += axes[a + k] * products[b + k];
      out[i * rows + j] = out[j * rows + i] = sum;
    }
  return out;
}

/**
 * Rows made orthonormal by Gram and Schmidt, each against those before it. A row of which nothing
 * is left becomes one drawn at random: the matrix has no more axes, and any will do.
 */
function orthonormal(given: Float64Array, rows: number, n: number): Float64Array {
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
