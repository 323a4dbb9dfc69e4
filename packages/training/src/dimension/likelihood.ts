// Intrinsic dimension by maximum likelihood (Levina and Bickel, NIPS 2004): neighbours of a point
// as a Poisson process give the inverse of the mean of log(T_k/T_j), j < k, where T_j is the
// distance of the j-th. The inverses are averaged over the points, as MacKay and Ghahramani showed
// to be right (comment of 2005): averaging the estimates themselves is biased upwards. The sum of a
// point is Gamma-distributed with mean (k − 1)/m.

import { CompressError } from '@hers/compress';
import type { Neighbours } from './nearest.ts';

export function likelihoodDimension({ count, k: held, distance }: Neighbours, k: number = held): number {
  if (!(k >= 3 && k <= held))
    throw new CompressError('INVALID_ARGUMENT', `k is from 3 to the ${held} neighbours there are`);
  let inverses = 0;
  let points = 0;
  for (let i = 0; i < count; i++) {
    const farthest = distance[i * held + k - 1];
    let sum = 0;
    for (let j = 0; j < k - 1; j++) sum += Math.log(farthest / distance[i * held + j]);
    // Not finite: a copy of the point is among its neighbours, and says nothing about its
    // surroundings.
    if (!Number.isFinite(sum)) continue;
    inverses += sum / (k - 1);
    points++;
  }
  if (points === 0 || inverses === 0)
    throw new CompressError('INVALID_ARGUMENT', 'no point has neighbours at different distances');
  return points / inverses;
}
