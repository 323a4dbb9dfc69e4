// The parameter sets. q is SEAL's default for n = 4096 in all of them: 36 + 36 + 37 bits, of which
// the last prime serves the evaluation keys, so a ciphertext is two polynomials modulo the first
// two.

import { PaperError } from './errors.ts';

export interface Parameters {
  readonly name: string;
  readonly scheme: 'bfv' | 'bgv';
  readonly n: number;
  readonly plainModulus: number;
}

/** Steps per unit: the paper quantises features with a precision of 0.004. */
export const STEPS = 250;

const PRIMES = 3;
export const WORD_BYTES = 8;

export const PARAMETER_SETS = {
  /** The paper's: Fan-Vercauteren with t = 1 032 193. */
  bfv_n_4096_t_1032193: { name: 'bfv_n_4096_t_1032193', scheme: 'bfv', n: 4096, plainModulus: 1032193 },
  /**
   * The same t under BGV, whose products cost a tenth of Fan-Vercauteren's, and more noise:
   * encrypted by the public key, 512 of them use up the whole budget, and decryption refuses.
   * Encrypted by the secret key, whose ciphertexts are less noisy, 15 bits are left.
   */
  bgv_n_4096_t_1032193: { name: 'bgv_n_4096_t_1032193', scheme: 'bgv', n: 4096, plainModulus: 1032193 },
  /**
   * The smallest t with batching into which the scores of unit vectors fit at the paper's
   * precision: 6 bits are left of 512 products by the public key.
   */
  bgv_n_4096_t_147457: { name: 'bgv_n_4096_t_147457', scheme: 'bgv', n: 4096, plainModulus: 147457 },
  /**
   * The smallest t with batching at all. Scores of unit vectors do not fit: 250² would come out as
   * −3037. Vectors up to a norm of 0.72 are taken.
   */
  bgv_n_4096_t_65537: { name: 'bgv_n_4096_t_65537', scheme: 'bgv', n: 4096, plainModulus: 65537 },
} as const satisfies Record<string, Parameters>;

export type ParameterSetName = keyof typeof PARAMETER_SETS;

export const PUBLISHED: Parameters = PARAMETER_SETS.bfv_n_4096_t_1032193;

export function parameterSet(name: string): Parameters {
  if (Object.hasOwn(PARAMETER_SETS, name)) return PARAMETER_SETS[name as ParameterSetName];
  const names = Object.keys(PARAMETER_SETS).join(', ');
  throw new PaperError('INVALID_ARGUMENT', `there is no parameter set ${JSON.stringify(name)}; there are ${names}`);
}

/**
 * Integers modulo t stand for −(t−1)/2 … (t−1)/2: a score beyond that would come out as another.
 */
export function largestScore({ plainModulus }: Parameters): number {
  return (plainModulus - 1) / 2;
}

/** Bytes of a ciphertext of `polynomials` in memory: a word for each residue, whatever its bits. */
export function ciphertextBytes({ n }: Parameters, polynomials = 2): number {
  return polynomials * (PRIMES - 1) * n * WORD_BYTES;
}
