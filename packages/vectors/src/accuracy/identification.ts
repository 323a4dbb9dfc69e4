// Closed-set identification: every probe has a mate in the gallery. The rank is the number of
// strangers that score higher than the best mate, plus one.

import { eachScoreRow, rowsAt } from './score-rows.ts';

export interface Labelled {
  /** One after the other, at unit length. */
  readonly vectors: Float32Array;
  readonly dimension: number;
  readonly labels: ArrayLike<number>;
}

/**
 * Places of the vectors whose label occurs more than once: the probes of a leave-one-out
 * identification.
 */
export function matedPlaces(labels: ArrayLike<number>): Int32Array {
  const counts = new Map<number, number>();
  for (let i = 0; i < labels.length; i++) counts.set(labels[i], (counts.get(labels[i]) ?? 0) + 1);
  const places: number[] = [];
  for (let i = 0; i < labels.length; i++) if (counts.get(labels[i])! > 1) places.push(i);
  return Int32Array.from(places);
}

/**
 * For each probe (a place in the set, every mated one unless given) the rank of its best mate among
 * all others, counted from 1. A stranger that scores exactly as high is ranked first.
 */
export function mateRanks(
  { vectors, dimension, labels }: Labelled,
  probes: Int32Array<ArrayBufferLike> = matedPlaces(labels),
): Int32Array {
  const ranks = new Int32Array(probes.length);
  eachScoreRow(rowsAt(vectors, dimension, probes), vectors, dimension, (n, scores) => {
    ranks[n] = rankOfMate(scores, labels, labels[probes[n]], probes[n]);
  });
  return ranks;
}

/**
 * The rank of the best template with this label, without the template `except` (the probe itself).
 */
export function rankOfMate(
  scores: ArrayLike<number>,
  labels: ArrayLike<number>,
  label: number,
  except: number,
): number {
  let best = Number.NEGATIVE_INFINITY;
  for (let j = 0; j < scores.length; j++) if (labels[j] === label && j !== except && scores[j] > best) best = scores[j];
  if (best === Number.NEGATIVE_INFINITY) throw new RangeError('a probe has no mate in the gallery');
  let rank = 1;
  for (let j = 0; j < scores.length; j++) if (labels[j] !== label && j !== except && scores[j] >= best) rank++;
  return rank;
}

/** The share of probes whose mate is among the best k. */
export function rankAccuracy(ranks: ArrayLike<number>, k: number): number {
  let found = 0;
  for (let i = 0; i < ranks.length; i++) if (ranks[i] <= k) found++;
  return found / ranks.length;
}

/** Cumulative match characteristic: rank accuracies for 1 … upTo. */
export function cmc(ranks: ArrayLike<number>, upTo: number): Float64Array {
  const curve = new Float64Array(upTo);
  for (let i = 0; i < ranks.length; i++) if (ranks[i] <= upTo) curve[ranks[i] - 1]++;
  for (let k = 0, sum = 0; k < upTo; k++) {
    sum += curve[k];
    curve[k] = sum / ranks.length;
  }
  return curve;
}
