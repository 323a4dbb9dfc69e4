// Pairs of ciphertexts for the judge of unlinkability: those that the scheme makes, and those that
// a scheme with a bug would make.

import { decodeBlock, type Profile, plan, roundVectors } from '@hers/scheme';
import { encryptBlock } from '@hers/scheme/secret';
import { Random } from '@hers/vectors/random';
import type { Part } from '../data/datasets.ts';
import { ciphertextCoefficients, newKey } from './encrypted-search.ts';
import type { Pair } from './unlinkability.ts';

/** Coordinates of a template that are encrypted: a judge has the same to say about all of them. */
export const LINKED_DIMENSION = 8;
/** Deviation of the scheme's errors (centred binomial, η = 21). */
const ERROR = Math.sqrt(21 / 2);

export interface Pairs {
  /** Coefficients of a ciphertext that the judge sees. */
  readonly coefficients: number;
  /** Each under a key of its own. */
  readonly twoKeys: Pair;
  /** Both under one key, another one for every pair. */
  readonly oneKey: Pair;
  /**
   * One mask used twice, which the scheme never does, in one of `everyOf` coefficients; the others
   * have a mask of their own. Noise is fresh and of the scheme's size.
   */
  reusedMask(everyOf: number): Pair;
  /**
   * Ciphertexts of the same templates share one of `everyOf` coefficients, up to noise of an eighth
   * of the modulus; others share nothing.
   */
  faintCopy(everyOf: number): Pair;
}

export function ciphertextPairs(from: Part, profile: Profile): Pairs {
  const dimension = Math.min(LINKED_DIMENSION, from.dimension);
  const planned = plan({ dimension, profile });
  const { n, primes, wideBits } = planned.parameters;
  const modulus = primes.reduce((product, prime) => product * prime, 2 ** wideBits);
  const lift = (profile === 'exact' ? planned.galleryScale : 1) / modulus;
  const count = from.labels.length;
  const random = new Random();
  random.seed(n, count);
  let turn = 0;

  /** Blocks full of templates, each time beginning with another one. */
  const templates = () => {
    turn += Math.max(1, Math.floor(0.382 * count));
    const out = new Float32Array(n * dimension);
    for (let j = 0; j < n; j++) {
      const at = ((j * 7 + turn) % count) * from.dimension;
      out.set(from.vectors.subarray(at, at + dimension), j * dimension);
    }
    return out;
  };
  const encrypted = (...blocks: Float32Array[]) => {
    const key = newKey(dimension, profile);
    const coefficients = blocks.map((vectors) => ciphertextCoefficients(decodeBlock(encryptBlock(key, vectors))));
    key.wipe();
    return coefficients;
  };
  const pairOf = (same: boolean) => {
    const vectors = templates();
    return [vectors, same ? vectors : templates()] as const;
  };
  const normal = new Float64Array(n * dimension);
  const masked = (vectors: Float32Array, mask: (i: number) => number) => {
    random.fill(normal, ERROR);
    return Float64Array.from(roundVectors(planned, vectors), (x, i) =>
      aroundCircle(mask(i) + x * lift + Math.round(normal[i]) / modulus),
    );
  };

  return {
    coefficients: n * dimension,
    twoKeys: (same) => {
      const [v, w] = pairOf(same);
      return { a: encrypted(v)[0], b: encrypted(w)[0] };
    },
    oneKey: (same) => {
      const [a, b] = encrypted(...pairOf(same));
      return { a, b };
    },
    reusedMask: (everyOf) => (same) => {
      const [v, w] = pairOf(same);
      // Real ciphertexts serve as masks: they cannot be told from uniform ones.
      const [first, second] = encrypted(templates(), templates());
      return { a: masked(v, (i) => first[i]), b: masked(w, (i) => (i % everyOf === 0 ? first : second)[i]) };
    },
    faintCopy: (everyOf) => (same) => {
      const [v, w] = pairOf(same);
      const [a, b] = encrypted(v, w);
      random.fill(normal, 1 / 8);
      for (let i = 0; same && i < b.length; i += everyOf) b[i] = aroundCircle(a[i] + normal[i]);
      return { a, b };
    },
  };
}

/** Between −½ and ½. */
const aroundCircle = (x: number) => x - Math.round(x);
