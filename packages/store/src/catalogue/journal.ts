// A record of the latest commits, outside the catalogue and its log: each transaction appends an
// entry and syncs it. It tells a folder that only crashed from one whose catalogue is an older
// copy, has lost its log, or has damage at the very end of its log. Entries also hold what is
// otherwise only in the catalogue (the sealed manifest of every collection, and the seeds of
// masks), so that a lost catalogue can be rebuilt (salvage.ts).
//
//   0  'HERSJRNL'   8 version   12 zero   16 XXH64 of all before
//  24  entries, one behind the other: { 'HERE' (u32), length of the parts (u32), counter (u32),
//      stamp (u32), parts, XXH64 of the entry so far }
//      a part: { kind (u32), length (u32), content }
//
// A crash may leave half an entry at the end, of a transaction that was not acknowledged. Any other
// mismatch is damage.

import { closeSync, constants, fstatSync, readSync } from 'node:fs';
import { checksum } from '@hers/ring';
import { hex } from '../base/bytes.ts';
import { storageError } from '../base/storage-errors.ts';
import type { Disk } from '../files/disk.ts';

export const JOURNAL = 'catalogue.journal';

const MAGIC = 0x4c4e524a53524548n; // 'HERSJRNL'
const VERSION = 1;
const HEADER_BYTES = 24;
const ENTRY_MARK = 0x45524548; // 'HERE'
const HEAD_BYTES = 16;
const PART_HEAD_BYTES = 8;
const [COLLECTION, SEEDS, GONE] = [1, 2, 3];
const ID_BYTES = 16;
const SEED_BYTES = 32;
const READ_BYTES = 2 ** 30;

/** Identifies a transaction: a counter and a random stamp. The database holds both too. */
export interface Mark {
  readonly counter: number;
  readonly stamp: number;
}

/** What a commit changed in a collection. */
export interface JournalCollection {
  readonly number: number;
  readonly name: string;
  readonly id: Uint8Array;
  readonly descriptor: Uint8Array;
  readonly version: number;
  readonly manifest: Uint8Array;
}

export interface BlockSeed {
  readonly id: Uint8Array;
  readonly seed: Uint8Array;
}

export type JournalPart =
  | { readonly collection: JournalCollection }
  | { readonly number: number; readonly seeds: readonly BlockSeed[] }
  | { readonly gone: number };

/** A collection as the journal knows it. */
export interface JournalledCollection extends JournalCollection {
  /** Seeds of masks by block id in hexadecimal, including those of blocks that were dropped. */
  readonly seeds: ReadonlyMap<string, Uint8Array>;
}

export interface JournalContent {
  readonly last?: Mark;
  readonly collections: ReadonlyMap<number, JournalledCollection>;
  /** Deleted collections. Some of their files may be left. */
  readonly gone: ReadonlySet<number>;
  readonly end: number;
  /** What is wrong with it, apart from what a crash explains. */
  readonly damage?: string;
}

function header(): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES);
  bytes.writeBigUInt64LE(MAGIC, 0);
  bytes.writeUInt32LE(VERSION, 8);
  bytes.writeBigUInt64LE(checksum(bytes.subarray(0, 16)), 16);
  return bytes;
}

function encodePart(part: JournalPart): Buffer {
  if ('gone' in part) return partOf(GONE, u32(part.gone));
  if ('seeds' in part) return partOf(SEEDS, u32(part.number), ...part.seeds.flatMap(({ id, seed }) => [id, seed]));
  const { number, name, id, descriptor, version, manifest } = part.collection;
  const nameBytes = Buffer.from(name);
  const fields = Buffer.alloc(20);
  fields.writeUInt32LE(number, 0);
  fields.writeBigUInt64LE(BigInt(version), 4);
  fields.writeUInt32LE(nameBytes.length, 12);
  fields.writeUInt32LE(descriptor.length, 16);
  return partOf(COLLECTION, fields, id, nameBytes, descriptor, manifest);
}

function partOf(kind: number, ...content: readonly Uint8Array[]): Buffer {
  return Buffer.concat([u32(kind, lengthOf(content)), ...content]);
}

const lengthOf = (content: readonly Uint8Array[]) => content.reduce((sum, { length }) => sum + length, 0);

function u32(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [i, value] of values.entries()) bytes.writeUInt32LE(value, 4 * i);
  return bytes;
}

function encodeEntry({ counter, stamp }: Mark, parts: readonly JournalPart[]): Buffer {
  const content = parts.map(encodePart);
  const entry = Buffer.concat([u32(ENTRY_MARK, lengthOf(content), counter, stamp), ...content]);
  const sum = Buffer.alloc(8);
  sum.writeBigUInt64LE(checksum(entry));
  return Buffer.concat([entry, sum]);
}

/** The end of the entry at `at`, or undefined if there is none. */
function entryEnd(bytes: Buffer, at: number): number | undefined {
  if (at + HEAD_BYTES + 8 > bytes.length || bytes.readUInt32LE(at) !== ENTRY_MARK) return undefined;
  const end = at + HEAD_BYTES + bytes.readUInt32LE(at + 4);
  if (end + 8 > bytes.length || bytes.readBigUInt64LE(end) !== checksum(bytes.subarray(at, end))) return undefined;
  return end + 8;
}

type Changing = JournalCollection & { readonly seeds: Map<string, Uint8Array> };

class Reading {
  readonly collections = new Map<number, Changing>();
  /** Seeds of a collection that has no name yet because it is being restored. */
  readonly #early = new Map<number, Map<string, Uint8Array>>();
  readonly gone = new Set<number>();
  last: Mark | undefined;

  take(entry: Buffer): void {
    for (let at = HEAD_BYTES; at < entry.length - 8; ) {
      const start = at + PART_HEAD_BYTES;
      const end = start + entry.readUInt32LE(at + 4);
      this.#takePart(entry.readUInt32LE(at), entry.subarray(start, end));
      at = end;
    }
    this.last = { counter: entry.readUInt32LE(8), stamp: entry.readUInt32LE(12) };
  }

  #takePart(kind: number, content: Buffer): void {
    const number = content.readUInt32LE(0);
    if (kind === GONE) {
      this.gone.add(number);
      this.collections.delete(number);
      this.#early.delete(number);
    } else if (kind === SEEDS) {
      const seeds = this.#seeds(number);
      for (let at = 4; at < content.length; at += ID_BYTES + SEED_BYTES)
        seeds.set(
          hex(content.subarray(at, at + ID_BYTES)),
          new Uint8Array(content.subarray(at + ID_BYTES, at + ID_BYTES + SEED_BYTES)),
        );
    } else if (kind === COLLECTION) {
      const seeds = this.#seeds(number);
      const nameAt = 20 + ID_BYTES;
      const descriptorAt = nameAt + content.readUInt32LE(12);
      const manifestAt = descriptorAt + content.readUInt32LE(16);
      this.collections.set(number, {
        number: number,
        version: Number(content.readBigUInt64LE(4)),
        id: new Uint8Array(content.subarray(20, nameAt)),
        name: content.toString('utf8', nameAt, descriptorAt),
        descriptor: new Uint8Array(content.subarray(descriptorAt, manifestAt)),
        manifest: new Uint8Array(content.subarray(manifestAt)),
        seeds,
      });
    }
  }

  #seeds(number: number): Map<string, Uint8Array> {
    const known = this.collections.get(number)?.seeds ?? this.#early.get(number) ?? new Map<string, Uint8Array>();
    this.#early.set(number, known);
    return known;
  }
}

/** Undefined if there is no journal. Continues after damage, to recover as much as possible. */
export function readJournal(disk: Disk): JournalContent | undefined {
  if (disk.sizeSync(JOURNAL) === undefined) return undefined;
  const file = disk.openSync(JOURNAL);
  let bytes: Buffer;
  try {
    bytes = readAll(file);
  } catch (error) {
    throw storageError(error, JOURNAL);
  } finally {
    closeSync(file);
  }
  const reading = new Reading();
  let damage = bytes.subarray(0, HEADER_BYTES).equals(header()) ? undefined : 'it does not begin as a journal';
  let end = Math.min(HEADER_BYTES, bytes.length);
  for (let at = end; at < bytes.length; ) {
    const next = entryEnd(bytes, at);
    if (next !== undefined) {
      if (at > end) damage ??= `entries before ${at} cannot be read`;
      reading.take(bytes.subarray(at, next));
      at = end = next;
      continue;
    }
    const mark = bytes.indexOf(u32(ENTRY_MARK), at + 1);
    at = mark === -1 ? bytes.length : mark;
  }
  const { last, collections, gone } = reading;
  return { collections, gone, end, ...(last ? { last } : {}), ...(damage ? { damage } : {}) };
}

/** Node reads at most 2 GiB at once. */
function readAll(file: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(fstatSync(file).size);
  let done = 0;
  while (done < bytes.length) {
    const read = readSync(file, bytes, done, Math.min(READ_BYTES, bytes.length - done), done);
    if (read === 0) break;
    done += read;
  }
  return bytes.subarray(0, done);
}

/** The journal of a folder that this process writes. */
export class Journal {
  readonly #disk: Disk;
  #file: number;
  #end: number;
  /** What the next append must write first, because an earlier write failed. */
  #owed: Buffer | undefined;

  private constructor(disk: Disk, file: number, end: number) {
    this.#disk = disk;
    this.#file = file;
    this.#end = end;
  }

  /** The existing journal, which was read before. */
  static open(disk: Disk, { end }: JournalContent): Journal {
    return new Journal(disk, openFile(disk), end);
  }

  /** A new journal, which replaces the existing one if there is one. */
  static make(disk: Disk, mark: Mark, parts: readonly JournalPart[]): Journal {
    let journal: Journal | undefined;
    try {
      replace(disk, mark, parts, (file, end) => {
        journal = new Journal(disk, file, end);
      });
    } catch (error) {
      journal?.close();
      throw error;
    }
    return journal!;
  }

  get bytes(): number {
    return this.#end;
  }

  /** Writes what an earlier write could not; throws as long as that fails. */
  settle(): void {
    if (!this.#owed) return;
    this.#write(this.#owed);
    this.#owed = undefined;
  }

  /**
   * Nothing may fail after a commit. A failed write is kept, and `settle` retries it before the
   * next transaction.
   */
  append(mark: Mark, parts: readonly JournalPart[]): void {
    const entry = encodeEntry(mark, parts);
    try {
      this.#write(entry);
    } catch {
      this.#owed = entry;
    }
  }

  #write(entry: Buffer): void {
    this.#disk.writeSync(JOURNAL, this.#file, entry, this.#end);
    this.#disk.syncSync(JOURNAL, this.#file);
    this.#end += entry.length;
  }

  /** Replaces the content of the journal by these parts. */
  rewrite(mark: Mark, parts: readonly JournalPart[]): void {
    const old = this.#file;
    replace(this.#disk, mark, parts, (file, end) => {
      closeSync(old);
      this.#file = file;
      this.#end = end;
      this.#owed = undefined;
    });
  }

  close(): void {
    closeSync(this.#file);
  }
}

/**
 * Rewrites a journal, and calls `named` as soon as the new one has its name: whatever fails
 * afterwards, later entries go into the new one.
 */
function replace(
  disk: Disk,
  mark: Mark,
  parts: readonly JournalPart[],
  named: (file: number, end: number) => void,
): void {
  const temporary = `${JOURNAL}.tmp`;
  disk.removeSync(temporary);
  const file = disk.createSync(temporary);
  let isNamed = false;
  try {
    let end = 0;
    // One entry for each part, because a length has 32 bits.
    const pieces = parts.length === 0 ? [encodeEntry(mark, [])] : parts.map((part) => encodeEntry(mark, [part]));
    for (const piece of [header(), ...pieces]) {
      disk.writeSync(temporary, file, piece, end);
      end += piece.length;
    }
    disk.syncSync(temporary, file);
    disk.renameSync(temporary, JOURNAL);
    isNamed = true;
    named(file, end);
    disk.syncFolderSync('.');
  } finally {
    if (!isNamed) closeSync(file);
  }
}

function openFile(disk: Disk): number {
  return disk.openSync(JOURNAL, constants.O_RDWR);
}
