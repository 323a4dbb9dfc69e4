// Score inversion, the attack of the paper's security analysis: from scores r = P·q of an unknown unit vector q and a gallery P, solve
// min ‖r − P·q‖² + λ‖q‖², hence q = (PᵀP + λI)⁻¹ Pᵀ r.

/** The least-squares problem of one gallery, factored once for any number of probes. Rows of the gallery are templates. */
export class ScoreInversion {
  readonly #gallery: ArrayLike<number>;
  readonly #dimension: number;
  readonly #rows: number;
  /** L with L·Lᵀ = PᵀP + λI (Cholesky). */
  readonly #factor: Float64Array;

  constructor(gallery: ArrayLike<number>, dimension: number, lambda: number) {
    this.#gallery = gallery;
    this.#dimension = dimension;
    this.#rows = gallery.length / dimension;
    if (!Number.isInteger(this.#rows)) throw new RangeError(`templates must have ${dimension} coordinates each`);
    const normal = new Float64Array(dimension * dimension);
    for (let at = 0; at < gallery.length; at += dimension)
      for (let a = 0; a < dimension; a++) {
        const x = gallery[at + a];
        for (let b = 0; b <= a; b++) normal[a * dimension + b] += x * gallery[at + b];
      }
    for (let a = 0; a < dimension; a++) normal[a * dimension + a] += lambda;
    this.#factor = factored(normal, dimension);
  }

  /** The probe that explains these scores best, one for each template. */
  solve(scores: ArrayLike<number>): Float64Array {
    if (scores.length !== this.#rows) throw new RangeError('there must be a score for every template');
    const [n, factor] = [this.#dimension, this.#factor];
    const x = new Float64Array(n);
    for (let j = 0, at = 0; j < this.#rows; j++)
      for (let c = 0; c < n; c++, at++) x[c] += this.#gallery[at] * scores[j];
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
function factored(a: Float64Array, n: number): Float64Array {
  for (let j = 0; j < n; j++)
    for (let i = j; i < n; i++) {
      let sum = a[i * n + j];
      for (let k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
      if (i > j) a[i * n + j] = sum / a[j * n + j];
      else if (sum > 0) a[j * n + j] = Math.sqrt(sum);
      else throw new RangeError('the equations have no unique solution; lambda must be larger');
    }
  return a;
}

/** How much a reconstruction resembles the original: 1 is the same direction, 0 what any stranger has. */
export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa === 0 || bb === 0 ? 0 : ab / Math.sqrt(aa * bb);
}
