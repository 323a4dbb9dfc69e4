// Attackers who know the population. One knows its mean and covariance. Another has rehearsed: it
// has searched its own galleries with vectors it knows, and has learned to predict the vector from
// what it will see.

import { cholesky, LeastSquares } from '../least-squares.ts';
import { moments } from '../moments.ts';
import { cosine } from './reconstruct.ts';

export interface Population {
  readonly mean: Float64Array;
  /** L, lower triangular, with L·Lᵀ the covariance. */
  readonly factor: Float64Array;
}

/**
 * With fewer vectors than dimensions some directions have no variance. This adds too little to
 * affect the others.
 */
const LEAST_VARIANCE = 1e-6;

export function populationOf(vectors: ArrayLike<number>, dimension: number): Population {
  const { mean, covariance } = moments(vectors, dimension);
  for (let a = 0; a < dimension; a++) covariance[a * dimension + a] += LEAST_VARIANCE;
  return { mean, factor: cholesky(covariance, dimension) };
}

const QUANTILES = 16;
export const SCORE_FEATURES: number = QUANTILES + 1 + 4;

/**
 * What scores reveal without knowing whose they are: their order statistics, and their first four
 * moments.
 */
export function scoreFeatures(scores: ArrayLike<number>): Float64Array {
  const sorted = Float64Array.from(scores).sort();
  const out = new Float64Array(SCORE_FEATURES);
  for (let i = 0; i <= QUANTILES; i++) {
    const at = (i * (sorted.length - 1)) / QUANTILES;
    const [low, high] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
    out[i] = low + (at - Math.floor(at)) * (high - low);
  }
  for (let power = 1; power <= 4; power++)
    out[QUANTILES + power] = sorted.reduce((sum, x) => sum + x ** power, 0) / sorted.length;
  return out;
}

/**
 * Scores and what may be the templates, slot by slot: how scores correlate with each coordinate. In
 * the clear this would be Pᵀr, from which the probe follows.
 */
export function slotFeatures(scores: ArrayLike<number>, words: ArrayLike<number>, dimension: number): Float64Array {
  const out = new Float64Array(dimension);
  for (let j = 0, at = 0; j < scores.length; j++)
    for (let c = 0; c < dimension; c++, at++) out[c] += (scores[j] * words[at]) / scores.length;
  return out;
}

export interface Example {
  /** What the attacker saw. */
  readonly seen: Float64Array;
  readonly probe: ArrayLike<number>;
}

/** λ for every example that is learned from, features having variance 1. */
const STRENGTHS = [100, 10, 1, 1e-1, 1e-2, 1e-3];

/**
 * Learns to predict a probe from what is seen of it, by ridge regression of its difference from
 * `mean`, the guess without any observation. The regularization is chosen on the last quarter of
 * the galleries, after learning from the others; then it learns from all of them. If nothing was
 * learned, the guess remains. `widths` says how many features it may use: all, or the first few.
 */
export function learnedFrom(
  galleries: readonly (readonly Example[])[],
  mean: Float64Array,
  widths: readonly number[] = [galleries[0][0].seen.length],
): (seen: Float64Array) => Float64Array {
  if (galleries.length < 2)
    throw new RangeError('what was learned is tried on a gallery that it was not learned from: two are needed');
  const held = Math.ceil(galleries.length / 4);
  const trial = galleries.slice(0, -held).flat();
  const judged = galleries.slice(-held).flat();
  let best = { gain: 0, guess: (_: Float64Array) => mean };
  for (const [width, strength] of widths.flatMap((width) => STRENGTHS.map((strength) => [width, strength]))) {
    const guess = ridge(trial, mean, width, strength);
    const gains = judged.map(({ seen, probe }) => cosine(guess(seen), probe) - cosine(mean, probe));
    const gain = gains.reduce((sum, x) => sum + x, 0);
    // A gain below two standard errors is not trusted: of so many candidates, one reaches it by
    // chance.
    const luck = 2 * Math.sqrt(gains.reduce((sum, x) => sum + x * x, 0));
    if (gain > luck && gain > best.gain) best = { gain, guess: ridge(galleries.flat(), mean, width, strength) };
  }
  return best.guess;
}

function ridge(
  examples: readonly Example[],
  mean: Float64Array,
  width: number,
  strength: number,
): (seen: Float64Array) => Float64Array {
  const [centre, variance] = [new Float64Array(width), new Float64Array(width)];
  for (const { seen } of examples) for (let c = 0; c < width; c++) centre[c] += seen[c] / examples.length;
  for (const { seen } of examples)
    for (let c = 0; c < width; c++) variance[c] += (seen[c] - centre[c]) ** 2 / examples.length;
  const scaled = (seen: Float64Array) =>
    seen.subarray(0, width).map((x, c) => (variance[c] > 0 ? (x - centre[c]) / Math.sqrt(variance[c]) : 0));
  const rows = new Float64Array(examples.length * width);
  for (const [i, { seen }] of examples.entries()) rows.set(scaled(seen), i * width);
  const problem = new LeastSquares(rows, width, strength * examples.length);
  // Rows are centred, so it does not matter what is subtracted from a column of probes.
  const weights = Array.from(mean, (middle, c) => problem.solve(examples.map(({ probe }) => probe[c] - middle)));
  return (seen) => {
    const x = scaled(seen);
    return mean.map((middle, c) => x.reduce((sum, value, i) => sum + value * weights[c][i], middle));
  };
}
