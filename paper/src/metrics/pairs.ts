// Scores of pairs, and thresholds that they keep.

import { outcomesOf, thresholdsAt } from '@hers/vectors/accuracy';

/**
 * The lowest threshold that at most this share of the scores reaches: just above the first score
 * that would be too many.
 */
export function thresholdAt(scores: ArrayLike<number>, share: number): number {
  if (!(share >= 0 && share <= 1) || scores.length === 0)
    throw new RangeError('a rate is from 0 to 1, of at least one score');
  const [threshold] = thresholdsAt(outcomesOf(scores, new Int32Array(scores.length)), [share], Float64Array.of(1));
  return threshold;
}

/** Scores of all pairs of the same label, and of every pair of different ones. */
export function pairScores(
  vectors: Float32Array,
  dimension: number,
  labels: ArrayLike<number>,
): { genuine: Float64Array; impostor: Float64Array } {
  const count = labels.length;
  const counts = new Map<number, number>();
  let pairs = 0;
  for (let i = 0; i < count; i++) {
    const before = counts.get(labels[i]) ?? 0;
    pairs += before;
    counts.set(labels[i], before + 1);
  }
  const genuine = new Float64Array(pairs);
  const impostor = new Float64Array((count * (count - 1)) / 2 - pairs);
  let [g, m] = [0, 0];
  for (let i = 0; i < count; i++)
    for (let j = 0; j < i; j++) {
      let sum = 0;
      for (let c = 0, a = i * dimension, b = j * dimension; c < dimension; c++, a++, b++)
        sum += vectors[a] * vectors[b];
      if (labels[i] === labels[j]) genuine[g++] = sum;
      else impostor[m++] = sum;
    }
  return { genuine, impostor };
}
