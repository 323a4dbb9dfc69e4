// The byte work of a scrub: reads a stretch of a file in large runs and compares it with its
// checksums. Stretches are short, so that a running one ends soon, and independent, so that any
// thread can take any.

import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { checksum } from '@hers/ring';
import { HANDLE_BYTES, LIST_ID_BYTES } from '@hers/service';
import { sameBytes, sha256 } from '../base/bytes.ts';
import { damaged, kindError, storageError } from '../base/storage-errors.ts';
import { readFully } from '../files/disk.ts';
import { checkPackHeader, type Entry, entryLength, PACK_HEADER_BYTES, RECORD, readEntry } from '../files/entry.ts';
import { type Sum, Tally } from './scrub-tally.ts';

/**
 * Read at once: enough for the full speed of the disk, and small enough to be hashed while it is in
 * the processor's cache.
 */
const RUN_BYTES = 2 ** 21;
/** How much of a file one task takes, approximately. */
export const STRETCH_BYTES: number = 2 ** 23;
/** A larger buffer, which only a huge entry needs, is not kept. */
const KEPT_BYTES = 2 ** 25;

interface InFile {
  /** Its name in the folder, for errors, and where the system finds it. */
  readonly path: string;
  readonly place: string;
}

/** Consecutive parts of a segment. */
export interface PartsTask extends InFile {
  readonly kind: 'parts';
  readonly first: number;
  readonly at: number;
  readonly partBytes: number;
  readonly sums: BigUint64Array;
}

/** Entries of a pack from `from` on, where one begins; from 0, its header too. */
export interface EntriesTask extends InFile {
  readonly kind: 'entries';
  readonly collectionId: Uint8Array;
  readonly pack: number;
  /** Whether the records are summed rather than listed. */
  readonly adds: boolean;
  readonly from: number;
  /** Where the last entry of the pack ends. */
  readonly end: number;
}

export interface BlockTask extends InFile {
  readonly kind: 'block';
  readonly bytes: number;
  readonly hash: Uint8Array;
}

export type Task = PartsTask | EntriesTask | BlockTask;

/** What a task found intact. */
export interface Done {
  readonly bytes: number;
  readonly entries?: Entries;
}

export interface Entries {
  readonly sum: Sum;
  /** The handle of each record, unless they are summed: RECORD_ROW bytes with its offset. */
  readonly records: Uint8Array<ArrayBuffer>;
  /** The id of each list, LIST_ROW bytes with its offset. */
  readonly lists: Uint8Array<ArrayBuffer>;
}

export const RECORD_ROW: number = HANDLE_BYTES + 4;
export const LIST_ROW: number = LIST_ID_BYTES + 4;

/** Buffers that are reused in turn, by one task at a time. */
export class Scratch {
  readonly #kept = [Buffer.alloc(0), Buffer.alloc(0)];
  #turn = 0;

  take(length: number): Buffer {
    if (length > KEPT_BYTES) return Buffer.allocUnsafeSlow(length);
    this.#turn = 1 - this.#turn;
    if (length > this.#kept[this.#turn].length)
      this.#kept[this.#turn] = Buffer.allocUnsafeSlow(Math.max(length, RUN_BYTES));
    return this.#kept[this.#turn].subarray(0, length);
  }
}

/** A file, read in runs: the next run is read while one is checked. */
class Runs {
  readonly path: string;
  readonly #file: number;
  readonly #scratch: Scratch;
  readonly #until: number;
  #ahead: { readonly at: number; readonly length: number; readonly bytes: Promise<Buffer> } | undefined;

  /** Nothing from `until` on is read ahead. */
  constructor(path: string, file: number, scratch: Scratch, until: number) {
    this.path = path;
    this.#file = file;
    this.#scratch = scratch;
    this.#until = until;
  }

  get size(): number {
    return fstatSync(this.#file).size;
  }

  /**
   * The bytes from `at` on, valid until the next call; fewer than requested at the end of the file.
   */
  async read(at: number, length: number): Promise<Buffer> {
    const ahead = this.#ahead;
    const early = await ahead?.bytes;
    const isWanted = ahead?.at === at && ahead.length === length;
    // Data that begins a little earlier is read again, from the system's cache.
    const bytes = isWanted ? early! : await this.#read(at, length);
    this.#ahead = undefined;
    const next = at + length;
    if (next < this.#until) this.#readAhead(next, Math.min(RUN_BYTES, length));
    return bytes;
  }

  #readAhead(at: number, length: number): void {
    const bytes = this.#read(at, length);
    bytes.catch(() => {}); // awaited later
    this.#ahead = { at, length, bytes };
  }

  #read(at: number, length: number): Promise<Buffer> {
    return readFully(this.#file, this.#scratch.take(length), at, length);
  }

  async close(): Promise<void> {
    await this.#ahead?.bytes.catch(() => {});
    closeSync(this.#file);
  }
}

/** Throws DAMAGED if something is not as it was written. */
export async function runTask(task: Task, scratch: Scratch): Promise<Done> {
  let file: Runs | undefined;
  try {
    // Opening a pipe in its place does not block.
    const opened = openSync(task.place, constants.O_RDONLY | constants.O_NONBLOCK);
    file = new Runs(task.path, opened, scratch, endOf(task));
    const wrong = kindError(fstatSync(opened), 'file', task.path);
    if (wrong) throw wrong;
    return await verify(file, task);
  } catch (error) {
    throw storageError(error, task.path);
  } finally {
    await file?.close();
  }
}

function endOf(task: Task): number {
  switch (task.kind) {
    case 'parts':
      return task.at + task.sums.length * task.partBytes;
    case 'entries':
      return Math.min(task.end, task.from + STRETCH_BYTES);
    case 'block':
      return task.bytes;
  }
}

function verify(file: Runs, task: Task): Promise<Done> {
  switch (task.kind) {
    case 'parts':
      return verifyParts(file, task);
    case 'entries':
      return verifyEntries(file, task);
    case 'block':
      return verifyBlock(file, task);
  }
}

async function verifyParts(file: Runs, { first, at, partBytes, sums }: PartsTask): Promise<Done> {
  const together = Math.max(1, Math.floor(RUN_BYTES / partBytes));
  for (let part = 0; part < sums.length; part += together) {
    const some = sums.subarray(part, part + together);
    const bytes = await file.read(at + part * partBytes, some.length * partBytes);
    for (const [i, sum] of some.entries())
      if (checksum(bytes.subarray(i * partBytes, (i + 1) * partBytes)) !== sum)
        throw damaged(file.path, `part ${first + part + i} of it is not what was written`);
  }
  return { bytes: sums.length * partBytes };
}

async function verifyBlock(file: Runs, { bytes, hash }: BlockTask): Promise<Done> {
  const { size } = file;
  if (size !== bytes) throw damaged(file.path, `it has ${size} bytes and should have ${bytes}`);
  const hashing = createHash('sha256');
  for (let at = 0; at < bytes; at += RUN_BYTES) hashing.update(await file.read(at, Math.min(RUN_BYTES, bytes - at)));
  if (!sameBytes(hashing.digest(), hash)) throw damaged(file.path, 'it is not the block that was written');
  return { bytes };
}

async function verifyEntries(file: Runs, task: EntriesTask): Promise<Done> {
  const { collectionId, from, end } = task;
  const found = new Found(task);
  if (from === 0) checkPackHeader(await file.read(0, PACK_HEADER_BYTES), collectionId, file.path);
  let at = Math.max(from, PACK_HEADER_BYTES);
  let length = RUN_BYTES;
  while (at < end && at - from < STRETCH_BYTES) {
    const wanted = Math.min(length, end - at);
    const bytes = await file.read(at, wanted);
    if (bytes.length < wanted)
      throw damaged(file.path, `it ends after ${at + bytes.length} bytes, and should have ${end}`);
    const whole = wholeEntries(file.path, bytes, at, found);
    at += whole;
    length = whole > 0 ? RUN_BYTES : lengthOfLarge(file.path, bytes, at, end);
  }
  return { bytes: at - from, entries: found.entries };
}

/** Verifies the complete entries, and returns their length in bytes. */
function wholeEntries(path: string, bytes: Buffer, start: number, found: Found): number {
  let at = 0;
  let length = entryLength(bytes, at);
  while (length !== undefined && at + length <= bytes.length) {
    const offset = start + at;
    const entry = readEntry(bytes, at, length, () => `the entry at ${offset} of ${path}`);
    found.add(entry, offset, length);
    at += length;
    length = entryLength(bytes, at);
  }
  return at;
}

/**
 * An entry that was not read completely, in bytes that begin with it: it is larger, or its length
 * is invalid.
 */
function lengthOfLarge(path: string, bytes: Buffer, at: number, end: number): number {
  const length = entryLength(bytes, 0);
  if (length === undefined || at + length > end || length <= bytes.length)
    throw damaged(path, `it holds no entry at ${at}`);
  return length;
}

/** The entries of a stretch, in the compact form in which they are compared with the catalogue. */
class Found {
  readonly #pack: number;
  readonly #adds: boolean;
  readonly #tally = new Tally();
  readonly #records = new Rows(RECORD_ROW);
  readonly #lists = new Rows(LIST_ROW);

  constructor({ pack, adds }: EntriesTask) {
    this.#pack = pack;
    this.#adds = adds;
  }

  add({ kind, content }: Entry, offset: number, length: number): void {
    if (kind !== RECORD) this.#lists.add(sha256(content), offset);
    else if (this.#adds) this.#tally.add(content.subarray(0, HANDLE_BYTES), { pack: this.#pack, offset, length });
    else this.#records.add(content.subarray(0, HANDLE_BYTES), offset);
  }

  get entries(): Entries {
    return { sum: this.#tally.sum, records: this.#records.taken, lists: this.#lists.taken };
  }
}

/** Handles or list ids, each followed by an offset. */
class Rows {
  readonly #rowBytes: number;
  #rows = Buffer.alloc(0);
  #filled = 0;

  constructor(rowBytes: number) {
    this.#rowBytes = rowBytes;
  }

  add(handle: Uint8Array, offset: number): void {
    const end = this.#filled + this.#rowBytes;
    if (end > this.#rows.length) {
      const grown = Buffer.alloc(Math.max(2 ** 12 * this.#rowBytes, 2 * this.#rows.length));
      grown.set(this.#rows.subarray(0, this.#filled));
      this.#rows = grown;
    }
    this.#rows.set(handle, this.#filled);
    this.#rows.writeUInt32LE(offset, end - 4);
    this.#filled = end;
  }

  /** A copy that can be transferred to another thread. */
  get taken(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#rows.subarray(0, this.#filled));
  }
}
