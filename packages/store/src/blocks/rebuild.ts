// Reads a block back out of a segment, byte for byte as it was stored. A segment holds rows and
// mask rows in another order. The seed of the masks comes from the catalogue, and the hash there
// verifies the result.

import { decodeHeader, headerLength, LANES, panelRuns, type SegmentHeader, takeRows } from '@hers/scan';
import { type Block, decodeBlock, encodeBlock, HersError, polyWords } from '@hers/scheme';
import { hex, sameBytes, sha256 } from '../base/bytes.ts';
import { damaged } from '../base/storage-errors.ts';
import type { Disk, DiskReader } from '../files/disk.ts';
import type { StoredBlock } from './source.ts';

const HEADER_START = 128;
/** The largest encoded block: 4097 rows of 4096 coefficients modulo two primes, plus a margin. */
export const MAX_BLOCK_BYTES: number = 2 ** 28;
const AT_ONCE = 32;

/**
 * The name of a segment: a hash of its header. The header holds the ids of the blocks and the
 * checksums of all parts, so the name identifies the content.
 */
export function segmentName(header: Uint8Array): string {
  return hex(sha256(header).subarray(0, 16));
}

/** Throws unless the file is the segment that was written under its name. */
export async function readSegmentHeader(file: DiskReader): Promise<SegmentHeader> {
  const { path, size } = file;
  try {
    const length = headerLength(await file.read(0, HEADER_START), path);
    const bytes = await file.read(0, length);
    const header = decodeHeader(bytes, size, path);
    if (!path.endsWith(`-${segmentName(bytes)}.segment`)) throw damaged(path, 'it is another segment');
    return header;
  } catch (error) {
    // This file was valid once, so any error in it is damage. A version that is too new may be a
    // flipped bit: it counts as damage, and the message names it.
    const odd = error instanceof HersError && error.code !== 'STORAGE' && error.code !== 'DAMAGED';
    throw odd ? damaged(path, error.message) : error;
  }
}

/** All rows, mask rows included, of block `index`, in the order of the scheme. */
export async function readRows(
  file: DiskReader,
  { parameters, rows, blocks, dataAt, partBytes }: SegmentHeader,
  index: number,
): Promise<Uint32Array> {
  const words = polyWords(parameters);
  const all = new Uint32Array(rows * words);
  const runs = panelRuns(parameters, rows, blocks.length, index);
  const readGroup = async (group: number) => {
    for (const run of runs) {
      const bytes = await file.read(dataAt + group * partBytes + run.at, run.bytes);
      if (bytes.length < run.bytes) throw damaged(file.path, 'it is too short');
      const lines = new Uint32Array(bytes.buffer, bytes.byteOffset, run.bytes / 4);
      const rows = { words: all, from: run.first * words + group * LANES, stride: words };
      takeRows(parameters, lines, 0, run.count, rows);
    }
  };
  for (let group = 0; group * LANES < words; group += AT_ONCE) {
    const reads = Array.from({ length: Math.min(AT_ONCE, words / LANES - group) }, (_, i) => readGroup(group + i));
    await Promise.all(reads);
  }
  return all;
}

/** A block for a thread to read and verify: its place and its hash. */
export interface KeptBlock {
  readonly path: string;
  /** Whether that is a segment, and if so, the place in it. */
  readonly inSegment: boolean;
  readonly position: number;
  readonly name: string;
  readonly seed: Uint8Array;
  readonly hash: Uint8Array;
}

/** Compaction may move a block. This is where it is now. */
export function keptBlock({ source: { path, inSegment }, position, name, seed, hash }: StoredBlock): KeptBlock {
  return { path, inSegment, position, name, seed, hash };
}

/** Memory for reading a block, in blocks: its rows and its encoding. */
export const READING_COST = 2;

export interface ReadBlock {
  readonly block: Block;
  readonly encoded: Uint8Array;
}

/** Reads a block, and verifies it against its hash. */
export async function readKeptBlock(disk: Disk, kept: KeptBlock): Promise<ReadBlock> {
  if (kept.inSegment) {
    using file = disk.openToRead(kept.path);
    return await takeBlock(file, await readSegmentHeader(file), kept);
  }
  const encoded = await disk.read(kept.path, MAX_BLOCK_BYTES);
  if (!sameBytes(sha256(encoded), kept.hash)) throw damaged(kept.path, 'it is not the block that was written');
  return { block: decodeBlock(encoded), encoded };
}

async function takeBlock(file: DiskReader, header: SegmentHeader, kept: KeptBlock): Promise<ReadBlock> {
  const wrong = () => damaged(kept.path, `block ${kept.name} in it is not what was written`);
  if (!header.blocks[kept.position]) throw wrong();
  const read = await readInSegment(file, header, kept.position, kept.seed);
  if (!sameBytes(sha256(read.encoded), kept.hash)) throw wrong();
  return read;
}

/** The block at a place in a segment, whatever it is: its hash tells. */
export async function readInSegment(
  file: DiskReader,
  header: SegmentHeader,
  position: number,
  seed: Uint8Array,
): Promise<ReadBlock> {
  const { parameters, keyId, width, galleryScale } = header;
  const all = await readRows(file, header, position);
  const rows = all.subarray(0, width * polyWords(parameters));
  const block = { ...header.blocks[position], parameters, keyId, width, galleryScale, seed, rows };
  return { block, encoded: encodeBlock(block) };
}

export function readStoredBlock(disk: Disk, block: StoredBlock): Promise<ReadBlock> {
  const kept = keptBlock(block);
  return block.source.reading(() => readKeptBlock(disk, kept));
}
