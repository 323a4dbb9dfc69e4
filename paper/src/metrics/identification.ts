// Closed-set identification of every probe that has a mate, and means of the outcomes with their
// standard errors. Outcomes of a person are not independent: one who is hard to find is so on every
// picture. So the standard error is taken over the people, the clusters.

import { eachScoreRow, type Labelled, matedPlaces, rankOfMate, rowsAt } from '@hers/vectors/accuracy';

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

/** The share of probes whose mate is among the best k. */
export function rankAccuracy(ranks: ArrayLike<number>, k: number): number {
  let found = 0;
  for (let i = 0; i < ranks.length; i++) if (ranks[i] <= k) found++;
  return found / ranks.length;
}

export interface ClusteredMean {
  readonly mean: number;
  /**
   * Cluster-robust standard error of the mean: of the sums of residuals, cluster by cluster (Liang
   * and Zeger 1986, with g / (g − 1) for g clusters).
   */
  readonly error: number;
  /** The mean of the clusters' means: each cluster counts once, however many outcomes it has. */
  readonly clusterMean: number;
  readonly clusterError: number;
  readonly clusters: number;
}

export function clusteredMean(outcomes: ArrayLike<number>, clusters: ArrayLike<number>): ClusteredMean {
  if (outcomes.length !== clusters.length) throw new RangeError('there must be a cluster for every outcome');
  const of = new Map<number, { sum: number; count: number }>();
  let total = 0;
  for (let i = 0; i < outcomes.length; i++) {
    const cluster = of.get(clusters[i]) ?? { sum: 0, count: 0 };
    of.set(clusters[i], cluster);
    cluster.sum += outcomes[i];
    cluster.count++;
    total += outcomes[i];
  }
  const g = of.size;
  if (g < 2) throw new RangeError('there must be two clusters at least');
  const mean = total / outcomes.length;
  const clusterMean = [...of.values()].reduce((all, { sum, count }) => all + sum / count, 0) / g;
  let [residuals, deviations] = [0, 0];
  for (const { sum, count } of of.values()) {
    residuals += (sum - count * mean) ** 2;
    deviations += (sum / count - clusterMean) ** 2;
  }
  return {
    mean,
    error: Math.sqrt((g / (g - 1)) * residuals) / outcomes.length,
    clusterMean,
    clusterError: Math.sqrt(deviations / (g * (g - 1))),
    clusters: g,
  };
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
