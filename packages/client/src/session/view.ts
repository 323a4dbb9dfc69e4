// What a client knows about a collection at one version: the manifest, which record is in which
// slot, and the pending records, which are in no block yet. Lists and pending records are fetched
// once and kept.

import { inOrder, type ListEntry } from '../formats/lists.ts';
import type { Manifest, ManifestBlock } from '../formats/manifest.ts';
import type { PendingRecord } from '../formats/records.ts';
import { type Space, spaceName } from './space.ts';

/** Where a record is. */
export type RecordLocation = { readonly block: ManifestBlock; readonly slot: number } | 'pending';

const PENDING = -1;
const SLOTS = 65536;

export interface ViewContent {
  readonly manifest: Manifest;
  /** Of the manifest as it is sealed. */
  readonly hash: string;
  /** The entries of every block, by block id. */
  readonly entries: ReadonlyMap<string, readonly ListEntry[]>;
  /** What the scores of a block add up to (`scoreSums` of scheme/secret), by block id, if known. */
  readonly scoreSums: ReadonlyMap<string, Uint8Array>;
  /** Pending records by handle. */
  readonly pending: ReadonlyMap<string, PendingRecord>;
  /** By name: those that have blocks, and the current one. */
  readonly spaces: ReadonlyMap<string, Space>;
  /** The one that new blocks are in, and that pending records are compared in. */
  readonly space: Space;
}

export class View implements ViewContent {
  readonly manifest: Manifest;
  readonly hash: string;
  readonly entries: ReadonlyMap<string, readonly ListEntry[]>;
  readonly scoreSums: ReadonlyMap<string, Uint8Array>;
  readonly pending: ReadonlyMap<string, PendingRecord>;
  readonly spaces: ReadonlyMap<string, Space>;
  readonly space: Space;
  #index: Map<string, number> | undefined;

  constructor({ manifest, hash, entries, scoreSums, pending, spaces, space }: ViewContent) {
    this.manifest = manifest;
    this.hash = hash;
    this.entries = entries;
    this.scoreSums = scoreSums;
    this.pending = pending;
    this.spaces = spaces;
    this.space = space;
  }

  /** The space that a block is in. */
  spaceOf(block: ManifestBlock): Space {
    return this.spaces.get(spaceName(block))!;
  }

  /**
   * Id → block number and slot, made when first needed: a million records take about a second and
   * 100 MB.
   */
  #places(): Map<string, number> {
    if (!this.#index) {
      const index = new Map<string, number>();
      this.manifest.blocks.forEach((block, number) => {
        const dead = new Set(block.dead);
        this.entries.get(block.id)!.forEach((entry, slot) => {
          if (!dead.has(slot)) index.set(entry.id, number * SLOTS + slot);
        });
      });
      for (const record of this.pending.values()) index.set(record.id, PENDING);
      this.#index = index;
    }
    return this.#index;
  }

  locate(id: string): RecordLocation | undefined {
    const place = this.#places().get(id);
    if (place === undefined) return undefined;
    if (place === PENDING) return 'pending';
    return { block: this.manifest.blocks[Math.floor(place / SLOTS)], slot: place % SLOTS };
  }

  /** The version of the record with this id, if there is one. */
  versionOf(id: string, handle: string): string | undefined {
    const place = this.locate(id);
    if (place === undefined) return undefined;
    return place === 'pending'
      ? this.pending.get(handle)?.version
      : this.entries.get(place.block.id)![place.slot].version;
  }

  /** The ids, block by block in the order in which they were written. */
  *ids(): Generator<string> {
    for (const block of this.manifest.blocks) {
      const dead = new Set(block.dead);
      for (const { entry, slot } of inOrder(this.entries.get(block.id)!)) if (!dead.has(slot)) yield entry.id;
    }
    for (const record of this.pending.values()) yield record.id;
  }

  /**
   * The view after a change of our own, without fetching anything. The index moves along, unless
   * blocks were dropped: then their numbers change, and it is made again.
   */
  next(content: ViewContent, gone: Iterable<string>): View {
    const view = new View(content);
    const { manifest, entries, pending } = content;
    const index = this.#index;
    const kept = this.manifest.blocks.every((block, i) => manifest.blocks[i]?.id === block.id);
    if (index && kept) {
      for (const id of gone) index.delete(id);
      for (let number = this.manifest.blocks.length; number < manifest.blocks.length; number++) {
        entries.get(manifest.blocks[number].id)!.forEach((entry, slot) => {
          index.set(entry.id, number * SLOTS + slot);
        });
      }
      for (const record of pending.values()) index.set(record.id, PENDING);
      this.#index = undefined;
      view.#index = index;
    }
    return view;
  }
}
