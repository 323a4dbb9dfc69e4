// Distractors for real embeddings, any number of them: synthetic people on a curved manifold,
// mapped linearly so that their mean and covariance match a real sample. They share no other
// property of real strangers. An experiment that uses them says so, and compares them with real
// ones.

import { curvedManifold, FACE_LIKE, type ManifoldOptions } from '@hers/paper/data/manifold';
import { cholesky, moments } from '@hers/vectors/linear-algebra';
import { identities } from '@hers/vectors/synthetic';

/** Synthetic vectors from which the mean and covariance of the manifold are computed. */
const SAMPLE = 20_000;

export interface Background {
  readonly dimension: number;
  /**
   * Unit vectors of strangers, `count` in all, at most this many at a time. Always the same ones.
   */
  chunks(count: number, each?: number): Generator<Float32Array>;
}

export function backgroundLike(sample: Float32Array, dimension: number, options: ManifoldOptions = {}): Background {
  const people = (count: number) =>
    identities(count, 1, dimension, {
      ...FACE_LIKE,
      centres: curvedManifold(dimension, options),
      seed: options.seed ?? 1,
    });
  const drawn = moments(people(Math.max(SAMPLE, 4 * dimension)).gallery().vectors, dimension);
  const wanted = moments(sample, dimension);
  const map = fromTo(factor(drawn.covariance, dimension), factor(wanted.covariance, dimension), dimension);
  return {
    dimension,
    *chunks(count, each = 8192) {
      for (const { vectors } of people(count).chunks(each))
        yield moved(vectors, dimension, drawn.mean, map, wanted.mean);
    },
  };
}

/**
 * The Cholesky factor of a covariance. A little is added to the diagonal, for samples that do not
 * span the space.
 */
function factor(covariance: Float64Array, d: number): Float64Array {
  let trace = 0;
  for (let i = 0; i < d; i++) trace += covariance[i * d + i];
  for (let i = 0; i < d; i++) covariance[i * d + i] += (1e-6 * trace) / d;
  return cholesky(covariance, d);
}

/**
 * M with M·from = to, all lower triangular: it maps vectors with covariance from·fromᵀ to vectors
 * with covariance to·toᵀ.
 */
function fromTo(from: Float64Array, to: Float64Array, d: number): Float64Array {
  const map = new Float64Array(d * d);
  for (let i = 0; i < d; i++)
    for (let j = i; j >= 0; j--) {
      let sum = to[i * d + j];
      for (let k = j + 1; k <= i; k++) sum -= map[i * d + k] * from[k * d + j];
      map[i * d + j] = sum / from[j * d + j];
    }
  return map;
}

function moved(
  vectors: Float32Array,
  d: number,
  from: Float64Array,
  map: Float64Array,
  to: Float64Array,
): Float32Array {
  const out = new Float32Array(vectors.length);
  const row = new Float64Array(d);
  const result = new Float64Array(d);
  for (let at = 0; at < vectors.length; at += d) {
    for (let c = 0; c < d; c++) row[c] = vectors[at + c] - from[c];
    let squares = 0;
    for (let i = 0; i < d; i++) {
      let sum = to[i];
      for (let k = 0; k <= i; k++) sum += map[i * d + k] * row[k];
      result[i] = sum;
      squares += sum * sum;
    }
    const scale = 1 / Math.sqrt(squares);
    for (let i = 0; i < d; i++) out[at + i] = result[i] * scale;
  }
  return out;
}
