// Encryption of blocks and queries. Every call draws fresh randomness; there is no way to supply it
// from outside this package (README.md §4, the rules).

import { randomBytes, randomSeed } from '@hers/ring';
import { type Block, blockRoom, encodeBlock, maskSeed } from '../block.ts';
import { HersError } from '../errors.ts';
import { BLOCK_MASK, BLOCK_MASK_BITS, ERRORS, QUERY_MASK, QUERY_MASK_BITS, RESULT_SECRET } from '../layout.ts';
import { refuseUnknown } from '../options.ts';
import { masksOf, ringOf } from '../parameters.ts';
import { encodeQuery, queryRoom } from '../query.ts';
import { encodeVectors, readout, type Vectors, vectorNorm } from '../vectors.ts';
import { ID_BYTES, type Room } from '../wire.ts';
import { sumUp } from './canaries.ts';
import { QuerySecret } from './decrypt.ts';
import { type CollectionKey, querySeed, secretsOf } from './key.ts';

/** Where randomness comes from; tests of known answers put their own here. */
export interface Entropy {
  /** 32 bytes that are never given out again. */
  seed(): Uint8Array;
  id(): Uint8Array;
}

export const platform: Entropy = { seed: randomSeed, id: () => randomBytes(ID_BYTES) };

export interface BlockOptions {
  /** The slot of the first vector; the others follow. */
  readonly first?: number;
  /**
   * 16 random bytes, where there are canaries among the vectors, which follow from them
   * (canaries.ts); drawn if none are given.
   */
  readonly blockId?: Uint8Array;
}

/**
 * Encrypts up to n vectors into a block: b_i = −a·s_i + Δ_g·P_i + e_i under one fresh mask a,
 * modulo Q·2^wideBits and rounded to Q.
 *
 * @example const block = encryptBlock(key, vectors); // a Float32Array, one vector after the other
 */
export function encryptBlock(key: CollectionKey, vectors: Vectors, options: BlockOptions = {}): Uint8Array {
  refuseUnknown(options, { first: true, blockId: true }, 'a block');
  const room = blockRoom(key.plan.parameters, key.plan.width);
  return encodeBlock(encryptBlockFrom(platform, key, vectors, options, room), room);
}

export function encryptBlockFrom(
  entropy: Entropy,
  key: CollectionKey,
  vectors: Vectors,
  { first = 0, blockId }: BlockOptions = {},
  { words: rows }: Room = blockRoom(key.plan.parameters, key.plan.width),
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
  if (blockId && blockId.length !== ID_BYTES)
    throw new HersError('INVALID_ARGUMENT', `the id of a block has ${ID_BYTES} bytes`);
  if (blockId && first === 0) sumUp(key, encoded, blockId);
  const ring = ringOf(parameters);
  const { n, wideBits } = parameters;
  const masks = masksOf(parameters, width);
  const secrets = secretsOf(key);
  const seed = entropy.seed();
  const { values, lifts } = encoded;
  try {
    // Coordinates m, m + masks, m + 2·masks … have mask m and the gallery secrets 0, 1, 2 …
    for (let m = 0; m < masks; m++) {
      const own = Math.ceil((width - m) / masks);
      const part = masks === 1 ? { rows, values } : taken(values, rows.length / width, own, m, masks, count);
      const errors = entropy.seed();
      const mask = { key: maskSeed(seed, m), domain: BLOCK_MASK, bitsDomain: BLOCK_MASK_BITS };
      const noise = { key: errors, domain: ERRORS };
      ring.blockRows({ ...part, count, first, lifts: lifts.slice(0, own), mask, errors: noise, secrets, wideBits });
      errors.fill(0);
      if (masks === 1) break;
      part.values.fill(0);
      for (let j = 0; j < own; j++) rows.set(part.rows.subarray(j * n, (j + 1) * n), (m + j * masks) * n);
    }
  } finally {
    values.fill(0);
    ring.wipe();
  }
  return {
    parameters,
    keyId: key.keyId,
    blockId: blockId ?? entropy.id(),
    width,
    first,
    count,
    galleryScale,
    seed,
    rows,
  };
}

/** The coordinates of one of several masks, and room for their rows. */
function taken(
  values: Int32Array,
  words: number,
  own: number,
  m: number,
  masks: number,
  count: number,
): { readonly rows: Uint32Array; readonly values: Int32Array } {
  const part = { rows: new Uint32Array(own * words), values: new Int32Array(own * count) };
  for (let j = 0; j < own; j++) {
    const at = (m + j * masks) * count;
    part.values.set(values.subarray(at, at + count), j * count);
  }
  return part;
}

export interface EncryptedQuery {
  /** What the server gets. */
  readonly query: Uint8Array;
  /** What decrypts the responses to it, and nothing else. Wipe it when they are decrypted. */
  readonly secret: QuerySecret;
}

/**
 * Encrypts a query under a result secret of its own: b'_i = −a'_i·s + W_i and b''_k = −a''_k·s +
 * g^k·U + e''_k, with U = Σ s_i·W_i taken from the rows exactly as sent. The masks are those of all
 * queries of the key.
 */
export function encryptQuery(key: CollectionKey, vector: ArrayLike<number>): EncryptedQuery {
  return encryptQueryFrom(platform, key, vector);
}

export function encryptQueryFrom(entropy: Entropy, key: CollectionKey, vector: ArrayLike<number>): EncryptedQuery {
  const { plan, keyId } = key;
  const { parameters, width, galleryScale } = plan;
  const encoded = encodeVectors(plan, [vector], 'query');
  const ring = ringOf(parameters);
  const { n, wideBits, digits, digitBits } = parameters;
  const queryId = entropy.id();
  const { queryMasks: seed } = key;
  const random = entropy.seed();
  let secret: Uint32Array | undefined;
  let hedged: Uint8Array | undefined;
  try {
    const room = queryRoom(parameters, width);
    const { words: rows } = room;
    secret = new Uint32Array(n);
    hedged = querySeed(key, { random, queryId, values: encoded.values });
    ring.queryRows({
      rows,
      secret,
      values: encoded.values,
      lifts: encoded.lifts,
      mask: { key: seed, domain: QUERY_MASK, bitsDomain: QUERY_MASK_BITS },
      errors: { key: hedged, domain: ERRORS },
      result: { key: hedged, domain: RESULT_SECRET },
      secrets: secretsOf(key),
      wideBits,
      digits,
      digitBits,
    });
    const { c0: bits0, c1: bits1 } = plan.responseBits;
    const query = encodeQuery({ parameters, keyId, queryId, width, galleryScale, bits0, bits1, seed, rows }, room);
    return { query, secret: new QuerySecret(plan, keyId, queryId, readout(plan, encoded, vectorNorm(vector)), secret) };
  } catch (error) {
    secret?.fill(0);
    throw error;
  } finally {
    random.fill(0);
    hedged?.fill(0);
    encoded.values.fill(0);
    ring.wipe();
  }
}
