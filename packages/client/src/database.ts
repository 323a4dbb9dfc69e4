// The collections of a folder or a server, and what this client remembers of them.

import { type PlanRequest, plan } from '@hers/scheme';
import { MasterSeed } from '@hers/scheme/secret';
import {
  type CollectionInfo,
  checkCollectionName,
  HersError,
  type Many,
  refuseUnknown,
  type Service,
} from '@hers/service';
import { hex } from './bytes.ts';
import { type Collection, collectionOf, sessionOf } from './collection.ts';
import {
  COLLECTION_OPTIONS,
  CONNECT_OPTIONS,
  type CollectionDescription,
  type CollectionOptions,
  type CollectionSummary,
  type ConnectOptions,
  type RestoreOptions,
} from './database-options.ts';
import { invalid } from './fields/field.ts';
import { openCompressor } from './formats/compressors.ts';
import { emptyManifest, liveCount, type Manifest, manifestHash, sealManifest } from './formats/manifest.ts';
import { encodeDescriptor, Keyring, openDescriptor } from './keys/keyring.ts';
import { makeSealer } from './sealing/sealing.ts';
import { checkPartitions } from './search/choice.ts';
import { completeEvaluation } from './session/draft.ts';
import type { ListCache } from './session/list-cache.ts';
import { CollectionReader } from './session/reader.ts';
import { CollectionSession } from './session/session.ts';
import { SnapshotHead } from './session/snapshot-head.ts';
import {
  deletedAt,
  howToAccept,
  InMemoryVersions,
  type Place,
  type Seen,
  type Shown,
  seenAfter,
  type VersionMemory,
} from './session/versions.ts';
import { checkedFields } from './writing/fields.ts';

/** INVALID_ARGUMENT unless it is a seed, or as many bytes as one has. */
export function checkKey(key: unknown): asserts key is MasterSeed | Uint8Array {
  if (key instanceof Uint8Array) MasterSeed.from(key).wipe();
  else if (!(key instanceof MasterSeed))
    throw invalid('key is a MasterSeed: make one by MasterSeed.generate(), and keep it');
}

/**
 * A gallery that is open: `connect` makes one.
 *
 * Methods share these parameters and errors, besides those that they name.
 *
 * @param name - The name of a collection: letters, digits, `_`, `.` and `-`.
 * @throws {HersError} INVALID_ARGUMENT: for a name, an option or another argument that cannot be.
 * @throws {HersError} NOT_FOUND: where there is no such collection, or somebody deletes it
 *   meanwhile.
 * @throws {HersError} WRONG_KEY: where it was made with another key.
 * @throws {HersError} FORBIDDEN: to make, delete and restore, where the client is limited to
 *   partitions.
 * @throws {HersError} INTEGRITY, DAMAGED, STORAGE, UNAVAILABLE and others: {@link Collection} lists
 *   them.
 */
export class Database {
  readonly #service: Service;
  readonly #seed: MasterSeed;
  readonly #memory: VersionMemory;
  readonly #cache: ListCache | undefined;
  readonly #partitions: readonly string[] | undefined;
  readonly #gallery: string;
  readonly #threads: number | undefined;
  readonly #open = new Map<string, Promise<Collection>>();

  /**
   * For a store of one's own; `connect` makes one from an address.
   *
   * @param service - The store. `close` closes it.
   * @param options - The key, and what is remembered.
   * @example
   * const db = new Database(await openStore('./gallery'), { key });
   */
  constructor(service: Service, options: ConnectOptions) {
    refuseUnknown(options, CONNECT_OPTIONS, 'a database');
    const { key, versions, cache, partitions, gallery = '', threads } = options;
    checkKey(key);
    if (cache !== undefined && typeof cache?.open !== 'function')
      throw invalid('cache is a cache of lists: open one by openListCache(folder)');
    checkPartitions(partitions);
    this.#service = service;
    this.#partitions = partitions?.map((name) => name.normalize('NFC'));
    this.#seed = key instanceof Uint8Array ? MasterSeed.from(key) : key.clone();
    this.#memory = versions ?? new InMemoryVersions();
    this.#cache = cache;
    this.#gallery = gallery;
    this.#threads = threads;
  }

  #checkWhole(what: string): void {
    if (this.#partitions) throw new HersError('FORBIDDEN', `${what} needs a token that is not limited to partitions`);
  }

  #place(name: string): Place {
    return { gallery: this.#gallery, name };
  }

  #reader(name: string, keyring: Keyring): CollectionReader {
    const [service, memory, cache, partitions] = [this.#service, this.#memory, this.#cache, this.#partitions];
    return new CollectionReader({ service, place: this.#place(name), keyring, memory, cache, partitions });
  }

  /**
   * Makes a collection.
   *
   * @param options - Its dimension, and what else is decided once and for all.
   * @throws {HersError} UNSUPPORTED_PLAN, INSECURE_PARAMETERS: where no parameters do for this
   *   dimension, metric and profile, or none that are safe.
   * @throws {HersError} ALREADY_EXISTS: where there is one of this name.
   * @example
   * const faces = await db.createCollection('faces', { dimension: 128 });
   */
  async createCollection(name: string, options: CollectionOptions): Promise<Collection> {
    checkCollectionName(name);
    this.#checkWhole('making a collection');
    refuseUnknown(options, COLLECTION_OPTIONS, 'a collection');
    const { compressor, fields: given = {}, partitionBy, ...request } = options;
    const fields = checkedFields(given);
    if (partitionBy !== undefined && fields[partitionBy] !== 'keyword')
      throw invalid('partitionBy names one of the fields, of type keyword');
    const id = crypto.getRandomValues(new Uint8Array(16));
    plan(request); // refuses what cannot be served
    const compression = compressor && (await openCompressor(compressor, request));
    checkSmaller({ ...request, dimension: compression?.compressor.outputDimension ?? request.dimension });
    await this.#checkFree(name);
    const descriptor = { id, request };
    const sealer = await makeSealer(this.#seed.deriveKey('manifest', id));
    const manifest = await sealManifest(sealer, id, emptyManifest(1, fields, partitionBy));
    sealer.wipe();
    await this.#service.createCollection(name, { id, descriptor: encodeDescriptor(this.#seed, descriptor), manifest });
    const hash = await manifestHash(manifest);
    await this.#memory.update(this.#place(name), (seen) => ({ id: hex(id), version: 1, hash, ...deletedAt(seen) }));
    await this.#forget(name);
    const collection = await this.collection(name);
    try {
      if (compressor) await collection.reindex(compressor);
      await completeEvaluation(sessionOf(collection));
    } catch (error) {
      // A collection without what was asked for must not stay behind.
      await this.deleteCollection(name).catch(() => {});
      throw error;
    }
    return collection;
  }

  /** Refuses to replace silently a collection that was seen, and not deleted by this client. */
  async #checkFree(name: string): Promise<void> {
    const seen = await this.#memory.read(this.#place(name));
    if (!seen || seen.deleted) return;
    const exists = await this.#service.getCollection(name).catch((error) => {
      if (!hasCode(error, 'NOT_FOUND')) throw error;
    });
    if (exists)
      throw new HersError(
        'ALREADY_EXISTS',
        `there is a collection ${JSON.stringify(name)} already; use it, or choose another name`,
      );
    throw new HersError('INTEGRITY', `${missing(name)}. ${howToAccept(name)}`);
  }

  /**
   * Opens a collection that exists, once: the same object comes back.
   *
   * @example
   * const faces = await db.collection('faces');
   */
  collection(name: string): Promise<Collection> {
    checkCollectionName(name);
    let opening = this.#open.get(name);
    if (!opening) {
      opening = this.#openCollection(name);
      this.#open.set(name, opening);
      opening.catch(() => this.#open.delete(name));
    }
    return opening;
  }

  async #openCollection(name: string): Promise<Collection> {
    const keyring = await this.#keyringOf(await this.#info(name));
    const session = new CollectionSession(this.#reader(name, keyring));
    try {
      await session.view();
    } catch (error) {
      await keyring.close();
      throw error;
    }
    return collectionOf(session);
  }

  async #info(name: string): Promise<CollectionInfo> {
    try {
      return await this.#service.getCollection(name);
    } catch (error) {
      const seen = await this.#memory.read(this.#place(name));
      const isGone = hasCode(error, 'NOT_FOUND') && seen && !seen.deleted;
      throw isGone ? new HersError('NOT_FOUND', `${missing(name)}. ${howToAccept(name)}`) : error;
    }
  }

  async #keyringOf({ name, id, descriptor: sealed }: CollectionInfo): Promise<Keyring> {
    const descriptor = openDescriptor(this.#seed, name, sealed);
    if (hex(descriptor.id) !== hex(id))
      throw new HersError(
        'INTEGRITY',
        `the store shows the description of another collection under the name ${JSON.stringify(name)}`,
      );
    return Keyring.make(this.#seed, descriptor, this.#threads);
  }

  /**
   * Lists all collections that were made with this key.
   *
   * @example
   * for (const { name, records } of await db.listCollections()) console.log(name, records);
   */
  async listCollections(): Promise<CollectionSummary[]> {
    const out: CollectionSummary[] = [];
    for (const info of await this.#service.listCollections()) {
      try {
        const { plan: _, unfinishedFields: __, pending: ___, ...summary } = await this.#describe(info);
        out.push(summary);
      } catch (error) {
        if (!hasCode(error, 'WRONG_KEY')) throw error;
      }
    }
    return out;
  }

  /**
   * Says what a collection is and holds, and the plan of its index.
   *
   * @example
   * const { records, pending, plan } = await db.describe('faces');
   */
  async describe(name: string): Promise<CollectionDescription> {
    checkCollectionName(name);
    return this.#describe(await this.#info(name));
  }

  /** Reads description and manifest alone: lists of a large collection are not fetched for it. */
  async #describe(info: CollectionInfo): Promise<CollectionDescription> {
    const { name, bytes } = info;
    const keyring = await this.#keyringOf(info);
    try {
      const { manifest } = await this.#reader(name, keyring).manifest();
      const { plan: settings, descriptor } = keyring;
      const { dimension, metric, profile, integrity } = settings;
      const { version, compressors, epoch } = manifest;
      const compressor = compressors.find((each) => each.epoch === epoch);
      return {
        ...{ name, dimension, metric, profile, integrity },
        ...(compressor ? { compressor: { method: compressor.method, dimension: compressor.dimension } } : {}),
        fields: { ...manifest.fields },
        ...(manifest.partitionBy === undefined ? {} : { partitionBy: manifest.partitionBy }),
        records: liveCount(manifest),
        // How much there is in all partitions is not for everybody.
        blocks: this.#partitions ? manifest.blocks.length : info.blocks,
        bytes,
        version,
        pending: manifest.pending.length,
        unfinishedFields: unfinishedIn(manifest),
        plan: compressor ? plan({ ...descriptor.request, dimension: compressor.dimension }) : settings,
      };
    } finally {
      await keyring.close();
    }
  }

  /**
   * Deletes a collection with everything in it, unless the store shows another one under this name
   * than was seen.
   */
  async deleteCollection(name: string): Promise<void> {
    checkCollectionName(name);
    this.#checkWhole('deleting a collection');
    await this.#checkMeant(name);
    await this.#forget(name);
    await this.#service.deleteCollection(name);
    const gone = await this.#memory.update(this.#place(name), (seen) => seen && { ...seen, deleted: true });
    if (gone) await this.#cache?.forget(gone.id);
  }

  async #checkMeant(name: string): Promise<void> {
    const seen = await this.#memory.read(this.#place(name));
    if (!seen || seen.deleted) return;
    const { id } = await this.#info(name);
    if (hex(id) !== seen.id)
      throw new HersError(
        'INTEGRITY',
        `collection ${JSON.stringify(name)} is not the one that was seen under this name, and is not deleted for it. ${howToAccept(name)}`,
      );
  }

  /**
   * Restores a snapshot, under the same name or another. A snapshot older than what was seen of the
   * collection is refused, because a rolled-back gallery looks the same; `acceptOlder` allows it.
   *
   * @param pieces - The bytes that `snapshot` gave, in pieces of any length.
   * @param options - Whether an older state is meant, and a signal that ends it.
   * @throws {HersError} ALREADY_EXISTS: where there is a collection of this name.
   * @throws {HersError} MALFORMED, UNSUPPORTED_VERSION: for bytes that are no snapshot, or of
   *   another format.
   * @throws {HersError} INTEGRITY: for a snapshot that is older than what was seen, without
   *   `acceptOlder`; or when the store shows something other than the snapshot afterwards.
   * @throws {AbortError} or another reason of the signal, when it aborts.
   * @example
   * await db.restore('copy', createReadStream('faces.hers'));
   */
  async restore(name: string, pieces: Many<Uint8Array>, options: RestoreOptions = {}): Promise<Collection> {
    refuseUnknown(options, { acceptOlder: true, signal: true }, 'restore');
    this.#checkWhole('a restore');
    const { acceptOlder = false, signal } = options;
    checkCollectionName(name);
    const head = new SnapshotHead();
    await this.#service.restore(name, head.pass(pieces), signal ? { signal } : {});
    await this.#forget(name);
    try {
      await this.#pin(name, async (shown) => {
        const { id, version } = shown;
        const snapshot = await head.seen();
        if (snapshot?.id !== id)
          throw new HersError(
            'INTEGRITY',
            `the store shows another collection under the name ${JSON.stringify(name)} than the snapshot that it was to restore`,
          );
        seenAfter(snapshot, shown, name);
        const known = (await this.#memory.places(id)).filter(({ seen }) => seen.id === id);
        const newest = Math.max(0, ...known.map(({ seen }) => seen.version));
        if (newest > version && !acceptOlder)
          throw new HersError(
            'INTEGRITY',
            `this snapshot is of version ${version}, and version ${newest} of the collection was seen; acceptOlder says that going back is meant`,
          );
      });
      return await this.collection(name);
    } catch (error) {
      // A snapshot that does not open with this key, or is not wanted, is deleted again; what was
      // seen before is still remembered.
      await this.#service.deleteCollection(name).catch(() => {}); // the first error is the one to tell
      throw error;
    }
  }

  /**
   * Accepts what the store shows under a name now. Call it after another client has deleted a
   * collection and made it again, or restored an older one; or after a person has found out why the
   * store shows something else than before.
   *
   * @returns What was remembered before, if anything.
   */
  async accept(name: string): Promise<Seen | undefined> {
    checkCollectionName(name);
    const before = await this.#memory.read(this.#place(name));
    await this.#forget(name);
    try {
      await this.#pin(name);
    } catch (error) {
      if (!hasCode(error, 'NOT_FOUND') || !before) throw error;
      await this.#memory.update(this.#place(name), () => undefined);
    }
    return before;
  }

  /** Closes the open collection of a name, which may belong to another one from now on. */
  async #forget(name: string): Promise<void> {
    const open = this.#open.get(name);
    this.#open.delete(name);
    await (await open?.catch(() => undefined))?.close();
  }

  /**
   * Remembers what the store shows now, unless `check` throws. Without `check`, a person has
   * looked, and a collection that was deleted here before may come back.
   */
  async #pin(name: string, check?: (shown: Shown) => Promise<void>): Promise<void> {
    const keyring = await this.#keyringOf(await this.#service.getCollection(name));
    try {
      const { shown } = await this.#reader(name, keyring).shownManifest();
      const { id, version, hash } = shown;
      await check?.(shown);
      await this.#memory.update(this.#place(name), (seen) => {
        // Candidate sets that the store was shown still count.
        const { unverified = [], stopped = false } = seen?.id === id ? seen : {};
        const deletedIds = check ? deletedAt(seen).deletedIds?.filter((other) => other !== id) : undefined;
        return { id, version, hash, unverified, stopped, ...(deletedIds?.length ? { deletedIds } : {}) };
      });
    } finally {
      await keyring.close();
    }
  }

  /** Closes all collections and the connection, and overwrites the key. */
  async close(): Promise<void> {
    for (const collection of this.#open.values()) await (await collection.catch(() => undefined))?.close();
    this.#open.clear();
    this.#seed.wipe();
    await this.#service.close();
  }

  /** Closes it, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function hasCode(error: unknown, code: HersError['code']): boolean {
  return error instanceof HersError && error.code === code;
}

function missing(name: string): string {
  return `there is no collection ${JSON.stringify(name)}, and there was: another client has deleted it, or the store hides it`;
}

/** UNSUPPORTED_PLAN where `small` is no smaller than the vectors as 4-byte floats. */
function checkSmaller(request: PlanRequest): void {
  const { profile, dimension, bytes } = plan(request);
  if (profile !== 'small' || bytes.perTemplate < 4 * dimension) return;
  throw new HersError(
    'UNSUPPORTED_PLAN',
    `small takes ${Math.round(bytes.perTemplate)} bytes for a vector of ${dimension} dimensions, and an array of floats ${4 * dimension}: use compact, which is more accurate`,
  );
}

/** Fields that some blocks have no column of, and how many these are. */
function unfinishedIn({ fields, blocks }: Manifest): Record<string, number> {
  const left = Object.keys(fields).map(
    (field) => [field, blocks.filter(({ columns }) => columns?.[field] === undefined).length] as const,
  );
  return Object.fromEntries(left.filter(([, count]) => count > 0));
}
