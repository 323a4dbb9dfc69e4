// A segment: many blocks of one key in the layout that is scanned at the speed of memory
// (README.md).
//
//     data[slot group][row panel][block][line of the panel][16 lanes]
//
// A slot group is 16 consecutive residues of every polynomial; with two primes the groups of the
// second follow those of the first. All rows of a group, of all blocks, are one *part*, with a
// checksum of its own.
//
// A line is 16 words, one for each lane. Layout 1: a row of a panel is a line. Layout 2, for
// residues of three bytes: four rows of a panel are *packed* into three lines. The low three bytes
// of a word are the residue of row 0, 1 or 2 of the four, and the top bytes of the three words,
// lowest first, that of row 3. Rows left over at the end, fewer than four, are a line each.
//
//   0  'HERSSEG\0'   8 version   12 layout   16 lanes, rows per panel (u16)
//  20  parameter set id (u16), zero
//  24  key id (16)  40 width    44 rows     48 blocks    52 parts    56 gallery scale (f64)
//  64  offset of the data (u64)             72 length of the file (u64)
//  80  XXH64 of the header with this field zero                      88 zero
// 128  blocks × { block id (16), first, count, zero (8) }, then parts × XXH64,
//      zero up to the data

import type { FileHandle } from 'node:fs/promises';
import { checksum } from '@hers/ring';
import { HersError, otherFormat, type ParameterSet, parameterSetById, polyWords, rowsOf } from '@hers/scheme';

const VERSION = 1;
const LAYOUT_ROWS = 1;
const LAYOUT_PACKED = 2;
export const LANES = 16;
const LINE_BYTES = 4 * LANES;
export const PANEL_ROWS = 64;
export const MAX_SEGMENT_BLOCKS = 64;
const MAGIC = 0x0047455353524548n; // 'HERSSEG\0'
const TABLE_AT = 128;
const ENTRY_BYTES = 32;
const PAGE = 4096;
/** A width of 4097, and at most five digits of 32 masks. */
const MAX_ROWS = 4257;

export interface SegmentBlock {
  readonly blockId: Uint8Array;
  readonly first: number;
  readonly count: number;
}

export interface SegmentHeader {
  readonly parameters: ParameterSet;
  readonly keyId: Uint8Array;
  readonly width: number;
  /** Rows of every block: width + digits. */
  readonly rows: number;
  readonly galleryScale: number;
  readonly blocks: readonly SegmentBlock[];
  readonly partChecksums: BigUint64Array;
  /** Where the data begins, a multiple of 4096. */
  readonly dataAt: number;
  readonly partBytes: number;
  readonly fileBytes: number;
}

/** Slot groups of a parameter set, which is the number of parts. */
export function partCount(parameters: ParameterSet): number {
  return polyWords(parameters) / LANES;
}

/** Where the data begins for this many blocks and parts; also the length of the header. */
export function dataOffset(blocks: number, parts: number): number {
  return Math.ceil((TABLE_AT + ENTRY_BYTES * blocks + 8 * parts) / PAGE) * PAGE;
}

/** Everything about a parameter set that the layout depends on. */
type Words = Pick<ParameterSet, 'wordBytes'>;

/** Whether four rows are packed into three lines. */
export function isPacked({ wordBytes }: Words): boolean {
  return wordBytes === 3;
}

/** The lines that consecutive rows of one block take, from the beginning of a panel on. */
function lineCount(parameters: Words, rows: number): number {
  return isPacked(parameters) ? rows - (rows >> 2) : rows;
}

/** The bytes of all rows of this many blocks in one slot group, that is, of a part. */
export function rowBytes(parameters: Words, rows: number, blocks: number): number {
  return LINE_BYTES * blocks * lineCount(parameters, rows);
}

/** The rows of one block within a panel: one run of bytes of every part. */
export interface PanelRun {
  /** The first of the rows, and how many there are. */
  readonly first: number;
  readonly count: number;
  /** Where the run is within a part. */
  readonly at: number;
  readonly bytes: number;
}

/** All rows of block `block` of `blocks`. */
export function panelRuns(parameters: Words, rows: number, blocks: number, block: number): PanelRun[] {
  const runs: PanelRun[] = [];
  for (let first = 0; first < rows; first += PANEL_ROWS) {
    const count = Math.min(PANEL_ROWS, rows - first);
    const bytes = rowBytes(parameters, count, 1);
    runs.push({ first, count, at: rowBytes(parameters, first, blocks) + block * bytes, bytes });
  }
  return runs;
}

/** Rows outside of a segment: 16 words of row i from `from + i·stride` on. */
export interface LooseRows {
  readonly words: Uint32Array;
  readonly from: number;
  readonly stride: number;
}

/**
 * Writes rows `first` … of a run that begins at word `at` of a part. The rows before them must have
 * been written already.
 */
export function putRows(
  parameters: Words,
  part: Uint32Array,
  at: number,
  first: number,
  count: number,
  rows: LooseRows,
): void {
  const { words, stride } = rows;
  let { from } = rows;
  const packed = isPacked(parameters);
  for (let i = first; i < first + count; i++, from += stride) {
    const to = at + LANES * (packed ? i - (i >> 2) : i);
    if (!packed || i % 4 !== 3) for (let lane = 0; lane < LANES; lane++) part[to + lane] = words[from + lane];
    else
      for (let lane = 0; lane < LANES; lane++) {
        const word = words[from + lane];
        part[to - 3 * LANES + lane] |= word << 24;
        part[to - 2 * LANES + lane] |= (word << 16) & 0xff000000;
        part[to - LANES + lane] |= (word << 8) & 0xff000000;
      }
  }
}

/** The inverse: reads the first `count` rows of a run. */
export function takeRows(
  parameters: Words,
  part: Uint32Array,
  at: number,
  count: number,
  { words, from, stride }: LooseRows,
): void {
  const packed = isPacked(parameters);
  const mask = packed ? 0xffffff : 0xffffffff;
  for (let i = 0; i < count; i++) {
    const to = from + i * stride;
    const source = at + LANES * lineCount(parameters, i);
    const top = (line: number, lane: number) => part[source - line * LANES + lane] >>> 24;
    for (let lane = 0; lane < LANES; lane++)
      words[to + lane] =
        packed && i % 4 === 3 ? top(3, lane) | (top(2, lane) << 8) | (top(1, lane) << 16) : part[source + lane] & mask;
  }
}

export function encodeHeader(header: SegmentHeader): Uint8Array {
  const { parameters, blocks, partChecksums } = header;
  const bytes = new Uint8Array(header.dataAt);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, MAGIC, true);
  const layout = isPacked(parameters) ? LAYOUT_PACKED : LAYOUT_ROWS;
  view.setUint32(8, VERSION, true);
  view.setUint32(12, layout, true);
  view.setUint16(16, LANES, true);
  view.setUint16(18, PANEL_ROWS, true);
  view.setUint16(20, parameters.id, true);
  bytes.set(header.keyId, 24);
  view.setUint32(40, header.width, true);
  view.setUint32(44, header.rows, true);
  view.setUint32(48, blocks.length, true);
  view.setUint32(52, partChecksums.length, true);
  view.setFloat64(56, header.galleryScale, true);
  view.setBigUint64(64, BigInt(header.dataAt), true);
  view.setBigUint64(72, BigInt(header.fileBytes), true);
  blocks.forEach((block, i) => {
    const at = TABLE_AT + ENTRY_BYTES * i;
    bytes.set(block.blockId, at);
    view.setUint32(at + 16, block.first, true);
    view.setUint32(at + 20, block.count, true);
  });
  partChecksums.forEach((sum, i) => {
    view.setBigUint64(TABLE_AT + ENTRY_BYTES * blocks.length + 8 * i, sum, true);
  });
  view.setBigUint64(80, checksum(bytes), true);
  return bytes;
}

/**
 * How many bytes at the beginning of a segment its header takes. Throws if these are not the first
 * 128 bytes of a segment.
 */
export function headerLength(start: Uint8Array, name: string): number {
  const fail = (message: string): never => {
    throw new HersError('MALFORMED', `${name} ${message}`);
  };
  if (start.length < TABLE_AT) return fail('is too short to be a segment');
  const view = new DataView(start.buffer, start.byteOffset, start.length);
  if (view.getBigUint64(0, true) !== MAGIC) return fail('is not a segment');
  if (view.getUint32(8, true) !== VERSION) throw otherFormat(name);
  const blocks = view.getUint32(48, true);
  const parts = view.getUint32(52, true);
  if (blocks < 1 || blocks > MAX_SEGMENT_BLOCKS || parts < 1 || parts > 1024) return fail('has a damaged header');
  return dataOffset(blocks, parts);
}

/** `bytes` begins with the whole header; `fileBytes` is the length of the file it was read from. */
export function decodeHeader(bytes: Uint8Array, fileBytes: number, name: string): SegmentHeader {
  const length = headerLength(bytes, name);
  if (bytes.length < length) throw new HersError('DAMAGED', `${name} is damaged: it ends within its header`);
  // Not `slice`, which shares memory if the bytes are a Buffer.
  const header = new Uint8Array(bytes.subarray(0, length));
  const view = new DataView(header.buffer);
  const sum = view.getBigUint64(80, true);
  view.setBigUint64(80, 0n, true);
  if (checksum(header) !== sum)
    throw new HersError('DAMAGED', `${name} is damaged: the checksum of its header does not fit`);
  const parameters = parameterSetById(view.getUint16(20, true));
  const width = view.getUint32(40, true);
  const rows = view.getUint32(44, true);
  const blockCount = view.getUint32(48, true);
  const parts = view.getUint32(52, true);
  const galleryScale = view.getFloat64(56, true);
  const partBytes = rowBytes(parameters, rows, blockCount);
  const expected = length + parts * partBytes;
  if (
    view.getUint32(12, true) !== (isPacked(parameters) ? LAYOUT_PACKED : LAYOUT_ROWS) ||
    parts !== partCount(parameters) ||
    view.getUint16(16, true) !== LANES ||
    view.getUint16(18, true) !== PANEL_ROWS ||
    width < 1 ||
    rows !== rowsOf(parameters, width) ||
    rows > MAX_ROWS ||
    !(galleryScale >= 1 && Number.isSafeInteger(galleryScale)) ||
    Number(view.getBigUint64(64, true)) !== length ||
    Number(view.getBigUint64(72, true)) !== expected
  ) {
    throw new HersError('MALFORMED', `${name} has a header whose fields contradict each other`);
  }
  if (fileBytes !== expected)
    throw new HersError('DAMAGED', `${name} is damaged: it has ${fileBytes} bytes and should have ${expected}`);
  const blocks = Array.from({ length: blockCount }, (_, i) => {
    const at = TABLE_AT + ENTRY_BYTES * i;
    const block = {
      blockId: header.slice(at, at + 16),
      first: view.getUint32(at + 16, true),
      count: view.getUint32(at + 20, true),
    };
    if (block.first + block.count > parameters.n)
      throw new HersError('MALFORMED', `${name} lists a block with more slots than there are`);
    return block;
  });
  const sumsAt = TABLE_AT + ENTRY_BYTES * blockCount;
  return {
    parameters,
    keyId: header.slice(24, 40),
    width,
    rows,
    galleryScale,
    blocks,
    partChecksums: BigUint64Array.from({ length: parts }, (_, i) => view.getBigUint64(sumsAt + 8 * i, true)),
    dataAt: length,
    partBytes,
    fileBytes,
  };
}

// Reading and writing files. The system may read or write less than requested; these functions do
// not.

/** Enough for the header of most segments. */
const FIRST_BYTES = 4096;

/**
 * The bytes from `at` on; fewer than `length` only at the end of the file. Whoever reads much gives
 * the memory for it: the system takes longer for new memory than for reading.
 */
export async function readFully(
  file: Pick<FileHandle, 'read'>,
  length: number,
  at: number,
  bytes: Uint8Array = new Uint8Array(length),
): Promise<Uint8Array> {
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(bytes, done, length - done, at + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

export async function writeFully(file: Pick<FileHandle, 'write'>, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done);
    if (bytesWritten === 0) throw new Error('the system wrote nothing and gave no reason');
    done += bytesWritten;
  }
}

export async function readHeader(file: FileHandle, name: string): Promise<SegmentHeader> {
  const { size } = await file.stat();
  const start = await readFully(file, FIRST_BYTES, 0);
  const length = headerLength(start, name);
  return decodeHeader(length > start.length ? await readFully(file, length, 0) : start, size, name);
}
