// A Service on disk. Everything here is about names, opening and closing; what a collection does is in the files around this one.

import { type Kernel, openKernel } from '@hers/scan';
import { decodeBlock } from '@hers/scheme';
import {
  type CallOptions,
  type Change,
  type CollectionInfo,
  HANDLE_BYTES,
  HersError,
  isCollectionName,
  type Many,
  type SealedRecord,
  type SearchOptions,
  type SearchRequest,
  type Service,
  type StageId,
} from '@hers/service';
import { Assembler } from './assembler.ts';
import { checkBytes, checkLength, hex, sha256 } from './bytes.ts';
import { type Catalogue, WritableCatalogue } from './catalogue.ts';
import { ReadableCatalogue } from './catalogue-reader.ts';
import { Collection, type CollectionRow, type Folder, noSuchCollection } from './collection.ts';
import { commitChange } from './commit.ts';
import { Disk, PinnedDisk, type Watcher } from './disk.ts';
import { LIST, RECORD } from './entry.ts';
import { fault } from './faults.ts';
import { Holding } from './holding.ts';
import { JOURNAL, type JournalPart } from './journal.ts';
import { checkFormat, clearFolders, hasFormat, highestKey, isInUse, makeLayout } from './layout.ts';
import { lengthsOf } from './lengths.ts';
import { FolderLock, writerNow } from './lock.ts';
import { clearSetAside, listSetAside, type SetAside, SWEEP_MS, sweep, type Tail } from './lost-and-found.ts';
import { CATALOGUE, SUMS } from './proof.ts';
import { purgeCollection } from './purge.ts';
import { readLists, readRecords } from './reading.ts';
import { MAX_BLOCK_BYTES, READING_COST, readStoredBlock } from './rebuild.ts';
import { giveReserveBack, keepReserve } from './reserve.ts';
import { fillFromSnapshot } from './restore.ts';
import { Scrub, type Scrubbed, type ScrubOptions } from './scrub.ts';
import { searchCollection } from './search.ts';
import { eitherSignal } from './signals.ts';
import { MAX_DESCRIPTOR_BYTES, MAX_MANIFEST_BYTES, snapshotCollection } from './snapshot.ts';
import type { Stage } from './stages.ts';
import { damaged, isNoRoom, isNotWritable, readOnly, storageError } from './storage-errors.ts';
import { newBlockRow } from './stored-block.ts';
import { Tables } from './tables.ts';
import { Upkeep, warn } from './upkeep.ts';
import { Batch } from './vault.ts';

const COLLECTION_ID_BYTES = 16;
const PIECE_BYTES = 2 ** 20;
const FIRST_VERSION = 1;
/** A statement that does not fit the tables. */
const SQLITE_ERROR = 1;

export interface StoreOptions {
  /**
   * `read` never writes, needs no permission to, and sees what another process commits meanwhile. The default is `write`, for which one process at a time has a folder open; a folder that
   * cannot be written is then opened as by `read`.
   */
  readonly mode?: 'write' | 'read';
  /** What scans; the fastest kernel that works here by default. */
  readonly kernel?: () => Promise<Kernel>;
  /** Milliseconds without a commit after which a collection is tidied. */
  readonly quietMs?: number;
  /** Hears what goes wrong in the background; a warning of the process by default. */
  readonly onTrouble?: (error: unknown) => void;
  /** For tests: sees every write. */
  readonly watcher?: Watcher;
}

const OPTIONS = ['mode', 'kernel', 'quietMs', 'onTrouble', 'watcher'];

/**
 * Opens a folder, or makes one.
 *
 * @example const store = await openStore('./gallery');
 */
export async function openStore(folder: string, options: StoreOptions = {}): Promise<FolderStore> {
  for (const option of Object.keys(options))
    if (!OPTIONS.includes(option))
      throw new HersError('INVALID_ARGUMENT', `a store has no option ${JSON.stringify(option)}`);
  const { mode = 'write' } = options;
  if (mode !== 'write' && mode !== 'read')
    throw new HersError('INVALID_ARGUMENT', 'a store is opened in the mode `write` or `read`');
  return new FolderStore(folder, options);
}

async function openFastest(): Promise<Kernel> {
  return (await openKernel()).kernel;
}

interface Open {
  readonly collection: Collection;
  readonly upkeep: Upkeep;
}

export class FolderStore implements Service {
  readonly #disk: Disk;
  readonly #lock: FolderLock | undefined;
  readonly #catalogue: Catalogue;
  readonly #assembler = new Assembler();
  readonly #folder: Folder;
  readonly #options: StoreOptions;
  readonly #collections = new Map<string, Open>();
  /** Names that are being restored. */
  readonly #reserved = new Set<string>();
  readonly #running = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();
  #kernel: Promise<Kernel> | undefined;
  #closed: Promise<void> | undefined;
  #sweeping: NodeJS.Timeout | undefined;

  constructor(folder: string, options: StoreOptions) {
    this.#options = options;
    this.#disk = new Disk(folder, options.watcher);
    checkFormat(this.#disk);
    this.#lock = options.mode === 'read' ? undefined : this.#takeLock();
    try {
      checkFormat(this.#disk);
      if (this.#lock) makeLayout(this.#disk);
      const inUse = isInUse(this.#disk);
      const catalogue = this.#lock ? this.#openCatalogue(inUse) : new ReadableCatalogue(this.#disk, inUse);
      this.#catalogue = catalogue;
      this.#folder = {
        disk: this.#disk,
        catalogue,
        assembler: this.#assembler,
        kernel: () => this.#openKernel(),
        refresh: () => this.#refresh(),
      };
      try {
        this.#lock?.leaveName(this.#disk);
        if (catalogue instanceof WritableCatalogue) this.#load(catalogue);
        else this.#look(catalogue as ReadableCatalogue);
      } catch (error) {
        catalogue.close();
        throw storageError(error, CATALOGUE);
      }
    } catch (error) {
      this.#lock?.release();
      throw error;
    }
  }

  /** On a full disk, with the room of the reserve. */
  #openCatalogue(inUse: boolean): WritableCatalogue {
    try {
      return new WritableCatalogue(this.#disk, inUse);
    } catch (error) {
      if (!isNoRoom(error) || !giveReserveBack(this.#disk)) throw error;
      return new WritableCatalogue(this.#disk, inUse);
    }
  }

  /** Undefined where the folder is there, and cannot be written. */
  #takeLock(): FolderLock | undefined {
    try {
      this.#disk.makeFolderSync('.');
      return new FolderLock(this.#disk);
    } catch (error) {
      if (isNotWritable(error) && hasFormat(this.#disk)) return undefined;
      throw error;
    }
  }

  #openKernel(): Promise<Kernel> {
    this.#kernel ??= (this.#options.kernel ?? openFastest)().catch((error) => {
      this.#kernel = undefined; // the next search tries again
      throw error;
    });
    return this.#kernel;
  }

  #rows(): CollectionRow[] {
    const rows = this.#catalogue.prepare('SELECT key, name, id, descriptor FROM collections').all();
    return rows as unknown as CollectionRow[];
  }

  /** What is in a folder that is ours to write. */
  #load(catalogue: WritableCatalogue): void {
    const named: string[] = [];
    const packEnds: [string, number][] = [];
    const whole = catalogue.damageOf() === undefined;
    const deleted = new Set(catalogue.deleted);
    for (const row of this.#rows()) {
      if (row.name === null) {
        if (whole) this.#forget(row.key);
        deleted.add(row.key);
        continue;
      }
      if (catalogue.damageOf(row.key)) {
        this.#damaged.set(row.name, row);
        continue;
      }
      const collection = new Collection(this.#folder, row);
      const files = collection.files();
      named.push(...files.named);
      packEnds.push(...files.packEnds);
      this.#add(collection);
    }
    // Where the catalogue cannot be trusted, what it does not name may still be needed.
    if (!whole) {
      this.#trouble(catalogue.damageOf());
      return;
    }
    catalogue.keepKeysAbove(highestKey(this.#disk));
    for (const key of deleted) clearSetAside(this.#disk, key);
    this.#tails = clearFolders(this.#disk, new Set(named), new Map(packEnds), deleted);
    if (catalogue.areSumsBehind)
      this.#trouble(
        new HersError(
          'DAMAGED',
          `${SUMS} was older than ${CATALOGUE}, as after a thread that was ended with the folder open. SQLite has checked the pages, and it was made anew`,
        ),
      );
    this.#sweep();
    this.#sweeping = setInterval(() => this.#sweep(), SWEEP_MS).unref();
    for (const file of [SUMS, JOURNAL]) this.#disk.removeSync(`${file}.tmp`);
    keepReserve(this.#disk);
  }

  /** Packs in which a crash left more than was committed. */
  #tails: readonly Tail[] = [];

  #sweep(): void {
    try {
      sweep(this.#disk, this.#tails);
    } catch (error) {
      this.#trouble(error);
    }
  }

  /** What is in a folder that another process may write, as of one commit. */
  #look(catalogue: ReadableCatalogue): void {
    catalogue.atOnce(() => {
      const rows = this.#rows().filter(({ name }) => name !== null);
      const keys = new Set(rows.map(({ key }) => key));
      this.#damaged.clear();
      for (const [name, { collection }] of this.#collections) {
        if (keys.has(collection.key) && !catalogue.damageOf(collection.key)) continue;
        this.#collections.delete(name);
        collection.ending.abort(noSuchCollection(name));
        collection.letGo();
      }
      for (const row of rows) {
        const known = this.#collections.get(row.name!);
        if (catalogue.damageOf(row.key)) this.#damaged.set(row.name!, row);
        else if (known) known.collection.refresh();
        else this.#add(new Collection(this.#folder, row));
      }
    });
    const damage = catalogue.damageOf();
    if (damage && damage !== this.#told) this.#trouble((this.#told = damage));
  }

  #told: HersError | undefined;
  /** Grows with every change of another process that was seen. */
  #generation = 0;

  /** Sees what another process has committed meanwhile; whether that is anything. */
  #refresh(): boolean {
    const catalogue = this.#catalogue;
    if (!(catalogue instanceof ReadableCatalogue)) return false;
    try {
      if (!catalogue.hasChanged()) return false;
      this.#generation++;
      this.#look(catalogue);
      return true;
    } catch (error) {
      throw storageError(error, CATALOGUE);
    }
  }

  /** Collections whose part of the catalogue is damaged. */
  readonly #damaged = new Map<string, CollectionRow>();

  #add(collection: Collection): Open {
    const open = { collection, upkeep: new Upkeep(collection, (error) => this.#trouble(error), this.#options.quietMs) };
    this.#collections.set(collection.name, open);
    return open;
  }

  #trouble(error: unknown): void {
    (this.#options.onTrouble ?? warn)(error);
  }

  /** Takes a collection out of the catalogue. */
  #forget(key: number): void {
    this.#catalogue.transaction(
      () => {
        new Tables(this.#catalogue, key).drop();
        this.#catalogue.prepare('DELETE FROM collections WHERE key = ?').run(key);
        fault('delete.within');
      },
      () => [{ gone: key }],
      { mayUseReserve: true },
    );
    fault('delete.committed');
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
  }

  #open(name: string): Open {
    this.#checkOpen();
    this.#refresh();
    const open = this.#collections.get(name);
    if (open) return open;
    const damaged = this.#damaged.get(name);
    throw damaged ? this.#catalogue.damageOf(damaged.key) : noSuchCollection(name);
  }

  /** Runs `work` so that closing waits for it. */
  #run<T>(work: () => Promise<T>): Promise<T> {
    const running = work().catch((error) => Promise.reject(storageError(error, CATALOGUE)));
    this.#running.add(running);
    const ended = () => this.#running.delete(running);
    running.then(ended, ended);
    return running;
  }

  /** A stream over a collection that ends when it is aborted, the collection deleted or the folder closed. */
  async *#stream<T>(
    name: string,
    options: CallOptions | undefined,
    make: (collection: Collection, signal: AbortSignal) => AsyncIterable<T>,
  ): AsyncGenerator<T> {
    for (;;) {
      const { collection } = this.#open(name);
      const generation = this.#generation;
      const { signal, done } = eitherSignal(collection.ending.signal, options?.signal);
      let begun = false;
      try {
        signal.throwIfAborted();
        for await (const item of make(collection, signal)) {
          begun = true;
          yield item;
          signal.throwIfAborted();
        }
        return;
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        // What another process has moved meanwhile is not where it was looked for.
        if (!isPerhapsMoved(error) || !this.#hasMoved(generation)) throw storageError(error, CATALOGUE);
        if (begun)
          throw new HersError('STALE', `${name} was changed by another process while it was read; read it again`);
      } finally {
        done();
      }
    }
  }

  /** Whether another process has changed something since, as this or another call has seen. */
  #hasMoved(since: number): boolean {
    return this.#refresh() || this.#generation !== since;
  }

  /** What `look` finds; again, where another process has changed it in between. */
  #steadily<T>(look: () => T): T {
    for (;;) {
      this.#refresh();
      const generation = this.#generation;
      try {
        return look();
      } catch (error) {
        if (!isPerhapsMoved(error) || !this.#hasMoved(generation)) throw storageError(error, CATALOGUE);
      }
    }
  }

  /** The same over the collection as it is now, whatever another process does to its files meanwhile. */
  #streamFrozen<T>(
    name: string,
    options: CallOptions | undefined,
    make: (collection: Collection, signal: AbortSignal) => AsyncIterable<T>,
  ): AsyncGenerator<T> {
    const catalogue = this.#catalogue;
    if (!(catalogue instanceof ReadableCatalogue)) return this.#stream(name, options, make);
    const { disk, assembler, kernel, refresh } = this.#folder;
    return this.#stream(name, options, async function* ({ key, name, id, descriptor }, signal) {
      const pinned = new PinnedDisk(disk.folder);
      try {
        const frozen = catalogue.freeze(pinned);
        try {
          const folder = { disk: pinned, catalogue: frozen, assembler, kernel, refresh: () => false };
          const collection = new Collection(folder, { key, name, id, descriptor });
          const { named, packEnds } = collection.files();
          for (const path of [...named, ...packEnds.map(([path]) => path)])
            if (!pinned.pinIfThere(path) && refresh()) throw damaged(path, 'it was moved meanwhile');
          yield* make(collection, signal);
        } finally {
          frozen.close();
        }
      } finally {
        pinned.close();
      }
    });
  }

  /** Refuses to write where this process only reads. */
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
      const key = this.#create(name, { ...created, version: FIRST_VERSION });
      this.#add(new Collection(this.#folder, { key, name, ...copyOf(created) }));
      fault('collection.made');
    });
  }

  #checkNew(name: string): void {
    this.#checkWritable();
    if (!isCollectionName(name))
      throw new HersError(
        'INVALID_ARGUMENT',
        'the name of a collection has 1 to 64 letters, digits, dots, dashes and underscores, and begins with a letter or digit',
      );
    if (this.#collections.has(name) || this.#damaged.has(name) || this.#reserved.has(name))
      throw new HersError('ALREADY_EXISTS', `there is a collection ${name} already; choose another name`);
  }

  /** A collection in the catalogue; without a name, it goes when the folder is opened next. */
  #create(
    name: string | null,
    made: { id: Uint8Array; descriptor: Uint8Array; manifest: Uint8Array; version: number },
  ): number {
    let key = 0;
    const { id, descriptor, version, manifest } = made;
    const parts = (): JournalPart[] =>
      name === null ? [] : [{ collection: { key, name, id, descriptor, version, manifest } }];
    this.#catalogue.transaction(() => {
      const insert = this.#catalogue.prepare('INSERT INTO collections (name, id, descriptor) VALUES (?, ?, ?)');
      key = Number(insert.run(name, id, descriptor).lastInsertRowid);
      new Tables(this.#catalogue, key).create(version, manifest);
      fault('collection.committing');
    }, parts);
    return key;
  }

  async listCollections(): Promise<CollectionInfo[]> {
    this.#checkOpen();
    return this.#steadily(() => [...this.#collections.values()].map(({ collection }) => collection.info()));
  }

  async getCollection(name: string): Promise<CollectionInfo> {
    return this.#steadily(() => this.#open(name).collection.info());
  }

  deleteCollection(name: string): Promise<void> {
    return this.#run(async () => {
      this.#checkWritable();
      const { collection, upkeep } = this.#open(name);
      const damage = this.#catalogue.damageOf();
      if (damage) throw damage;
      this.#collections.delete(name);
      upkeep.stop();
      collection.ending.abort(noSuchCollection(name));
      await collection.idle();
      try {
        this.#forget(collection.key);
      } catch (error) {
        // It is still there, and usable again.
        this.#add(new Collection(this.#folder, collection));
        throw error;
      }
      collection.dropAll();
      await this.#removeFiles(collection.key);
      fault('delete.removed');
      this.#catalogue.forgetPast();
    });
  }

  /** Removes the files of a collection that the catalogue no longer knows; what fails is done when the folder is opened next. */
  async #removeFiles(key: number): Promise<void> {
    try {
      clearSetAside(this.#disk, key);
    } catch {}
    for (const folder of ['blocks', 'segments', 'vault'])
      for (const file of this.#disk.listSync(folder))
        if (file.startsWith(`${key}-`)) await this.#disk.remove(`${folder}/${file}`).catch(() => {});
  }

  // — changes —

  async getManifest(name: string): Promise<{ readonly version: number; readonly manifest: Uint8Array }> {
    const { version, manifest } = this.#steadily(() => this.#open(name).collection.tables.manifest());
    return { version, manifest };
  }

  stageRecords(name: string, records: Many<SealedRecord>, options?: CallOptions): Promise<StageId> {
    return this.#run(async () => {
      this.#checkWritable();
      const { collection } = this.#open(name);
      const { signal, done } = eitherSignal(collection.ending.signal, options?.signal);
      const batch = new Batch(collection.vault);
      try {
        return await collection.stages.writing(batch, async () => {
          const add = ({ handle, sealed }: SealedRecord) => {
            signal.throwIfAborted();
            checkBytes(handle, 'a handle', HANDLE_BYTES);
            checkBytes(sealed, 'a sealed record');
            return batch.add(RECORD, handle, handle, sealed);
          };
          // An array need not wait for each of its items.
          if (Symbol.asyncIterator in records)
            for await (const record of records) {
              const full = add(record);
              if (full) await full;
            }
          else
            for (const record of records) {
              const full = add(record);
              if (full) await full;
            }
          signal.throwIfAborted();
          await batch.finish();
          return this.#stage(collection, { kind: 'records', batch });
        });
      } finally {
        done();
      }
    });
  }

  stageList(name: string, sealed: Uint8Array): Promise<StageId> {
    return this.#run(async () => {
      this.#checkWritable();
      const { collection } = this.#open(name);
      checkBytes(sealed, 'a sealed list');
      const batch = new Batch(collection.vault);
      return collection.stages.writing(batch, async () => {
        const id = sha256(sealed);
        await batch.add(LIST, id.subarray(0, HANDLE_BYTES), sealed);
        await batch.finish();
        return this.#stage(collection, { kind: 'list', batch, id });
      });
    });
  }

  stageBlock(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<StageId> {
    return this.#run(async () => {
      this.#checkWritable();
      const { collection } = this.#open(name);
      const { signal, done } = eitherSignal(collection.ending.signal, options?.signal);
      try {
        signal.throwIfAborted();
        const encoded = await gather(pieces, signal);
        using holding = new Holding(options?.hold);
        holding.become(encoded.length);
        const block = decodeBlock(encoded);
        const file = await collection.writeBlock(encoded);
        const hash = sha256(encoded);
        if (signal.aborted) {
          await this.#disk.remove(file).catch(() => {});
          throw signal.reason;
        }
        const row = newBlockRow(block, { hash, bytes: encoded.length }, file);
        return this.#stage(collection, { kind: 'block', row });
      } finally {
        done();
      }
    });
  }

  async #stage({ stages }: Collection, stage: Stage): Promise<StageId> {
    const id = stages.add(stage);
    for (const old of stages.expire()) await this.#disk.remove(old).catch(() => {});
    return id;
  }

  commit(name: string, change: Change, options?: CallOptions): Promise<number> {
    return this.#run(async () => {
      this.#checkWritable();
      const { collection, upkeep } = this.#open(name);
      const version = await commitChange(collection, change, options?.hold);
      upkeep.touch();
      await upkeep.ease();
      return version;
    });
  }

  // — reading —

  getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncIterable<SealedRecord> {
    return this.#stream(name, options, (collection, signal) => readRecords(collection, handles, signal, options?.hold));
  }

  getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncIterable<Uint8Array> {
    return this.#stream(name, options, (collection, signal) => readLists(collection, ids, signal, options?.hold));
  }

  getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncIterable<Uint8Array> {
    return this.#stream(name, options, async function* ({ blocks, folder }) {
      checkBytes(blockId, 'a block id');
      const block = blocks.get(hex(blockId));
      if (!block) throw new HersError('NOT_FOUND', `there is no block ${hex(blockId)} in this collection`);
      using holding = new Holding(options?.hold);
      holding.become(READING_COST * block.bytes);
      const { encoded } = await readStoredBlock(folder.disk, block);
      holding.become(encoded.length);
      for (let at = 0; at < encoded.length; at += PIECE_BYTES) yield encoded.subarray(at, at + PIECE_BYTES);
    });
  }

  search(name: string, request: SearchRequest, options?: SearchOptions): AsyncIterable<Uint8Array> {
    const views = options?.views ?? false;
    return this.#stream(name, options, (collection, signal) => searchCollection(collection, request, signal, views));
  }

  // — upkeep —

  /** Collections that cannot be opened, because their part of the catalogue is damaged. */
  damagedCollections(): { readonly name: string; readonly damage: HersError }[] {
    return [...this.#damaged].map(([name, { key }]) => ({ name, damage: this.#catalogue.damageOf(key)! }));
  }

  /** Whether nothing can be written: this process only reads, or the folder is damaged. */
  get isReadOnly(): boolean {
    return this.#catalogue.isReadOnly;
  }

  /** Who writes to the folder at the moment, where this process only reads. */
  writer(): string | undefined {
    this.#checkOpen();
    return this.#lock ? undefined : writerNow(this.#disk);
  }

  /** What the catalogue does not name, and is kept for a while. */
  setAside(): SetAside[] {
    this.#checkOpen();
    const ends = [...this.#collections.values()].flatMap(({ collection }) => collection.files().packEnds);
    return listSetAside(
      this.#disk,
      ends.map(([path, end]) => ({ path, end })),
    );
  }

  /** Every file that the catalogue names, with the damage that shows without reading it: it is missing, or has another length. */
  lengths(): Scrubbed[] {
    this.#checkOpen();
    for (;;) {
      this.#refresh();
      const generation = this.#generation;
      const files = [...this.#collections.values()].flatMap(({ collection }) => lengthsOf(collection));
      // What another process has moved meanwhile is not where it was looked for.
      if (files.every(({ damage }) => !damage) || !this.#hasMoved(generation)) return files;
    }
  }

  /** Reads every file of the folder and compares it with what was written, file after file; damage is told, not thrown. */
  async *scrub(options?: ScrubOptions): AsyncGenerator<Scrubbed> {
    this.#checkOpen();
    const catalogue = this.#catalogue.scrub();
    const collections = () => [...this.#collections.values()].map(({ collection }) => collection);
    const scrub = this.#steadily(() => new Scrub(collections(), catalogue.bytes, options));
    try {
      scrub.tell(catalogue.bytes);
      yield catalogue;
      for (const { name } of collections()) {
        try {
          yield* this.#streamFrozen(name, options, (collection, signal) => scrub.collection(collection, signal));
        } catch (error) {
          // Deleted meanwhile: then there is nothing to verify.
          if (!(error instanceof HersError && error.code === 'NOT_FOUND')) throw error;
        }
      }
    } finally {
      await scrub.close();
    }
  }

  purge(name: string, options?: CallOptions): Promise<void> {
    return this.#run(async () => {
      this.#checkWritable();
      const { collection } = this.#open(name);
      const { signal, done } = eitherSignal(collection.ending.signal, options?.signal);
      try {
        await collection.upkeep.take(async () => {
          signal.throwIfAborted();
          await purgeCollection(collection, signal, this.#tails);
        });
      } finally {
        done();
      }
    });
  }

  snapshot(name: string, options?: CallOptions): AsyncIterable<Uint8Array> {
    return this.#streamFrozen(name, options, (collection, signal) =>
      snapshotCollection(collection, signal, options?.hold),
    );
  }

  restore(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void> {
    return this.#run(async () => {
      this.#checkNew(name);
      this.#reserved.add(name);
      const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
      let filled: Collection | undefined;
      try {
        await fillFromSnapshot(
          pieces,
          (header) => {
            const key = this.#create(null, header);
            filled = new Collection(this.#folder, { key, name: null, ...header });
            return filled;
          },
          signal,
          options?.hold,
        );
        const collection = filled!;
        const { key, id, descriptor } = collection;
        this.#catalogue.transaction(
          () => {
            this.#catalogue.prepare('UPDATE collections SET name = ? WHERE key = ?').run(name, key);
            fault('restore.within');
          },
          () => [{ collection: { key, name, id, descriptor, ...collection.tables.manifest() } }],
        );
        fault('restore.committed');
        collection.name = name;
        this.#add(collection).upkeep.touch();
      } catch (error) {
        await this.#abandon(filled);
        throw error;
      } finally {
        this.#reserved.delete(name);
        done();
      }
    });
  }

  /** Nothing of a restore that failed stays; and if even that fails, it goes when the folder is opened next. */
  async #abandon(collection: Collection | undefined): Promise<void> {
    if (!collection) return;
    try {
      this.#forget(collection.key);
      await this.#removeFiles(collection.key);
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
    for (const { collection, upkeep } of this.#collections.values()) {
      upkeep.stop();
      collection.ending.abort(reason);
    }
    await Promise.allSettled(this.#running);
    for (const { collection } of this.#collections.values()) {
      await collection.idle();
      // What was staged and never committed is ours to remove; what a crash leaves is set aside.
      for (const file of collection.stages.files()) await this.#disk.remove(file).catch(() => {});
    }
    await this.#assembler.close();
    await (await this.#kernel?.catch(() => undefined))?.close();
    this.#catalogue.close();
    this.#lock?.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** What it looks like when a file or a table is gone that was there a moment ago. */
function isPerhapsMoved(error: unknown): boolean {
  if (error instanceof HersError) return error.code === 'DAMAGED';
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  return code === 'ERR_SQLITE_ERROR' && errcode === SQLITE_ERROR;
}

function copyOf({ id, descriptor }: { id: Uint8Array; descriptor: Uint8Array }) {
  return { id: new Uint8Array(id), descriptor: new Uint8Array(descriptor) };
}

/** Pieces as one. */
async function gather(pieces: Many<Uint8Array>, signal: AbortSignal): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    signal.throwIfAborted();
    checkBytes(piece, 'a piece of a block');
    bytes += piece.length;
    if (bytes > MAX_BLOCK_BYTES) throw new HersError('MALFORMED', 'this is too long to be a block');
    parts.push(piece);
  }
  return parts.length === 1 ? parts[0] : new Uint8Array(Buffer.concat(parts));
}
