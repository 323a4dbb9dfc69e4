// Packs: the files of the vault. A pack is append-only. Replaced and deleted entries stay in it
// until a purge rewrites it.
//
//   0  'HERSPACK'   8 version   12 zero   16 collection id (16)   32 XXH64 of all before
//  40  entries, one behind the other: { length of the content (u32), kind (u8), zero (3),
//      content, XXH64 of the entry so far }
//
// The content of a record is its handle and its sealed bytes. The content of a list is its sealed
// bytes.

import { checksum } from '@hers/ring';
import { HANDLE_BYTES, HersError } from '@hers/service';
import { sameBytes } from '../base/bytes.ts';
import { damaged, REPAIR } from '../base/storage-errors.ts';

const MAGIC = 0x4b43415053524548n; // 'HERSPACK'
const VERSION = 1;
export const PACK_HEADER_BYTES = 40;
const HEAD_BYTES = 8;
export const ENTRY_OVERHEAD: number = HEAD_BYTES + 8;
/** A limit that snapshots, HTTP bodies and memory can all take. */
export const MAX_CONTENT: number = 2 ** 27;

export const RECORD = 1;
export const LIST = 2;
export type EntryKind = typeof RECORD | typeof LIST;

export interface Entry {
  readonly kind: EntryKind;
  readonly content: Uint8Array;
}

export function packHeader(collectionId: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(PACK_HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, MAGIC, true);
  view.setUint32(8, VERSION, true);
  bytes.set(collectionId, 16);
  view.setBigUint64(32, checksum(bytes.subarray(0, 32)), true);
  return bytes;
}

export function checkPackHeader(bytes: Uint8Array, collectionId: Uint8Array, name: string): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (
    bytes.length < PACK_HEADER_BYTES ||
    view.getBigUint64(0, true) !== MAGIC ||
    view.getUint32(8, true) !== VERSION ||
    view.getBigUint64(32, true) !== checksum(bytes.subarray(0, 32))
  )
    throw damaged(name, 'it does not begin as a pack');
  if (!sameBytes(bytes.subarray(16, 32), collectionId)) throw damaged(name, 'it is a pack of another collection');
}

export function entryBytes(contentBytes: number): number {
  return ENTRY_OVERHEAD + contentBytes;
}

/** Writes an entry of these parts at `at` and returns its length. */
export function writeEntry(out: Buffer, at: number, kind: EntryKind, ...parts: readonly Uint8Array[]): number {
  let end = at + HEAD_BYTES;
  for (const part of parts) {
    out.set(part, end);
    end += part.length;
  }
  out.writeUInt32LE(end - at - HEAD_BYTES, at);
  out.writeUInt32LE(kind, at + 4);
  out.writeBigUInt64LE(checksum(out.subarray(at, end)), end);
  return end + 8 - at;
}

/** The length of the entry that begins at `at`, or undefined if the bytes are too short to tell. */
export function entryLength(bytes: Buffer, at: number): number | undefined {
  return at + HEAD_BYTES > bytes.length ? undefined : entryBytes(bytes.readUInt32LE(at));
}

/** The entry in bytes `at` … `at + length`; `where` names it in errors. */
export function readEntry(bytes: Buffer, at: number, length: number, where: () => string): Entry {
  const end = at + length;
  const kind = end <= bytes.length && length >= ENTRY_OVERHEAD ? bytes.readUInt32LE(at + 4) : 0;
  if (
    (kind !== RECORD && kind !== LIST) ||
    bytes.readUInt32LE(at) !== length - ENTRY_OVERHEAD ||
    bytes.readBigUInt64LE(end - 8) !== checksum(bytes.subarray(at, end - 8)) ||
    (kind === RECORD && length < ENTRY_OVERHEAD + HANDLE_BYTES)
  )
    throw new HersError('DAMAGED', `${where()} is damaged: its checksum does not fit; ${REPAIR}`);
  return { kind, content: bytes.subarray(at + HEAD_BYTES, end - 8) };
}

// Where an entry is in the vault, as the catalogue stores it: pack, offset and length, u32 each.
// Packs end before 2^31 bytes.

export interface Place {
  readonly pack: number;
  readonly offset: number;
  /** Of the whole entry. */
  readonly length: number;
}

export const PLACE_BYTES = 12;

export function encodePlace({ pack, offset, length }: Place, out: Buffer = Buffer.alloc(PLACE_BYTES), at = 0): Buffer {
  out.writeUInt32LE(pack, at);
  out.writeUInt32LE(offset, at + 4);
  out.writeUInt32LE(length, at + 8);
  return out;
}

export function decodePlace(bytes: Uint8Array, at = 0): Place {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, PLACE_BYTES);
  return { pack: view.getUint32(0, true), offset: view.getUint32(4, true), length: view.getUint32(8, true) };
}

/** Pack 0 means none: the place of a deleted record. */
export const DELETED: Place = { pack: 0, offset: 0, length: 0 };
