// Reads a pack that may be damaged anywhere: every entry with a valid checksum, dead and
// uncommitted ones included. After damage it looks for bytes that can begin an entry; the checksum
// decides. It holds one entry in memory, or a few megabytes. Failed attempts are counted, so that
// no content makes it run for ever.

import { checksum } from '@hers/ring';
import { HANDLE_BYTES, HersError } from '@hers/service';
import { damaged } from '../base/storage-errors.ts';
import type { DiskReader } from '../files/disk.ts';
import {
  checkPackHeader,
  ENTRY_OVERHEAD,
  type Entry,
  LIST,
  MAX_CONTENT,
  PACK_HEADER_BYTES,
  RECORD,
} from '../files/entry.ts';

const WINDOW_BYTES = 2 ** 22;
/**
 * A range that cannot be read at once is read in pieces of this size. Pieces that cannot be read
 * become zeros.
 */
const SECTOR_BYTES = 2 ** 12;
const HEAD_BYTES = 8;
/** Bytes that may be hashed in failed attempts: a constant, and a number per byte of the file. */
const VAIN_BYTES = 2 ** 28;
const VAIN_SHARE = 4;
/** The cost of a failed attempt, however short its entry. */
const VAIN_COST = 64;
/** Bytes searched before other work gets the thread. */
const TURN_BYTES = 2 ** 24;

/** The first byte, and the one after the last. */
export interface ByteRange {
  readonly from: number;
  readonly to: number;
}

export interface FoundEntry {
  readonly entry: Entry;
  readonly offset: number;
  /** Of the whole entry. */
  readonly length: number;
}

/** The collection that a pack says it belongs to, if that can still be read. */
export function packCollection(head: Uint8Array): Uint8Array | undefined {
  const id = new Uint8Array(head.subarray(16, 32));
  try {
    checkPackHeader(head, id, 'a pack');
    return id;
  } catch {
    return undefined;
  }
}

/** Continues where the disk cannot be read: those bytes are zero. */
export async function readThrough(file: DiskReader, at: number, length: number): Promise<Buffer> {
  try {
    return await file.read(at, length);
  } catch (error) {
    if (!(error instanceof HersError && error.code === 'STORAGE')) throw error;
  }
  const bytes = Buffer.alloc(length);
  for (let done = 0; done < length; done += SECTOR_BYTES) {
    const piece = await file.read(at + done, Math.min(SECTOR_BYTES, length - done)).catch(() => undefined);
    piece?.copy(bytes, done);
  }
  return bytes;
}

export class PackSalvage {
  readonly #file: DiskReader;
  readonly #size: number;
  readonly #signal: AbortSignal;
  #bytes: Buffer = Buffer.alloc(0);
  #start = 0;
  #vain = 0;
  readonly runs: ByteRange[] = [];
  readonly damage: ByteRange[] = [];

  constructor(file: DiskReader, signal: AbortSignal) {
    this.#file = file;
    this.#size = file.size;
    this.#signal = signal;
  }

  /** All entries, in groups. Their content is valid until the next group is requested. */
  async *entries(): AsyncGenerator<FoundEntry[]> {
    const head = await readThrough(this.#file, 0, Math.min(PACK_HEADER_BYTES, this.#size));
    const headless = packCollection(head) === undefined;
    if (headless) this.damage.push({ from: 0, to: Math.min(PACK_HEADER_BYTES, this.#size) });
    let at = headless ? 0 : PACK_HEADER_BYTES;
    while (at < this.#size) {
      const from = at;
      for await (const found of this.run(at)) {
        yield found;
        const last = found[found.length - 1];
        at = last.offset + last.length;
      }
      if (at > from) this.runs.push({ from, to: at });
      if (at >= this.#size) return;
      const next = await this.#nextStart(at + 1);
      this.#spoil(at, next);
      at = next;
    }
  }

  /** A pack with an invalid header begins with damage. */
  #spoil(from: number, to: number): void {
    const last = this.damage.at(-1);
    if (last && last.to >= from) this.damage[this.damage.length - 1] = { from: last.from, to: Math.max(last.to, to) };
    else this.damage.push({ from, to });
  }

  /** The entries from here on, up to `end` or the first that is invalid. */
  async *run(at: number, end: number = this.#size): AsyncGenerator<FoundEntry[]> {
    for (;;) {
      this.#signal.throwIfAborted();
      const found: FoundEntry[] = [];
      let entry = at < end ? await this.#entryAt(at) : undefined;
      while (entry) {
        found.push(entry);
        at += entry.length;
        entry = at < end && this.#holdsEntry(at) ? this.#entryHere(at) : undefined;
      }
      if (found.length === 0) return;
      yield found;
    }
  }

  /** Makes the window hold these bytes, and more after them. */
  async #hold(at: number, length: number): Promise<void> {
    if (at >= this.#start && at + length <= this.#start + this.#bytes.length) return;
    const wanted = Math.min(Math.max(length, WINDOW_BYTES), this.#size - at);
    this.#bytes = await readThrough(this.#file, at, wanted);
    this.#start = at;
  }

  /** The length of an entry that may begin here; the window holds its header. */
  #lengthHere(at: number): number | undefined {
    const i = at - this.#start;
    const bytes = this.#bytes;
    const kind = bytes[i + 4];
    if ((kind !== RECORD && kind !== LIST) || bytes[i + 5] !== 0 || bytes[i + 6] !== 0 || bytes[i + 7] !== 0)
      return undefined;
    const content = bytes.readUInt32LE(i);
    if (content > MAX_CONTENT || (kind === RECORD && content < HANDLE_BYTES)) return undefined;
    const length = ENTRY_OVERHEAD + content;
    return at + length <= this.#size ? length : undefined;
  }

  #holdsEntry(at: number): boolean {
    const end = this.#start + this.#bytes.length;
    if (at < this.#start || at + HEAD_BYTES > end) return false;
    const length = this.#lengthHere(at);
    return length !== undefined && at + length <= end;
  }

  /** The entry that begins here; the window holds all of it. */
  #entryHere(at: number): FoundEntry | undefined {
    const length = this.#lengthHere(at)!;
    const i = at - this.#start;
    const end = i + length - 8;
    if (this.#bytes.readBigUInt64LE(end) !== checksum(this.#bytes.subarray(i, end))) return undefined;
    const kind = this.#bytes[i + 4] as typeof RECORD | typeof LIST;
    return { entry: { kind, content: this.#bytes.subarray(i + HEAD_BYTES, end) }, offset: at, length };
  }

  async #entryAt(at: number): Promise<FoundEntry | undefined> {
    if (at + ENTRY_OVERHEAD > this.#size) return undefined;
    await this.#hold(at, HEAD_BYTES);
    const length = this.#lengthHere(at);
    if (length === undefined) return undefined;
    await this.#hold(at, length);
    return this.#holdsEntry(at) ? this.#entryHere(at) : undefined;
  }

  /** Where the next entry begins, or the end of the file. */
  async #nextStart(from: number): Promise<number> {
    let turn = 0;
    for (let at = from; at + ENTRY_OVERHEAD <= this.#size; ) {
      this.#signal.throwIfAborted();
      await this.#hold(at, HEAD_BYTES);
      const end = this.#start + this.#bytes.length - HEAD_BYTES;
      const first = at;
      while (at <= end && this.#lengthHere(at) === undefined) at++;
      turn += at - first;
      if (at <= end) {
        const length = this.#lengthHere(at)!;
        if (await this.#entryAt(at)) return at;
        this.#vain += length + VAIN_COST;
        turn += length + VAIN_COST;
        if (this.#vain > VAIN_BYTES + VAIN_SHARE * this.#size) return this.#size;
        at++;
      }
      if (turn < TURN_BYTES) continue;
      turn = 0;
      await new Promise(setImmediate);
    }
    return this.#size;
  }
}

/** Entries of runs that were found before. DAMAGED if they have changed. */
export async function* entriesOf(
  file: DiskReader,
  runs: readonly ByteRange[],
  signal: AbortSignal,
): AsyncGenerator<FoundEntry[]> {
  const salvage = new PackSalvage(file, signal);
  for (const { from, to } of runs) {
    let at = from;
    for await (const found of salvage.run(from, to)) {
      yield found;
      const last = found[found.length - 1];
      at = last.offset + last.length;
    }
    if (at !== to) throw damaged(file.path, 'it changes while it is read');
  }
}
