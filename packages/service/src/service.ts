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

import type { OptionNames } from '@hers/scheme';
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

/**
 * Names a staged thing until it is committed, for a day at most; in a folder, until it is closed.
 */
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
  readonly dropped?: Ids;
  readonly lists?: readonly StageId[];
  readonly droppedLists?: Ids;
}

export const CHANGE_FIELDS: OptionNames<Change> = {
  expected: true,
  manifest: true,
  records: true,
  removed: true,
  blocks: true,
  dropped: true,
  lists: true,
  droppedLists: true,
};

/** A search without its queries. */
export interface Searched {
  /**
   * The version of the manifest that the client knows. STALE when it is not the current one, nor
   * one of which the store still knows the blocks: a cluster does for half a minute.
   */
  readonly version: number;
  /** Only these blocks, each scanned once however often it is named; all of them by default. */
  readonly blocks?: readonly Uint8Array[];
  /** Given if the queries are open ones. */
  readonly open?: OpenSearch;
  /**
   * In a cluster: leave out shards that no node answers for, instead of failing. Whatever else a
   * store cannot answer is an error all the same.
   */
  readonly partial?: boolean;
}

/** Lets a store answer open queries: it expands them, and packs responses of several blocks. */
export interface OpenSearch {
  /** The lists that hold the evaluation keys of the collection, by id. */
  readonly evaluation: readonly Uint8Array[];
  /** The lists that hold those of single devices, by id, for queries under keys of their own. */
  readonly devices: readonly Uint8Array[];
  /**
   * Questions of the inbox, by number: their queries are searched for as well, after the others.
   */
  readonly inbox: readonly number[];
}

export interface SearchRequest extends Searched {
  /**
   * Encoded queries, each answered by the blocks of its key. When all is answered, the caller may
   * use their memory again: copy what you keep.
   */
  readonly queries: readonly Uint8Array[];
}

/** One shard in a search of several. */
export interface SearchedShard extends Searched {
  readonly name: string;
  /** Which state has this version. Unknown for some of the past: then a replica must be later. */
  readonly state?: string;
  /**
   * Lists with evaluation keys that this shard must have. The node that searches reads them there.
   */
  readonly lists?: readonly Uint8Array[];
}

/** How many shards of a cluster a partial search asked, and what became of them. */
export interface ShardCoverage {
  readonly answered: number;
  readonly failed: number;
  readonly timedOut: number;
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

/** Something that a device has posted. */
export interface InboxItem {
  /** Grows with every item of a collection, and is not given twice. */
  readonly number: number;
  /** When it came, by the clock of the store: milliseconds since 1970. */
  readonly posted: number;
  readonly envelope: Uint8Array;
}

/** Which items of an inbox. */
export interface InboxRange {
  /** Those with greater numbers; all by default. */
  readonly after?: number;
  /** At most so many; 100 by default, 1000 at most. */
  readonly limit?: number;
}

export interface PostOptions extends CallOptions {
  /** Holds the call to this device: FORBIDDEN where the envelope names another. */
  readonly device?: number | undefined;
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
   * forward them immediately. `passing` ones are gone when the next one is asked for.
   */
  readonly views?: boolean | 'passing';
  /**
   * A store in the same process that has responses in the memory of a device calls this instead of
   * yielding them. They are gone when its promise settles.
   */
  readonly keep?: (responses: KeptResponses) => Promise<void>;
  /** With `partial`: called at the end by a store that has shards. */
  readonly onCoverage?: ((coverage: ShardCoverage) => void) | undefined;
}

export type Many<T> = Iterable<T> | AsyncIterable<T>;

/**
 * What a store does, a folder or a server. All that it holds is encrypted or sealed.
 *
 * Every call can end with these errors, besides those that it names.
 *
 * @param name - Everywhere: the name of the collection.
 * @param options - Unless more is said: a signal that ends the call, and what holds it to
 *   partitions.
 * @throws {HersError} NOT_FOUND: where there is no collection of this name.
 * @throws {HersError} STORAGE, DAMAGED: the disk fails or is full; what is on it was altered.
 * @throws {HersError} CLOSED: the store was closed.
 * @throws {HersError} UNAUTHENTICATED, FORBIDDEN: of a server that wants another token.
 * @throws {HersError} OVERLOADED, TIMED_OUT, TOO_LARGE, UNAVAILABLE, INTERNAL: of a server that
 *   cannot answer.
 * @throws {HersError} MALFORMED: of a server whose answer makes no sense.
 */
export interface Service {
  /**
   * Makes a collection.
   *
   * @param created - Its id of 16 random bytes, its sealed description, and its first manifest.
   * @throws {HersError} ALREADY_EXISTS: where there is one of this name.
   * @throws {HersError} INVALID_ARGUMENT: for a name that no collection can have, or an id of
   *   another length.
   * @throws {HersError} TOO_LARGE: for a description or a manifest that is too long.
   */
  createCollection(
    name: string,
    created: { readonly id: Uint8Array; readonly descriptor: Uint8Array; readonly manifest: Uint8Array },
  ): Promise<void>;
  /** All that this caller may see. */
  listCollections(): Promise<CollectionInfo[]>;
  /** Describes a collection. */
  getCollection(name: string): Promise<CollectionInfo>;
  /** Deletes a collection with everything in it. */
  deleteCollection(name: string): Promise<void>;

  /** The newest manifest, as it is sealed, and its version. */
  getManifest(
    name: string,
    options?: CallOptions,
  ): Promise<{ readonly version: number; readonly manifest: Uint8Array }>;
  /**
   * Sealed records, which a commit makes part of the collection. A store that keeps bytes of what
   * is staged copies them: the caller may use their memory again once the promise is settled.
   *
   * @param records - As they are sealed, with their handles.
   * @throws {HersError} INVALID_ARGUMENT: for a handle of another length.
   */
  stageRecords(name: string, records: Many<SealedRecord>, options?: CallOptions): Promise<StageId>;
  /**
   * A sealed list; its id is the SHA-256 of its bytes.
   *
   * @param sealed - The list.
   */
  stageList(name: string, sealed: Uint8Array, options?: CallOptions): Promise<StageId>;
  /**
   * The pieces of an encoded block, in order. As with records, their memory is the caller's again
   * once the promise is settled.
   *
   * @param pieces - Of any length.
   * @throws {HersError} MALFORMED, UNSUPPORTED_VERSION: for what is no block, or one in another
   *   format.
   */
  stageBlock(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<StageId>;
  /**
   * Makes what was staged part of the collection, at once or not at all. Returns the new version.
   *
   * @param change - What was staged, what goes, the new manifest, and the version that all that is
   *   based on.
   * @throws {HersError} STALE: when another change came first.
   * @throws {HersError} INVALID_ARGUMENT: for a stage that there is not, or a change that
   *   contradicts itself.
   */
  commit(name: string, change: Change, options?: CallOptions): Promise<number>;

  /**
   * Sealed records in the order of the handles, each of which is named once.
   *
   * @param handles - Of the records.
   * @throws {HersError} NOT_FOUND: where the collection or one of the records is missing.
   */
  getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncIterable<SealedRecord>;
  /**
   * Sealed lists in the order of the ids, each of which is named once.
   *
   * @param ids - Of the lists.
   * @throws {HersError} NOT_FOUND: where the collection or one of the lists is missing.
   */
  getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncIterable<Uint8Array>;
  /**
   * The pieces of an encoded block, for rebuilding without a vault.
   *
   * @param blockId - Of the block.
   * @throws {HersError} NOT_FOUND: where the collection or the block is missing.
   */
  getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncIterable<Uint8Array>;
  /**
   * Encoded responses, in any order, as they are ready: one for every query and every block of its
   * key.
   *
   * @param request - The queries, the version of the manifest that the searcher knows, and perhaps
   *   which blocks.
   * @throws {HersError} STALE: where the collection has moved on from that version.
   * @throws {HersError} KEY_MISMATCH, QUERY_MISMATCH, MALFORMED: for a query of another key or
   *   parameters, or what is no query.
   */
  search(name: string, request: SearchRequest, options?: SearchCallOptions): AsyncIterable<Uint8Array>;

  /**
   * Puts what a device says into the inbox of a collection; on disk when it resolves. An envelope
   * whose device and nonce are in the inbox already is not put there again. Returns its number.
   *
   * @param envelope - A question or an enrolment (envelope.ts).
   * @param options - A signal that ends it, and the device that the call is held to.
   * @throws {HersError} MALFORMED, UNSUPPORTED_VERSION, TOO_LARGE: for what is no envelope, one
   *   in another format, or one that is too long.
   * @throws {HersError} FORBIDDEN: where the device is refused, or is not the one of the token.
   * @throws {HersError} KEY_MISMATCH: where the envelope is for another collection.
   * @throws {HersError} WRONG_CLOCK: where its time is far from the store's.
   * @throws {HersError} INBOX_FULL: where the device has as much there as it may.
   */
  post(name: string, envelope: Uint8Array, options?: PostOptions): Promise<number>;
  /**
   * What is in the inbox of a collection, in the order of its numbers. It stays there until it is
   * dropped, or too old.
   *
   * @param range - From which number on, and how many.
   * @param options - A signal that ends it.
   * @throws {HersError} INVALID_ARGUMENT: for a number or a limit that cannot be.
   */
  takeInbox(name: string, range?: InboxRange, options?: CallOptions): AsyncIterable<InboxItem>;
  /**
   * Removes items from the inbox of a collection; unknown numbers are ignored.
   *
   * @param numbers - Of the items, 1000 at most.
   * @param options - A signal that ends it.
   * @throws {HersError} INVALID_ARGUMENT: for what is no number, or too many.
   */
  dropInbox(name: string, numbers: readonly number[], options?: CallOptions): Promise<void>;
  /**
   * Says which devices may post no more, from now on: these, and no others.
   *
   * @param devices - Their numbers.
   * @param options - A signal that ends it.
   * @throws {HersError} INVALID_ARGUMENT: for what is no number of a device, or too many.
   */
  refuseDevices(name: string, devices: readonly number[], options?: CallOptions): Promise<void>;

  /**
   * Makes what was deleted or replaced disappear from the disk, logs included, and tidies files.
   *
   * @throws {HersError} FORBIDDEN: for a call that is held to partitions.
   */
  purge(name: string, options?: CallOptions): Promise<void>;
  /**
   * The whole collection as one stream, and back, under this name or another.
   *
   * @throws {HersError} FORBIDDEN: for a call that is held to partitions.
   */
  snapshot(name: string, options?: CallOptions): AsyncIterable<Uint8Array>;
  /**
   * Takes a snapshot back.
   *
   * @param pieces - What `snapshot` gave, in pieces of any length.
   * @throws {HersError} ALREADY_EXISTS: where there is a collection of this name.
   * @throws {HersError} MALFORMED, UNSUPPORTED_VERSION: for bytes that are no snapshot, or of
   *   one in another format.
   * @throws {HersError} FORBIDDEN: for a call that is held to partitions.
   */
  restore(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void>;
  /** Ends what is under way, and frees everything. */
  close(): Promise<void>;
}

/**
 * Returns the service with these methods in place of its own: to count, to watch, to fail, to
 * cheat.
 */
export function withMethods<S extends Service>(service: S, methods: Partial<S>): S {
  return new Proxy(service, {
    get(target, name: keyof S & string) {
      const owner = methods[name] ? methods : target;
      const value = owner[name];
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(owner) : value;
    },
  });
}

interface EitherSignal extends Disposable {
  readonly signal: AbortSignal;
  /** A third reason. */
  readonly stop: (reason: unknown) => void;
  /** Lets go of both sources. */
  readonly done: () => void;
}

/**
 * Makes one signal of two reasons to stop. AbortSignal.any would keep every signal it ever made for
 * as long as the longer-lived of its sources.
 */
export function eitherSignal(ending: AbortSignal, given?: AbortSignal): EitherSignal {
  const either = new AbortController();
  const onAbort = (event: Event) => either.abort((event.target as AbortSignal).reason);
  const sources = given ? [ending, given] : [ending];
  for (const source of sources) {
    if (source.aborted) either.abort(source.reason);
    else source.addEventListener('abort', onAbort, { once: true });
  }
  const done = () => {
    for (const source of sources) source.removeEventListener('abort', onAbort);
  };
  return { signal: either.signal, stop: (reason) => either.abort(reason), done, [Symbol.dispose]: done };
}
