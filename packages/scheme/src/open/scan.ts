// Blocks with one mask or several, and the scan of one block with the rows of an open query: plain,
// the oracle of faster ones.

import { sha256 } from '@noble/hashes/sha2.js';
import { type Block, decodeBlock, maskRows } from '../block.ts';
import { HersError } from '../errors.ts';
import { ringOf } from '../parameters.ts';
import { SEED_BYTES, sameBytes } from '../wire.ts';
import type { OpenRows } from './expand.ts';
import { levelsOf, type OpenSet, openSetById } from './parameters.ts';
import type { OpenQuery } from './query.ts';

export function decodeOpenBlock(bytes: Uint8Array): Block {
  return decodeBlock(bytes, openSetById);
}

/** The seed of mask number `mask` of a block: that of the block, and what it is hashed to. */
export function maskSeed(seed: Uint8Array, mask: number): Uint8Array {
  if (mask === 0) return seed;
  const input = new Uint8Array(SEED_BYTES + 4);
  input.set(seed);
  new DataView(input.buffer).setUint32(SEED_BYTES, mask, true);
  return sha256(input);
}

/** The mask rows of a block: for each of its masks the digits, in NTT form. */
export function openMaskRows(block: Block): Uint32Array {
  const { mask } = block;
  if (!('seed' in mask)) throw new HersError('BLOCK_MISMATCH', 'a wide mask is carried as its seed');
  const { n, digits } = block.parameters;
  const { masks } = levelsOf(block.parameters as OpenSet, block.width);
  const out = new Uint32Array(masks * digits * n);
  for (let m = 0; m < masks; m++)
    out.set(maskRows({ ...block, mask: { seed: maskSeed(mask.seed, m) } }), m * digits * n);
  return out;
}

/**
 * What the scan of one block gives, modulo q in NTT form: body and mask under the result secret.
 */
export interface OpenResult {
  readonly block: Pick<Block, 'blockId' | 'first' | 'count'>;
  readonly body: Uint32Array;
  readonly mask: Uint32Array;
}

/** Σ G_r·B_r and Σ G_r·A_r over the rows of a block and those of a query. */
export function scanOpenBlock(block: Block, maskRows: Uint32Array, query: OpenQuery, rows: OpenRows): OpenResult {
  if (block.parameters.id !== query.parameters.id || !sameBytes(block.keyId, query.keyId))
    throw new HersError('KEY_MISMATCH', 'this block belongs to another key than the query');
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
  const { blockId, first, count } = block;
  return { block: { blockId, first, count }, body: c0.residues.slice(), mask: c1.residues.slice() };
}
