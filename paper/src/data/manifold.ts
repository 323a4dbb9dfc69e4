// Identities on a curved manifold of chosen dimension, for galleries of any size with the geometry
// of real embeddings.
//
// A point z of k normally distributed coordinates becomes the unit vector with coordinates
// cos(⟨w_i, z⟩ + b_i), w_i normal with variance s², b_i uniform: random Fourier features (Rahimi
// and Recht, NIPS 2007), whose inner products approach the Gaussian kernel exp(−s²·‖z − z'‖²/2). So
// neighbours on the manifold are look-alikes, strangers are nearly orthogonal, and their mean
// similarity is known beforehand: (1 + 2·s²)^(−k/2).

import { Random } from '@hers/vectors/random';
import { type Centres, normalise, type SyntheticOptions } from '@hers/vectors/synthetic';

export interface ManifoldOptions {
  /** Dimensions of the manifold. */
  readonly intrinsic?: number;
  /** Mean similarity of two identities: how far the manifold extends around the sphere. */
  readonly similarity?: number;
  readonly seed?: number;
}

/**
 * Scores as a face network gives them: on the half of LFW that experiments fit on, genuine pairs
 * score 0.70 ± 0.10 and impostor pairs 0.01 ± 0.10, and two samples whose noise has length 0.65
 * score about 1 / (1 + 0.65²).
 */
export const FACE_LIKE: {
  readonly noise: 0.65;
  readonly spread: 0.3;
  readonly similarity: 0.012;
  readonly intrinsic: 16;
} = {
  noise: 0.65,
  spread: 0.3,
  similarity: 0.012,
  intrinsic: 16,
} as const satisfies ManifoldOptions & SyntheticOptions;

/**
 * Uniform in [0, 2π) would do. Four standard deviations of a normal angle wrap around often enough
 * for that.
 */
const PHASE_DEVIATION = 4 * Math.PI;

export function curvedManifold(
  dimension: number,
  { intrinsic = FACE_LIKE.intrinsic, similarity = FACE_LIKE.similarity, seed = 1 }: ManifoldOptions = {},
): Centres {
  if (!(intrinsic >= 1 && intrinsic < dimension))
    throw new RangeError(`a manifold in ${dimension} dimensions has from 1 to ${dimension - 1} of its own`);
  if (!(similarity > 0 && similarity < 1)) throw new RangeError('the similarity of strangers is between 0 and 1');
  const random = new Random();
  const frequencies = new Float64Array(dimension * intrinsic);
  random.seed(seed, -1);
  random.fill(frequencies, Math.sqrt((similarity ** (-2 / intrinsic) - 1) / 2));
  const phases = new Float64Array(dimension);
  random.fill(phases, PHASE_DEVIATION);
  const point = new Float64Array(intrinsic);
  return (label, centre) => {
    random.seed(seed, label);
    random.fill(point, 1);
    for (let i = 0, at = 0; i < dimension; i++) {
      let angle = phases[i];
      for (let c = 0; c < intrinsic; c++, at++) angle += frequencies[at] * point[c];
      centre[i] = Math.cos(angle);
    }
    normalise(centre);
  };
}
