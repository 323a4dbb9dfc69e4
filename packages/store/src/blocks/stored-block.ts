// A block of a collection, as the catalogue describes it.

import { type Block, parameterSetById } from '@hers/scheme';
import { hex } from '../bytes.ts';
import type { BlockRow } from '../catalogue/tables.ts';
import type { Source } from './source.ts';

export interface StoredBlock {
  readonly name: string; // its id in hexadecimal
  readonly id: Uint8Array;
  /** The id of its key, in hexadecimal. Only queries under this key are compared with it. */
  readonly keyId: string;
  /** Blocks of one kind share a key and a plan, and may share a segment. */
  readonly kind: string;
  readonly parametersId: number;
  readonly width: number;
  readonly galleryScale: number;
  readonly first: number;
  readonly count: number;
  readonly hash: Uint8Array;
  readonly seed: Uint8Array;
  readonly bytes: number;
  /** Where it is; compaction moves it. */
  source: Source;
  position: number;
}

export function storedBlock(row: BlockRow, source: Source): StoredBlock {
  const keyId = hex(row.key_id);
  return {
    name: hex(row.id),
    id: row.id,
    keyId,
    kind: `${keyId} ${row.parameters} ${row.width} ${row.gallery_scale}`,
    parametersId: row.parameters,
    width: row.width,
    galleryScale: row.gallery_scale,
    first: row.first,
    count: row.count,
    hash: row.hash,
    seed: row.seed,
    bytes: row.bytes,
    source,
    position: row.position ?? 0,
  };
}

/** The row of a new block in a file of its own. */
export function newBlockRow(block: Block, encoded: { hash: Uint8Array; bytes: number }, file: string): BlockRow {
  return {
    id: block.blockId,
    key_id: block.keyId,
    parameters: block.parameters.id,
    width: block.width,
    gallery_scale: block.galleryScale,
    first: block.first,
    count: block.count,
    hash: encoded.hash,
    seed: block.seed,
    bytes: encoded.bytes,
    file,
    position: null,
  };
}

/** Whether every slot is taken. A block that is not full is likely to be replaced soon. */
export function isFull(block: StoredBlock): boolean {
  return block.first === 0 && block.count === parameterSetById(block.parametersId).n;
}
