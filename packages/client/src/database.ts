// The way in: a folder or a server, and the collections in it.

import type { Metric, Profile } from '@hers/scheme';
import { type Plan, plan } from '@hers/scheme';
import { MasterSeed } from '@hers/scheme/secret';
import { type CollectionInfo, HersError, isCollectionName, type Many, type Service } from '@hers/service';
import { hex } from './bytes.ts';
import { Changer } from './changes.ts';
import { Collection } from './collection.ts';
import { type Enrolment, encodeDescriptor, openDescriptor } from './descriptor.ts';
import { type HttpOptions, HttpService } from './http.ts';
import { Keyring } from './keyring.ts';
import { emptyManifest, liveCount, manifestHash, sealManifest } from './manifest.ts';
import { openModel } from './models.ts';
import { inNode } from './platform.ts';
import { makeSealer } from './sealing.ts';
import { SnapshotHead } from './snapshot-head.ts';
import {
  deletedAt,
  howToAccept,
  type Place,
  type Seen,
  ShortMemory,
  type Shown,
  seenAfter,
  type VersionMemory,
} from './versions.ts';
import { openShown, readManifest } from './view.ts';

export interface CollectionOptions {
  readonly dimension: number;
  readonly metric?: Metric;
  readonly profile?: Profile;
  readonly enrolment?: Enrolment;
  readonly normBound?: number;
  readonly queryNormBound?: number;
  readonly maxAdditions?: number;
  /** The bytes of a compressor's file (`@hers/compress`): what it makes of a vector is indexed. Metric cosine only. */
  readonly compressor?: Uint8Array;
}

/** `token`, `insecure`, `retryMs` and `onRetry` are for servers. */
export interface ConnectOptions extends HttpOptions {
  /** The master seed, or its 32 bytes. */
  readonly key: MasterSeed | Uint8Array;
  /** Where it is remembered what was seen of each collection; for the length of the connection by default. */
  readonly versions?: VersionMemory;
  /** The gallery's own address, which tells its collections from those of the same names elsewhere; `connect` knows it. */
  readonly gallery?: string;
  /** Threads for encryption and decryption; all cores by default. */
  readonly threads?: number;
  /** Of a folder: `read` opens it beside the one process that writes, and never writes itself; `write` is the default. */
  readonly mode?: 'write' | 'read';
}

export interface CollectionSummary {
  readonly name: string;
  readonly dimension: number;
  readonly metric: Metric;
  readonly profile: Profile;
  readonly enrolment: Enrolment;
  /** What the vectors are compressed by before they are indexed, and to what dimension. */
  readonly compressor?: { readonly method: string; readonly dimension: number };
  readonly records: number;
  readonly blocks: number;
  readonly bytes: number;
  readonly version: number;
}

/** Everything the planner says about what is indexed, and what the store holds. */
export interface CollectionDescription extends CollectionSummary {
  readonly plan: Plan;
}

const OPTIONS = [
  'dimension',
  'metric',
  'profile',
  'enrolment',
  'normBound',
  'queryNormBound',
  'maxAdditions',
  'compressor',
];

export class Database {
  readonly #service: Service;
  readonly #seed: MasterSeed;
  readonly #memory: VersionMemory;
  readonly #gallery: string;
  readonly #threads: number | undefined;
  readonly #open = new Map<string, Promise<Collection>>();

  constructor(service: Service, { key, versions, gallery = '', threads }: ConnectOptions) {
    this.#service = service;
    this.#seed = key instanceof Uint8Array ? MasterSeed.from(key) : key.clone();
    this.#memory = versions ?? new ShortMemory();
    this.#gallery = gallery;
    this.#threads = threads;
  }

  #place(name: string): Place {
    return { gallery: this.#gallery, name };
  }

  /**
   * Makes a collection.
   *
   * @example const faces = await db.createCollection('faces', { dimension: 128 });
   */
  async createCollection(name: string, options: CollectionOptions): Promise<Collection> {
    checkName(name);
    for (const option of Object.keys(options))
      if (!OPTIONS.includes(option))
        throw new HersError('INVALID_ARGUMENT', `a collection has no option ${JSON.stringify(option)}`);
    const { enrolment = 'vault', compressor, ...rest } = options;
    if (enrolment !== 'vault' && enrolment !== 'homomorphic')
      throw new HersError('INVALID_ARGUMENT', 'enrolment is vault or homomorphic');
    if (enrolment === 'homomorphic' && rest.profile !== 'exact')
      throw new HersError('INVALID_ARGUMENT', 'homomorphic enrolment needs the profile exact');
    const request =
      enrolment === 'homomorphic' ? { ...rest, maxAdditions: rest.maxAdditions ?? defaultAdditions(rest) } : rest;
    plan(request); // refuses what cannot be served
    if (compressor) await openModel(compressor, request);
    await this.#checkFree(name);
    const id = crypto.getRandomValues(new Uint8Array(16));
    const descriptor = { id, request, enrolment };
    const sealer = await makeSealer(this.#seed.deriveKey('manifest', id));
    const manifest = await sealManifest(sealer, id, emptyManifest(1));
    sealer.wipe();
    await this.#service.createCollection(name, { id, descriptor: encodeDescriptor(this.#seed, descriptor), manifest });
    const hash = await manifestHash(manifest);
    await this.#memory.update(this.#place(name), (seen) => ({
      id: hex(id),
      version: 1,
      hash,
      linked: true,
      ...deletedAt(seen),
    }));
    await this.#forget(name);
    const collection = await this.collection(name);
    try {
      if (compressor) await collection.reindex(compressor);
    } catch (error) {
      // Half of what was asked for would be taken for all of it.
      await this.deleteCollection(name).catch(() => {});
      throw error;
    }
    return collection;
  }

  /** A collection that was seen, and that this client has not deleted, does not make room for another without a word. */
  async #checkFree(name: string): Promise<void> {
    const seen = await this.#memory.read(this.#place(name));
    if (!seen || seen.deleted) return;
    const exists = await this.#service.getCollection(name).catch((error) => {
      if (error instanceof HersError && error.code === 'NOT_FOUND') return undefined;
      throw error;
    });
    if (exists) throw new HersError('ALREADY_EXISTS', `there is a collection ${JSON.stringify(name)} already`);
    throw new HersError('INTEGRITY', `${missing(name)}. ${howToAccept(name)}`);
  }

  /** A collection that exists. WRONG_KEY when it was made with another key. */
  collection(name: string): Promise<Collection> {
    checkName(name);
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
    const changer = new Changer({ service: this.#service, place: this.#place(name), keyring, memory: this.#memory });
    try {
      await changer.view();
    } catch (error) {
      await keyring.close();
      throw error;
    }
    return new Collection(changer);
  }

  async #info(name: string): Promise<CollectionInfo> {
    try {
      return await this.#service.getCollection(name);
    } catch (error) {
      const seen = await this.#memory.read(this.#place(name));
      const isGone = error instanceof HersError && error.code === 'NOT_FOUND' && seen && !seen.deleted;
      throw isGone ? new HersError('NOT_FOUND', `${missing(name)}. ${howToAccept(name)}`) : error;
    }
  }

  /** WRONG_KEY when the collection was made with another. */
  async #keyringOf({ name, id, descriptor: sealed }: CollectionInfo): Promise<Keyring> {
    const descriptor = openDescriptor(this.#seed, name, sealed);
    if (hex(descriptor.id) !== hex(id))
      throw new HersError(
        'INTEGRITY',
        `the store shows the description of another collection under the name ${JSON.stringify(name)}`,
      );
    return Keyring.make(this.#seed, descriptor, this.#threads);
  }

  /** All collections, those of other keys left out. */
  async listCollections(): Promise<CollectionSummary[]> {
    const out: CollectionSummary[] = [];
    for (const info of await this.#service.listCollections()) {
      try {
        const { plan: _, ...summary } = await this.#describe(info);
        out.push(summary);
      } catch (error) {
        if (!(error instanceof HersError && error.code === 'WRONG_KEY')) throw error;
      }
    }
    return out;
  }

  async describe(name: string): Promise<CollectionDescription> {
    checkName(name);
    return this.#describe(await this.#info(name));
  }

  /** From description and manifest alone: the lists of a large collection are not fetched for it. */
  async #describe(info: CollectionInfo): Promise<CollectionDescription> {
    const { name, blocks, bytes } = info;
    const keyring = await this.#keyringOf(info);
    try {
      const source = { service: this.#service, place: this.#place(name), keyring, memory: this.#memory };
      const { manifest } = await readManifest(source);
      const { plan: settings, descriptor } = keyring;
      const { dimension, metric, profile } = settings;
      const { enrolment } = descriptor;
      const { version, models, epoch } = manifest;
      const model = models.find((each) => each.epoch === epoch);
      return {
        name,
        dimension,
        metric,
        profile,
        enrolment,
        ...(model ? { compressor: { method: model.method, dimension: model.dimension } } : {}),
        records: liveCount(manifest),
        blocks,
        bytes,
        version,
        plan: model ? plan({ ...descriptor.request, dimension: model.dimension }) : settings,
      };
    } finally {
      await keyring.close();
    }
  }

  async deleteCollection(name: string): Promise<void> {
    checkName(name);
    await this.#checkMeant(name);
    await this.#forget(name);
    await this.#service.deleteCollection(name);
    await this.#memory.update(this.#place(name), (seen) => seen && { ...seen, deleted: true });
  }

  /** What is deleted under a name is the collection that was seen under it. */
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
   * A snapshot back to a collection, of this name or another. One that is older than what was seen of the collection under any name is refused, because that is what a rolled-back
   * gallery looks like, unless it is meant. INTEGRITY when the store shows something else afterwards than the snapshot holds.
   */
  async restore(
    name: string,
    pieces: Many<Uint8Array>,
    { acceptOlder = false, signal }: { readonly acceptOlder?: boolean; readonly signal?: AbortSignal } = {},
  ): Promise<Collection> {
    checkName(name);
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
      // What does not open with this key, or is not meant, is taken away again; what was seen before stays seen.
      await this.#service.deleteCollection(name).catch(() => {}); // the first error is the one to tell
      throw error;
    }
  }

  /**
   * Takes what the store shows under a name now for what is right: after another client has deleted a collection and made it again, restored an older one, or after somebody has
   * looked into why the store shows something else than it did. Returns what was remembered before.
   */
  async accept(name: string): Promise<Seen | undefined> {
    checkName(name);
    const before = await this.#memory.read(this.#place(name));
    await this.#forget(name);
    try {
      await this.#pin(name);
    } catch (error) {
      if (!(error instanceof HersError && error.code === 'NOT_FOUND') || !before) throw error;
      await this.#memory.update(this.#place(name), () => undefined);
    }
    return before;
  }

  /** Closes what is open under a name: it may be another collection from now on. */
  async #forget(name: string): Promise<void> {
    const open = this.#open.get(name);
    this.#open.delete(name);
    await (await open?.catch(() => undefined))?.close();
  }

  /** Remembers what is there now as what there is to be, if `check` does not throw. Without one a person has looked, and what was deleted here before may come back. */
  async #pin(name: string, check?: (shown: Shown) => Promise<void>): Promise<void> {
    const keyring = await this.#keyringOf(await this.#service.getCollection(name));
    try {
      const place = this.#place(name);
      const { shown } = await openShown({ service: this.#service, place, keyring });
      const { id, version, hash, history } = shown;
      await check?.(shown);
      await this.#memory.update(place, (seen) => {
        // What the store was shown stays shown.
        const { unverified = [], stopped = false } = seen?.id === id ? seen : {};
        const deletedIds = check ? deletedAt(seen).deletedIds?.filter((other) => other !== id) : undefined;
        return {
          id,
          version,
          hash,
          linked: history !== undefined,
          unverified,
          stopped,
          ...(deletedIds?.length ? { deletedIds } : {}),
        };
      });
    } finally {
      await keyring.close();
    }
  }

  async close(): Promise<void> {
    for (const collection of this.#open.values()) await (await collection.catch(() => undefined))?.close();
    this.#open.clear();
    this.#seed.wipe();
    await this.#service.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function missing(name: string): string {
  return `there is no collection ${JSON.stringify(name)}, and there was: another client has deleted it, or the store hides it`;
}

/** A block of its own for every slot would take n additions; where the plan cannot promise that many, half as many, and so on. */
function defaultAdditions(request: Omit<CollectionOptions, 'enrolment'>): number {
  for (let additions = 4096; additions > 1; additions >>= 1) {
    try {
      return plan({ ...request, maxAdditions: additions }).maxAdditions;
    } catch (error) {
      if (!(error instanceof HersError && error.message.includes('additions'))) throw error;
    }
  }
  return 1;
}

function checkName(name: string): void {
  if (!isCollectionName(name))
    throw new HersError(
      'INVALID_ARGUMENT',
      'a collection name has 1 to 64 letters, digits, dots, dashes or underscores, and begins with a letter or digit',
    );
}

/** How the address of a server is remembered: however it was written. */
export function galleryOf(where: string): string {
  const { origin, pathname } = new URL(where);
  return origin + pathname.replace(/\/+$/, '');
}

/**
 * Opens a database.
 *
 * @example const db = await connect('file:./gallery', { key: MasterSeed.generate() });
 * @example const db = await connect('https://gallery.example:7443', { key, token });
 */
export async function connect(where: string, options: ConnectOptions): Promise<Database> {
  if (where.startsWith('file:')) {
    if (!inNode)
      throw new HersError('INVALID_ARGUMENT', 'a page cannot open a folder; connect to a server: https://<server>');
    const { service, gallery } = await (await import('./folder.node.ts')).openFolder(where, options.mode);
    return new Database(service, { gallery, ...options });
  }
  if (/^https?:/.test(where)) {
    const service = new HttpService(where, options);
    await service.hello();
    return new Database(service, { gallery: galleryOf(where), ...options });
  }
  throw new HersError(
    'INVALID_ARGUMENT',
    `${JSON.stringify(where)} is not a place this version can open; use file:<folder> or https://<server>`,
  );
}
