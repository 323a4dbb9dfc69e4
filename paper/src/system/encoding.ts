// An encoding says which number goes into which slot of which ciphertext, and how a score is
// computed from that. All three are written to this interface, and client and server know nothing
// else of them.
//
// A *block* is what shares ciphertexts: n templates under HERS, one under the others.

import type { Ciphertext } from 'node-seal';
import type { Primitives } from './primitives.ts';

export type EncodingName = 'naive' | 'boddeti' | 'hers';

/** Products are brought back to two polynomials one by one, as published; or their sum is, once. */
export type Relinearisation = 'each' | 'once';

export interface Scratch {
  /** Where the encrypted scores go. */
  readonly sum: Ciphertext;
  readonly product: Ciphertext;
}

export interface ScoreOptions {
  readonly dimension: number;
  /**
   * `once` is not published: the sum of products of three polynomials is one of three, too, so one
   * relinearisation does for all.
   */
  readonly relinearise: Relinearisation;
  /**
   * Whether a sum begins with an encryption of zero, as Algorithm 7 has it. Table 2 counts d − 1
   * additions, which is to begin with the first product; the scores are the same, and the noise is
   * a little less.
   */
  readonly zeroStart: boolean;
}

export interface Encoding {
  readonly name: EncodingName;
  /** On the wire. */
  readonly id: number;
  /** Templates of a block. */
  capacity(n: number): number;
  /** Ciphertexts of a block, and of a query. */
  ciphertexts(dimension: number): number;
  /** Throws when such vectors cannot be encoded. */
  check(dimension: number, n: number): void;
  /** Rotations that scoring needs. */
  rotations(dimension: number): number[];
  /**
   * Writes ciphertext i of a block: `templates` are rounded vectors, one after the other, the first
   * of which belongs into slot `slot`. All other slots are zero.
   */
  writeBlock(slots: BigInt64Array, templates: Int32Array, dimension: number, i: number, slot: number): void;
  /** Writes ciphertext i of a query. All slots were zero. */
  writeQuery(slots: BigInt64Array, query: Int32Array, i: number): void;
  /** Leaves the scores of a block in `scratch.sum`, that of its template j in slot j. */
  score(
    primitives: Primitives,
    query: readonly Ciphertext[],
    block: readonly Ciphertext[],
    scratch: Scratch,
    options: ScoreOptions,
  ): void;
}
