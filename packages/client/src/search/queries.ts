// The queries of a scan: one for each vector and each space. How they are made depends on the
// profile: with the key of the space, here, or, under `open`, as small ones that the store expands
// (open.ts).

import { encryptQuery, QuerySecret } from '@hers/scheme/secret';
import type { OpenSearch, SearchRequest } from '@hers/service';
import type { DeviceBlocks } from '../crew/accelerator.ts';
import type { Decryption } from '../crew/crew.ts';
import type { ManifestBlock } from '../formats/manifest.ts';
import type { Space } from '../keys/space.ts';
import type { View } from '../session/view.ts';
import type { Candidates } from './candidates.ts';

/** The blocks of one space among those of a scan. */
export interface SpaceBlocks extends DeviceBlocks {
  readonly space: Space;
  readonly records: number;
}

export interface Query {
  /** The number of its vector. */
  readonly probe: number;
  readonly of: SpaceBlocks;
  readonly queryId: Uint8Array;
  /** The vector as the space indexes it. */
  readonly vector: Float32Array;
  /** Decrypts the answers; without it they are checked for completeness, and nothing else. */
  readonly secret: Decryption | undefined;
}

/** All queries of a scan. */
export interface Queries {
  readonly all: readonly Query[];
  /** The number of vectors. */
  readonly probes: number;
  /** Their part of the request to the store. */
  readonly request: Pick<SearchRequest, 'queries' | 'open'>;
  /**
   * Returns a vector as pending records are indexed; undefined if it cannot be compared with them.
   */
  indexed(probe: number): Promise<Float32Array | undefined>;
}

export type MakeQueries = (view: View, spaces: readonly SpaceBlocks[]) => Promise<Queries>;

/** Encrypts the queries of a profile, and asks the store for what they need. */
export interface Strategy {
  encrypt(view: View, space: Space, vector: Float32Array): { readonly query: Uint8Array; readonly secret: Decryption };
  request?(view: View, queries: readonly Query[]): OpenSearch;
  /** Throws if the client must not search any more. */
  begin?(candidates: Candidates): Promise<void>;
  /** Called when an answer does not decrypt to what it must. */
  tampered?(candidates: Candidates): Promise<void>;
}

export const sealed: Strategy = {
  encrypt: (_, space, vector) => encryptQuery(space.key(), vector),
};

/** Encrypts each of these vectors for each space. */
export function queriesFor(strategy: Strategy, probes: readonly Float32Array[]): MakeQueries {
  return async (view, spaces) => {
    const all: Query[] = [];
    const queries: Uint8Array[] = [];
    try {
      for (const of of spaces)
        for (const [probe, given] of probes.entries()) {
          const vector = await of.space.project(given);
          const { query, secret } = strategy.encrypt(view, of.space, vector);
          all.push({ probe, of, queryId: secret.queryId, vector, secret });
          queries.push(query);
        }
      const open = strategy.request?.(view, all);
      return {
        ...{ all, probes: probes.length },
        request: { queries, ...(open ? { open } : {}) },
        indexed: (probe) => view.space.project(probes[probe]),
      };
    } catch (error) {
      for (const { secret } of all) wipe(secret);
      throw error;
    }
  };
}

export function wipe(secret: Decryption | undefined): void {
  if (secret instanceof QuerySecret) secret.wipe();
}

/** By the blocks of a scan, all of a view or a part of them. */
const sorted = new WeakMap<readonly ManifestBlock[], readonly SpaceBlocks[]>();

/** The same objects for the same array: of many blocks, making them takes longer than a search. */
export function bySpace(view: View, blocks: readonly ManifestBlock[]): readonly SpaceBlocks[] {
  let all = sorted.get(blocks);
  if (!all) {
    const numbers = Map.groupBy(blocks.keys(), (number) => view.spaceOf(blocks[number]));
    all = [...numbers].map(([space, own]) => {
      const ownBlocks = own.map((number) => blocks[number]);
      const records = ownBlocks.reduce((sum, { count, dead }) => sum + count - dead.length, 0);
      const canaries = new Map(ownBlocks.map((block) => [block, space.canariesOf(block)]));
      return {
        ...{ space, numbers: own, blocks: ownBlocks, records },
        canariesOf: (block) => canaries.get(block)!,
        sumsOf: ({ id }) => view.scoreSums.get(id),
      };
    });
    sorted.set(blocks, all);
  }
  return all;
}
