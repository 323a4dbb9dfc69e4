// Encryption of blocks and queries. Every call draws fresh randomness; there is no way to supply it
// from outside this package (README.md §4, the rules).

import { type Poly, randomBytes, randomSeed } from '@hers/ring';
import { type Block, encodeBlock } from '../block.ts';
import { BLOCK_MASK, ERRORS, QUERY_MASK, RESULT_SECRET } from '../domains.ts';
import { HersError } from '../errors.ts';
import { polyWords, ringOf } from '../parameters.ts';
import { encodeQuery } from '../query.ts';
import { encodeVectors, readout, type Vectors, vectorNorm } from '../vectors.ts';
import { ID_BYTES } from '../wire.ts';
import { QuerySecret } from './decrypt.ts';
import { type CollectionKey, loadSecret } from './key.ts';

/** Where randomness comes from; tests of known answers put their own here. */
export interface Entropy {
  /** 32 bytes that are never given out again. */
  seed(): Uint8Array;
  id(): Uint8Array;
}

const platform: Entropy = { seed: randomSeed, id: () => randomBytes(ID_BYTES) };

export interface BlockOptions {
  /** The slot of the first vector; the others follow. */
  readonly first?: number;
}

/**
 * Encrypts up to n vectors into a block: b_i = −a·s_i + Δ_g·P_i + e_i under one fresh mask a.
 *
 * @example const block = encryptBlock(key, vectors); // a Float32Array, one vector after the other
 */
export function encryptBlock(key: CollectionKey, vectors: Vectors, options: BlockOptions = {}): Uint8Array {
  return encodeBlock(encryptBlockFrom(platform, key, vectors, options));
}

export function encryptBlockFrom(
  entropy: Entropy,
  key: CollectionKey,
  vectors: Vectors,
  { first = 0 }: BlockOptions = {},
): Block {
  const { plan } = key;
  const { parameters, width, galleryScale } = plan;
  const encoded = encodeVectors(plan, vectors, 'gallery');
  const { count } = encoded;
  if (!(Number.isInteger(first) && first >= 0) || count < 1 || first + count > parameters.n) {
    throw new HersError(
      'INVALID_ARGUMENT',
      `a block has slots 0 … ${parameters.n - 1}; ${count} vectors from slot ${first} on do not fit`,
    );
  }
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  const [mask, row, secret] = ring.polys;
  const [values, noise] = ring.words;
  const seed = entropy.seed();
  const errors = entropy.seed();
  const rows = new Uint32Array(width * words);
  try {
    ring.uniform(mask, { key: seed, domain: BLOCK_MASK, index: 0 });
    values.values.fill(0);
    for (let i = 0; i < width; i++) {
      values.values.set(encoded.values.subarray(i * count, (i + 1) * count), first);
      ring.error(noise, { key: errors, domain: ERRORS, index: i });
      ring.encode(row, values, noise, BigInt(encoded.lifts[i]));
      ring.ntt(row);
      loadSecret(key, i, secret);
      ring.multiplySubtract(row, mask, secret);
      rows.set(row.residues, i * words);
    }
  } finally {
    errors.fill(0);
    encoded.values.fill(0);
    ring.wipe();
  }
  return {
    parameters,
    keyId: key.keyId,
    blockId: entropy.id(),
    width,
    first,
    count,
    additions: 1,
    galleryScale,
    mask: { seed },
    rows,
  };
}

export interface EncryptedQuery {
  /** What the server gets. */
  readonly query: Uint8Array;
  /** What decrypts the responses to it, and nothing else. Wipe it when they are decrypted. */
  readonly secret: QuerySecret;
}

/**
 * Encrypts a query under a result secret of its own: b'_i = −a'_i·s + W_i and b''_k = −a''_k·s +
 * g^k·U + e''_k, with U = Σ s_i·W_i taken from the rows exactly as sent.
 */
export function encryptQuery(key: CollectionKey, vector: ArrayLike<number>): EncryptedQuery {
  return encryptQueryFrom(platform, key, vector);
}

export function encryptQueryFrom(entropy: Entropy, key: CollectionKey, vector: ArrayLike<number>): EncryptedQuery {
  const { plan, keyId } = key;
  const { parameters, width, galleryScale } = plan;
  const encoded = encodeVectors(plan, [vector], 'query');
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  const [result, sum, row, mask, secret] = ring.polys;
  const [values, noise] = ring.words;
  const queryId = entropy.id();
  const seed = entropy.seed();
  const errors = entropy.seed();
  const resultSeed = entropy.seed();
  const rows = new Uint32Array((width + parameters.digits) * words);
  const send = (index: number, plain: Poly) => {
    ring.uniform(mask, { key: seed, domain: QUERY_MASK, index });
    ring.multiplySubtract(plain, mask, result);
    rows.set(plain.residues, index * words);
  };
  try {
    ring.ternary(noise, { key: resultSeed, domain: RESULT_SECRET, index: 0 });
    ring.embed(result, noise);
    ring.ntt(result);
    sum.residues.fill(0);
    values.values.fill(0);
    for (let i = 0; i < width; i++) {
      values.values[0] = encoded.values[i];
      ring.error(noise, { key: errors, domain: ERRORS, index: i });
      ring.encode(row, values, noise, BigInt(encoded.lifts[i]));
      ring.ntt(row);
      loadSecret(key, i, secret);
      ring.multiplyAdd(sum, secret, row);
      send(i, row);
    }
    for (let k = 0; k < parameters.digits; k++) {
      ring.error(noise, { key: errors, domain: ERRORS, index: width + k });
      ring.embed(row, noise);
      ring.ntt(row);
      ring.scaleAdd(row, sum, 1n << BigInt(k * parameters.digitBits));
      send(width + k, row);
    }
    const { c0: bits0, c1: bits1 } = plan.responseBits;
    const query = encodeQuery({ parameters, keyId, queryId, width, galleryScale, bits0, bits1, seed, rows });
    const secretRow = result.residues.slice(0, parameters.n);
    return {
      query,
      secret: new QuerySecret(plan, keyId, queryId, readout(plan, encoded, vectorNorm(vector)), secretRow),
    };
  } finally {
    errors.fill(0);
    resultSeed.fill(0);
    encoded.values.fill(0);
    ring.wipe();
  }
}
