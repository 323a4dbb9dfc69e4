// What a client knows about a collection at one version: the manifest, which record is in which
// slot, and the pending records, which are in no block yet. Lists and pending records are fetched
// once and kept.

import { putText } from '../bytes.ts';
import type { FieldValues } from '../fields/field.ts';
import type { BlockColumns, List } from '../formats/lists.ts';
import type { Manifest, ManifestBlock } from '../formats/manifest.ts';
import type { PendingRecord } from '../formats/records.ts';
import type { Space } from '../keys/space.ts';

export type RecordLocation = { readonly block: ManifestBlock; readonly slot: number } | 'pending';

type ViewContent = Omit<View, 'spaceOf' | 'pendingWith' | 'locate' | 'versionOf' | 'follows'>;

export class View {
  readonly manifest: Manifest;
  /** Of the manifest as it is sealed. */
  readonly hash: string;
  /** The entries of every block, by block id. */
  readonly entries: ReadonlyMap<string, List>;
  /** What the scores of a block add up to (`scoreSums` of scheme/secret), by block id, if known. */
  readonly scoreSums: ReadonlyMap<string, Uint8Array>;
  /** The columns of every block, by block id. */
  readonly columns: ReadonlyMap<string, BlockColumns>;
  /** Pending records by handle. */
  readonly pending: ReadonlyMap<string, PendingRecord>;
  /** By epoch: those that have blocks, and the current one. */
  readonly spaces: ReadonlyMap<number, Space>;
  /** The one that new blocks are in, and that pending records are compared in. */
  readonly space: Space;
  #places: Places | undefined;
  #pendingIds: ReadonlyMap<string, PendingRecord> | undefined;

  constructor({ manifest, hash, entries, scoreSums, columns, pending, spaces, space }: ViewContent) {
    this.manifest = manifest;
    this.hash = hash;
    this.entries = entries;
    this.scoreSums = scoreSums;
    this.columns = columns;
    this.pending = pending;
    this.spaces = spaces;
    this.space = space;
  }

  spaceOf(block: ManifestBlock): Space {
    return this.spaces.get(block.epoch)!;
  }

  /** Made when first needed: a million records take a third of a second. */
  #table(): Places {
    if (!this.#places) {
      this.#places = new Places();
      this.#places.extend(this.manifest.blocks, (id) => this.entries.get(id)!);
    }
    return this.#places;
  }

  pendingWith(id: string): PendingRecord | undefined {
    this.#pendingIds ??= new Map([...this.pending.values()].map((record) => [record.id, record]));
    return this.#pendingIds.get(id);
  }

  locate(id: string): RecordLocation | undefined {
    if (this.pendingWith(id)) return 'pending';
    const { blocks } = this.manifest;
    // The table may know more than this view: newer blocks.
    const counts = (number: number, slot: number) => {
      const block = blocks[number];
      return block !== undefined && !isDead(block, slot);
    };
    const place = this.#table().find(id, counts);
    return place && { block: blocks[place.number], slot: place.slot };
  }

  versionOf(id: string): string | undefined {
    const place = this.locate(id);
    if (place === undefined) return undefined;
    return place === 'pending' ? this.pendingWith(id)!.version : this.entries.get(place.block.id)!.version(place.slot);
  }

  /**
   * Takes the table of places over from an earlier view, and adds what is new. Where blocks were
   * dropped their numbers have changed, and it is made again when it is needed.
   */
  follows(before: View): this {
    const { blocks } = this.manifest;
    const kept = before.manifest.blocks.every(({ id }, i) => blocks[i]?.id === id);
    if (kept && before.#places?.extend(blocks, (id) => this.entries.get(id)!)) this.#places = before.#places;
    return this;
  }
}

/** Whether the record in this slot was deleted or replaced. */
export function isDead({ dead }: Pick<ManifestBlock, 'dead'>, slot: number): boolean {
  let low = 0;
  let high = dead.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (dead[middle] < slot) low = middle + 1;
    else high = middle;
  }
  return dead[low] === slot;
}

/** The partition of a record with these values; undefined where there are none. */
export function partitionOf(
  { partitionBy }: Pick<Manifest, 'partitionBy'>,
  values: FieldValues | undefined,
): string | undefined {
  const value = partitionBy === undefined ? undefined : values?.get(partitionBy);
  return value as string | undefined;
}

const FIRST_SIZE = 2 ** 10;
/** Of the table that is filled before it doubles. */
const LOAD = 0.7;
/** More bytes than an id has, and room for each of its units. */
const scratch = new Uint8Array(4096);

/** Ids may come from strangers: none can be chosen so that many fall into one place. */
const [K0, K1] = crypto.getRandomValues(new Uint32Array(2));

/**
 * Where the record with an id is: an open-addressing table over typed arrays. A `Map` ends at 16.7
 * million entries and takes a hundred bytes for each; this takes about ten, and the ids are in the
 * lists already. The table only grows. A record that is deleted or replaced stays in it: a lookup
 * says which places count, so views of several versions share one table.
 */
export class Places {
  /** The blocks, in the order in which they were added. */
  readonly #blocks: string[] = [];
  readonly #lists: List[] = [];
  /** The ordinal of the first record of each block, and of the next block. */
  #starts: number[] = [0];
  /** Ordinal plus one; zero is free. */
  #table = new Uint32Array(FIRST_SIZE);
  /** Eight more bits of each hash, so that most others are passed without a look at their ids. */
  #tags = new Uint8Array(FIRST_SIZE);

  get bytes(): number {
    return this.#table.byteLength + this.#tags.byteLength;
  }

  /** Adds the blocks that it lacks; false where others took their places: then it is made again. */
  extend(blocks: readonly { readonly id: string }[], listOf: (block: string) => List): boolean {
    const added = blocks.slice(this.#blocks.length).reduce((sum, { id }) => sum + listOf(id).count, 0);
    this.#reserve(this.#starts.at(-1)! + added);
    for (const [number, { id }] of blocks.entries()) {
      const known = this.#blocks[number];
      if (known === id) continue;
      if (known === undefined) this.#append(id, listOf(id));
      else return false;
    }
    return true;
  }

  #append(id: string, list: List): void {
    const first = this.#starts.at(-1)!;
    this.#blocks.push(id);
    this.#lists.push(list);
    this.#starts.push(first + list.count);
    this.#reserve(first + list.count);
    for (let slot = 0; slot < list.count; slot++) this.#put(hashIn(list, slot), first + slot);
  }

  #reserve(count: number): void {
    let size = this.#table.length;
    while (count > LOAD * size) size *= 2;
    if (size === this.#table.length) return;
    const before = this.#table;
    this.#table = new Uint32Array(size);
    this.#tags = new Uint8Array(size);
    for (const entry of before) {
      if (entry === 0) continue;
      const { number, slot } = this.#placeOf(entry - 1);
      this.#put(hashIn(this.#lists[number], slot), entry - 1);
    }
  }

  #put(hash: number, ordinal: number): void {
    const mask = this.#table.length - 1;
    let at = hash & mask;
    while (this.#table[at] !== 0) at = (at + 1) & mask;
    this.#table[at] = ordinal + 1;
    this.#tags[at] = hash >>> 24;
  }

  /** The last block that starts at or before it. */
  #placeOf(ordinal: number): { readonly number: number; readonly slot: number } {
    const starts = this.#starts;
    let low = 0;
    let high = starts.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= ordinal) low = middle;
      else high = middle;
    }
    return { number: low, slot: ordinal - starts[low] };
  }

  find(
    id: string,
    counts: (number: number, slot: number) => boolean,
  ): { readonly number: number; readonly slot: number } | undefined {
    // No record has an id that does not fit, or that holds half a surrogate pair, which is encoded
    // as U+FFFD.
    if (3 * id.length > scratch.length || !id.isWellFormed()) return undefined;
    const written = putText(id, scratch, 0);
    const hash = hashOf(scratch, 0, written);
    const mask = this.#table.length - 1;
    for (let at = hash & mask; this.#table[at] !== 0; at = (at + 1) & mask) {
      if (this.#tags[at] !== hash >>> 24) continue;
      const place = this.#placeOf(this.#table[at] - 1);
      if (this.#lists[place.number].hasId(place.slot, scratch, written) && counts(place.number, place.slot))
        return place;
    }
    return undefined;
  }
}

/** Of the id in this slot: a view of it would take longer than its hash. */
function hashIn(list: List, slot: number): number {
  return hashOf(list.ids, list.startOf(slot), list.endOf(slot));
}

/** HalfSipHash-1-3 (Aumasson and Bernstein), 32 bits, of the bytes from `from` to `end`. */
export function hashOf(bytes: Uint8Array, from: number, end: number, k0: number = K0, k1: number = K1): number {
  const length = end - from;
  let v0 = k0 | 0;
  let v1 = k1 | 0;
  let v2 = 0x6c796765 ^ k0;
  let v3 = 0x74656462 ^ k1;
  // A word of the message each, the last with its length; then three rounds to finish.
  const words = (length >> 2) + 1;
  for (let step = 0; step < words + 3; step++) {
    let word = 0;
    if (step < words - 1) {
      const at = from + 4 * step;
      word = bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
    } else if (step === words - 1) {
      word = length << 24;
      for (let at = length & ~3; at < length; at++) word |= bytes[from + at] << (8 * (at & 3));
    } else if (step === words) {
      v2 ^= 0xff;
    }
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  return (v1 ^ v3) >>> 0;
}
