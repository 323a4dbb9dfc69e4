// What a client knows about a collection at one version: the manifest, which record is in which
// slot, and the pending records, which are in no block yet. Lists and pending records are fetched
// once and kept.

import type { FieldValues } from '../fields/field.ts';
import type { BlockColumns } from '../formats/columns.ts';
import type { List } from '../formats/lists.ts';
import type { Manifest, ManifestBlock } from '../formats/manifest.ts';
import type { PendingRecord } from '../formats/records.ts';
import { Places } from './places.ts';
import type { Space } from './space.ts';

/** Where a record is. */
export type RecordLocation = { readonly block: ManifestBlock; readonly slot: number } | 'pending';

export interface ViewContent {
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
}

export class View implements ViewContent {
  readonly manifest: Manifest;
  readonly hash: string;
  readonly entries: ReadonlyMap<string, List>;
  readonly scoreSums: ReadonlyMap<string, Uint8Array>;
  readonly columns: ReadonlyMap<string, BlockColumns>;
  readonly pending: ReadonlyMap<string, PendingRecord>;
  readonly spaces: ReadonlyMap<number, Space>;
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

  /** The space that a block is in. */
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

  /** The pending record with this id. */
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

  /** The version of the record with this id, if there is one. */
  versionOf(id: string): string | undefined {
    const place = this.locate(id);
    if (place === undefined) return undefined;
    return place === 'pending' ? this.pendingWith(id)!.version : this.entries.get(place.block.id)!.version(place.slot);
  }

  /**
   * Takes the table of places over from a view before this one. That only adds what is new, unless
   * blocks were dropped: then their numbers have changed, and it is made again when it is needed.
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
