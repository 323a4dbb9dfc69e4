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
  LIST_ID_BYTES,
  type Many,
  type SealedRecord,
  type SearchOptions,
  type SearchRequest,
  type Service,
  type StageId,
} from '@hers/service';
import { Assembler } from './assembler.ts';
import { checkBytes, hex, sameBytes, sha256 } from './bytes.ts';
import { Catalogue } from './catalogue.ts';
import { Collection, type CollectionRow, type Folder, noSuchCollection } from './collection.ts';
import { commitChange } from './commit.ts';
import { Disk, type Watcher } from './disk.ts';
import { LIST, RECORD } from './entry.ts';
import { fault } from './faults.ts';
import { checkFormat, cleanFolders, isInUse, makeLayout } from './layout.ts';
import { FolderLock } from './lock.ts';
import { decodePlace, type Place } from './place.ts';
import { purgeCollection } from './purge.ts';
import { readStoredBlock } from './rebuild.ts';
import { fillFromSnapshot } from './restore.ts';
import { type Scrubbed, scrubCollection } from './scrub.ts';
import { searchCollection } from './search.ts';
import { eitherSignal } from './signals.ts';
import { snapshotCollection } from './snapshot.ts';
import { storageError } from './storage-errors.ts';
import { newBlockRow } from './stored-block.ts';
import { Tables } from './tables.ts';
import { Upkeep, warn } from './upkeep.ts';
import { Batch } from './vault.ts';

const COLLECTION_ID_BYTES = 16;
/** Records looked up and read together. */
const READ_RECORDS = 512;
const PIECE_BYTES = 2 ** 20;
/** The largest encoded block: 4097 rows of 4096 coefficients modulo two primes, and a little. */
const MAX_BLOCK_BYTES = 2 ** 28;
const FIRST_VERSION = 1;

export interface StoreOptions {
  /** What scans; the fastest kernel that works here by default. */
  readonly kernel?: () => Promise<Kernel>;
  /** Milliseconds without a commit after which a collection is tidied. */
  readonly quietMs?: number;
  /** Hears what goes wrong in the background; a warning of the process by default. */
  readonly onTrouble?: (error: unknown) => void;
  /** For tests: sees every write. */
  readonly watcher?: Watcher;
}

const OPTIONS = ['kernel', 'quietMs', 'onTrouble', 'watcher'];

/**
 * Opens a folder, or makes one.
 *
 * @example const store = await openStore('./gallery');
 */
export async function openStore(folder: string, options: StoreOptions = {}): Promise<FolderStore> {
  for (const option of Object.keys(options))
    if (!OPTIONS.includes(option))
      throw new HersError('INVALID_ARGUMENT', `a store has no option ${JSON.stringify(option)}`);
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
  readonly #lock: FolderLock;
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

  constructor(folder: string, options: StoreOptions) {
    this.#options = options;
    this.#disk = new Disk(folder, options.watcher);
    checkFormat(this.#disk);
    this.#disk.makeFolderSync('.');
    this.#lock = new FolderLock(this.#disk);
    try {
      checkFormat(this.#disk);
      makeLayout(this.#disk);
      this.#catalogue = new Catalogue(this.#disk, isInUse(this.#disk));
      this.#folder = {
        disk: this.#disk,
        catalogue: this.#catalogue,
        assembler: this.#assembler,
        kernel: () => this.#openKernel(),
      };
      try {
        this.#load();
      } catch (error) {
        this.#catalogue.close();
        throw storageError(error, 'catalogue.db');
      }
    } catch (error) {
      this.#lock.release();
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

  #load(): void {
    const rows = this.#catalogue.prepare('SELECT key, name, id, descriptor FROM collections').all();
    const named: string[] = [];
    const packEnds: [string, number][] = [];
    const whole = this.#catalogue.damageOf() === undefined;
    for (const row of rows as unknown as CollectionRow[]) {
      if (row.name === null) {
        if (whole) this.#forget(row.key);
        continue;
      }
      if (this.#catalogue.damageOf(row.key)) {
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
    if (!whole) this.#trouble(this.#catalogue.damageOf());
    else cleanFolders(this.#disk, new Set(named), new Map(packEnds));
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
    this.#catalogue.transaction(() => {
      new Tables(this.#catalogue, key).drop();
      this.#catalogue.prepare('DELETE FROM collections WHERE key = ?').run(key);
      fault('delete.within');
    });
    fault('delete.committed');
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
  }

  #open(name: string): Open {
    this.#checkOpen();
    const open = this.#collections.get(name);
    if (open) return open;
    const damaged = this.#damaged.get(name);
    throw damaged ? this.#catalogue.damageOf(damaged.key) : noSuchCollection(name);
  }

  /** Runs `work` so that closing waits for it. */
  #run<T>(work: () => Promise<T>): Promise<T> {
    const running = (async () => work())();
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
    const { collection } = this.#open(name);
    const { signal, done } = eitherSignal(collection.ending.signal, options?.signal);
    try {
      signal.throwIfAborted();
      for await (const item of make(collection, signal)) {
        yield item;
        signal.throwIfAborted();
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      done();
    }
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
      const key = this.#create(name, { ...created, version: FIRST_VERSION });
      this.#add(new Collection(this.#folder, { key, name, ...copyOf(created) }));
      fault('collection.made');
    });
  }

  #checkNew(name: string): void {
    this.#checkOpen();
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
    return this.#catalogue.transaction(() => {
      const insert = this.#catalogue.prepare('INSERT INTO collections (name, id, descriptor) VALUES (?, ?, ?)');
      const key = Number(insert.run(name, made.id, made.descriptor).lastInsertRowid);
      new Tables(this.#catalogue, key).create(made.version, made.manifest);
      fault('collection.committing');
      return key;
    });
  }

  async listCollections(): Promise<CollectionInfo[]> {
    this.#checkOpen();
    return [...this.#collections.values()].map(({ collection }) => collection.info());
  }

  async getCollection(name: string): Promise<CollectionInfo> {
    return this.#open(name).collection.info();
  }

  deleteCollection(name: string): Promise<void> {
    return this.#run(async () => {
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
      this.#catalogue.checkpoint();
    });
  }

  /** Removes the files of a collection that the catalogue no longer knows; what fails is done when the folder is opened next. */
  async #removeFiles(key: number): Promise<void> {
    for (const folder of ['blocks', 'segments', 'vault'])
      for (const file of this.#disk.listSync(folder))
        if (file.startsWith(`${key}-`)) await this.#disk.remove(`${folder}/${file}`).catch(() => {});
  }

  // — changes —

  async getManifest(name: string): Promise<{ readonly version: number; readonly manifest: Uint8Array }> {
    const { collection } = this.#open(name);
    const { version, manifest } = collection.tables.manifest();
    return { version, manifest };
  }

  stageRecords(name: string, records: Many<SealedRecord>, options?: CallOptions): Promise<StageId> {
    return this.#run(async () => {
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
          return collection.stages.add({ kind: 'records', batch });
        });
      } finally {
        done();
      }
    });
  }

  stageList(name: string, sealed: Uint8Array): Promise<StageId> {
    return this.#run(async () => {
      const { collection } = this.#open(name);
      checkBytes(sealed, 'a sealed list');
      const batch = new Batch(collection.vault);
      return collection.stages.writing(batch, async () => {
        const id = sha256(sealed);
        await batch.add(LIST, id.subarray(0, HANDLE_BYTES), sealed);
        await batch.finish();
        return collection.stages.add({ kind: 'list', batch, id });
      });
    });
  }

  stageBlock(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<StageId> {
    return this.#run(async () => {
      const { collection } = this.#open(name);
      const { signal, done } = eitherSignal(collection.ending.signal, options?.signal);
      try {
        signal.throwIfAborted();
        const encoded = await gather(pieces, signal);
        const block = decodeBlock(encoded);
        for (const old of collection.stages.expire()) await this.#disk.remove(old).catch(() => {});
        const file = await collection.writeBlock(encoded);
        const hash = sha256(encoded);
        if (signal.aborted) {
          await this.#disk.remove(file).catch(() => {});
          throw signal.reason;
        }
        const row = newBlockRow(block, { hash, bytes: encoded.length }, file);
        return collection.stages.add({ kind: 'block', row });
      } finally {
        done();
      }
    });
  }

  commit(name: string, change: Change): Promise<number> {
    return this.#run(async () => {
      const { collection, upkeep } = this.#open(name);
      const version = await commitChange(collection, change);
      upkeep.touch();
      await upkeep.ease();
      return version;
    });
  }

  // — reading —

  getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncIterable<SealedRecord> {
    return this.#stream(name, options, async function* (collection, signal) {
      const reader = collection.vault.reader();
      try {
        for (let at = 0; at < handles.length; at += READ_RECORDS) {
          signal.throwIfAborted();
          const part = handles.slice(at, at + READ_RECORDS);
          for (const handle of part) checkBytes(handle, 'a handle', HANDLE_BYTES);
          const entries = await readWhere(part, reader, (handle) => collection.records.find(handle), 'record');
          for (const [i, { content }] of entries.entries()) {
            const handle = content.subarray(0, HANDLE_BYTES);
            if (!sameBytes(handle, part[i]))
              throw new HersError('DAMAGED', `the catalogue is damaged: record ${hex(part[i])} is not where it says`);
            yield { handle: new Uint8Array(handle), sealed: new Uint8Array(content.subarray(HANDLE_BYTES)) };
          }
        }
      } finally {
        reader.close();
      }
    });
  }

  getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncIterable<Uint8Array> {
    return this.#stream(name, options, async function* ({ vault, tables }, signal) {
      const reader = vault.reader();
      try {
        for (const id of ids) {
          signal.throwIfAborted();
          checkBytes(id, 'a list id', LIST_ID_BYTES);
          const find = () => {
            const place = tables.listPlace(id);
            return place && decodePlace(place);
          };
          const [{ content }] = await readWhere([id], reader, find, 'list');
          if (!sameBytes(sha256(content), id))
            throw new HersError('DAMAGED', `the catalogue is damaged: list ${hex(id)} is not where it says`);
          yield new Uint8Array(content);
        }
      } finally {
        reader.close();
      }
    });
  }

  getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncIterable<Uint8Array> {
    return this.#stream(name, options, async function* ({ blocks, folder }) {
      checkBytes(blockId, 'a block id');
      const block = blocks.get(hex(blockId));
      if (!block) throw new HersError('NOT_FOUND', `there is no block ${hex(blockId)} in this collection`);
      const { encoded } = await readStoredBlock(folder.disk, block);
      for (let at = 0; at < encoded.length; at += PIECE_BYTES) yield encoded.slice(at, at + PIECE_BYTES);
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

  /** Reads every file of the folder and compares it with what was written, file after file; damage is told, not thrown. */
  async *scrub(options?: CallOptions): AsyncGenerator<Scrubbed> {
    this.#checkOpen();
    yield this.#catalogue.scrub();
    for (const name of this.#collections.keys()) yield* this.#stream(name, options, scrubCollection);
  }

  purge(name: string, options?: CallOptions): Promise<void> {
    return this.#run(async () => {
      const { collection } = this.#open(name);
      const { signal, done } = eitherSignal(collection.ending.signal, options?.signal);
      try {
        await collection.upkeep.take(async () => {
          signal.throwIfAborted();
          await purgeCollection(collection, signal);
        });
      } finally {
        done();
      }
    });
  }

  snapshot(name: string, options?: CallOptions): AsyncIterable<Uint8Array> {
    return this.#stream(name, options, snapshotCollection);
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
        );
        const collection = filled!;
        this.#catalogue.transaction(() => {
          this.#catalogue.prepare('UPDATE collections SET name = ? WHERE key = ?').run(name, collection.key);
          fault('restore.within');
        });
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
      this.#catalogue.checkpoint();
    } catch {}
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const reason = new HersError('CLOSED', 'this store is closed; open it again');
    this.#closing.abort(reason);
    for (const { collection, upkeep } of this.#collections.values()) {
      upkeep.stop();
      collection.ending.abort(reason);
    }
    await Promise.allSettled(this.#running);
    for (const { collection } of this.#collections.values()) await collection.idle();
    await this.#assembler.close();
    await (await this.#kernel?.catch(() => undefined))?.close();
    this.#catalogue.close();
    this.#lock.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
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

/** Finds and reads entries; once more where a purge has moved them in between. */
async function readWhere(
  ids: readonly Uint8Array[],
  reader: ReturnType<Collection['vault']['reader']>,
  find: (id: Uint8Array) => Place | undefined,
  what: string,
) {
  const look = () =>
    ids.map((id) => {
      const place = find(id);
      if (!place) throw new HersError('NOT_FOUND', `there is no ${what} ${hex(id)} in this collection`);
      return place;
    });
  for (;;) {
    const places = look();
    try {
      return await reader.read(places, (i) => `${what} ${hex(ids[i])}`);
    } catch (error) {
      const moved = look().some(({ pack, offset }, i) => pack !== places[i].pack || offset !== places[i].offset);
      if (!moved) throw error;
    }
  }
}
