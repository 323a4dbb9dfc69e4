// Builds a segment: reads, verifies and lays out one block after the other, then verifies the
// result.

import { buildSegment } from '@hers/scan';
import { type BlockMatrix, blockMatrix } from '@hers/scheme';
import type { Disk } from '../files/disk.ts';
import { type KeptBlock, readKeptBlock, segmentName } from './rebuild.ts';
import { SegmentProof } from './segment-proof.ts';

export interface Assembled {
  /** The length of the file. */
  readonly bytes: number;
  /** See `segmentName`. */
  readonly name: string;
}

/** Writes the segment to `path`, where it is on disk afterwards. */
export async function assembleSegment(
  disk: Disk,
  path: string,
  blocks: readonly KeptBlock[],
  signal: AbortSignal,
): Promise<Assembled> {
  async function* matrices(): AsyncGenerator<BlockMatrix> {
    for (const block of blocks) yield blockMatrix((await readKeptBlock(disk, block)).block);
  }
  const proof = new SegmentProof();
  const { fileBytes } = await buildSegment(disk.path(path), proof.watch(matrices()), blocks.length, { signal });
  const header = await proof.check(disk, path);
  return { bytes: fileBytes, name: segmentName(header) };
}
