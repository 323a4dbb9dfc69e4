// The options of databases and collections, and how they describe themselves.

import type { Integrity, Metric, Plan, Profile } from '@hers/scheme';
import type { MasterSeed } from '@hers/scheme/secret';
import type { OptionNames } from '@hers/service';
import type { Fields } from './fields/field.ts';
import type { ListCache } from './session/list-cache.ts';
import type { VersionMemory } from './session/versions.ts';
import { HTTP_OPTIONS, type HttpOptions } from './transport/connection.ts';

/** What a collection is, from its making on. */
export interface CollectionOptions {
  /** Coordinates of every vector, 2 to 4096. */
  readonly dimension: number;
  /** What a score is: `cosine` by default, `dot`, or `euclidean`. */
  readonly metric?: Metric;
  /**
   * `compact`, the default: 4 bytes a coordinate, and scores with a small error that the plan
   * states. `small`: 3 bytes, and about eight times that error; refused where it is no smaller than
   * floats. `exact`: 8 bytes, and the exact integer score of finely rounded vectors. `open`: 4
   * bytes, two and a half times the error of `compact`, queries of a kilobyte, and no `payload` or
   * `rerank`.
   */
  readonly profile?: Profile;
  /** The largest norm of a vector that is written; for the metrics `dot` and `euclidean`. */
  readonly normBound?: number;
  /** The largest norm of a vector that is searched for; `normBound` by default. */
  readonly queryNormBound?: number;
  /**
   * `standard`, the default: canaries show a response that was not computed from this block for
   * this query. `strong`: under `compact` and `small`, checksum canaries show a change of a single
   * score as well; they take a 64th more slots (`small`: a 16th). It is refused under `exact`,
   * where every score is checked already.
   */
  readonly integrity?: Integrity;
  /**
   * Properties of the payload to filter by: `{ country: 'keyword', age: 'number' }`. Their values
   * are kept in encrypted columns that the client fetches once (docs/filters.md). A date field
   * called `expires` says when a record ends. Fields can be added and dropped later.
   */
  readonly fields?: Fields;
  /**
   * A field of type keyword that says in which partition a record is, a tenant or a site. A block
   * holds records of one partition, and a search of some partitions scans their blocks alone. Each
   * partition takes at least a block of its own once it is optimized; until a block is full, its
   * records stay pending.
   */
  readonly partitionBy?: string;
  /**
   * The bytes of a compressor's file (`@hers/compress`): what it makes of a vector is indexed.
   * Metric cosine only.
   */
  readonly compressor?: Uint8Array;
}

/** `token`, `insecure`, `retryMs` and `onRetry` are for servers. */
export interface ConnectOptions extends HttpOptions {
  /** The master seed, or its 32 bytes. */
  readonly key: MasterSeed | Uint8Array;
  /**
   * Remembers what was seen of each collection, to notice a store that rolls back; by default only
   * in memory, for the length of the connection.
   */
  readonly versions?: VersionMemory;
  /**
   * Keeps encrypted lists between connections, so that opening a collection again fetches only what
   * is new (`openListCache`); none by default. For servers: a folder is read as fast without one.
   */
  readonly cache?: ListCache;
  /**
   * For a token that is limited to partitions: their names. Only they are read and written then,
   * and what is about whole collections is FORBIDDEN.
   */
  readonly partitions?: readonly string[];
  /**
   * The address of the gallery, which tells its collections from those of the same names elsewhere;
   * `connect` sets it.
   */
  readonly gallery?: string;
  /** Threads for encryption and decryption; all cores by default. */
  readonly threads?: number;
  /**
   * For folders: `write`, the default, is for one process at a time; `read` opens the folder beside
   * it, and never writes.
   */
  readonly mode?: 'write' | 'read';
}

/** How a snapshot is taken back. */
export interface RestoreOptions {
  /** Accept a snapshot that is older than what was seen of the collection. */
  readonly acceptOlder?: boolean;
  /** Ends the restore when it aborts. */
  readonly signal?: AbortSignal;
}

/** What `listCollections` says about a collection. */
export interface CollectionSummary {
  /** The name that it is opened by. */
  readonly name: string;
  /** Of the vectors that are written and searched for. */
  readonly dimension: number;
  /** How vectors are compared. */
  readonly metric: Metric;
  /** How exact scores are, and at which size. */
  readonly profile: Profile;
  /** Whether blocks have checksum canaries as well (`strong`). */
  readonly integrity: Integrity;
  /** The compressor of what is indexed, if there is one: its method and its output dimension. */
  readonly compressor?: { readonly method: string; readonly dimension: number };
  /** The fields that records can be filtered by. */
  readonly fields: Fields;
  /** The field that says in which partition a record is, if the collection has partitions. */
  readonly partitionBy?: string;
  /** Records that can be found. */
  readonly records: number;
  /** Encrypted blocks that the store holds. */
  readonly blocks: number;
  /** Bytes that the store holds. */
  readonly bytes: number;
  /** Grows by one with every change. */
  readonly version: number;
}

/** Everything the planner says about what is indexed, and what the store holds. */
export interface CollectionDescription extends CollectionSummary {
  /** Error, security and bytes of what is indexed. */
  readonly plan: Plan;
  /**
   * Records that are in no block yet. Every search compares them in the client, in the clear, until
   * `optimize` puts them into blocks.
   */
  readonly pending: number;
  /**
   * Fields that were added, and that not all blocks have yet: how many do not. Filters by them are
   * refused until `addFields` or `optimize` is through.
   */
  readonly unfinishedFields: Readonly<Record<string, number>>;
}

export const COLLECTION_OPTIONS: OptionNames<CollectionOptions> = {
  ...{ dimension: true, metric: true, profile: true, normBound: true, queryNormBound: true, integrity: true },
  ...{ fields: true, partitionBy: true, compressor: true },
};

export const CONNECT_OPTIONS: OptionNames<ConnectOptions> = {
  ...HTTP_OPTIONS,
  ...{ key: true, versions: true, cache: true, partitions: true, gallery: true, threads: true, mode: true },
};
