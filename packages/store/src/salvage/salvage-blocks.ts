// Blocks of a damaged folder: in files of their own, and in segments, parts of which may be
// damaged. This code cannot tell whether a block is the right one; its hash tells.

import { checksum } from '@hers/ring';
import { decodeHeader, headerLength, LANES, rowBytes, type SegmentHeader } from '@hers/scan';
import { decodeBlock, parameterSetById, polyWords, rowsOf } from '@hers/scheme';
import { hex } from '../base/bytes.ts';
import { type ReadBlock, readInSegment } from '../blocks/rebuild.ts';
import type { Disk, DiskReader } from '../files/disk.ts';
import type { FolderFile } from './salvage.ts';
import type { SegmentRow } from './salvage-catalogue.ts';
import { type ByteRange, readThrough } from './salvage-pack.ts';

const HEADER_START = 128;
const FILE_BYTES_AT = 72;
/** In an encoded block: the offset of its id, behind the header of every message. */
const ID_AT = 32;
/** And the offset of its length, within that header. */
const LENGTH_AT = 24;
const ID_END = 48;

export interface BlockPlace {
  /** In hexadecimal. */
  readonly id: string;
  readonly path: string;
  readonly header?: SegmentHeader;
  readonly position: number;
}

/**
 * Every place where a block of any id may be. Places that cannot be determined are left out, and
 * reported to `onDamage`.
 */
export async function blockPlaces(
  disk: Disk,
  files: readonly FolderFile[],
  rowsOf: (path: string) => readonly SegmentRow[] | undefined,
  onDamage: (path: string, range: ByteRange) => void,
): Promise<BlockPlace[]> {
  const places: BlockPlace[] = [];
  for (const { path, kind, size } of files) {
    if (kind === 'pack') continue;
    await reading(disk, path, async (file) => {
      if (kind === 'block') {
        const start = await readThrough(file, 0, Math.min(ID_END, size));
        if (start.length === ID_END) places.push({ id: hex(start.subarray(ID_AT, ID_END)), path, position: 0 });
        return;
      }
      const own = await ownHeader(file);
      if (!own) onDamage(path, { from: 0, to: Math.min(size, HEADER_START) });
      const header = own ?? headerFrom(rowsOf(path) ?? [], size);
      header?.blocks.forEach(({ blockId }, position) => {
        if (blockId.length > 0) places.push({ id: hex(blockId), path, header, position });
      });
    }).catch(() => onDamage(path, { from: 0, to: size }));
  }
  return places;
}

async function reading<T>(disk: Disk, path: string, work: (file: DiskReader) => Promise<T>): Promise<T> {
  using file = disk.openToRead(path);
  return await work(file);
}

/** The header of a segment, even if the file is truncated. */
async function ownHeader(file: DiskReader): Promise<SegmentHeader | undefined> {
  try {
    const start = await file.read(0, HEADER_START);
    const bytes = await file.read(0, headerLength(start, file.path));
    return decodeHeader(bytes, Number(start.readBigUInt64LE(FILE_BYTES_AT)), file.path);
  } catch {
    return undefined;
  }
}

/** The header of a segment that has lost it, from what a catalogue says about its blocks. */
function headerFrom(rows: readonly SegmentRow[], fileBytes: number): SegmentHeader | undefined {
  const [first] = rows;
  if (!first || !(first.total >= 1 && first.total <= 64)) return undefined;
  try {
    const parameters = parameterSetById(first.parameters);
    const all = rowsOf(parameters, first.width);
    const partBytes = rowBytes(parameters, all, first.total);
    const nobody = { blockId: new Uint8Array(0), first: 0, count: 0 };
    return {
      parameters,
      keyId: first.keyId,
      width: first.width,
      rows: all,
      galleryScale: first.galleryScale,
      blocks: Array.from({ length: first.total }, (_, i) => {
        const row = rows.find(({ position }) => position === i);
        return row ? { ...row, blockId: row.id } : nobody;
      }),
      partChecksums: new BigUint64Array(0),
      dataAt: fileBytes - (polyWords(parameters) / LANES) * partBytes,
      partBytes,
      fileBytes,
    };
  } catch {
    return undefined;
  }
}

/**
 * The block at a place; undefined if there is none, or if it is in a segment and its seed is not
 * known.
 */
export async function readBlockAt(
  disk: Disk,
  { path, header, position }: BlockPlace,
  seed: Uint8Array | undefined,
): Promise<ReadBlock | undefined> {
  try {
    return await reading(disk, path, async (file) => {
      if (!header) {
        const whole = await readThrough(file, 0, file.size);
        // Other data may follow it.
        const encoded = whole.subarray(0, whole.readUInt32LE(LENGTH_AT));
        return { block: decodeBlock(encoded), encoded };
      }
      return seed && readInSegment(file, header, position, seed);
    });
  } catch {
    return undefined;
  }
}

export async function damagedParts(
  disk: Disk,
  { path, header }: BlockPlace,
  signal: AbortSignal,
): Promise<ByteRange[]> {
  if (!header) return [];
  const { dataAt, partBytes, partChecksums } = header;
  return reading(disk, path, async (file) => {
    const ranges: ByteRange[] = [];
    for (const [part, sum] of partChecksums.entries()) {
      signal.throwIfAborted();
      const from = dataAt + part * partBytes;
      if (checksum(await readThrough(file, from, partBytes)) !== sum) ranges.push({ from, to: from + partBytes });
    }
    return ranges;
  });
}
