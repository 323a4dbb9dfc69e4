// The cache of lists in a folder: a file for each collection, to which lists are appended.
//
//   file      entries
//   entry     length u32, name (32 bytes), CRC-32 of both u32, the sealed list
//
// There is no lock. An entry is appended in one piece. A file with much that is not current, or
// with anything that is no entry, is written again under another name and renamed. What two
// processes do to each other that way costs at most what one of them has added: that is fetched
// again.
// A file that ends in the middle of an entry, after a crash or while another process writes, is
// used up to there. Nothing is synced, for nothing here is the only copy.

import { randomBytes } from 'node:crypto';
import { constants, type FileHandle, mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { fromHex, hex } from '../bytes.ts';
import type { CachedList, CachedLists, ListCache } from './list-cache.ts';

const NAME_BYTES = 32;
const HEAD_BYTES = 4 + NAME_BYTES + 4;
/** More than a list has; what says more is no entry. */
const MAX_LIST_BYTES = 2 ** 26;
/** Read, or written, at once. */
const PIECE_BYTES = 2 ** 22;
const SUFFIX = '.lists';
const TEMPORARY = '.tmp';
/** A file of so many times the bytes that all may have is deleted, and not read. */
const FAR = 2;
/** No process takes longer to write a file. */
const LEFT_OVER_MS = 3_600_000;

export class StoredListCache implements ListCache {
  readonly #folder: string;
  readonly #maxBytes: number;

  constructor(folder: string, maxBytes: number) {
    this.#folder = folder;
    this.#maxBytes = maxBytes;
  }

  async open(collection: string, names: ReadonlySet<string>): Promise<CachedLists> {
    return new FileLists(this.#pathOf(collection), names, this.#maxBytes, () => this.#roomFor(collection));
  }

  async forget(collection: string): Promise<void> {
    await rm(this.#pathOf(collection), { force: true }).catch(() => {});
  }

  #pathOf(collection: string): string {
    return join(this.#folder, collection + SUFFIX);
  }

  /** Deletes collections that were not opened for longest, as far as they are in the way. */
  async #roomFor(collection: string): Promise<(bytes: number) => Promise<boolean>> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const others: { readonly path: string; readonly size: number; readonly usedMs: number }[] = [];
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name);
      if (name === collection + SUFFIX || !(name.endsWith(SUFFIX) || name.endsWith(TEMPORARY))) continue;
      // Another process may have deleted it.
      const { size, mtimeMs } = await stat(path).catch(() => ({ size: 0, mtimeMs: Date.now() }));
      if (name.endsWith(SUFFIX)) others.push({ path, size, usedMs: mtimeMs });
      else if (Date.now() - mtimeMs > LEFT_OVER_MS) await rm(path, { force: true });
    }
    others.sort((a, b) => b.usedMs - a.usedMs);
    let taken = others.reduce((sum, { size }) => sum + size, 0);
    return async (bytes) => {
      if (bytes > this.#maxBytes) return false;
      while (taken + bytes > this.#maxBytes) {
        const { path, size } = others.pop()!;
        await rm(path, { force: true });
        taken -= size;
      }
      return true;
    };
  }
}

type Room = (bytes: number) => Promise<boolean>;

class FileLists implements CachedLists {
  readonly #path: string;
  readonly #names: ReadonlySet<string>;
  readonly #maxBytes: number;
  readonly #makeRoom: () => Promise<Room>;
  #room: Room | undefined;
  #file: FileHandle | undefined;
  /** Of the file: its size, and how much of that is current, each list once. */
  #size = 0;
  #current = 0;
  /** Whether all of it is entries. */
  #isWhole = true;
  readonly #known = new Set<string>();
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  /** Nothing is written any more: there is no room, or an error. */
  #isFull = false;

  constructor(path: string, names: ReadonlySet<string>, maxBytes: number, makeRoom: () => Promise<Room>) {
    this.#path = path;
    this.#maxBytes = maxBytes;
    this.#names = names;
    this.#makeRoom = makeRoom;
  }

  async *read(): AsyncGenerator<CachedList> {
    let file: FileHandle;
    try {
      // Whoever opens a pipe waits for whoever writes to it.
      file = await open(this.#path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    } catch {
      return;
    }
    try {
      const about = await file.stat();
      this.#isFull = !about.isFile();
      if (this.#isFull) return;
      // Nothing here has written so much. Reading it to its end could take for ever.
      if (about.size > FAR * this.#maxBytes) {
        await rm(this.#path, { force: true }).catch(() => {});
        return;
      }
      const now = new Date();
      await utimes(this.#path, now, now).catch(() => {});
      const reading = entriesOf(file);
      for (;;) {
        const { value, done } = await reading.next().catch(() => ({ value: undefined, done: true }) as const);
        if (done || !value) break;
        const { name, sealed, end } = value;
        this.#size = end;
        if (!this.#names.has(name)) continue;
        if (!this.#known.has(name)) this.#current += HEAD_BYTES + sealed.length;
        this.#known.add(name);
        yield { name, sealed };
      }
      const { size } = await file.stat();
      this.#isWhole = size === this.#size;
      this.#size = size;
    } finally {
      await file.close().catch(() => {});
    }
  }

  async put({ name, sealed }: CachedList): Promise<void> {
    if (this.#isFull) return;
    const head = headOf(name, sealed.length);
    // Of two with a name, the later is good: the first was read, and was not.
    if (!this.#known.has(name)) this.#current += HEAD_BYTES + sealed.length;
    this.#waiting.push(head, sealed);
    this.#waitingBytes += HEAD_BYTES + sealed.length;
    if (this.#waitingBytes >= PIECE_BYTES) await this.#flush();
  }

  async #flush(): Promise<void> {
    const pieces = this.#waiting;
    const bytes = this.#waitingBytes;
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (pieces.length === 0 || this.#isFull) return;
    try {
      this.#room ??= await this.#makeRoom();
      // After what is no entry, none would be found.
      if (!this.#isWhole) await this.#rewrite();
      this.#isFull = !(await this.#room(this.#size + bytes));
      if (this.#isFull) return;
      this.#file ??= await open(this.#path, 'a', 0o600);
      await this.#file.appendFile(Buffer.concat(pieces));
      this.#size += bytes;
    } catch {
      this.#isFull = true;
    }
  }

  async close(): Promise<void> {
    await this.#flush();
    await this.#file?.close().catch(() => {});
    this.#file = undefined;
    try {
      if (!this.#isWhole || this.#size > 2 * this.#current) await this.#rewrite();
    } catch {} // it stays as it is
  }

  /** Writes the file again with what is current, each list once: the last of its name. */
  async #rewrite(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
    const source = await open(this.#path, 'r');
    const temporary = `${this.#path}.${randomBytes(6).toString('hex')}${TEMPORARY}`;
    try {
      const last = new Map<string, number>();
      for await (const { name, end } of entriesOf(source)) if (this.#names.has(name)) last.set(name, end);
      const target = await open(temporary, 'wx', 0o600);
      let size = 0;
      try {
        for await (const { name, sealed, end } of entriesOf(source)) {
          if (last.get(name) !== end) continue;
          await target.appendFile(Buffer.concat([headOf(name, sealed.length), sealed]));
          size += HEAD_BYTES + sealed.length;
        }
      } finally {
        await target.close();
      }
      await rename(temporary, this.#path);
      this.#size = size;
      this.#isWhole = true;
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    } finally {
      await source.close();
    }
  }
}

function headOf(name: string, length: number): Uint8Array {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(length, 0);
  head.set(fromHex(name), 4);
  head.writeUInt32LE(crc32(head.subarray(0, 4 + NAME_BYTES)), 4 + NAME_BYTES);
  return head;
}

/** The entries from the start of a file on, as far as they are some, and where each ends. */
async function* entriesOf(file: FileHandle): AsyncGenerator<CachedList & { readonly end: number }> {
  let start = 0;
  let wanted = PIECE_BYTES;
  for (;;) {
    // In memory of its own: what was given before may still be in use.
    const piece = Buffer.allocUnsafeSlow(wanted);
    const { bytesRead } = await file.read(piece, 0, wanted, start);
    let at = 0;
    let needed = HEAD_BYTES;
    while (bytesRead - at >= HEAD_BYTES) {
      const length = piece.readUInt32LE(at);
      const isHead = piece.readUInt32LE(at + 4 + NAME_BYTES) === crc32(piece.subarray(at, at + 4 + NAME_BYTES));
      if (!isHead || length > MAX_LIST_BYTES) return;
      needed = HEAD_BYTES + length;
      if (bytesRead - at < needed) break;
      const name = hex(piece.subarray(at + 4, at + 4 + NAME_BYTES));
      const sealed = new Uint8Array(piece.buffer, piece.byteOffset + at + HEAD_BYTES, length);
      at += needed;
      yield { name, sealed, end: start + at };
      needed = HEAD_BYTES;
    }
    if (at === 0 && (bytesRead < wanted || wanted >= needed)) return;
    start += at;
    wanted = Math.max(PIECE_BYTES, needed);
  }
}
