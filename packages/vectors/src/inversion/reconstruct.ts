// Score inversion: reconstructs an unknown unit vector q from its scores and from vectors on either
// side of them.

import { LeastSquares } from '../least-squares.ts';
import type { Population } from './population.ts';

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
 * The same for an attacker who knows the population: q is normal with its mean μ and covariance
 * L·Lᵀ, and scores have errors of the given variance. With q = μ + L·z it is the same problem in z,
 * which is standard normal.
 */
export function fromTemplatesAndPopulation(
  templates: ArrayLike<number>,
  { mean, factor }: Population,
  variance: number,
): Reconstruct {
  const dimension = mean.length;
  const count = templates.length / dimension;
  const expected = new Float64Array(count);
  const turned = new Float64Array(templates.length);
  for (let j = 0; j < count; j++)
    for (let a = 0; a < dimension; a++) {
      const x = templates[j * dimension + a];
      expected[j] += x * mean[a];
      for (let b = 0; b <= a; b++) turned[j * dimension + b] += x * factor[a * dimension + b];
    }
  const problem = new LeastSquares(turned, dimension, variance);
  return (scores) => {
    const z = problem.solve(expected.map((x, j) => scores[j] - x));
    return mean.map((x, a) => {
      let sum = x;
      for (let b = 0; b <= a; b++) sum += factor[a * dimension + b] * z[b];
      return sum;
    });
  };
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

/**
 * How similar a reconstruction is to the original: 1 is the same direction, 0 is what a random
 * stranger has.
 */
export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa === 0 || bb === 0 ? 0 : ab / Math.sqrt(aa * bb);
}
