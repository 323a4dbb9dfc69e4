// The factor of a symmetric matrix: of a covariance, or of the normal equations of least squares.

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
