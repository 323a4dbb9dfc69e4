// What the noise of actual vectors should be: the formulas of noise.ts with their norms put in.

import { noiseTerms } from './noise.ts';
import { wideFactor } from './parameters.ts';
import type { Plan } from './plan.ts';
import { encodeVectors, type Vectors } from './vectors.ts';

/**
 * The standard deviation of the scores of one block against one query, in the plan's units
 * (`compact`: a score of 1 at the norm bounds, `exact`: an integer step). A half-empty block has
 * less of it than the plan, which assumes full ones.
 */
export function predictedNoise(plan: Plan, gallery: Vectors, query: ArrayLike<number>): number {
  const { parameters, width, responseBits, profile } = plan;
  const gallerySquares = encodeVectors(plan, gallery, 'gallery').squares.reduce((sum, x) => sum + x, 0);
  const querySquares = encodeVectors(plan, [query], 'query').squares[0];
  const rounding = profile === 'exact' ? 0 : querySquares / 12 / wideFactor(parameters) ** 2;
  const { c0: bits0, c1: bits1 } = responseBits;
  const terms = noiseTerms({ parameters, width, gallerySquares, querySquares, rounding, bits0, bits1 });
  return Math.sqrt(terms.total) / plan.unit;
}
