// Errors at thresholds: open-set identification, where a probe may have no mate, and verification
// of pairs.

import { type Labelled, matedPlaces } from './identification.ts';
import { outcomesOf, thresholdsAt } from './rates.ts';
import { eachScoreRow, rowsAt } from './score-rows.ts';

/** The result of one search. */
export interface OpenSearch {
  /** The best score of all. */
  readonly top: number;
  /**
   * The score of the mate if it came first; undefined if a stranger did, or if there is no mate.
   */
  readonly mate?: number;
}

export interface OpenSearches {
  /** People who are enrolled. */
  readonly enrolled: number;
  readonly mated: readonly OpenSearch[];
  readonly strangers: readonly OpenSearch[];
}

/**
 * The first vector of every label that has several is enrolled. The others search, and so do those
 * without a mate. Ties go to the stranger.
 */
export function openSearches({ vectors, dimension, labels }: Labelled): OpenSearches {
  const several = new Set(Array.from(matedPlaces(labels), (place) => labels[place]));
  const enrolled = new Map<number, number>();
  const probes: number[] = [];
  for (let i = 0; i < labels.length; i++) {
    if (several.has(labels[i]) && !enrolled.has(labels[i])) enrolled.set(labels[i], i);
    else probes.push(i);
  }
  const names = [...enrolled.keys()];
  const gallery = rowsAt(vectors, dimension, [...enrolled.values()]);
  const [mated, strangers]: OpenSearch[][] = [[], []];
  eachScoreRow(rowsAt(vectors, dimension, probes), gallery, dimension, (n, scores) => {
    const label = labels[probes[n]];
    const top = scores.reduce((best, score) => Math.max(best, score), Number.NEGATIVE_INFINITY);
    if (!several.has(label)) strangers.push({ top });
    else
      mated.push(scores.every((score, j) => (score === top) === (names[j] === label)) ? { top, mate: top } : { top });
  });
  return { enrolled: names.length, mated, strangers };
}

/**
 * False negative identification rate at a false positive identification rate (ISO/IEC 19795-1). The
 * threshold is the lowest at which at most that share of the searches without a mate returns
 * anyone. A mate is missed if it is not first, or below the threshold.
 */
export function fnirAtFpir(mated: readonly OpenSearch[], strangers: readonly OpenSearch[], fpir: number): number {
  const threshold = thresholdAt(
    strangers.map(({ top }) => top),
    fpir,
  );
  return mated.filter(({ mate }) => mate === undefined || mate < threshold).length / mated.length;
}

/**
 * True accept rate at a false accept rate: genuine pairs at or above the lowest threshold that lets
 * at most that share of the impostor pairs pass.
 */
export function tarAtFar(genuine: Float64Array, impostor: Float64Array, far: number): number {
  const threshold = thresholdAt(impostor, far);
  return genuine.filter((score) => score >= threshold).length / genuine.length;
}

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
