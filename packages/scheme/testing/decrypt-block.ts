// Decrypts blocks back to vectors. Nothing that is shipped does: a block is made again from
// records, never read. Here it shows what encryption puts into blocks.

import type { Poly } from '@hers/ring';
import { loadSecret as loadInto } from '@hers/ring/testing/secrets';
import { blockMask, checkSameKey, decodeBlock, maskBits } from '../src/block.ts';
import { HersError } from '../src/errors.ts';
import { masksOf, polyWords, ringOf, wideFactor } from '../src/parameters.ts';
import { LARGEST_RESIDUAL, nonsense } from '../src/secret/decrypt.ts';
import { type CollectionKey, secretsOf } from '../src/secret/key.ts';

/** Loads the transform of s_i into a polynomial. Uses words[5] of the ring. */
export function loadSecret(key: CollectionKey, i: number, into: Poly): void {
  loadInto(ringOf(key.plan.parameters), into, secretsOf(key), i);
}

/** The coordinates of a block in the order of their masks, with the secret of each. */
function byMask(masks: number, dimension: number) {
  const order: { readonly i: number; readonly m: number; readonly own: number; readonly isNew: boolean }[] = [];
  for (let m = 0; m < masks; m++)
    for (let i = m; i < dimension; i += masks) order.push({ i, m, own: Math.floor(i / masks), isNew: i === m });
  return order;
}

export interface DecryptedVectors {
  readonly first: number;
  /**
   * One vector after the other. `compact`: with the block's own error of about 0.001 per
   * coordinate; `exact`: as they were rounded.
   */
  readonly vectors: Float32Array;
  /** `exact`: the integers, of the plan's steps. */
  readonly integers?: Int32Array;
}

/**
 * A block back to its vectors: 2^wideBits·b_i + a·s_i = Δ_g·P_i + e_i.
 */
export function decryptBlock(key: CollectionKey, bytes: Uint8Array): DecryptedVectors {
  const block = decodeBlock(bytes);
  const { plan } = key;
  checkSameKey(block, { parameters: plan.parameters, keyId: key.keyId });
  if (block.width !== plan.width || block.galleryScale !== plan.galleryScale)
    throw new HersError('BLOCK_MISMATCH', 'this block was made under another plan');
  const { parameters, dimension, profile, normBound, steps, galleryScale } = plan;
  const { first, count } = block;
  const exact = profile === 'exact';
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  const order = byMask(masksOf(parameters, block.width), dimension);
  const vectors = new Float32Array(count * dimension);
  const integers = exact ? new Int32Array(count * dimension) : undefined;
  const { wideBits } = parameters;
  const [row, mask, secret, maskLow, product] = ring.polys;
  const [zero, bits] = ring.words;
  try {
    zero.values.fill(0);
    for (let at = 0; at < dimension; at++) {
      // Those of one mask after the other: coordinate i has mask i mod masks and secret ⌊i/masks⌋.
      const { i, m, own, isNew } = order[at];
      if (isNew) {
        mask.residues.set(blockMask(block, m));
        maskBits(block, bits, m);
        ring.embed(maskLow, bits);
        ring.ntt(maskLow);
      }
      row.residues.set(block.rows.subarray(i * words, (i + 1) * words));
      loadSecret(key, own, secret);
      product.residues.set(row.residues);
      ring.scaleAdd(row, product, BigInt(wideFactor(parameters) - 1));
      ring.multiplyAdd(row, mask, secret);
      ring.intt(row);
      ring.multiply(product, maskLow, secret);
      ring.intt(product);
      ring.combineBits(bits, zero, zero, product, wideBits, 0n, 1);
      ring.joinWide(row, bits, wideBits);
      const centred = ring.centredWide();
      for (let j = 0; j < count; j++) {
        const value = centred[first + j] / galleryScale;
        if (integers) {
          const nearest = Math.round(value) + 0; // never −0, which would tell the sign of the noise
          if (Math.abs(value - nearest) > LARGEST_RESIDUAL || Math.abs(nearest) > 2 * steps)
            throw nonsense(centred, vectors, integers);
          integers[j * dimension + i] = nearest;
          vectors[j * dimension + i] = (nearest * normBound) / steps;
        } else {
          vectors[j * dimension + i] = value * normBound;
        }
      }
      centred.fill(0);
    }
  } finally {
    ring.wipe();
  }
  return integers ? { first, vectors, integers } : { first, vectors };
}
