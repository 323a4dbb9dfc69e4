// Vectors derived from a seed and a number: every process makes those it needs.

import { Random } from '@hers/vectors/random';

export const DIMENSION = 64;

/** How far a score may be from the true one: many times the noise. */
export const TOLERANCE = 0.02;

const gaussian = new Random();
const buffer = new Float64Array(DIMENSION);

export function vectorOf(seed: number, i: number): Float32Array {
  gaussian.seed(seed, i);
  gaussian.fill(buffer, 1);
  const length = Math.sqrt(buffer.reduce((sum, x) => sum + x * x, 0));
  return Float32Array.from(buffer, (x) => x / length);
}

export function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}
