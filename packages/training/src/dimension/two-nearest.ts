// Intrinsic dimension from two neighbours (Facco, d'Errico, Rodriguez and Laio, Scientific Reports
// 7:12140, 2017): where the density is constant over the second neighbour's distance, the ratio μ =
// r₂/r₁ has the distribution F(μ) = 1 − μ^(−m), so −log(1 − F) against log μ is a line through the
// origin with slope m.

import { CompressError } from '@hers/compress';
import type { Neighbours } from './nearest.ts';

/**
 * The largest ratios are left out, as in the article: they come from points where the density is
 * not constant.
 */
const KEPT = 0.9;

export function twoNearestDimension({ count, k, distance }: Neighbours): number {
  if (k < 2) throw new CompressError('INVALID_ARGUMENT', 'two neighbours of each point are needed');
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
  if (kept < 2 || xx === 0)
    throw new CompressError('INVALID_ARGUMENT', 'too few points differ from their nearest neighbours');
  return xy / xx;
}
