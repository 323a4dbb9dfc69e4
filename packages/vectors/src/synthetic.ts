// Synthetic galleries: what a face or fingerprint network gives for many people, several pictures
// each, reduced to its geometry. Every identity is a random direction; every sample of it is that
// direction with noise, at unit length again.
//
// Each identity has a random stream of its own, so any part of a gallery can be made again alone,
// in any order: that is what lets big galleries come in chunks and probes be drawn later.

import { Random } from './random.ts';

export type Templates = {
  /** Unit vectors, one after the other. */
  vectors: Float32Array;
  /** The identity of each of them. */
  labels: Int32Array;
};

export type SyntheticOptions = {
  /** Length of the noise, where the identity's own direction has length 1. */
  noise?: number;
  /**
   * How much the noise differs from sample to sample: the standard deviation of its logarithm. Real
   * pictures differ in how good they are, which is what spreads the scores of genuine pairs.
   */
  spread?: number;
  /** Writes the centre of an identity, at unit length; random directions unless given. */
  centres?: Centres;
  seed?: number;
};

export type Centres = (label: number, centre: Float64Array) => void;

/**
 * Chosen so that a search in the clear is good but not perfect, and an encrypted one has something
 * to lose: with 20 000 identities of 3 samples at d = 128 and a probe of each of them, rank-1 was
 * 0.992, 0.986 and 0.979 for noise of 1.1, 1.125 and 1.15, and 1.0 up to 1. Two samples of one
 * identity then score about 1 / (1 + noise²) = 0.44, while the best of 60 000 strangers reaches
 * about 0.36. More dimensions push strangers apart, so they need more noise to be as hard.
 */
const defaultNoise = 1.125;

export type Identities = {
  count: number;
  samplesEach: number;
  dimension: number;
  /** The whole gallery, identity by identity. */
  gallery(): Templates;
  /** The same in chunks of at most so many identities; a chunk is the caller's to keep. */
  chunks(identitiesEach?: number): Generator<Templates>;
  /** One further sample of each of these identities, which the gallery does not hold. */
  probes(labels: ArrayLike<number>): Templates;
};

/**
 * Describes a gallery; nothing is generated until it is asked for.
 *
 * @example
 * const people = identities(20_000, 3, 128);
 * for (const { vectors, labels } of people.chunks()) await enrol(vectors, labels);
 * const probe = people.probes([4711]);
 */
export function identities(
  count: number,
  samplesEach: number,
  dimension: number,
  { noise = defaultNoise, spread = 0, seed = 1, ...options }: SyntheticOptions = {},
): Identities {
  const random = new Random();
  const centre = new Float64Array(dimension);
  const sample = new Float64Array(dimension);
  const level = new Float64Array(1);

  const directions: Centres = (label, target) => {
    random.seed(seed, label);
    random.fill(target, 1);
    normalise(target);
  };
  const centres = options.centres ?? directions;

  /** Writes samples of one identity over all of `target`, beginning with number `from`. */
  function write(label: number, from: number, target: Float32Array): void {
    centres(label, centre);
    for (let offset = 0, number = from; offset < target.length; offset += dimension, number++) {
      random.seed(seed, label, number + 1);
      if (spread > 0) random.fill(level, spread);
      random.fill(sample, (noise * Math.exp(level[0])) / Math.sqrt(dimension));
      for (let i = 0; i < dimension; i++) sample[i] += centre[i];
      normalise(sample);
      target.set(sample, offset);
    }
  }

  function part(first: number, last: number): Templates {
    const length = samplesEach * dimension;
    const vectors = new Float32Array((last - first) * length);
    const labels = new Int32Array((last - first) * samplesEach);
    for (let label = first; label < last; label++) {
      const at = label - first;
      write(label, 0, vectors.subarray(at * length, (at + 1) * length));
      labels.fill(label, at * samplesEach, (at + 1) * samplesEach);
    }
    return { vectors, labels };
  }

  return {
    count,
    samplesEach,
    dimension,
    gallery: () => part(0, count),
    *chunks(identitiesEach = 4096) {
      for (let first = 0; first < count; first += identitiesEach) {
        yield part(first, Math.min(first + identitiesEach, count));
      }
    },
    probes(labels) {
      const vectors = new Float32Array(labels.length * dimension);
      for (let i = 0; i < labels.length; i++) {
        if (!(labels[i] >= 0 && labels[i] < count)) throw new RangeError(`There is no identity ${labels[i]}.`);
        write(labels[i], samplesEach, vectors.subarray(i * dimension, (i + 1) * dimension));
      }
      return { vectors, labels: Int32Array.from(labels) };
    },
  };
}

export function normalise(vector: Float64Array): void {
  let squares = 0;
  for (let i = 0; i < vector.length; i++) squares += vector[i] * vector[i];
  const length = Math.sqrt(squares);
  for (let i = 0; i < vector.length; i++) vector[i] /= length;
}
