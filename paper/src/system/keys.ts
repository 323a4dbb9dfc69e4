// Algorithms 1 to 3 of the paper's Appendix A: keys, encryption, decryption. The client has all of
// it (ClientKeys); the server is sent the public, the relinearisation and the rotation key
// (EvaluationKeys), none of which decrypts anything.

import type { Ciphertext, Decryptor, Encryptor, GaloisKeys, Plaintext, RelinKeys } from 'node-seal';
import { decodeBundle, encodeBundle } from './bundle.ts';
import type { Context } from './context.ts';
import { PaperError } from './errors.ts';
import type { Scope } from './heap.ts';

/**
 * By the public key, as published; or by the secret key, so that half of a ciphertext is a seed and
 * need not be sent.
 */
export type Encryption = 'public' | 'seeded';

export interface ClientKeyOptions {
  /**
   * Rotations that the server shall be able to do; n/2 stands for the exchange of the two rows of
   * slots.
   */
  readonly rotations?: readonly number[];
  readonly encryption?: Encryption;
}

export class ClientKeys implements Disposable {
  readonly context: Context;
  /** What the server is sent. */
  readonly evaluationKeys: Uint8Array;
  readonly #scope: Scope;
  readonly #encryption: Encryption;
  readonly #encryptor: Encryptor;
  readonly #decryptor: Decryptor;
  readonly #plaintext: Plaintext;
  readonly #ciphertext: Ciphertext;

  /** GetKeys (Algorithm 1). */
  constructor(context: Context, { rotations = [], encryption = 'public' }: ClientKeyOptions = {}) {
    if (encryption !== 'public' && encryption !== 'seeded') {
      throw new PaperError('INVALID_ARGUMENT', 'encryption must be public or seeded');
    }
    const { seal, sealContext } = context;
    this.context = context;
    this.#encryption = encryption;
    using made = context.heap.scope();
    const generator = made.own(new seal.KeyGenerator(sealContext));
    const publicBytes = context.save(made.own(generator.createPublicKeySerializable()));
    const relinBytes = context.save(made.own(generator.createRelinKeysSerializable()));
    const parts = [publicBytes, relinBytes];
    if (rotations.length > 0) {
      // SEAL calls the exchange of the rows a rotation by no step.
      const steps = Int32Array.from(rotations, (step) => (step === context.parameters.n / 2 ? 0 : step));
      parts.push(context.save(made.own(generator.createGaloisKeysSerializableWithSteps(steps))));
    }
    this.evaluationKeys = encodeBundle({ kind: 'keys', encoding: 0, dimension: 0, first: 0, count: 0, parts });
    this.#scope = context.heap.scope();
    const secretKey = this.#scope.own(generator.secretKey());
    const publicKey = context.load(made.own(new seal.PublicKey()), publicBytes);
    this.#encryptor = this.#scope.own(new seal.Encryptor(sealContext, publicKey, secretKey));
    this.#decryptor = this.#scope.own(new seal.Decryptor(sealContext, secretKey));
    this.#plaintext = this.#scope.plaintext();
    this.#ciphertext = this.#scope.ciphertext();
  }

  /** Encrypt (Algorithm 2): one integer in every slot. */
  encrypt(slots: BigInt64Array): Uint8Array {
    this.context.encoder.encode(slots, this.#plaintext);
    if (this.#encryption === 'public') {
      this.#encryptor.encrypt(this.#plaintext, this.#ciphertext);
      return this.context.save(this.#ciphertext);
    }
    using scope = this.context.heap.scope();
    return this.context.save(scope.own(this.#encryptor.encryptSymmetricSerializable(this.#plaintext)));
  }

  /**
   * Decrypt (Algorithm 3). Throws NOISE_EXHAUSTED rather than return what noise has made of the
   * message. The budget is −log2 of twice the largest noise, relative to what would be wrong; noise
   * that has wrapped around is spread over the whole range, and shows as no budget at all.
   */
  decrypt(bytes: Uint8Array): BigInt64Array {
    this.context.load(this.#ciphertext, bytes);
    if (this.#decryptor.invariantNoiseBudget(this.#ciphertext) < 1) {
      const { name } = this.context.parameters;
      throw new PaperError(
        'NOISE_EXHAUSTED',
        `the noise of a ciphertext has used up all of its budget under ${name}, so it cannot be decrypted; use fewer dimensions or additions, or a set with a smaller t`,
      );
    }
    this.#decryptor.decrypt(this.#ciphertext, this.#plaintext);
    return this.context.encoder.decodeBigInt64(this.#plaintext);
  }

  /**
   * Bits of noise that the ciphertext could still take. Nothing computed from it may reach the
   * server.
   */
  noiseBudget(bytes: Uint8Array): number {
    return this.#decryptor.invariantNoiseBudget(this.context.load(this.#ciphertext, bytes));
  }

  [Symbol.dispose](): void {
    this.#scope[Symbol.dispose]();
  }
}

export class EvaluationKeys implements Disposable {
  readonly relinearisation: RelinKeys;
  readonly #rotation: GaloisKeys | undefined;
  readonly #encryptor: Encryptor;
  readonly #scope: Scope;

  constructor(context: Context, bytes: Uint8Array) {
    const { seal, sealContext, heap } = context;
    const { parts } = decodeBundle(bytes, 'keys');
    if (parts.length < 2 || parts.length > 3) throw new PaperError('MALFORMED', 'keys have two or three parts');
    this.#scope = heap.scope();
    try {
      using read = heap.scope();
      const publicKey = context.load(read.own(new seal.PublicKey()), parts[0]);
      this.relinearisation = context.load(this.#scope.own(new seal.RelinKeys()), parts[1]);
      this.#rotation = parts[2] && context.load(this.#scope.own(new seal.GaloisKeys()), parts[2]);
      this.#encryptor = this.#scope.own(new seal.Encryptor(sealContext, publicKey));
    } catch (error) {
      this.#scope[Symbol.dispose]();
      throw error;
    }
  }

  get rotation(): GaloisKeys {
    if (this.#rotation) return this.#rotation;
    throw new PaperError('KEY_MISMATCH', "the client's keys do not allow rotations; generate them for this encoding");
  }

  encryptZero(ciphertext: Ciphertext): void {
    this.#encryptor.encryptZero(ciphertext);
  }

  [Symbol.dispose](): void {
    this.#scope[Symbol.dispose]();
  }
}
