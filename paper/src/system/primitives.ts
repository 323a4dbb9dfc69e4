// Homomorphic evaluation: Algorithms 4 and 5 of the paper's Appendix A, and the rotation that
// Boddeti's encoding needs, through SEAL, counted. Key generation, encryption and decryption
// (Algorithms 1 to 3) are in keys.ts, because they take keys that a server does not have.

import type { Ciphertext } from 'node-seal';
import { type Counts, noCounts } from './complexity.ts';
import type { Context } from './context.ts';
import type { EvaluationKeys } from './keys.ts';

export class Primitives {
  readonly counts: Counts = noCounts();
  readonly #context: Context;
  readonly #keys: EvaluationKeys;

  constructor(context: Context, keys: EvaluationKeys) {
    this.#context = context;
    this.#keys = keys;
  }

  /** CipherAdd (Algorithm 4): sum ← sum + other. */
  add(sum: Ciphertext, other: Ciphertext): void {
    this.#context.evaluator.addInplace(sum, other);
    this.counts.additions++;
  }

  /** The first three lines of CipherMultiply (Algorithm 5): a product of three polynomials. */
  tensor(left: Ciphertext, right: Ciphertext, product: Ciphertext): void {
    this.#context.evaluator.multiply(left, right, product);
    this.counts.multiplications++;
  }

  /** The rest of Algorithm 5: back to two polynomials, by the evaluation key. */
  relinearise(ciphertext: Ciphertext): void {
    this.#context.evaluator.relinearizeInplace(ciphertext, this.#keys.relinearisation);
    this.counts.relinearisations++;
  }

  /** CipherMultiply (Algorithm 5), whole. */
  multiply(left: Ciphertext, right: Ciphertext, product: Ciphertext): void {
    this.tensor(left, right, product);
    this.relinearise(product);
  }

  /**
   * Moves every slot `steps` to the left. SEAL has two rows of n/2 slots; n/2 steps exchange the
   * rows.
   */
  rotate(ciphertext: Ciphertext, steps: number, rotated: Ciphertext): void {
    const { evaluator, parameters } = this.#context;
    if (steps === parameters.n / 2) evaluator.rotateColumns(ciphertext, this.#keys.rotation, rotated);
    else evaluator.rotateRows(ciphertext, steps, this.#keys.rotation, rotated);
    this.counts.rotations++;
  }

  /**
   * Drops one of the two primes of a ciphertext that nothing will be computed with any more: half
   * the bytes, and hardly any of the noise budget that is left.
   */
  switchModulus(ciphertext: Ciphertext): void {
    this.#context.evaluator.cipherModSwitchToNextInplace(ciphertext);
  }

  /** Encrypt(0; θ_pk), which the server may do by itself (Algorithms 6 and 7). */
  encryptZero(ciphertext: Ciphertext): void {
    this.#keys.encryptZero(ciphertext);
  }
}
