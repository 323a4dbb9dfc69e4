// Small linear algebra over vectors in the clear: least squares, Cholesky's factor, moments.

export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/**
 * Regularised least squares: min ‖y − A·x‖² + λ‖x‖², hence x = (AᵀA + λI)⁻¹ Aᵀ y. All attacks on
 * scores are problems of this form. A, row by row, is factored once for any number of right-hand
 * sides.
 */
export class LeastSquares {
  readonly #rows: ArrayLike<number>;
  readonly #count: number;
  readonly #width: number;
  /** L with L·Lᵀ = AᵀA + λI. */
  readonly #factor: Float64Array;

  constructor(rows: ArrayLike<number>, width: number, lambda: number) {
    this.#rows = rows;
    this.#width = width;
    this.#count = rows.length / width;
    if (!Number.isInteger(this.#count)) throw new RangeError(`rows must have ${width} numbers each`);
    const normal = new Float64Array(width * width);
    for (let at = 0; at < rows.length; at += width)
      for (let a = 0; a < width; a++) {
        const x = rows[at + a];
        for (let b = 0; b <= a; b++) normal[a * width + b] += x * rows[at + b];
      }
    for (let a = 0; a < width; a++) normal[a * width + a] += lambda;
    this.#factor = cholesky(normal, width);
  }

  /** The x that explains these values best, one for each row. */
  solve(values: ArrayLike<number>): Float64Array {
    if (values.length !== this.#count) throw new RangeError('there must be a value for every row');
    const [n, factor] = [this.#width, this.#factor];
    const x = new Float64Array(n);
    for (let j = 0, at = 0; j < this.#count; j++) for (let c = 0; c < n; c++, at++) x[c] += this.#rows[at] * values[j];
    for (let i = 0; i < n; i++) {
      for (let k = 0; k < i; k++) x[i] -= factor[i * n + k] * x[k];
      x[i] /= factor[i * n + i];
    }
    for (let i = n - 1; i >= 0; i--) {
      for (let k = i + 1; k < n; k++) x[i] -= factor[k * n + i] * x[k];
      x[i] /= factor[i * n + i];
    }
    return x;
  }
}

/** The lower triangle of A, which is given, is overwritten by L with L·Lᵀ = A. */
export function cholesky(a: Float64Array, n: number): Float64Array {
  for (let j = 0; j < n; j++)
    for (let i = j; i < n; i++) {
      let sum = a[i * n + j];
      for (let k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
      if (i > j) a[i * n + j] = sum / a[j * n + j];
      else if (sum > 0) a[j * n + j] = Math.sqrt(sum);
      else
        throw new RangeError(
          'the matrix is not positive definite: the equations have no unique solution, and lambda must be larger',
        );
    }
  return a;
}

/** Mean and covariance of consecutive vectors; only the lower triangle of the covariance. */
export function moments(vectors: ArrayLike<number>, d: number): { mean: Float64Array; covariance: Float64Array } {
  const count = vectors.length / d;
  const mean = new Float64Array(d);
  for (let i = 0; i < vectors.length; i++) mean[i % d] += vectors[i] / count;
  const covariance = new Float64Array(d * d);
  const row = new Float64Array(d);
  for (let at = 0; at < vectors.length; at += d) {
    for (let c = 0; c < d; c++) row[c] = vectors[at + c] - mean[c];
    for (let a = 0; a < d; a++) for (let b = 0; b <= a; b++) covariance[a * d + b] += (row[a] * row[b]) / count;
  }
  return { mean, covariance };
}
