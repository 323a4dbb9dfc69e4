// Where every sealed record of a collection is. Handles are random, so inserting each new one into
// a large B-tree would touch one page per record. Instead a commit appends its changes as one row
// (`fresh`). From time to time these are merged into the B-tree (`records`) in the order of their
// handles, a slice at a time. A lookup checks the fresh changes in memory first, then the B-tree.
//
// A change is a handle and a place, so applying it twice has no further effect: a merge needs no
// special care after a crash.

import { HANDLE_BYTES } from '@hers/service';
import { asBuffer, handleKey } from '../base/bytes.ts';
import { fault } from '../base/faults.ts';
import { SerialQueue } from '../base/serial-queue.ts';
import { DELETED, decodePlace, PLACE_BYTES, type Place } from '../files/entry.ts';
import { ROW_BYTES } from '../files/vault.ts';
import type { Catalogue } from './catalogue.ts';
import type { Tables } from './tables.ts';

/**
 * A merge writes nearly every page of the B-tree, because handles are random. So it waits until
 * there are as many fresh records as there are in it: then the work per record stays constant. But
 * it waits for no more than so many, which take some 25 MB of memory, unless they are only a small
 * part of a large collection.
 */
const MERGE_AT = 2 ** 16;
const MERGE_AT_MOST = 2 ** 18;
const SMALL_SHARE = 16;
/** Records merged per transaction, which blocks the event loop for about 20 ms. */
const SLICE = 2 ** 13;
const MAX_BATCH = 2 ** 20;

export class RecordIndex {
  readonly #catalogue: Catalogue;
  readonly #tables: Tables;
  /** Fresh changes, ROW_BYTES each. */
  readonly #batches = new Map<number, Uint8Array>();
  #fresh = 0;
  /**
   * Handle → batch · MAX_BATCH + index, of the batches up to `#indexed`. The others follow when
   * something is looked up: who enrols a million records looks nothing up.
   */
  readonly #index = new Map<string, number>();
  #indexed = 0;
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
    this.#batches.clear();
    this.#fresh = 0;
    this.#index.clear();
    this.#indexed = 0;
    this.#present.clear();
    this.#lastBatch = 0;
    this.#loaded = false;
  }

  /** Changes since the last merge. */
  get fresh(): number {
    this.#load();
    return this.#fresh;
  }

  /** Increases with every change. */
  get lastBatch(): number {
    this.#load();
    return this.#lastBatch;
  }

  get ripe(): boolean {
    return this.fresh >= MERGE_AT && this.fresh >= this.#due();
  }

  /** Whether merges cannot keep up. */
  get overdue(): boolean {
    return this.fresh >= 4 * MERGE_AT && this.fresh >= this.#due() + 2 * MERGE_AT;
  }

  #due(): number {
    const { records } = this.#tables.current();
    return Math.max(Math.min(records, MERGE_AT_MOST), records / SMALL_SHARE);
  }

  /** Resolves when no merge runs. */
  idle(): Promise<void> {
    return this.#merges.idle();
  }

  #indexAll(): void {
    this.#load();
    if (this.#indexed === this.#lastBatch) return;
    for (const [batch, entries] of this.#batches) {
      if (batch <= this.#indexed) continue;
      const rows = asBuffer(entries);
      for (let i = 0, at = 0; at < rows.length; i++, at += ROW_BYTES)
        this.#index.set(rows.toString('latin1', at, at + HANDLE_BYTES), batch * MAX_BATCH + i);
    }
    this.#indexed = this.#lastBatch;
  }

  #freshPlace(key: string): Uint8Array | undefined {
    const where = this.#index.get(key);
    if (where === undefined) return undefined;
    const at = ROW_BYTES * (where % MAX_BATCH) + HANDLE_BYTES;
    return this.#batches.get(Math.floor(where / MAX_BATCH))!.subarray(at, at + PLACE_BYTES);
  }

  find(handle: Uint8Array): Place | undefined {
    this.#indexAll();
    return livePlace(this.#freshPlace(handleKey(handle)) ?? this.#tables.place(handle));
  }

  findMany(handles: readonly Uint8Array[]): (Place | undefined)[] {
    this.#indexAll();
    const stored = this.#tables.places(handles);
    return handles.map((handle) => {
      const key = handleKey(handle);
      return livePlace(this.#freshPlace(key) ?? stored.get(key));
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
    this.#fresh += entries.length / ROW_BYTES;
  }

  count(): number {
    this.#indexAll();
    let { records } = this.#tables.current();
    const unknown = [...this.#index.keys()].filter((key) => !this.#present.has(key));
    const stored = this.#tables.places(unknown.map((key) => Buffer.from(key, 'latin1')));
    for (const key of unknown) this.#present.set(key, stored.has(key));
    for (const key of this.#index.keys()) {
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
    // What changes meanwhile stays fresh, and goes before what is merged here.
    for (const rows of slicesOf([...this.#batches.values()])) {
      this.#catalogue.transaction(() => {
        this.#apply(rows);
        fault('merge.within');
      });
      this.#present.clear();
      fault('merge.slice');
      await pause();
    }
    this.#catalogue.transaction(() => this.#tables.dropFresh(until));
    for (const [batch, { length }] of this.#batches) {
      if (batch > until) continue;
      this.#batches.delete(batch);
      this.#fresh -= length / ROW_BYTES;
    }
    this.#index.clear();
    this.#indexed = until;
    fault('merge.done');
  }

  /** Changes of different handles. */
  #apply(changes: Buffer): void {
    const live = new Map<number, number>();
    const count = (pack: number, bytes: number) => live.set(pack, (live.get(pack) ?? 0) + bytes);
    let records = 0;
    let filled = 0;
    for (let at = 0; at < changes.length; at += ROW_BYTES) {
      const pack = changes.readUInt32LE(at + HANDLE_BYTES);
      if (pack !== DELETED.pack) {
        count(pack, changes.readUInt32LE(at + HANDLE_BYTES + 8));
        if (filled < at) changes.copyWithin(filled, at, at + ROW_BYTES);
        filled += ROW_BYTES;
        continue;
      }
      const handle = changes.subarray(at, at + HANDLE_BYTES);
      const old = this.#tables.place(handle);
      if (!old) continue;
      const { pack: from, length } = decodePlace(old);
      count(from, -length);
      this.#tables.deleteRecord(handle);
      records--;
    }
    const rows = changes.subarray(0, filled);
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

function livePlace(bytes: Uint8Array | undefined): Place | undefined {
  const place = bytes && decodePlace(bytes);
  return place?.pack === DELETED.pack ? undefined : place;
}

/** Bits of a number that a double holds exactly. */
const EXACT_BITS = 53;

/**
 * All changes in the order of their handles, SLICE at a time; of several of one handle, the last.
 * Each slice is a copy.
 */
export function* slicesOf(batches: readonly Uint8Array[]): Generator<Buffer> {
  const all = batches.map(asBuffer);
  // The first row of each batch, counted over all.
  const firsts: number[] = [];
  let count = 0;
  for (const { length } of all) {
    firsts.push(count);
    count += length / ROW_BYTES;
  }
  // The beginning of a handle and the number of its row in one number: an array of numbers is
  // sorted many times as fast as anything else.
  const rowBits = Math.max(1, Math.ceil(Math.log2(count)));
  const headBits = Math.min(EXACT_BITS - rowBits, 48);
  const rowUnit = 2 ** rowBits;
  const sorted = new Float64Array(count);
  for (const [b, rows] of all.entries())
    for (let at = 0, row = firsts[b]; at < rows.length; at += ROW_BYTES, row++)
      sorted[row] = headOf(rows, at, headBits) * rowUnit + row;
  sorted.sort();
  const rowAt = (row: number) => {
    let [low, high] = [0, firsts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (firsts[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return { rows: all[low], at: ROW_BYTES * (row - firsts[low]) };
  };
  let slice = Buffer.allocUnsafeSlow(ROW_BYTES * Math.min(count, SLICE));
  let filled = 0;
  for (let from = 0; from < count; ) {
    const head = Math.floor(sorted[from] / rowUnit);
    let to = from + 1;
    while (to < count && Math.floor(sorted[to] / rowUnit) === head) to++;
    for (const row of lastOfEach(sorted.subarray(from, to), rowUnit, rowAt)) {
      const { rows, at } = rowAt(row);
      // Byte by byte: a view of so few takes longer.
      for (let i = 0; i < ROW_BYTES; i++) slice[filled + i] = rows[at + i];
      filled += ROW_BYTES;
      if (filled < slice.length) continue;
      yield slice;
      slice = Buffer.allocUnsafeSlow(slice.length);
      filled = 0;
    }
    from = to;
  }
  if (filled > 0) yield slice.subarray(0, filled);
}

/** The first bits of a handle, 48 at most. */
function headOf(rows: Buffer, at: number, bits: number): number {
  const head = rows.readUInt32BE(at) * 2 ** 16 + rows.readUInt16BE(at + 4);
  return bits === 48 ? head : Math.floor(head / 2 ** (48 - bits));
}

/** Of rows whose handles begin alike, in the order in which they were written. */
function lastOfEach(
  sorted: Float64Array,
  rowUnit: number,
  rowAt: (row: number) => { readonly rows: Buffer; readonly at: number },
): Iterable<number> {
  if (sorted.length === 1) return [sorted[0] % rowUnit];
  const last = new Map<string, number>();
  for (const each of sorted) {
    const { rows, at } = rowAt(each % rowUnit);
    last.set(rows.toString('latin1', at, at + HANDLE_BYTES), each % rowUnit);
  }
  return last.values();
}
