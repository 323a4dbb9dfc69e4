// The paper's Table 2, as formulas: homomorphic operations of one search, and ciphertexts of the
// gallery.

import type { EncodingName } from './encoding.ts';
import { ciphertextBytes, type Parameters } from './parameters.ts';

export interface Complexity extends Counts {
  /** Ciphertexts of the gallery: the last column, with n coefficients in each polynomial. */
  readonly ciphertexts: number;
  /** The same in bytes of memory. */
  readonly bytes: number;
}

/**
 * `m` templates of dimension `d`. Relinearisations are those of the published system: one for each
 * multiplication.
 */
export function complexity(encoding: EncodingName, m: number, d: number, parameters: Parameters): Complexity {
  const blocks = Math.ceil(m / parameters.n);
  // Where d is not a power of two, the sum is gathered from the next one.
  const log2d = Math.ceil(Math.log2(d));
  const row = {
    naive: { multiplications: m * d, additions: m * (d - 1), rotations: 0, ciphertexts: m * d },
    boddeti: { multiplications: m, additions: m * log2d, rotations: m * log2d, ciphertexts: m },
    hers: { multiplications: blocks * d, additions: blocks * (d - 1), rotations: 0, ciphertexts: blocks * d },
  }[encoding];
  return { ...row, relinearisations: row.multiplications, bytes: row.ciphertexts * ciphertextBytes(parameters) };
}

export interface Counts {
  multiplications: number;
  additions: number;
  rotations: number;
  relinearisations: number;
}

export function noCounts(): Counts {
  return { multiplications: 0, additions: 0, rotations: 0, relinearisations: 0 };
}

/** What has been sent and stored, in bytes. */
export interface Traffic {
  keys: number;
  /** Enrolments received. */
  uploads: number;
  queries: number;
  responses: number;
}
