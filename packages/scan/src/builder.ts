// Turns blocks into segments, in bounded memory: a few blocks at a time are laid out and written to
// their places. After a crash there is either the whole segment or none, because it is renamed into
// place once everything is on disk.

import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { checksum } from '@hers/ring';
import {
  type Block,
  type BlockMatrix,
  HersError,
  type ParameterSet,
  polyWords,
  refuseUnknown,
  rowsOf,
} from '@hers/scheme';
import {
  dataOffset,
  encodeHeader,
  LANES,
  MAX_SEGMENT_BLOCKS,
  type PanelRun,
  panelRuns,
  partCount,
  putRows,
  readFully,
  rowBytes,
  type SegmentHeader,
  writeFully,
} from './segment.ts';

/** Segments of large blocks stay near this size, so that replacing one is cheap. */
const SEGMENT_BYTES = 2 ** 29;
const FEWEST_BLOCKS = 8;
/** Blocks are laid out together until they fill this much: 64 of 128 dimensions have 65 MiB. */
const STAGE_BYTES = 9 * 2 ** 23;
/** A huge page of most machines. */
const HUGE_PAGE = 2 ** 21;

/** How many blocks of a width a segment should hold: 64, or fewer if they are large. */
export function segmentBlocks(parameters: ParameterSet, width: number): number {
  const bytes = partCount(parameters) * rowBytes(parameters, rowsOf(parameters, width), 1);
  return Math.max(FEWEST_BLOCKS, Math.min(MAX_SEGMENT_BLOCKS, Math.floor(SEGMENT_BYTES / bytes)));
}

function headerOf(blocks: readonly Block[], partChecksums: BigUint64Array): SegmentHeader {
  const { parameters, keyId, width, galleryScale } = blocks[0];
  const rows = rowsOf(parameters, width);
  const dataAt = dataOffset(blocks.length, partChecksums.length);
  const partBytes = rowBytes(parameters, rows, blocks.length);
  const fileBytes = dataAt + partChecksums.length * partBytes;
  return { parameters, keyId, width, rows, galleryScale, blocks, partChecksums, dataAt, partBytes, fileBytes };
}

function checkAlike(first: Block, block: Block): void {
  const same =
    first.parameters.id === block.parameters.id &&
    first.width === block.width &&
    first.galleryScale === block.galleryScale &&
    Buffer.compare(first.keyId, block.keyId) === 0;
  if (!same) throw new HersError('BLOCK_MISMATCH', 'the blocks of a segment must have one key and one plan');
}

/** Copies one block's rows of one slot group to their runs in a part. */
function layRows(part: Uint32Array, runs: readonly PanelRun[], { block, maskRows }: BlockMatrix, group: number): void {
  const { parameters, width } = block;
  const stride = polyWords(parameters);
  for (const { first, count, at } of runs) {
    const own = Math.max(0, Math.min(count, width - first));
    const from = first * stride + group * LANES;
    putRows(parameters, part, at / 4, 0, own, { words: block.rows, from, stride });
    const mask = { words: maskRows, from: from + (own - width) * stride, stride };
    putRows(parameters, part, at / 4, own, count - own, mask);
  }
}

/** Lays all rows of a slot group of these blocks into a part that holds no others. */
function layerOf(stage: readonly BlockMatrix[]): (part: Uint32Array, group: number) => void {
  const { parameters, width } = stage[0].block;
  const rows = rowsOf(parameters, width);
  const runs = stage.map((_, i) => panelRuns(parameters, rows, stage.length, i));
  return (part, group) => {
    for (const [i, matrix] of stage.entries()) layRows(part, runs[i], matrix, group);
  };
}

/** The bytes of a segment in memory, for blocks that are not in a segment file yet. */
export function segmentBytes(matrices: readonly BlockMatrix[]): Uint8Array {
  checkCount(matrices.length);
  const blocks = matrices.map((m) => m.block);
  for (const block of blocks) checkAlike(blocks[0], block);
  const sums = new BigUint64Array(partCount(blocks[0].parameters));
  const { dataAt, partBytes, fileBytes } = headerOf(blocks, sums);
  const bytes = new Uint8Array(fileBytes);
  const lay = layerOf(matrices);
  for (let group = 0; group < sums.length; group++) {
    const at = dataAt + group * partBytes;
    lay(new Uint32Array(bytes.buffer, at, partBytes / 4), group);
    sums[group] = checksum(bytes.subarray(at, at + partBytes));
  }
  bytes.set(encodeHeader(headerOf(blocks, sums)));
  return bytes;
}

function checkCount(count: number): void {
  if (!(Number.isInteger(count) && count >= 1 && count <= MAX_SEGMENT_BLOCKS)) {
    throw new HersError('INVALID_ARGUMENT', `a segment has 1 to ${MAX_SEGMENT_BLOCKS} blocks, not ${count}`);
  }
}

export interface BuildOptions {
  readonly signal?: AbortSignal;
  /** Called with the number of blocks written so far. */
  readonly onProgress?: (blocks: number) => void;
  /** For tests: blocks are laid out together until they fill this much. */
  readonly stageBytes?: number;
}

/**
 * Writes a segment of exactly `count` blocks to `path`. The blocks may come from a generator that
 * makes them on demand.
 *
 * @example await buildSegment('gallery.segment', matrices, matrices.length);
 */
export async function buildSegment(
  path: string,
  matrices: Iterable<BlockMatrix> | AsyncIterable<BlockMatrix>,
  count: number,
  options: BuildOptions = {},
): Promise<SegmentHeader> {
  refuseUnknown(options, { signal: true, onProgress: true, stageBytes: true }, 'a segment');
  checkCount(count);
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  const file = await open(temporary, 'wx+', 0o600);
  try {
    const header = await writeSegment(file, matrices, count, options);
    await file.datasync();
    await file.close();
    await rename(temporary, path);
    await syncFolder(dirname(path));
    return header;
  } catch (error) {
    await file.close().catch(() => {});
    await rm(temporary, { force: true });
    throw error;
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function writeSegment(
  file: FileHandle,
  matrices: Iterable<BlockMatrix> | AsyncIterable<BlockMatrix>,
  count: number,
  { signal, onProgress, stageBytes = STAGE_BYTES }: BuildOptions,
): Promise<SegmentHeader> {
  const blocks: Block[] = [];
  let stage: BlockMatrix[] = [];
  let layout: SegmentHeader | undefined;
  const flush = async () => {
    const first = blocks.length - stage.length;
    if (!layout || stage.length === 0) return;
    if (stage.length === count) await writeAll(file, layout, stage);
    else {
      if (first === 0) await makeRoom(file, layout.dataAt + layout.partChecksums.length * layout.partBytes);
      await writeStage(file, layout, stage, first, count);
    }
    stage = [];
    onProgress?.(blocks.length);
  };
  for await (const matrix of matrices) {
    signal?.throwIfAborted();
    const { rows: _, seed: __, ...entry } = matrix.block;
    if (blocks.length > 0) checkAlike(blocks[0], matrix.block);
    if (blocks.length === count)
      throw new HersError('INVALID_ARGUMENT', `there are more than the ${count} blocks announced`);
    blocks.push(entry as Block); // what the header needs, without the rows
    const { parameters } = matrix.block;
    layout ??= {
      ...headerOf([matrix.block], new BigUint64Array(partCount(parameters))),
      dataAt: dataOffset(count, partCount(parameters)),
      partBytes: rowBytes(parameters, rowsOf(parameters, matrix.block.width), count),
    };
    stage.push(matrix);
    const bytes = layout.partChecksums.length * rowBytes(parameters, layout.rows, stage.length);
    if (bytes >= stageBytes) await flush();
  }
  if (!layout || blocks.length !== count)
    throw new HersError('INVALID_ARGUMENT', `${count} blocks were announced and ${blocks.length} came`);
  await flush();
  const sums = await checksumParts(file, layout, signal);
  const header = headerOf(blocks, sums);
  await writeFully(file, encodeHeader(header), 0);
  return header;
}

// Linux keeps a file in pieces as large as the writes that made it. What was written as a huge page
// is mapped as one, so that the first scan does not stop at every 64 KB to map the next, and later
// ones are faster by a twentieth. So a segment is written a huge page at a time: with all that
// belongs into it, where all blocks are there, and otherwise with zeros first.

/** Writes all blocks of a segment, and zeros in place of the header. */
async function writeAll(
  file: FileHandle,
  { dataAt, partBytes, partChecksums }: SegmentHeader,
  stage: readonly BlockMatrix[],
): Promise<void> {
  const part = new Uint32Array(partBytes / 4);
  const bytes = new Uint8Array(part.buffer);
  const lay = layerOf(stage);
  const page = new Uint8Array(HUGE_PAGE);
  let from = 0;
  let filled = 0;
  const write = async () => {
    await writeFully(file, page.subarray(0, filled), from);
    from += filled;
    filled = 0;
  };
  const add = async (more: Uint8Array) => {
    for (let at = 0, use: number; at < more.length; at += use) {
      use = Math.min(page.length - filled, more.length - at);
      page.set(more.subarray(at, at + use), filled);
      filled += use;
      if (filled === page.length) await write();
    }
  };
  await add(new Uint8Array(dataAt));
  for (let group = 0; group < partChecksums.length; group++) {
    lay(part, group);
    await add(bytes);
  }
  await write();
}

/** Fills the file with zeros. */
async function makeRoom(file: FileHandle, bytes: number): Promise<void> {
  const zeros = new Uint8Array(Math.min(HUGE_PAGE, bytes));
  for (let at = 0; at < bytes; at += HUGE_PAGE)
    await writeFully(file, zeros.subarray(0, Math.min(HUGE_PAGE, bytes - at)), at);
}

/** Writes blocks `first` … of a segment of `count`: one run of bytes for every group and panel. */
async function writeStage(
  file: FileHandle,
  layout: SegmentHeader,
  stage: readonly BlockMatrix[],
  first: number,
  count: number,
): Promise<void> {
  const { parameters, rows, dataAt, partBytes } = layout;
  const part = new Uint32Array(rowBytes(parameters, rows, stage.length) / 4);
  const lay = layerOf(stage);
  const [from, to] = [panelRuns(parameters, rows, stage.length, 0), panelRuns(parameters, rows, count, first)];
  const bytes = new Uint8Array(part.buffer);
  for (let group = 0; group < layout.partChecksums.length; group++) {
    lay(part, group);
    for (const [i, run] of from.entries()) {
      const all = bytes.subarray(run.at, run.at + run.bytes * stage.length);
      await writeFully(file, all, dataAt + group * partBytes + to[i].at);
    }
  }
}

async function checksumParts(
  file: FileHandle,
  { dataAt, partBytes, partChecksums }: SegmentHeader,
  signal?: AbortSignal,
): Promise<BigUint64Array> {
  const sums = new BigUint64Array(partChecksums.length);
  const room = new Uint8Array(partBytes);
  for (let group = 0; group < sums.length; group++) {
    signal?.throwIfAborted();
    const bytes = await readFully(file, partBytes, dataAt + group * partBytes, room);
    if (bytes.length < partBytes) throw new HersError('DAMAGED', 'a segment could not be read back; is the disk full?');
    sums[group] = checksum(bytes);
  }
  return sums;
}
