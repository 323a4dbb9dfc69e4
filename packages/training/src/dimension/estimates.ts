// Estimates of intrinsic dimension from the nearest neighbours of points, and the dimensions that
// they recommend.

import { invalid } from '../methods/method.ts';
import type { Neighbours } from './nearest.ts';

/** The largest ratios, where the density is not constant, are left out, as in the article. */
const KEPT = 0.9;

/**
 * Intrinsic dimension from two neighbours (Facco, d'Errico, Rodriguez and Laio, Scientific Reports
 * 7:12140, 2017): where the density is constant over the second neighbour's distance, the ratio μ =
 * r₂/r₁ has the distribution F(μ) = 1 − μ^(−m), so −log(1 − F) against log μ is a line through the
 * origin with slope m.
 */
export function twoNearestDimension({ count, k, distance }: Neighbours): number {
  if (k < 2) throw invalid('two neighbours of each point are needed');
  const ratios: number[] = [];
  for (let i = 0; i < count; i++) {
    const [first, second] = [distance[i * k], distance[i * k + 1]];
    // A copy of a point says nothing about its surroundings.
    if (first > 0) ratios.push(Math.log(second / first));
  }
  ratios.sort((a, b) => a - b);
  const kept = Math.floor(ratios.length * KEPT);
  let [xx, xy] = [0, 0];
  for (let i = 0; i < kept; i++) {
    xx += ratios[i] ** 2;
    xy -= ratios[i] * Math.log(1 - (i + 1) / ratios.length);
  }
  if (kept < 2 || xx === 0) throw invalid('too few points differ from their nearest neighbours');
  return xy / xx;
}

/**
 * Intrinsic dimension by maximum likelihood (Levina and Bickel, NIPS 2004): neighbours of a point
 * as a Poisson process give the inverse of the mean of log(T_k/T_j), j < k, where T_j is the
 * distance of the j-th. The inverses are averaged over the points, as MacKay and Ghahramani showed
 * to be right (comment of 2005): averaging the estimates themselves is biased upwards. The sum of a
 * point is Gamma-distributed with mean (k − 1)/m.
 */
export function likelihoodDimension({ count, k: held, distance }: Neighbours, k: number = held): number {
  if (!(k >= 3 && k <= held)) throw invalid(`k is from 3 to the ${held} neighbours there are`);
  let inverses = 0;
  let points = 0;
  for (let i = 0; i < count; i++) {
    const farthest = distance[i * held + k - 1];
    let sum = 0;
    for (let j = 0; j < k - 1; j++) sum += Math.log(farthest / distance[i * held + j]);
    // Not finite: a copy of the point is among its neighbours, and says nothing of them.
    if (!Number.isFinite(sum)) continue;
    inverses += sum / (k - 1);
    points++;
  }
  if (points === 0 || inverses === 0) throw invalid('no point has neighbours at different distances');
  return points / inverses;
}

/** Shorter than this share of what there is, a compressor is worth its error. */
const WORTHWHILE = 0.75;
const MULTIPLES = [1, 2, 4];

/**
 * Returns the dimensions to try, least first: the largest estimate, rounded up to a multiple of 8,
 * its double, and twice that. Empty where that saves little. An estimate is what a perfect map
 * would need. Linear maps and small networks need two to four times as much before they lose little
 * (paper/results/faces.md).
 */
export function recommendedDimensions(estimates: readonly number[], dimension: number): number[] {
  if (estimates.length === 0) return [];
  const least = 8 * Math.ceil(Math.max(...estimates) / 8);
  return MULTIPLES.map((multiple) => multiple * least).filter((each) => each <= WORTHWHILE * dimension);
}
