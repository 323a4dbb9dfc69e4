// The baseline: the same work in Microsoft SEAL (node-seal, WebAssembly, one thread) with the
// parameters of the published system. Every choice favours SEAL: the faster key, reused buffers,
// vectors already in the array type it wants.
//
// All objects are made once, so repeated measurements do not grow SEAL's heap.

import { Context, PUBLISHED } from '@hers/paper';
import type { Ciphertext } from 'node-seal';
import { type Effort, minimum } from '../lab/timing.ts';

const { n, plainModulus } = PUBLISHED;

// The published system rounds unit vectors to 1/250, so scores stay below 250², well inside half
// the plain modulus.
const scale = 250;

export type SealBaseline = {
  parameters: { n: number; plainModulus: number; coefficientModulusBits: number[]; security: number };
  /** Milliseconds of one NTT: one polynomial modulo one prime. */
  ntt(effort?: Effort): number;
  /**
   * Milliseconds to encrypt n templates of a dimension, and the kind of encryption that was faster.
   */
  blockEncryption(dimension: number, effort?: Effort): BlockEncryption;
  /** Milliseconds to get the n scores out of a response. */
  responseDecryption(dimension: number, effort?: Effort): ResponseDecryption;
  /** Bytes of one ciphertext, serialised without compression (residues do not compress). */
  sizes(): SealSizes;
  close(): void;
};

export type BlockEncryption = {
  encryption: 'symmetric' | 'public-key';
  ms: number;
  symmetricMs: number;
  publicKeyMs: number;
};

export type ResponseDecryption = {
  ms: number;
  bytes: number;
  /** The same after the server dropped one of the two primes: smaller, and faster to decrypt. */
  switchedMs: number;
  switchedBytes: number;
};

export type SealSizes = {
  /** A fresh ciphertext: two polynomials. */
  ciphertext: number;
  /** A fresh symmetric one as it can be sent: one polynomial and the seed of the other. */
  seededCiphertext: number;
};

/**
 * Opens the baseline: makes the keys, which takes a moment.
 *
 * @example
 * const seal = await openSeal();
 * try { console.log(seal.ntt()); } finally { seal.close(); }
 */
export async function openSeal(): Promise<SealBaseline> {
  const context = await Context.open();
  const { seal, sealContext, encoder, evaluator } = context;
  const scope = context.heap.scope();
  const keys = scope.own(new seal.KeyGenerator(sealContext));
  const secretKey = scope.own(keys.secretKey());
  const relinKeys = scope.own(keys.createRelinKeys());
  const encryptor = scope.own(new seal.Encryptor(sealContext, scope.own(keys.createPublicKey()), secretKey));
  const decryptor = scope.own(new seal.Decryptor(sealContext, secretKey));

  const plain = scope.plaintext();
  const [left, right, result, sum, switched] = Array.from({ length: 5 }, () => scope.ciphertext());

  const bytesOf = (ciphertext: Parameters<Context['save']>[0]) => context.save(ciphertext).length;

  function encryptInto(row: BigInt64Array, ciphertext: Ciphertext): void {
    encoder.encode(row, plain);
    encryptor.encryptSymmetric(plain, ciphertext);
  }

  return {
    parameters: { n, plainModulus, coefficientModulusBits: [...context.modulusBits], security: 128 },

    ntt(effort) {
      encryptInto(blockRow(0, 1), left);
      // A fresh ciphertext is at the first data level: SEAL keeps the last prime for its evaluation
      // keys, so two of the three are left. One call therefore does 2 polynomials × 2 primes = 4
      // transforms of n. It also copies the ciphertext, which is less than a hundredth of its time.
      const transforms = left.size() * left.coeffModulusSize();
      return minimum(() => evaluator.cipherTransformToNtt(left, result), effort).min / transforms;
    },

    blockEncryption(dimension, effort) {
      const rows = Array.from({ length: dimension }, (_, i) => blockRow(i, dimension));
      const publicKeyMs = minimum(() => {
        for (const row of rows) {
          encoder.encode(row, plain);
          encryptor.encrypt(plain, left);
        }
      }, effort).min;
      const symmetricMs = minimum(() => {
        for (const row of rows) encryptInto(row, left);
      }, effort).min;
      const encryption = symmetricMs < publicKeyMs ? 'symmetric' : 'public-key';
      return { encryption, ms: Math.min(symmetricMs, publicKeyMs), symmetricMs, publicKeyMs };
    },

    responseDecryption(dimension, effort) {
      // An encrypted search as published, for a template that is in the block: every dimension of
      // the block times the query's coordinate in all slots, summed.
      const probe = 7;
      const expected = new BigInt64Array(n);
      for (let i = 0; i < dimension; i++) {
        const row = blockRow(i, dimension);
        const coordinate = row[probe];
        encryptInto(row, left);
        encryptInto(new BigInt64Array(n).fill(coordinate), right);
        evaluator.multiply(left, right, i === 0 ? sum : result);
        if (i > 0) evaluator.addInplace(sum, result);
        for (let j = 0; j < n; j++) expected[j] += row[j] * coordinate;
      }
      evaluator.relinearizeInplace(sum, relinKeys);
      evaluator.cipherModSwitchToNext(sum, switched);

      function decrypt(response: Ciphertext): BigInt64Array {
        decryptor.decrypt(response, plain);
        return encoder.decodeBigInt64(plain) as BigInt64Array;
      }
      for (const response of [sum, switched]) {
        const scores = decrypt(response);
        if (!expected.every((score, j) => score === scores[j])) {
          throw new Error('SEAL decrypted wrong scores, so its time means nothing.');
        }
      }
      return {
        ms: minimum(() => decrypt(sum), effort).min,
        bytes: bytesOf(sum),
        switchedMs: minimum(() => decrypt(switched), effort).min,
        switchedBytes: bytesOf(switched),
      };
    },

    sizes() {
      encryptInto(blockRow(0, 1), left);
      const seeded = encryptor.encryptSymmetricSerializable(plain);
      const sizes = { ciphertext: bytesOf(left), seededCiphertext: bytesOf(seeded) };
      seeded.delete();
      return sizes;
    },

    close() {
      scope[Symbol.dispose]();
      context[Symbol.dispose]();
    },
  };
}

/**
 * Dimension `i` of n made-up templates of about unit norm: what they are does not matter for the
 * time.
 */
function blockRow(i: number, dimension: number): BigInt64Array {
  const amplitude = scale * Math.sqrt(2 / dimension);
  return BigInt64Array.from({ length: n }, (_, j) => BigInt(Math.round(amplitude * Math.sin(j + 0.7 * i))));
}
