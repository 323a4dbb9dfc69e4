// Inversion: reconstructs an unknown unit vector from its scores and from vectors on either side of
// them, or from its compressed form. Reports measure with it how much either reveals.

import type { Labelled } from './accuracy/identification.ts';
import { LeastSquares, moments } from './linear-algebra.ts';

/** Reconstructs a probe from its scores. */
export type Reconstruct = (scores: ArrayLike<number>) => Float64Array;

/**
 * The paper's attack: scores r = P·q of a gallery P in the clear (or of what is taken for it), q =
 * (PᵀP + λI)⁻¹ Pᵀ r. Rows of the gallery are templates.
 */
export function fromTemplates(templates: ArrayLike<number>, dimension: number, lambda: number): Reconstruct {
  const problem = new LeastSquares(templates, dimension, lambda);
  return (scores) => problem.solve(scores);
}

/**
 * Without any template: the attacker knows a few probes and their scores against the same unknown
 * templates (one row per probe). Scores are linear in the probe. So the combination of known rows
 * closest to the unknown row is also the combination of known probes closest to the probe.
 */
export function fromKnownProbes(
  probes: ArrayLike<number>,
  dimension: number,
  scoreRows: readonly ArrayLike<number>[],
  lambda: number,
): Reconstruct {
  const known = scoreRows.length;
  if (probes.length !== known * dimension) throw new RangeError('there must be a row of scores for every known probe');
  const templates = scoreRows[0].length;
  const columns = new Float64Array(templates * known);
  for (let i = 0; i < known; i++) for (let j = 0; j < templates; j++) columns[j * known + i] = scoreRows[i][j];
  const problem = new LeastSquares(columns, known, lambda);
  return (scores) => {
    const weights = problem.solve(scores);
    const sum = new Float64Array(dimension);
    for (let i = 0; i < known; i++)
      for (let c = 0; c < dimension; c++) sum[c] += weights[i] * probes[i * dimension + c];
    return sum;
  };
}

/** Between a reconstruction and the original: 1 is the same direction, 0 a random stranger's. */
export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa === 0 || bb === 0 ? 0 : ab / Math.sqrt(aa * bb);
}

// An attacker who has rehearsed: it has searched its own galleries with vectors it knows, and has
// learned to predict the vector from what it will see.

const QUANTILES = 16;
export const SCORE_FEATURES: number = QUANTILES + 1 + 4;

/** What scores reveal, whoever they are of: order statistics, and the first four moments. */
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
    // A gain below two standard errors is not trusted: some candidate reaches it by chance.
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

// Undoing a compressor: a vector of full dimension from a compressed one, learned by ridge
// regression from vectors of other people.

/** Parts of the training vectors, by people, on which the attacker tries what it has learned. */
const PARTS = 8;
/** Squares and products are learned from where there are no more of them than this. */
const MOST_FEATURES = 800;

/** Coordinates, and after them their squares and products where there are not too many. */
function features(compressed: ArrayLike<number>): Float64Array {
  const d = compressed.length;
  const pairs = (d * (d + 1)) / 2;
  if (d + pairs > MOST_FEATURES) return Float64Array.from(compressed);
  const out = new Float64Array(d + pairs);
  for (let a = 0, at = d; a < d; a++) {
    out[a] = compressed[a];
    for (let b = 0; b <= a; b++) out[at++] = compressed[a] * compressed[b];
  }
  return out;
}

/** Learns from other people what makes a vector of full dimension of a compressed one. */
export function decompressorOf(training: Labelled, compressed: Labelled): (vector: ArrayLike<number>) => Float64Array {
  const { mean: centre } = moments(training.vectors, training.dimension);
  const people = [...new Set(Array.from(training.labels))].sort((a, b) => a - b);
  const rank = new Map(people.map((label, i) => [label, i]));
  const parts: Example[][] = Array.from({ length: PARTS }, () => []);
  for (let place = 0; place < training.labels.length; place++)
    parts[Math.floor((rank.get(training.labels[place])! * PARTS) / people.length)].push({
      seen: features(vectorAt(compressed, place)),
      probe: vectorAt(training, place),
    });
  const widths = new Set([compressed.dimension, parts[0][0].seen.length]);
  const guess = learnedFrom(parts, centre, [...widths]);
  return (vector) => guess(features(vector));
}

const vectorAt = ({ vectors, dimension }: Labelled, place: number) =>
  vectors.subarray(place * dimension, (place + 1) * dimension);
