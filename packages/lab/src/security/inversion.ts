// Score inversion, the attack of the paper's security analysis: from scores r = P·q of an unknown unit vector q and a gallery P, solve
// min ‖r − P·q‖² + λ‖q‖², hence q = (PᵀP + λI)⁻¹ Pᵀ r.

/** The least-squares solution. Rows of `gallery` are templates; one score for each. */
export function invertScores(
  gallery: ArrayLike<number>,
  scores: ArrayLike<number>,
  dimension: number,
  lambda: number,
): Float64Array {
  const rows = scores.length;
  if (gallery.length !== rows * dimension) throw new RangeError('there must be a score for every template');
  const normal = new Float64Array(dimension * dimension);
  const right = new Float64Array(dimension);
  for (let j = 0; j < rows; j++) {
    const at = j * dimension;
    for (let a = 0; a < dimension; a++) {
      const x = gallery[at + a];
      right[a] += x * scores[j];
      for (let b = 0; b <= a; b++) normal[a * dimension + b] += x * gallery[at + b];
    }
  }
  for (let a = 0; a < dimension; a++) normal[a * dimension + a] += lambda;
  return solveSymmetric(normal, right, dimension);
}

/** Solves A·x = b for a positive definite A, of which the lower half is given (Cholesky; A and b are overwritten). */
function solveSymmetric(a: Float64Array, b: Float64Array, n: number): Float64Array {
  for (let j = 0; j < n; j++) {
    for (let i = j; i < n; i++) {
      let sum = a[i * n + j];
      for (let k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
      if (i > j) a[i * n + j] = sum / a[j * n + j];
      else if (sum > 0) a[j * n + j] = Math.sqrt(sum);
      else throw new RangeError('the equations have no unique solution; lambda must be larger');
    }
  }
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < i; k++) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
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
