// A Service on disk: opens and closes a folder, and its collections by name. The files beside this
// one implement the operations.

import { type Kernel, openKernel } from '@hers/scan';
import {
  type CallOptions,
  type Change,
  type CollectionInfo,
  checkCollectionName,
  checkWhole,
  eitherSignal,
  Grouped,
  HersError,
  type InboxItem,
  type InboxRange,
  type Many,
  notHeld,
  type OptionNames,
  type PostOptions,
  refuseUnknown,
  type SealedRecord,
  type SearchCallOptions,
  type SearchedShard,
  type SearchRequest,
  type Service,
  type StageId,
  sectionsOf,
} from '@hers/service';
import { checkBytes, checkLength, hex } from './base/bytes.ts';
import { fault } from './base/faults.ts';
import { readOnly, storageError } from './base/storage-errors.ts';
import { Assembler } from './blocks/assembler.ts';
import type { Catalogue } from './catalogue/catalogue.ts';
import { ReadableCatalogue } from './catalogue/catalogue-reader.ts';
import { WritableCatalogue } from './catalogue/catalogue-writer.ts';
import { JOURNAL } from './catalogue/journal.ts';
import { Collection, createRow, dropRow, nameRow, noSuchCollection, removeFiles } from './collection.ts';
import { applyChange, commitChange, prepareChange } from './commit.ts';
import { Evaluators, type OnLoaded, type ReadLists } from './evaluation/evaluator.ts';
import { Disk, type Watcher } from './files/disk.ts';
import {
  CATALOGUE,
  checkFormat,
  clearFolders,
  highestNumber,
  holdsShards,
  isInUse,
  makeLayout,
  SUMS,
} from './files/layout.ts';
import { FolderLock, writerNow } from './files/lock.ts';
import { clearSetAside, listSetAside, type SetAside, SWEEP_MS, sweep, type Tail } from './files/lost-and-found.ts';
import { keepReserve } from './files/reserve.ts';
import { checkInboxLimits, dropFrom, type InboxLimits, postTo, questionsOf, refuse, takeFrom } from './inbox.ts';
import { type OpenCollection, OpenCollections } from './open-collections.ts';
import { purgeCollection, reclaimPacks } from './purge.ts';
import { readBlock, readLists, readRecords } from './reading.ts';
import { fillFromSnapshot } from './restore.ts';
import { lengthsOf, Scrub, type Scrubbed, type ScrubOptions } from './scrub/scrub.ts';
import { searchCollection, searchCollections } from './search.ts';
import { MAX_DESCRIPTOR_BYTES, MAX_MANIFEST_BYTES, snapshotCollection } from './snapshot.ts';
import type { ShardChange, ShardState, StagedChange } from './stages.ts';
import { carryStages, stageBlock, stageList, stageRecords } from './staging.ts';
import { warn } from './upkeep.ts';

const COLLECTION_ID_BYTES = 16;
/** How long a newer copy of a shard waits for what is being written to the one before. */
const STAGING_MS = 5_000;
const FIRST_VERSION = 1;

/** How a folder is opened. */
export interface StoreOptions {
  /**
   * `read` never writes, needs no permission to write, and follows the commits of another process.
   * The default is `write`, for which one process at a time can open a folder. A folder that cannot
   * be written is then opened as with `read`.
   */
  readonly mode?: 'write' | 'read';
  /** The kernel that scans. By default the fastest that works here. */
  readonly kernel?: () => Promise<Kernel>;
  /** Milliseconds without a commit after which a collection gets further upkeep. */
  readonly quietMs?: number;
  /**
   * Milliseconds without a search after which evaluation keys leave memory; a minute by default.
   */
  readonly evaluationMs?: number;
  /**
   * For the node of a cluster: its collections are shards, which keep what is staged and, for half
   * a minute, what was dropped. A folder that holds shards is opened as one in any case.
   *
   * @internal
   */
  readonly shards?: boolean;
  /** How much each device may leave in the inbox of a collection, and for how long. */
  readonly inbox?: InboxLimits;
  /** Called with errors of background work. By default they become process warnings. */
  readonly onBackgroundError?: (error: unknown) => void;
}

const STORE_OPTIONS: OptionNames<StoreOptions> = {
  mode: true,
  kernel: true,
  quietMs: true,
  evaluationMs: true,
  shards: true,
  inbox: true,
  onBackgroundError: true,
};

/**
 * Opens a folder, or creates one.
 *
 * @param folder - Where the gallery is, or is to be.
 * @param options - Whether to write, and what scans.
 * @throws {HersError} INVALID_ARGUMENT: for a folder that holds something else, or an option that
 *   there is not.
 * @throws {HersError} LOCKED: where another process writes to it; `mode: 'read'` reads along.
 * @throws {HersError} UNSUPPORTED_VERSION: for a folder in another format.
 * @throws {HersError} DAMAGED: where the catalogue was altered; `hers doctor` and `hers repair`
 *   help.
 * @throws {HersError} STORAGE: where the disk refuses.
 * @example
 * const store = await openStore('./gallery');
 */
export function openStore(folder: string, options: StoreOptions = {}): Promise<FolderStore> {
  return openWatched(folder, options);
}

/** The same for tests: `watcher` sees every write. */
export async function openWatched(folder: string, options: StoreOptions, watcher?: Watcher): Promise<FolderStore> {
  refuseUnknown(options, STORE_OPTIONS, 'a store');
  const { mode = 'write' } = options;
  if (mode !== 'write' && mode !== 'read')
    throw new HersError('INVALID_ARGUMENT', 'a store is opened in the mode `write` or `read`');
  return new FolderStore(folder, options, watcher);
}

async function openFastest(): Promise<Kernel> {
  return (await openKernel()).kernel;
}

/**
 * A store in a folder: `openStore` makes one.
 *
 * @throws {HersError} CLOSED: after `close`.
 */
export class FolderStore implements Service {
  readonly #disk: Disk;
  readonly #lock: FolderLock | undefined;
  readonly #catalogue: Catalogue;
  readonly #assembler = new Assembler();
  readonly #evaluators: Evaluators;
  readonly #options: StoreOptions;
  readonly #inbox: Required<InboxLimits>;
  readonly #collections: OpenCollections;
  /** Names that are being restored. */
  readonly #reserved = new Set<string>();
  /** Collections whose newer copy is about to take their place: changes wait for it. */
  readonly #replacing = new Map<string, Promise<void>>();
  /**
   * Whether this is the folder of a node, whose collections are shards.
   *
   * @internal
   */
  readonly holdsShards: boolean;
  readonly #running = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();
  #kernel: Promise<Kernel> | undefined;
  #closed: Promise<void> | undefined;
  #sweeping: NodeJS.Timeout | undefined;
  /** Packs that a crash left longer than committed. */
  #tails: readonly Tail[] = [];

  /**
   * For `openStore`, which checks the options.
   *
   * @param folder - Where the gallery is.
   * @param options - How it is opened.
   * @param watcher - For tests: sees every write.
   * @throws {HersError} LOCKED, UNSUPPORTED_VERSION, DAMAGED, STORAGE, INVALID_ARGUMENT: as {@link
   *   openStore}.
   */
  constructor(folder: string, options: StoreOptions, watcher?: Watcher) {
    this.#options = options;
    this.#inbox = checkInboxLimits(options.inbox);
    this.#evaluators = new Evaluators(options.evaluationMs);
    this.#disk = new Disk(folder, watcher);
    checkFormat(this.#disk);
    this.#lock = options.mode === 'read' ? undefined : FolderLock.takeIfWritable(this.#disk);
    try {
      checkFormat(this.#disk);
      if (this.#lock) makeLayout(this.#disk, options.shards ? 'shards' : 'store');
      this.holdsShards = holdsShards(this.#disk);
      if (options.shards && !this.holdsShards)
        throw new HersError(
          'INVALID_ARGUMENT',
          `${folder} is a gallery of its own, and no folder of a node; choose an empty one`,
        );
      const inUse = isInUse(this.#disk);
      const catalogue = this.#lock
        ? WritableCatalogue.open(this.#disk, inUse)
        : new ReadableCatalogue(this.#disk, inUse);
      this.#catalogue = catalogue;
      const shared = {
        disk: this.#disk,
        catalogue,
        assembler: this.#assembler,
        kernel: () => this.#openKernel(),
        evaluators: this.#evaluators,
        holdsShards: this.holdsShards,
      };
      this.#collections = new OpenCollections(shared, {
        closing: this.#closing.signal,
        quietMs: options.quietMs,
        report: (error) => this.#report(error),
      });
      try {
        this.#lock?.leaveName(this.#disk);
        if (catalogue instanceof WritableCatalogue) this.#load(catalogue);
        else this.#collections.look(catalogue as ReadableCatalogue);
      } catch (error) {
        catalogue.close();
        throw storageError(error, CATALOGUE);
      }
    } catch (error) {
      this.#lock?.release();
      throw error;
    }
  }

  /**
   * Evaluation keys that are in memory: how many sets, and how many bytes.
   *
   * @internal
   */
  get evaluationKeys(): { readonly sets: number; readonly bytes: number } {
    return this.#evaluators.loaded;
  }

  /**
   * Calls back when evaluation keys have come into memory, or, with a negative number, are gone.
   *
   * @internal
   */
  onEvaluationKeys(onLoaded: OnLoaded): void {
    this.#evaluators.onLoaded.add(onLoaded);
  }

  #openKernel(): Promise<Kernel> {
    this.#kernel ??= (this.#options.kernel ?? openFastest)().catch((error) => {
      this.#kernel = undefined; // the next search tries again
      throw error;
    });
    return this.#kernel;
  }

  /** Opens the content of a folder that this process writes. */
  #load(catalogue: WritableCatalogue): void {
    const isWhole = catalogue.damageOf() === undefined;
    const deleted = new Set(catalogue.deleted);
    for (const { number } of this.#collections.load(catalogue)) {
      if (isWhole) dropRow(catalogue, number);
      deleted.add(number);
    }
    // If the catalogue cannot be trusted, files that it does not name may still be needed.
    if (!isWhole) {
      this.#report(catalogue.damageOf());
      return;
    }
    catalogue.keepNumbersAbove(highestNumber(this.#disk));
    for (const number of deleted) clearSetAside(this.#disk, number);
    const files = this.#collections.all().map((collection) => collection.files());
    const named = new Set(files.flatMap((each) => each.named));
    const packEnds = new Map(files.flatMap((each) => each.packEnds));
    this.#tails = clearFolders(this.#disk, named, packEnds, deleted);
    if (catalogue.areSumsBehind)
      this.#report(
        new HersError(
          'DAMAGED',
          `${SUMS} was older than ${CATALOGUE}, as after a thread that was ended with the folder open. SQLite has checked the pages, and it was made again`,
        ),
      );
    this.#sweep();
    this.#sweeping = setInterval(() => this.#sweep(), SWEEP_MS).unref();
    for (const file of [SUMS, JOURNAL]) this.#disk.removeSync(`${file}.tmp`);
    keepReserve(this.#disk);
  }

  #sweep(): void {
    try {
      sweep(this.#disk, this.#tails);
    } catch (error) {
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    (this.#options.onBackgroundError ?? warn)(error);
  }

  #checkOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  /** Runs `work`; closing waits for it. */
  #run<T>(work: () => Promise<T>): Promise<T> {
    const running = work().catch((error) => Promise.reject(storageError(error, CATALOGUE)));
    this.#running.add(running);
    const ended = () => this.#running.delete(running);
    running.then(ended, ended);
    return running;
  }

  /** Runs `work` that changes a collection, until `signal` is aborted or the collection ends. */
  #write<T>(
    name: string,
    options: CallOptions | undefined,
    work: (open: OpenCollection, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#run(async () => {
      const replacing = this.#replacing.get(name);
      if (replacing !== undefined) await replacing;
      this.#checkWritable();
      const open = this.#collections.get(name);
      using either = eitherSignal(open.collection.ending.signal, options?.signal);
      const { signal } = either;
      const writing = work(open, signal);
      open.collection.writes.add(writing);
      return await writing.finally(() => open.collection.writes.delete(writing));
    });
  }

  #checkWritable(): void {
    this.#checkOpen();
    const damage = this.#lock && this.#catalogue.damageOf();
    if (damage) throw damage;
    if (this.#lock) return;
    throw this.#options.mode === 'read'
      ? new HersError('STORAGE', `${this.#disk.folder} was opened to be read: open it in the mode \`write\``)
      : readOnly(this.#disk.folder);
  }

  // — collections —

  createCollection(
    name: string,
    created: { readonly id: Uint8Array; readonly descriptor: Uint8Array; readonly manifest: Uint8Array },
  ): Promise<void> {
    return this.#run(async () => {
      this.#checkNew(name);
      checkBytes(created.id, 'a collection id', COLLECTION_ID_BYTES);
      checkBytes(created.descriptor, 'a descriptor');
      checkBytes(created.manifest, 'a manifest');
      checkLength(created.descriptor, 'a descriptor', MAX_DESCRIPTOR_BYTES);
      checkLength(created.manifest, 'a manifest', MAX_MANIFEST_BYTES);
      checkWhole(created.manifest);
      // Copies: the caller may use its memory again.
      const [id, descriptor] = [new Uint8Array(created.id), new Uint8Array(created.descriptor)];
      const number = createRow(this.#catalogue, name, { ...created, version: FIRST_VERSION }, this.holdsShards);
      this.#collections.add(new Collection(this.#collections.folder, { number, name, id, descriptor }));
      fault('collection.made');
    });
  }

  #checkNew(name: string): void {
    this.#checkWritable();
    checkCollectionName(name);
    if (this.#collections.has(name) || this.#reserved.has(name))
      throw new HersError('ALREADY_EXISTS', `there is a collection ${name} already; use it, or choose another name`);
  }

  async listCollections(): Promise<CollectionInfo[]> {
    this.#checkOpen();
    return this.#collections.steadily(() => this.#collections.all().map((collection) => collection.info()));
  }

  async getCollection(name: string): Promise<CollectionInfo> {
    return this.#collections.steadily(() => this.#collections.get(name).collection.info());
  }

  deleteCollection(name: string): Promise<void> {
    return this.#run(async () => {
      this.#checkWritable();
      const { collection, upkeep } = this.#collections.get(name);
      this.#collections.delete(name);
      upkeep.stop();
      collection.ending.abort(noSuchCollection(name));
      await collection.idle();
      try {
        dropRow(this.#catalogue, collection.number);
      } catch (error) {
        // It still exists, and is usable again.
        this.#collections.add(new Collection(this.#collections.folder, collection));
        throw error;
      }
      collection.dropAll();
      await removeFiles(this.#disk, collection.number);
      fault('delete.removed');
      this.#catalogue.forgetPast();
    });
  }

  // — changes —

  async getManifest(
    name: string,
    options?: CallOptions,
  ): Promise<{ readonly version: number; readonly manifest: Uint8Array }> {
    const { version, manifest } = this.#collections.steadily(() =>
      this.#collections.get(name).collection.tables.manifest(),
    );
    return { version, manifest: options?.partitions ? sectionsOf(manifest, options.partitions) : manifest };
  }

  stageRecords(name: string, records: Many<SealedRecord>, options?: CallOptions): Promise<StageId> {
    return this.#write(name, options, ({ collection }, signal) =>
      stageRecords(collection, records, signal, options?.partitions),
    );
  }

  stageList(name: string, sealed: Uint8Array, options?: CallOptions): Promise<StageId> {
    return this.#write(name, undefined, ({ collection }) => stageList(collection, sealed, options?.partitions));
  }

  stageBlock(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<StageId> {
    return this.#write(name, options, ({ collection }, signal) => stageBlock(collection, pieces, signal, options));
  }

  commit(name: string, change: Change, options?: CallOptions): Promise<number> {
    return this.#write(name, undefined, async ({ collection, upkeep }) => {
      const version = await commitChange(collection, change, options);
      upkeep.touch();
      await upkeep.ease();
      return version;
    });
  }

  // — for the nodes of a cluster: packages/cluster says how they are used —

  /**
   * Stages a change of a shard, if it can be applied to what the shard is now.
   *
   * @internal
   */
  prepare(name: string, change: ShardChange, options?: CallOptions): Promise<StageId> {
    return this.#write(name, undefined, ({ collection }) => {
      if (!this.holdsShards) throw new HersError('INVALID_ARGUMENT', 'only shards stage changes; commit it');
      return prepareChange(collection, change, options);
    });
  }

  /**
   * Applies a staged change, unless the shard has the version that it makes, or a later one.
   *
   * @internal
   */
  apply(name: string, staged: StagedChange, options?: CallOptions): Promise<number> {
    return this.#write(name, undefined, async ({ collection, upkeep }) => {
      const now = await applyChange(collection, staged, options);
      upkeep.touch();
      await upkeep.ease();
      return now;
    });
  }

  /**
   * The version of a shard, and which change made it.
   *
   * @internal
   */
  async getState(name: string): Promise<ShardState> {
    const { collection } = this.#collections.get(name);
    return { version: collection.version, state: collection.state() };
  }

  /**
   * Searches several collections in one scan; each at a version of its own, which is that of a
   * state. Without the state, it has to be one of the past: what followed is based on it. Lists
   * with evaluation keys, which are those of the first, are in some of the collections, or
   * elsewhere: `read` gives them, and `lists` names those that a collection must have.
   *
   * @internal
   */
  searchShards(
    shards: readonly SearchedShard[],
    queries: readonly Uint8Array[],
    options?: SearchCallOptions,
    read?: ReadLists,
  ): AsyncIterable<Uint8Array> {
    return new Grouped(() =>
      this.#collections.stream(shards[0].name, options, (_, signal) => {
        const searched = shards.map(({ name, state, lists = [], ...rest }) => {
          const open = this.#collections.get(name);
          const isHere = open.collection.version === rest.version;
          if (isHere && open.collection.state() !== state)
            throw new HersError('STALE', `${name} has this version by another change; read it elsewhere`);
          const missing = lists.find((id) => !open.collection.tables.listPlace(id));
          if (missing && isHere)
            throw new HersError('NOT_FOUND', `there is no list ${hex(missing)} in this collection`);
          if (missing) throw new HersError('STALE', `${name} has other evaluation keys meanwhile; read it again`);
          return { ...rest, ...open };
        });
        return searchCollections(searched, queries, signal, options, read);
      }),
    );
  }

  /**
   * Puts a snapshot in the place of a collection, which stays as it is until all has come. What is
   * staged there is staged in it as well.
   *
   * @internal
   */
  replace(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void> {
    return this.#restore(name, pieces, options, true);
  }

  /**
   * Frees the room of records that were removed, where there is far more on disk than those that
   * are there: as many bytes as the manifest says. So many beside that are not worth it.
   *
   * @internal
   */
  reclaim(name: string, liveBytes: (manifest: Uint8Array) => number, spared?: number): Promise<void> {
    return this.#write(name, undefined, ({ collection }, signal) =>
      reclaimPacks(collection, liveBytes, signal, spared),
    );
  }

  // — reading —

  getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncIterable<SealedRecord> {
    return this.#collections.stream(name, options, (collection, signal) =>
      readRecords(collection, handles, signal, options),
    );
  }

  getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncIterable<Uint8Array> {
    return this.#collections.stream(name, options, (collection, signal) => readLists(collection, ids, signal, options));
  }

  getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncIterable<Uint8Array> {
    return this.#collections.stream(name, options, (collection) => readBlock(collection, blockId, options));
  }

  search(name: string, request: SearchRequest, options?: SearchCallOptions): AsyncIterable<Uint8Array> {
    return new Grouped(() =>
      this.#collections.stream(name, options, (collection, signal) => {
        if (!request.open) return searchCollection(collection, request, signal, options);
        const queries = [...request.queries, ...questionsOf(collection, request.open.inbox)];
        return searchCollection(collection, { ...request, queries }, signal, options);
      }),
    );
  }

  // — inboxes —

  post(name: string, envelope: Uint8Array, options?: PostOptions): Promise<number> {
    return this.#write(name, options, async ({ collection }) => postTo(collection, envelope, this.#inbox, options));
  }

  takeInbox(name: string, range?: InboxRange, options?: CallOptions): AsyncIterable<InboxItem> {
    return this.#collections.stream(name, options, (collection, signal) => {
      if (options?.partitions) throw notHeld('an inbox');
      return takeFrom(collection, range, this.#inbox, signal);
    });
  }

  dropInbox(name: string, numbers: readonly number[], options?: CallOptions): Promise<void> {
    return this.#write(name, options, async ({ collection }) => {
      if (options?.partitions) throw notHeld('an inbox');
      dropFrom(collection, numbers);
    });
  }

  refuseDevices(name: string, devices: readonly number[], options?: CallOptions): Promise<void> {
    return this.#write(name, options, async ({ collection }) => {
      if (options?.partitions) throw notHeld('an inbox');
      refuse(collection, devices);
    });
  }

  // — upkeep —

  /** Collections that cannot be opened, because their part of the catalogue is damaged. */
  damagedCollections(): { readonly name: string; readonly damage: HersError }[] {
    return this.#collections.damaged();
  }

  /** Whether the store is read-only: this process only reads, or the folder is damaged. */
  get isReadOnly(): boolean {
    return this.#catalogue.isReadOnly;
  }

  /** The process that writes to the folder now, if this one only reads. */
  writer(): string | undefined {
    this.#checkOpen();
    return this.#lock ? undefined : writerNow(this.#disk);
  }

  /**
   * Data that the catalogue does not name, and that is kept for a while.
   *
   * @throws {HersError} STORAGE: where the folder cannot be read.
   */
  setAside(): SetAside[] {
    this.#checkOpen();
    const ends = this.#collections.all().flatMap((collection) => collection.files().packEnds);
    return listSetAside(
      this.#disk,
      ends.map(([path, end]) => ({ path, end })),
    );
  }

  /**
   * Every file that the catalogue names, with the damage that shows without reading it: the file is
   * missing, or has another length.
   */
  lengths(): Scrubbed[] {
    this.#checkOpen();
    return this.#collections.steadily(
      () => this.#collections.all().flatMap(lengthsOf),
      (files) => files.some(({ damage }) => damage),
    );
  }

  /**
   * Reads every file of the folder and compares it with what was written, one file after the other.
   * Damage is reported, not thrown.
   *
   * @param options - A signal, a number of threads, and a function that hears of progress.
   * @throws {HersError} INVALID_ARGUMENT: for an option that there is not.
   * @throws {HersError} STORAGE: where a file cannot be read at all.
   * @example
   * for await (const { file, damage } of store.scrub())
   *   if (damage) console.log(file, damage.message);
   */
  async *scrub(options: ScrubOptions = {}): AsyncGenerator<Scrubbed> {
    refuseUnknown(options, { signal: true, hold: true, onProgress: true, threads: true }, 'a scrub');
    this.#checkOpen();
    const catalogue = this.#catalogue.scrub();
    const scrub = this.#collections.steadily(() => new Scrub(this.#collections.all(), catalogue.bytes, options));
    try {
      scrub.tell(catalogue.bytes);
      yield catalogue;
      for (const { name } of this.#collections.all()) {
        try {
          yield* this.#collections.streamFrozen(name, options, (collection, signal) =>
            scrub.collection(collection, signal),
          );
        } catch (error) {
          // It was deleted in the meantime, or replaced by a copy that was verified as it came:
          // there is nothing left to read.
          if (!(error instanceof HersError && ['NOT_FOUND', 'STALE'].includes(error.code))) throw error;
        }
      }
    } finally {
      await scrub.close();
    }
  }

  purge(name: string, options?: CallOptions): Promise<void> {
    return this.#write(name, options, async ({ collection }, signal) => {
      if (options?.partitions) throw notHeld('a purge');
      await collection.upkeepQueue.run(async () => {
        signal.throwIfAborted();
        await purgeCollection(collection, signal, this.#tails);
      });
    });
  }

  snapshot(name: string, options?: CallOptions): AsyncIterable<Uint8Array> {
    return this.#collections.streamFrozen(name, options, (collection, signal) => {
      if (options?.partitions) throw notHeld('a snapshot');
      return snapshotCollection(collection, signal, options?.hold);
    });
  }

  restore(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void> {
    return this.#restore(name, pieces, options, false);
  }

  #restore(name: string, pieces: Many<Uint8Array>, options: CallOptions | undefined, replaces: boolean): Promise<void> {
    return this.#run(async () => {
      if (options?.partitions) throw notHeld('a restore');
      if (replaces) this.#checkWritable();
      if (!replaces || !this.#collections.has(name)) this.#checkNew(name);
      this.#reserved.add(name);
      using either = eitherSignal(this.#closing.signal, options?.signal);
      const { signal } = either;
      let filled: Collection | undefined;
      const { promise: replaced, resolve: isReplaced } = Promise.withResolvers<void>();
      try {
        await fillFromSnapshot(
          pieces,
          (header) => {
            const number = createRow(this.#catalogue, null, header, this.holdsShards);
            filled = new Collection(this.#collections.folder, { number, name: null, ...header });
            return filled;
          },
          signal,
          options?.hold,
        );
        const old = replaces && this.#collections.has(name) ? this.#collections.get(name) : undefined;
        if (old) {
          this.#replacing.set(name, replaced);
          // What is being staged is carried over; else a copy of what changes fast would never do.
          await settled(old.collection.writes, STAGING_MS);
          old.upkeep.stop();
          old.collection.ending.abort(
            new HersError('STALE', `${name} was replaced by a newer copy while it was read; read it again`),
          );
          await old.collection.idle();
          await carryStages(old.collection, filled!, this.#closing.signal);
        }
        nameRow(filled!, name, old?.collection);
        if (old) {
          old.collection.dropAll();
          this.#collections.delete(name);
        }
        this.#collections.add(filled!).upkeep.touch();
        isReplaced();
        if (old) await removeFiles(this.#disk, old.collection.number);
      } catch (error) {
        await this.#abandon(filled);
        throw error;
      } finally {
        isReplaced();
        this.#replacing.delete(name);
        this.#reserved.delete(name);
      }
    });
  }

  /**
   * Removes everything of a failed restore. If even that fails, it is removed when the folder is
   * opened next.
   */
  async #abandon(collection: Collection | undefined): Promise<void> {
    if (!collection) return;
    try {
      dropRow(this.#catalogue, collection.number);
      await removeFiles(this.#disk, collection.number);
      this.#catalogue.forgetPast();
    } catch {}
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const reason = new HersError('CLOSED', 'this store is closed; open it again');
    this.#closing.abort(reason);
    clearInterval(this.#sweeping);
    this.#collections.stopUpkeep();
    for (const collection of this.#collections.all()) collection.ending.abort(reason);
    await Promise.allSettled(this.#running);
    for (const collection of this.#collections.all()) {
      await collection.idle();
      // Staged data that was never committed is removed. Data left by a crash goes to lost+found.
      if (!this.holdsShards)
        for (const file of collection.stages.files()) await this.#disk.remove(file).catch(() => {});
      await collection.past.clear();
    }
    await this.#assembler.close();
    await this.#evaluators.close();
    await (await this.#kernel?.catch(() => undefined))?.close();
    this.#catalogue.close();
    this.#lock?.release();
  }

  /** The same as `close`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Resolves when all of these have ended, or after a time. */
async function settled(all: Iterable<Promise<unknown>>, withinMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, withinMs);
  });
  await Promise.race([Promise.allSettled(all), late]);
  clearTimeout(timer);
}
