// Where every sealed record of a collection is. Handles are random, so inserting each new one into
// a large B-tree would touch one page per record. Instead a commit appends its changes as one row
// (`fresh`). From time to time these are merged into the B-tree (`records`) in the order of their
// handles, a slice at a time. A lookup checks the fresh changes in memory first, then the B-tree.
//
// A change is a handle and a place, so applying it twice has no further effect: a merge needs no
// special care after a crash.

import { HANDLE_BYTES } from '@hers/service';
import { asBuffer, handleKey } from '../bytes.ts';
import { fault } from '../faults.ts';
import { DELETED, decodePlace, PLACE_BYTES, type Place } from '../files/place.ts';
import { ROW_BYTES } from '../files/vault.ts';
import { SerialQueue } from '../serial-queue.ts';
import type { Catalogue } from './catalogue.ts';
import type { Tables } from './tables.ts';

/**
 * A merge begins at this many fresh records. Large collections wait for more, so that the work per
 * record stays constant.
 */
const MERGE_AT = 2 ** 16;
const MERGE_SHARE = 16;
/** Records merged per transaction, which blocks the event loop for about 20 ms. */
const SLICE = 2 ** 13;
/** Changes in one row. */
const MAX_BATCH = 2 ** 20;

export class RecordIndex {
  readonly #catalogue: Catalogue;
  readonly #tables: Tables;
  /** Handle → batch · MAX_BATCH + index. */
  readonly #fresh = new Map<string, number>();
  readonly #batches = new Map<number, Uint8Array>();
  /** Whether a fresh handle is in the B-tree too, as far as that was looked up. */
  readonly #present = new Map<string, boolean>();
  readonly #frozen: () => boolean;
  readonly #merges = new SerialQueue();
  #lastBatch = 0;
  #loaded = false;

  /** The B-tree does not change while `frozen`. */
  constructor(catalogue: Catalogue, tables: Tables, frozen: () => boolean = () => false) {
    this.#catalogue = catalogue;
    this.#tables = tables;
    this.#frozen = frozen;
  }

  #load(): void {
    if (this.#loaded) return;
    this.#loaded = true;
    for (const { batch, entries } of this.#tables.freshBatches()) this.take(batch, entries);
  }

  /** Another process has written: everything read from the catalogue is read again when needed. */
  reload(): void {
    this.#fresh.clear();
    this.#batches.clear();
    this.#present.clear();
    this.#lastBatch = 0;
    this.#loaded = false;
  }

  /** Records that changed since the last merge. */
  get fresh(): number {
    this.#load();
    return this.#fresh.size;
  }

  /** Increases with every change. */
  get lastBatch(): number {
    this.#load();
    return this.#lastBatch;
  }

  /** Whether a merge is due. */
  get ripe(): boolean {
    return this.fresh >= MERGE_AT && this.fresh >= this.#tables.current().records / MERGE_SHARE;
  }

  /** Whether merges cannot keep up. */
  get overdue(): boolean {
    return this.fresh >= 4 * MERGE_AT && this.ripe;
  }

  /** Resolves when no merge runs. */
  idle(): Promise<void> {
    return this.#merges.idle();
  }

  #freshPlace(key: string): Uint8Array | undefined {
    const where = this.#fresh.get(key);
    if (where === undefined) return undefined;
    const at = ROW_BYTES * (where % MAX_BATCH) + HANDLE_BYTES;
    return this.#batches.get(Math.floor(where / MAX_BATCH))!.subarray(at, at + PLACE_BYTES);
  }

  find(handle: Uint8Array): Place | undefined {
    this.#load();
    const bytes = this.#freshPlace(handleKey(handle)) ?? this.#tables.place(handle);
    const place = bytes && decodePlace(bytes);
    return place?.pack === DELETED.pack ? undefined : place;
  }

  /** The same for many at once. */
  findMany(handles: readonly Uint8Array[]): (Place | undefined)[] {
    this.#load();
    const stored = this.#tables.places(handles);
    return handles.map((handle) => {
      const key = handleKey(handle);
      const bytes = this.#freshPlace(key) ?? stored.get(key);
      const place = bytes && decodePlace(bytes);
      return place?.pack === DELETED.pack ? undefined : place;
    });
  }

  /**
   * Within a transaction: writes changes (ROW_BYTES each; later ones win). Returns what to pass to
   * `take` after the commit.
   */
  write(changes: Uint8Array): { readonly batch: number; readonly entries: Uint8Array }[] {
    this.#load();
    const written: { batch: number; entries: Uint8Array }[] = [];
    const ends = new Map<number, number>();
    const rows = asBuffer(changes);
    for (let at = HANDLE_BYTES; at < rows.length; at += ROW_BYTES) {
      const pack = rows.readUInt32LE(at);
      const end = rows.readUInt32LE(at + 4) + rows.readUInt32LE(at + 8);
      if (pack !== DELETED.pack && end > (ends.get(pack) ?? 0)) ends.set(pack, end);
    }
    for (const [pack, end] of ends) this.#tables.extendPack(pack, end);
    for (let at = 0; at < changes.length; at += ROW_BYTES * MAX_BATCH) {
      const entries = changes.subarray(at, at + ROW_BYTES * MAX_BATCH);
      const batch = this.#lastBatch + 1 + written.length;
      this.#tables.addFresh(batch, entries);
      written.push({ batch, entries });
    }
    return written;
  }

  take(batch: number, entries: Uint8Array): void {
    this.#lastBatch = batch;
    this.#batches.set(batch, entries);
    const rows = asBuffer(entries);
    for (let i = 0, at = 0; at < rows.length; i++, at += ROW_BYTES)
      this.#fresh.set(rows.toString('latin1', at, at + HANDLE_BYTES), batch * MAX_BATCH + i);
  }

  count(): number {
    this.#load();
    let { records } = this.#tables.current();
    const unknown = [...this.#fresh.keys()].filter((key) => !this.#present.has(key));
    const stored = this.#tables.places(unknown.map((key) => Buffer.from(key, 'latin1')));
    for (const key of unknown) this.#present.set(key, stored.has(key));
    for (const key of this.#fresh.keys()) {
      const present = this.#present.get(key);
      const there = decodePlace(this.#freshPlace(key)!).pack !== DELETED.pack;
      records += Number(there) - Number(present);
    }
    return records;
  }

  /** Merges the current fresh changes. `pause` runs between transactions, and may throw to stop. */
  merge(pause: () => Promise<void>): Promise<void> {
    return this.#merges.run(async () => {
      if (!this.#frozen()) await this.#merge(pause);
    });
  }

  async #merge(pause: () => Promise<void>): Promise<void> {
    this.#load();
    const until = this.#lastBatch;
    if (this.#batches.size === 0) return;
    const byFirst = Array.from({ length: 256 }, (): string[] => []);
    for (const key of this.#fresh.keys()) byFirst[key.charCodeAt(0)].push(key);
    let slice: string[] = [];
    for (const [first, keys] of byFirst.entries()) {
      // Not push(...keys): a large batch would overflow the stack. SQLite sorts them.
      slice = slice.concat(keys);
      if (slice.length < SLICE && first < 255) continue;
      for (let at = 0; at < slice.length; at += SLICE) {
        const part = slice.slice(at, at + SLICE).filter((key) => this.#fresh.has(key));
        this.#catalogue.transaction(() => {
          this.#apply(part);
          fault('merge.within');
        });
        for (const key of part) {
          this.#fresh.delete(key);
          this.#present.delete(key);
        }
        fault('merge.slice');
        await pause();
      }
      slice = [];
    }
    this.#catalogue.transaction(() => this.#tables.dropFresh(until));
    for (const batch of this.#batches.keys()) if (batch <= until) this.#batches.delete(batch);
    fault('merge.done');
  }

  #apply(keys: readonly string[]): void {
    const live = new Map<number, number>();
    const count = (pack: number, bytes: number) => live.set(pack, (live.get(pack) ?? 0) + bytes);
    let records = 0;
    const all = Buffer.allocUnsafe(ROW_BYTES * keys.length);
    let filled = 0;
    for (const key of keys) {
      const where = this.#fresh.get(key)!;
      const batch = this.#batches.get(Math.floor(where / MAX_BATCH))!;
      // Byte by byte: a view of so few takes longer.
      for (let i = 0, from = ROW_BYTES * (where % MAX_BATCH); i < ROW_BYTES; i++) all[filled + i] = batch[from + i];
      const pack = all.readUInt32LE(filled + HANDLE_BYTES);
      if (pack !== DELETED.pack) {
        count(pack, all.readUInt32LE(filled + HANDLE_BYTES + 8));
        filled += ROW_BYTES;
        continue;
      }
      const handle = Buffer.from(key, 'latin1');
      const old = this.#tables.place(handle);
      if (!old) continue;
      const { pack: from, length } = decodePlace(old);
      count(from, -length);
      this.#tables.deleteRecord(handle);
      records--;
    }
    const rows = all.subarray(0, filled);
    records += filled / ROW_BYTES - this.#put(rows, count);
    this.#tables.countRecords(records);
    for (const [pack, change] of live) this.#tables.countLive(pack, change);
  }

  /** Returns how many of them were there before; their bytes count no longer. */
  #put(rows: Buffer, count: (pack: number, bytes: number) => void): number {
    // As long as all are new, no lookup of previous places is needed.
    this.#catalogue.exec('SAVEPOINT rows');
    const isAllNew = this.#tables.insertRecords(rows) === rows.length / ROW_BYTES;
    this.#catalogue.exec(isAllNew ? 'RELEASE rows' : 'ROLLBACK TO rows; RELEASE rows');
    if (isAllNew) return 0;
    const handles: Buffer[] = [];
    for (let at = 0; at < rows.length; at += ROW_BYTES) handles.push(rows.subarray(at, at + HANDLE_BYTES));
    const before = this.#tables.places(handles);
    for (const place of before.values()) {
      const { pack, length } = decodePlace(place);
      count(pack, -length);
    }
    this.#tables.replaceRecords(rows);
    return before.size;
  }
}
