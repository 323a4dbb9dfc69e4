// An attacker who knows the population of a probe, by its mean and covariance, and the templates.

import type { Reconstruct } from '@hers/vectors/inversion';
import { cholesky, LeastSquares, moments } from '@hers/vectors/linear-algebra';

export interface Population {
  readonly mean: Float64Array;
  /** L, lower triangular, with L·Lᵀ the covariance. */
  readonly factor: Float64Array;
}

/**
 * With fewer vectors than dimensions some directions have no variance. This adds too little to
 * affect the others.
 */
const LEAST_VARIANCE = 1e-6;

export function populationOf(vectors: ArrayLike<number>, dimension: number): Population {
  const { mean, covariance } = moments(vectors, dimension);
  for (let a = 0; a < dimension; a++) covariance[a * dimension + a] += LEAST_VARIANCE;
  return { mean, factor: cholesky(covariance, dimension) };
}

/**
 * The attack by least squares (`fromTemplates`), for an attacker who knows that q is normal with
 * mean μ and covariance L·Lᵀ, and that scores have errors of the given variance. With q = μ + L·z
 * it is the same problem in z, which is standard normal.
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
