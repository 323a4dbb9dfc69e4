// How often a person is found by the mean of their templates, as `hers verify --combine mean`
// compares: what `rankOne` of @hers/compress is for the best one.

/**
 * Every vector whose label occurs twice is compared with all persons, by the mean cosine to their
 * vectors without itself. The share for which its own person has the highest mean; NaN where no
 * label occurs twice.
 */
export function rankOneByMean(vectors: Float32Array, labels: Int32Array): number {
  const dimension = vectors.length / labels.length;
  const classes = labels.reduce((most, label) => Math.max(most, label + 1), 0);
  const unit = new Float64Array(vectors.length);
  const sums = new Float64Array(classes * dimension);
  const counts = new Uint32Array(classes);
  for (let i = 0; i < labels.length; i++) {
    let square = 0;
    for (let k = 0; k < dimension; k++) square += vectors[i * dimension + k]! ** 2;
    const norm = Math.sqrt(square) || 1;
    const to = labels[i]! * dimension;
    for (let k = 0; k < dimension; k++) {
      const x = vectors[i * dimension + k]! / norm;
      unit[i * dimension + k] = x;
      sums[to + k]! += x;
    }
    counts[labels[i]!]!++;
  }
  let asked = 0;
  let found = 0;
  for (let i = 0; i < labels.length; i++) {
    const own = labels[i]!;
    if (counts[own]! < 2) continue;
    const meanOf = (label: number) => {
      let dot = 0;
      let self = 0;
      for (let k = 0; k < dimension; k++) {
        const x = unit[i * dimension + k]!;
        dot += x * sums[label * dimension + k]!;
        self += x * x;
      }
      return label === own ? (dot - self) / (counts[label]! - 1) : dot / counts[label]!;
    };
    const score = meanOf(own);
    let isBest = true;
    for (let label = 0; isBest && label < classes; label++)
      if (label !== own && counts[label]! > 0 && meanOf(label) >= score) isBest = false;
    asked++;
    if (isBest) found++;
  }
  return found / asked;
}
