// Encryption of blocks and queries. Every call draws fresh randomness; there is no way to supply it
// from outside this package (README.md §4, the rules).

import { type Poly, type Ring, randomBytes, randomSeed } from '@hers/ring';
import { type Block, encodeBlock } from '../block.ts';
import { BLOCK_MASK, BLOCK_MASK_BITS, ERRORS, QUERY_MASK, QUERY_MASK_BITS, RESULT_SECRET } from '../domains.ts';
import { HersError } from '../errors.ts';
import { refuseUnknown } from '../options.ts';
import { type ParameterSet, polyWords, ringOf } from '../parameters.ts';
import { encodeQuery, isRoundedRow } from '../query.ts';
import { encodeVectors, readout, type Vectors, vectorNorm } from '../vectors.ts';
import { ID_BYTES } from '../wire.ts';
import { sumUp } from './canaries.ts';
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
  /**
   * 16 random bytes, where there are canaries among the vectors, which follow from them
   * (canaries.ts); drawn if none are given.
   */
  readonly blockId?: Uint8Array;
}

/**
 * Encrypts up to n vectors into a block: b_i = −a·s_i + Δ_g·P_i + e_i under one fresh mask a, and
 * where the mask is wide, modulo Q·2^wideBits and rounded to Q.
 *
 * @example const block = encryptBlock(key, vectors); // a Float32Array, one vector after the other
 */
export function encryptBlock(key: CollectionKey, vectors: Vectors, options: BlockOptions = {}): Uint8Array {
  refuseUnknown(options, { first: true, blockId: true }, 'a block');
  return encodeBlock(encryptBlockFrom(platform, key, vectors, options));
}

export function encryptBlockFrom(
  entropy: Entropy,
  key: CollectionKey,
  vectors: Vectors,
  { first = 0, blockId }: BlockOptions = {},
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
  const words = polyWords(parameters);
  const { wideBits } = parameters;
  const [mask, row, secret, maskLow, product] = ring.polys;
  const [values, noise, bits] = ring.words;
  const seed = entropy.seed();
  const errors = entropy.seed();
  const rows = new Uint32Array(width * words);
  try {
    ring.uniform(mask, { key: seed, domain: BLOCK_MASK, index: 0 });
    if (wideBits > 0) {
      ring.uniformBits(bits, wideBits, { key: seed, domain: BLOCK_MASK_BITS, index: 0 });
      ring.embed(maskLow, bits);
      ring.ntt(maskLow);
    }
    values.values.fill(0);
    for (let i = 0; i < width; i++) {
      values.values.set(encoded.values.subarray(i * count, (i + 1) * count), first);
      ring.error(noise, { key: errors, domain: ERRORS, index: i });
      const lift = BigInt(encoded.lifts[i]);
      ring.encode(row, values, noise, lift);
      // The secret comes last: loading one uses words[5] and no other.
      loadSecret(key, i, secret);
      if (wideBits === 0) {
        ring.ntt(row);
        ring.multiplySubtract(row, mask, secret);
      } else {
        // The same modulo Q, and modulo 2^wideBits by a product that is exact modulo one prime.
        ring.multiply(product, mask, secret);
        ring.intt(product);
        ring.subtract(row, row, product);
        ring.multiply(product, maskLow, secret);
        ring.intt(product);
        ring.combineBits(bits, values, noise, product, wideBits, lift, -1);
        ring.joinWide(row, bits, wideBits);
        ring.roundWide(row, wideBits);
        ring.ntt(row);
      }
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
    blockId: blockId ?? entropy.id(),
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
      if (isRoundedRow(parameters, k)) {
        roundedRow(ring, parameters, seed, width + k, k * parameters.digitBits);
        rows.set(row.residues, (width + k) * words);
        continue;
      }
      ring.embed(row, noise);
      ring.ntt(row);
      ring.scaleAdd(row, sum, 1n << BigInt(k * parameters.digitBits - parameters.wideBits));
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

/**
 * A mask row b'' = −a''·s + 2^shift·U + e'' made modulo Q·2^wideBits and rounded to Q, into
 * polys[2] and out of the rest as encryptQuery has it: s in polys[0], U in polys[1], e'' in
 * words[1]. U is known modulo Q and its integers are below Q/2 in magnitude, so its low bits are
 * known too.
 */
function roundedRow(ring: Ring, { wideBits }: ParameterSet, seed: Uint8Array, index: number, shift: number): void {
  const [result, sum, row, mask, product] = ring.polys;
  const [low, noise, bits] = ring.words;
  const scale = 1n << BigInt(shift);
  product.residues.set(sum.residues);
  ring.intt(product);
  ring.lowBits(low, product, wideBits);
  ring.embed(row, noise);
  ring.scaleAdd(row, product, scale);
  ring.uniform(mask, { key: seed, domain: QUERY_MASK, index });
  ring.multiply(product, mask, result);
  ring.intt(product);
  ring.subtract(row, row, product);
  ring.uniformBits(bits, wideBits, { key: seed, domain: QUERY_MASK_BITS, index });
  ring.embed(mask, bits);
  ring.ntt(mask);
  ring.multiply(product, mask, result);
  ring.intt(product);
  ring.combineBits(bits, low, noise, product, wideBits, scale, -1);
  ring.joinWide(row, bits, wideBits);
  ring.roundWide(row, wideBits);
  ring.ntt(row);
  low.values.fill(0);
}
