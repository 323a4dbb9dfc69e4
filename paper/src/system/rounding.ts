// From real vectors to the integers that are encrypted: to the nearest step of 0.004, ties to even.
// The other engine rounds in the same way, so the two can be compared to the last bit.

import { PaperError } from './errors.ts';
import { largestScore, type Parameters, STEPS } from './parameters.ts';

/** One vector after another in one array, or a list of vectors. */
export type PaperVectors = Float32Array | Float64Array | readonly ArrayLike<number>[];

/** Adding and subtracting it leaves a double without its fraction. */
const ROUNDER = 1.5 * 2 ** 52;

/**
 * Rounds vectors, one after the other; refuses what is not a vector, and what could make scores
 * wrap around.
 */
export function roundVectors(parameters: Parameters, vectors: PaperVectors, dimension: number): Int32Array {
  const data = flatten(vectors, dimension);
  const out = new Int32Array(data.length);
  for (let at = 0; at < data.length; at += dimension) {
    let squares = 0;
    for (let i = at; i < at + dimension; i++) {
      const step = data[i] * STEPS + ROUNDER - ROUNDER;
      out[i] = step;
      squares += step * step;
    }
    checkNorm(parameters, squares, at / dimension);
  }
  return out;
}

/** By Cauchy and Schwarz no score exceeds the largest when the squares of both vectors do not. */
function checkNorm(parameters: Parameters, squares: number, index: number): void {
  if (Number.isNaN(squares) || squares === Number.POSITIVE_INFINITY) {
    throw new PaperError('INVALID_VECTOR', `vector ${index} holds NaN or infinity, or is too long`);
  }
  const largest = largestScore(parameters);
  if (squares <= largest) return;
  const bound = Math.floor((100 * Math.sqrt(largest)) / STEPS) / 100;
  throw new PaperError(
    'INVALID_VECTOR',
    `vector ${index} is too long: with t = ${parameters.plainModulus} scores wrap around beyond norms of about ${bound}; scale the vectors, or use a set with a larger t`,
  );
}

function flatten(vectors: PaperVectors, dimension: number): ArrayLike<number> {
  if (vectors instanceof Float32Array || vectors instanceof Float64Array) {
    if (vectors.length % dimension === 0) return vectors;
    throw new PaperError(
      'INVALID_VECTOR',
      `${vectors.length} numbers are not whole vectors of ${dimension} coordinates`,
    );
  }
  const out = new Float64Array(vectors.length * dimension);
  vectors.forEach((vector, j) => {
    if (vector.length !== dimension) {
      throw new PaperError(
        'INVALID_VECTOR',
        `vector ${j} has ${vector.length} coordinates and should have ${dimension}`,
      );
    }
    out.set(vector, j * dimension);
  });
  return out;
}
