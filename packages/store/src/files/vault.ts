// The packs of one collection: batches append to them, and entries are read by place or in order.

import { HANDLE_BYTES, HersError } from '@hers/service';
import { fault } from '../base/faults.ts';
import { SerialQueue } from '../base/serial-queue.ts';
import { damaged } from '../base/storage-errors.ts';
import type { Disk, DiskFile, DiskReader } from './disk.ts';
import {
  checkPackHeader,
  type Entry,
  type EntryKind,
  encodePlace,
  entryBytes,
  entryLength,
  MAX_CONTENT,
  PACK_HEADER_BYTES,
  PLACE_BYTES,
  type Place,
  packHeader,
  readEntry,
  writeEntry,
} from './entry.ts';
import { packPath, VAULT } from './layout.ts';

/** A pack that reaches this size is followed by a new one. */
const PACK_BYTES = 2 ** 30;
/** Entries are written in chunks of up to this many bytes. */
export const CHUNK_BYTES: number = 2 ** 21;
/** The first chunk of a batch, which may hold one list and nothing else. */
const FIRST_CHUNK_BYTES = 2 ** 16;
/** Entries at most this far apart are read together. */
const GAP_BYTES = 2 ** 14;
const RUN_BYTES = 2 ** 22;
/** The same for entries requested by place. */
const NEIGHBOURS_BYTES = 2 ** 19;

/**
 * What a batch records about each of its entries: a handle (for a list, as many bytes of its id)
 * and a place.
 */
export const ROW_BYTES: number = HANDLE_BYTES + PLACE_BYTES;

interface OpenPack {
  readonly pack: number;
  readonly file: DiskFile;
  length: number;
  batches: number;
}

export class Vault {
  readonly #disk: Disk;
  readonly #collectionNumber: number;
  readonly #id: Uint8Array;
  readonly #queue = new SerialQueue();
  /** The highest number of any pack so far. */
  #last: number;
  /**
   * The pack that takes the next entry: open while batches write to it, otherwise closed, to be
   * reopened.
   */
  #active: OpenPack | undefined;
  #tail: { readonly pack: number; readonly length: number } | undefined;
  /** A pack was created whose name is not synced yet. */
  #newNames = false;

  constructor(
    disk: Disk,
    collectionNumber: number,
    id: Uint8Array,
    last: number,
    tail?: { pack: number; length: number },
  ) {
    this.#disk = disk;
    this.#collectionNumber = collectionNumber;
    this.#id = id;
    this.#last = last;
    this.#tail = tail;
  }

  path(pack: number): string {
    return packPath(this.#collectionNumber, pack);
  }

  get last(): number {
    return this.#last;
  }

  /**
   * Appends bytes, whole entries. Calls `placed` with their position before anything else can move
   * them.
   */
  append(bytes: Uint8Array, held: Set<OpenPack>, placed: (pack: number, offset: number) => void): Promise<void> {
    return this.#queue.run(async () => {
      try {
        const pack = await this.#packFor(bytes.length);
        if (!held.has(pack)) {
          held.add(pack);
          pack.batches++;
        }
        await pack.file.write(bytes, pack.length);
        placed(pack.pack, pack.length);
        pack.length += bytes.length;
        fault('pack.written');
      } catch (error) {
        // The write may be partial, so this pack takes nothing more.
        this.#active = this.#tail = undefined;
        throw error;
      }
    });
  }

  async #packFor(bytes: number): Promise<OpenPack> {
    if (this.#active && this.#active.length + bytes <= PACK_BYTES) return this.#active;
    const tail = this.#active ? undefined : this.#tail;
    this.#active = this.#tail = undefined;
    if (tail && tail.length + bytes <= PACK_BYTES) {
      const file = this.#reopen(tail.pack);
      if (file) {
        this.#active = { ...tail, file, batches: 0 };
        return this.#active;
      }
    }
    const pack = ++this.#last;
    this.#newNames = true;
    const file = this.#disk.create(this.path(pack));
    fault('pack.created');
    try {
      await file.write(packHeader(this.#id), 0);
    } catch (error) {
      file.close();
      throw error;
    }
    this.#active = { pack, file, length: PACK_HEADER_BYTES, batches: 0 };
    return this.#active;
  }

  /** A damaged pack takes no more entries. New ones go to another pack. */
  #reopen(pack: number): DiskFile | undefined {
    try {
      return this.#disk.reopen(this.path(pack));
    } catch (error) {
      if (error instanceof HersError && error.code === 'DAMAGED') return undefined;
      throw error;
    }
  }

  /** Ends a batch's use of these packs. */
  async release(held: Set<OpenPack>): Promise<void> {
    await this.#queue.run(async () => {
      for (const pack of held) {
        if (--pack.batches > 0) continue;
        if (this.#active === pack) {
          this.#active = undefined;
          this.#tail = { pack: pack.pack, length: pack.length };
        }
        pack.file.close();
      }
      held.clear();
    });
  }

  startNewPack(): Promise<void> {
    return this.#queue.run(async () => {
      this.#active = this.#tail = undefined;
    });
  }

  /** Syncs the names of new packs, before a commit refers to them. */
  async syncNames(): Promise<void> {
    if (!this.#newNames) return;
    this.#newNames = false;
    try {
      await this.#disk.syncFolder(VAULT);
    } catch (error) {
      this.#newNames = true;
      throw error;
    }
  }

  reader(): VaultReader {
    return new VaultReader(this.#disk, this.#id, (pack) => this.path(pack));
  }
}

/** Entries staged together: appended in chunks, and on disk when `finish` returns. */
export class Batch {
  readonly #vault: Vault;
  readonly #held = new Set<OpenPack>();
  #chunk = Buffer.alloc(0);
  #filled = 0;
  #rows = Buffer.alloc(ROW_BYTES * 64);
  #count = 0;
  #placed = 0; // earlier rows have a place, later ones an offset within the chunk

  constructor(vault: Vault) {
    this.#vault = vault;
  }

  /** A handle and a place for every entry, ROW_BYTES each. */
  get rows(): Buffer {
    return this.#rows.subarray(0, ROW_BYTES * this.#count);
  }

  /** Returns a promise only if the caller must wait: this is called for a million records. */
  add(kind: EntryKind, handle: Uint8Array, ...parts: readonly Uint8Array[]): Promise<void> | undefined {
    let content = 0;
    for (const part of parts) content += part.length;
    if (content > MAX_CONTENT)
      throw new HersError(
        'INVALID_ARGUMENT',
        `${content} bytes are more than the ${MAX_CONTENT} of one record or list`,
      );
    const length = entryBytes(content);
    if (this.#filled + length <= this.#chunk.length) {
      this.#put(length, kind, handle, parts);
      return undefined;
    }
    return this.#flush().then(() => {
      const usual = this.#count === 0 ? FIRST_CHUNK_BYTES : CHUNK_BYTES;
      if (this.#chunk.length < Math.max(usual, length)) this.#chunk = Buffer.allocUnsafeSlow(Math.max(usual, length));
      this.#put(length, kind, handle, parts);
    });
  }

  #put(length: number, kind: EntryKind, handle: Uint8Array, parts: readonly Uint8Array[]): void {
    const at = ROW_BYTES * this.#count;
    if (at + ROW_BYTES > this.#rows.length) this.#rows = Buffer.concat([this.#rows], 2 * this.#rows.length);
    this.#rows.set(handle, at);
    encodePlace({ pack: 0, offset: this.#filled, length }, this.#rows, at + HANDLE_BYTES);
    writeEntry(this.#chunk, this.#filled, kind, ...parts);
    this.#filled += length;
    this.#count++;
  }

  async #flush(): Promise<void> {
    if (this.#filled === 0) return;
    await this.#vault.append(this.#chunk.subarray(0, this.#filled), this.#held, (pack, offset) => {
      for (; this.#placed < this.#count; this.#placed++) {
        const at = ROW_BYTES * this.#placed + HANDLE_BYTES;
        this.#rows.writeUInt32LE(pack, at);
        this.#rows.writeUInt32LE(this.#rows.readUInt32LE(at + 4) + offset, at + 4);
      }
    });
    this.#filled = 0;
  }

  /** Afterwards everything added is on disk, though nothing refers to it. */
  async finish(): Promise<void> {
    await this.#flush();
    this.#rows = Buffer.from(this.rows);
    for (const pack of this.#held) await pack.file.sync();
    fault('pack.synced');
    await this.end();
  }

  /** Releases the files, finished or not. */
  async end(): Promise<void> {
    this.#chunk = Buffer.alloc(0);
    await this.#vault.release(this.#held);
  }
}

export class VaultReader {
  readonly #disk: Disk;
  readonly #id: Uint8Array;
  readonly #path: (pack: number) => string;
  readonly #files = new Map<number, DiskReader>();

  constructor(disk: Disk, collectionId: Uint8Array, path: (pack: number) => string) {
    this.#disk = disk;
    this.#id = collectionId;
    this.#path = path;
  }

  #open(pack: number): DiskReader {
    let file = this.#files.get(pack);
    if (!file) this.#files.set(pack, (file = this.#disk.openToRead(this.#path(pack))));
    return file;
  }

  [Symbol.dispose](): void {
    for (const file of this.#files.values()) file.close();
    this.#files.clear();
  }

  /** The entries at these places, in this order. Neighbours are read together. */
  async read(places: readonly Place[], whatIs: (index: number) => string): Promise<Entry[]> {
    const order = places.map((_, index) => index);
    order.sort((a, b) => places[a].pack - places[b].pack || places[a].offset - places[b].offset);
    const entries: Entry[] = new Array(places.length);
    for (let from = 0; from < order.length; ) {
      const { pack, offset } = places[order[from]];
      let end = offset;
      let to = from;
      let wanted = 0;
      for (; to < order.length; to++) {
        const next = places[order[to]];
        const apart = next.pack !== pack || next.offset > end + GAP_BYTES;
        if (to > from && (apart || next.offset + next.length - offset > NEIGHBOURS_BYTES)) break;
        end = Math.max(end, next.offset + next.length);
        wanted += next.length;
      }
      const bytes = await this.#open(pack).read(offset, end - offset);
      for (; from < to; from++) {
        const index = order[from];
        const place = places[index];
        const { kind, content } = readEntry(
          bytes,
          place.offset - offset,
          place.length,
          () => `${whatIs(index)} in ${this.#path(pack)} at ${place.offset}`,
        );
        // The bytes between them are not kept.
        entries[index] = { kind, content: 2 * wanted < bytes.length ? new Uint8Array(content) : content };
      }
    }
    return entries;
  }

  /**
   * All entries of a pack up to `end`, dead ones included, in groups of this many bytes, or one
   * larger entry.
   */
  async *entries(
    pack: number,
    end: number,
    run: number = RUN_BYTES,
  ): AsyncGenerator<{ readonly entry: Entry; readonly place: Place }[]> {
    const name = this.#path(pack);
    checkPackHeader(await this.#open(pack).read(0, PACK_HEADER_BYTES), this.#id, name);
    let size = run;
    for (let start = PACK_HEADER_BYTES; start < end; ) {
      const wanted = Math.min(size, end - start);
      const bytes = await this.#open(pack).read(start, wanted);
      // Without this check a truncated file would be read for ever.
      if (bytes.length < wanted)
        throw damaged(name, `it ends after ${start + bytes.length} bytes, and should have ${end}`);
      const found: { entry: Entry; place: Place }[] = [];
      let at = 0;
      let length = entryLength(bytes, at);
      while (length !== undefined && at + length <= bytes.length) {
        const place = { pack, offset: start + at, length };
        found.push({ entry: readEntry(bytes, at, length, () => `the entry at ${place.offset} of ${name}`), place });
        at += length;
        length = entryLength(bytes, at);
      }
      if (at === 0) {
        // One entry larger than what was read, or an invalid length.
        const whole = length === undefined ? end : start + length;
        if (whole > end || bytes.length >= end - start || (length ?? 0) <= size)
          throw damaged(name, `it holds no entry at ${start}`);
        size = length!;
        continue;
      }
      yield found;
      start += at;
      size = run;
    }
  }
}
