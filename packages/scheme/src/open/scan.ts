// The scan of blocks with the rows of an open query.
//
// Kernels know nothing of open queries: they are given a query whose masks are not expanded from a
// seed, and asked for responses of 32 bits. Of a q below 2^30 these tell every coefficient exactly
// (`unswitched`), so results for packing come out of the ordinary scan.

import { type Block, checkSameKey } from '../block.ts';
import { HersError } from '../errors.ts';
import { ringOf } from '../parameters.ts';
import type { Query } from '../query.ts';
import { decodeResponse } from '../response.ts';
import { SEED_BYTES, wordsAt } from '../wire.ts';
import type { OpenRows } from './expand.ts';
import type { OpenQuery } from './query.ts';

/** Bits of a response that a result is read from. */
const EXACT_BITS = 32;
const NO_SEED = new Uint8Array(SEED_BYTES);

/** The query that a kernel scans with; its responses are for `resultOf`. */
export function scannedQuery(query: OpenQuery, { bodies, masks }: OpenRows): Query {
  const { parameters, keyId, queryId, width, galleryScale } = query;
  const bits = { bits0: EXACT_BITS, bits1: EXACT_BITS };
  return { parameters, keyId, queryId, width, galleryScale, ...bits, seed: NO_SEED, rows: bodies, masks };
}

/**
 * What the scan of one block gives: body and mask under the result secret, coefficients modulo q
 * switched to 32 bits.
 */
export interface OpenResult {
  readonly block: Pick<Block, 'blockId' | 'first' | 'count'>;
  readonly body: Uint32Array;
  readonly mask: Uint32Array;
}

/** Reads the response of a kernel to a query of `scannedQuery`. */
export function resultOf(response: Uint8Array): OpenResult {
  const { parameters, blockId, first, count, packed0, packed1, bits0, bits1 } = decodeResponse(response);
  if (bits0 !== EXACT_BITS || bits1 !== EXACT_BITS)
    throw new HersError('MALFORMED', 'this response is not the result of an open query');
  const [body, mask] = [packed0, packed1].map((bytes) => wordsAt(bytes, 0, parameters.n));
  return { block: { blockId, first, count }, body, mask };
}

/**
 * The residues x modulo q < 2^30 that were switched to y ≈ x·2^32/q: steps of y are four apart, and
 * y is off by at most one and a half, a half by rounding and one by the reciprocal of q.
 */
export function unswitched(y: Uint32Array, q: number): Uint32Array {
  // The product, below 2^62, is rounded by less than 2^9: the quotient is off by less than 2^−23.
  return y.map((word) => Math.round((word * q) / 2 ** EXACT_BITS) % q);
}

/** Σ G_r·B_r and Σ G_r·A_r over the rows of a block and those of a query: plain and slow. */
export function scanOpenBlock(block: Block, maskRows: Uint32Array, query: OpenQuery, rows: OpenRows): OpenResult {
  checkSameKey(block, query);
  if (block.width !== query.width || block.galleryScale !== query.galleryScale)
    throw new HersError('BLOCK_MISMATCH', 'this block was made under another plan than the query');
  const ring = ringOf(block.parameters);
  const { n } = block.parameters;
  const [c0, c1, g, b, a] = ring.polys;
  c0.residues.fill(0);
  c1.residues.fill(0);
  for (let at = 0; at < rows.bodies.length; at += n) {
    const mask = at - block.rows.length;
    g.residues.set(mask < 0 ? block.rows.subarray(at, at + n) : maskRows.subarray(mask, mask + n));
    b.residues.set(rows.bodies.subarray(at, at + n));
    a.residues.set(rows.masks.subarray(at, at + n));
    ring.multiplyAdd(c0, g, b);
    ring.multiplyAdd(c1, g, a);
  }
  const [body, mask] = [c0, c1].map((half) => {
    const bytes = new Uint8Array(ring.packedBytes(EXACT_BITS));
    ring.intt(half);
    ring.switchAndPack(bytes, half, EXACT_BITS);
    return wordsAt(bytes, 0, n);
  });
  const { blockId, first, count } = block;
  return { block: { blockId, first, count }, body, mask };
}
