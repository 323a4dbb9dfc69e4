// Ranking by another package, where a store of the same process has left the responses: in the
// memory of a device (`keep` of service). `@hers/cuda` registers one. This is also the entry with
// what such a package builds on; it is given secrets.

import type { CanaryPlace, CollectionKey, QuerySecret } from '@hers/scheme/secret';
import type { KeptResponses } from '@hers/service';
import type { Codes } from '../fields/column.ts';
import type { ManifestBlock } from '../formats/manifest.ts';
import type { RankOptions } from './crew.ts';
import type { Candidate } from './ranking.ts';

export { fromHex, hex } from '../bytes.ts';
export type { Codes } from '../fields/column.ts';
export type { ManifestBlock } from '../formats/manifest.ts';
export { type DecryptTask, encrypted, type RankOptions, rankResponses } from './crew.ts';
export { type Candidate, floorOf, GroupedRanking, type Order } from './ranking.ts';

/** The blocks of one space in one view, by the numbers that candidates have. */
export interface DeviceBlocks {
  readonly blocks: readonly ManifestBlock[];
  /** The number of each among all blocks of the search. */
  readonly numbers: readonly number[];
  /** Where the canaries of a block are. */
  readonly canariesOf: (block: ManifestBlock) => CanaryPlace;
  /** What its scores must add up to, where that is known. */
  readonly sumsOf: (block: ManifestBlock) => Uint8Array | undefined;
}

/** The groups of which only the best record counts. */
export interface DeviceGrouping {
  readonly field: string;
  /** What the codes are from: while it is the same object, they are the same. */
  readonly source: object;
  /** The group of every record, by the number of its block; those of 0 are groups of one. */
  codesOf(number: number): Codes;
  /** What the codes stand for, in all blocks alike; undefined for a group of one. */
  groupOf(candidate: Candidate): unknown;
}

/** Ranks the responses to queries under one key. */
export interface DeviceRanking {
  /** True once the device has failed or has no memory for this: the host ranks from then on. */
  readonly isSpent: boolean;
  /**
   * Returns the best of the kept responses to one of the queries, `query` by its number among them.
   * With `slots`, only these records count, for each block of `of`; otherwise those that are not
   * dead. With groups, at least the best of each that is among the best `limit` groups.
   */
  rank(
    kept: KeptResponses,
    query: number,
    secret: QuerySecret,
    of: DeviceBlocks,
    slots: readonly (Uint32Array | undefined)[] | undefined,
    options: RankOptions,
    grouping?: DeviceGrouping,
  ): Promise<Candidate[]>;
  close(): Promise<void>;
}

/** Opens a ranking for a key, or returns undefined where there is no device. */
type OpenRanking = (key: () => CollectionKey) => DeviceRanking | undefined;

/** Undefined where no package has registered one. */
export let openRanking: OpenRanking | undefined;

/** Sets what ranks on a device, for all collections that are opened from now on. */
export function registerRanking(open: OpenRanking): void {
  openRanking = open;
}
