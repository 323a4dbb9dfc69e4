// What a store of encrypted galleries does, be it a folder or a server. Only bytes cross this
// interface: ciphertexts, sealed records, opaque handles, and manifests that the client
// authenticates. Never a key, an id, a plain vector or a score.
//
// How a collection changes. A client first *stages* what a change brings (sealed records, sealed
// lists, encrypted blocks); staged things are on disk and belong to nothing. Then one `commit`
// makes them part of the collection, together with a new manifest, atomically, if and only if the
// collection still has the version the change was based on. A commit is acknowledged when it is on
// disk. Committing the manifest that is current already changes nothing and succeeds, so a client
// whose acknowledgement was lost retries the call.

import type { Partitions } from './partitions.ts';

export const HANDLE_BYTES = 16;
export const BLOCK_ID_BYTES = 16;
export const LIST_ID_BYTES = 32;

/** A record as the store sees it. */
export interface SealedRecord {
  /** A keyed hash of the record's id, HANDLE_BYTES long. */
  readonly handle: Uint8Array;
  readonly sealed: Uint8Array;
}

export interface CollectionInfo {
  readonly name: string;
  /**
   * 16 random bytes chosen by the client. Keys are derived for it, so renaming or re-creating a
   * collection never reuses a key.
   */
  readonly id: Uint8Array;
  /** The client's description of the collection: authenticated by it, opaque here. */
  readonly descriptor: Uint8Array;
  /** The version of the current manifest; grows by one with every commit. */
  readonly version: number;
  /** Sealed records in the vault, encrypted blocks, and bytes on disk. */
  readonly records: number;
  readonly blocks: number;
  readonly bytes: number;
}

/** Names a staged thing until it is committed. Valid for this opening of the service only. */
export type StageId = string;

/**
 * Ids that are iterated in order: an array, or packed bytes, which may hold millions.
 */
export interface Ids extends Iterable<Uint8Array> {
  readonly length: number;
}

export interface Change {
  /** The version this change is based on. The manifest is that of the next one. */
  readonly expected: number;
  readonly manifest: Uint8Array;
  /** Staged records, which replace those of the same handle. */
  readonly records?: readonly StageId[];
  /** Handles of records to delete; unknown ones are ignored. */
  readonly removed?: Ids;
  readonly blocks?: readonly StageId[];
  /** Homomorphic enrolment: base + staged part becomes a block of this id. The base is dropped. */
  readonly sums?: readonly {
    readonly base: Uint8Array;
    readonly part: StageId;
    readonly result: Uint8Array;
    readonly maxAdditions: number;
  }[];
  readonly dropped?: Ids;
  readonly lists?: readonly StageId[];
  readonly droppedLists?: Ids;
}

export interface SearchRequest {
  /** The version of the manifest the searcher knows; STALE when it is not the current one. */
  readonly version: number;
  /** Encoded queries, each answered by the blocks of its key. */
  readonly queries: readonly Uint8Array[];
  /** Only these blocks, each scanned once however often it is named; all of them by default. */
  readonly blocks?: readonly Uint8Array[];
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  /**
   * Called with the number of bytes that the call is about to hold in memory, or, negative, has
   * released, if they are many. If it throws, the call ends.
   */
  readonly hold?: ((bytes: number) => void) | undefined;
  /**
   * Holds the call to these partitions (partitions.ts): what is of others is NOT_FOUND to whoever
   * reads, and FORBIDDEN to whoever writes, and so is all that is not about single partitions. By
   * default a call is held to nothing.
   */
  readonly partitions?: Partitions | undefined;
}

/**
 * Responses that stay where they were made, in the memory of a device, for a client in the same
 * process.
 */
export interface KeptResponses {
  /** What they are known by to an addon that decrypts; nothing else can use it. */
  readonly handle: object;
  /** The number of the device. */
  readonly device: number;
  /** The queries that they answer, by their numbers in the request. */
  readonly queries: readonly number[];
  /** Those of them that are part of this search, by number, if not all are. */
  readonly only: Uint32Array | undefined;
}

export interface SearchCallOptions extends CallOptions {
  /**
   * Responses may be views of buffers that hold others too: cheaper for callers that
   * forward them immediately.
   */
  readonly views?: boolean;
  /**
   * A store in the same process that has responses in the memory of a device calls this instead of
   * yielding them. They are gone when its promise settles.
   */
  readonly keep?: (responses: KeptResponses) => Promise<void>;
}

export type Many<T> = Iterable<T> | AsyncIterable<T>;

/** What a store does, a folder or a server. All that it holds is encrypted or sealed. */
export interface Service {
  /** ALREADY_EXISTS where there is one of this name. */
  createCollection(
    name: string,
    created: { readonly id: Uint8Array; readonly descriptor: Uint8Array; readonly manifest: Uint8Array },
  ): Promise<void>;
  /** All that this caller may see. */
  listCollections(): Promise<CollectionInfo[]>;
  /** NOT_FOUND where there is none. */
  getCollection(name: string): Promise<CollectionInfo>;
  /** With everything in it. NOT_FOUND where there is none. */
  deleteCollection(name: string): Promise<void>;

  /** The newest manifest, as it is sealed, and its version. */
  getManifest(
    name: string,
    options?: CallOptions,
  ): Promise<{ readonly version: number; readonly manifest: Uint8Array }>;
  /** Sealed records, which a commit makes part of the collection. */
  stageRecords(name: string, records: Many<SealedRecord>, options?: CallOptions): Promise<StageId>;
  /** A sealed list; its id is the SHA-256 of its bytes. */
  stageList(name: string, sealed: Uint8Array, options?: CallOptions): Promise<StageId>;
  /** The pieces of an encoded block, in order. */
  stageBlock(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<StageId>;
  /** Returns the new version. STALE when another change came first. */
  commit(name: string, change: Change, options?: CallOptions): Promise<number>;

  /**
   * Sealed records in the order of the handles, each of which is named once; NOT_FOUND if one is
   * missing.
   */
  getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncIterable<SealedRecord>;
  /** Sealed lists in the order of the ids; the same rules hold. */
  getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncIterable<Uint8Array>;
  /** The pieces of an encoded block, for rebuilding without a vault. */
  getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncIterable<Uint8Array>;
  /**
   * Encoded responses, in any order, as they are ready: one for every query and every block of its
   * key.
   */
  search(name: string, request: SearchRequest, options?: SearchCallOptions): AsyncIterable<Uint8Array>;

  /**
   * Makes what was deleted or replaced disappear from the disk, logs included, and tidies files.
   */
  purge(name: string, options?: CallOptions): Promise<void>;
  /** The whole collection as one stream, and back, under this name or another. */
  snapshot(name: string, options?: CallOptions): AsyncIterable<Uint8Array>;
  /** Takes a snapshot back. ALREADY_EXISTS where there is a collection of this name. */
  restore(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void>;
  /** Ends what is under way, and frees everything. */
  close(): Promise<void>;
}
