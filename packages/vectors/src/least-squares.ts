// Regularised least squares: min ‖y − A·x‖² + λ‖x‖², hence
// x = (AᵀA + λI)⁻¹ Aᵀ y. All attacks on scores are problems of this form.

import { cholesky } from './cholesky.ts';

export { cholesky };

/** One matrix A, row by row, factored once for any number of right-hand sides. */
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
