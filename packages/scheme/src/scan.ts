// The server's whole work for one block, plain and obviously right: the oracle for every faster
// scan.

import { type Block, checkSameKey, maskRows } from './block.ts';
import { HersError } from './errors.ts';
import { polyWords, ringOf, rowsOf } from './parameters.ts';
import { expandQuery, type Query } from './query.ts';
import type { ScanResponse } from './response.ts';

/** A block as it is scanned: width + ℓ rows in NTT form. */
export interface BlockMatrix {
  readonly block: Block;
  readonly maskRows: Uint32Array;
}

export function blockMatrix(block: Block): BlockMatrix {
  return { block, maskRows: maskRows(block) };
}

/** A query as it is scanned: both halves of every row. */
export interface ExpandedQuery {
  readonly query: Query;
  readonly uniform: Uint32Array;
}

export function expandedQuery(query: Query): ExpandedQuery {
  return { query, uniform: expandQuery(query) };
}

/** C0 = Σ G_r·B_r and C1 = Σ G_r·A_r over the rows, out of NTT form, switched and packed. */
export function scanBlock({ block, maskRows }: BlockMatrix, { query, uniform }: ExpandedQuery): ScanResponse {
  checkSameKey(block, query);
  if (block.width !== query.width || block.galleryScale !== query.galleryScale) {
    throw new HersError('BLOCK_MISMATCH', 'this block was made under another plan than the query');
  }
  const { parameters } = block;
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  const [c0, c1, g, b, a] = ring.polys;
  c0.residues.fill(0);
  c1.residues.fill(0);
  for (let row = 0; row < rowsOf(parameters, block.width); row++) {
    const at = row * words;
    const mask = (row - block.width) * words;
    g.residues.set(row < block.width ? block.rows.subarray(at, at + words) : maskRows.subarray(mask, mask + words));
    b.residues.set(query.rows.subarray(at, at + words));
    a.residues.set(uniform.subarray(at, at + words));
    ring.multiplyAdd(c0, g, b);
    ring.multiplyAdd(c1, g, a);
  }
  ring.intt(c0);
  ring.intt(c1);
  const packed0 = new Uint8Array(ring.packedBytes(query.bits0));
  const packed1 = new Uint8Array(ring.packedBytes(query.bits1));
  ring.switchAndPack(packed0, c0, query.bits0);
  ring.switchAndPack(packed1, c1, query.bits1);
  const { keyId, queryId, bits0, bits1 } = query;
  return {
    parameters,
    keyId,
    queryId,
    blockId: block.blockId,
    first: block.first,
    count: block.count,
    bits0,
    bits1,
    packed0,
    packed1,
  };
}
