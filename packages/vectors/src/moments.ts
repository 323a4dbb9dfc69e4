// Mean and covariance of a sample of vectors.

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
