// Reads what a store shows of a collection: the manifest, and everything the manifest names, into
// one view. Whatever was altered, lost or rolled back is INTEGRITY.

import { decodeScoreSums } from '@hers/scheme/secret';
import { HersError, PARTITION_BYTES, type Service } from '@hers/service';
import { fromHex, hex } from '../bytes.ts';
import { type Column, Interned } from '../fields/column.ts';
import { fetchCompressor } from '../formats/compressors.ts';
import { type BlockColumns, type List, openColumn, openList } from '../formats/lists.ts';
import { type Manifest, manifestHash, openManifest, type PartitionAccess } from '../formats/manifest.ts';
import { PendingRecord, type PlainRecord } from '../formats/records.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { Space } from '../keys/space.ts';
import type { ListCache } from './list-cache.ts';
import {
  isFirstContact,
  laterOf,
  type Place,
  type Shown,
  seenAfter,
  seenElsewhere,
  type VersionMemory,
} from './versions.ts';
import { partitionOf, View } from './view.ts';

/** The store gave the wrong thing, or somebody changed the collection in between. */
export class InconsistentRead extends HersError {
  constructor(message: string) {
    super('INTEGRITY', message);
  }
}

/** How often a collection is read that changes while it is. */
const MAX_ATTEMPTS = 20;

/** Returns whether another writer may have caused this error. Only a newer manifest proves it. */
export function mayBeOvertaken(error: unknown): boolean {
  return (
    error instanceof HersError &&
    (error.code === 'STALE' || error.code === 'NOT_FOUND' || error instanceof InconsistentRead)
  );
}

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1000;

/** Waits before a retry: longer each time, and never as long as another that failed with it. */
export function pauseAfter(attempt: number): Promise<void> {
  const ms = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  return new Promise((resolve) => setTimeout(resolve, ms * (0.5 + Math.random() / 2)));
}

export interface Source {
  readonly service: Service;
  readonly place: Place;
  readonly keyring: Keyring;
  readonly memory: VersionMemory;
  readonly cache?: ListCache | undefined;
  /** The names of the only partitions to open; all by default. */
  readonly partitions?: readonly string[] | undefined;
}

export interface ShownManifest {
  readonly manifest: Manifest;
  readonly hash: string;
  /** What there is to remember of it. */
  readonly shown: Shown;
}

export class CollectionReader implements Source {
  readonly service: Service;
  readonly place: Place;
  readonly keyring: Keyring;
  readonly memory: VersionMemory;
  readonly cache: ListCache | undefined;
  readonly partitions: readonly string[] | undefined;
  readonly access: PartitionAccess;
  /** Bytes before every seal of this collection: the handle of a partition, if it has sections. */
  #skip = 0;
  /** Values that many records have. */
  readonly interned: Interned = new Interned();

  constructor({ service, place, keyring, memory, cache, partitions }: Source) {
    const handleOf = (name: string | undefined) => keyring.partitionHandle(name);
    const only = partitions && new Set(partitions.map((name) => hex(handleOf(name))));
    this.partitions = partitions;
    this.access = { only, handleOf };
    this.service = service;
    this.place = place;
    this.keyring = keyring;
    this.memory = memory;
    this.cache = cache;
  }

  /** Opens the current manifest, whatever was seen before. */
  async shownManifest(): Promise<ShownManifest> {
    const { service, place, keyring } = this;
    const { version, manifest: sealed } = await service.getManifest(place.name);
    const sealer = await keyring.manifestSealer();
    const manifest = await openManifest(sealer, keyring.id, version, sealed, this.access);
    this.#skip = manifest.sections ? PARTITION_BYTES : 0;
    if (manifest.version !== version)
      throw new HersError('INTEGRITY', 'the manifest has another version than the store says');
    const hash = await manifestHash(sealed);
    return { manifest, hash, shown: this.asShown(manifest, hash) };
  }

  asShown({ version, history }: Manifest, hash: string): Shown {
    return { id: hex(this.keyring.id), version, hash, history };
  }

  /** Opens the current manifest. INTEGRITY also when it contradicts what was seen before. */
  async manifest(): Promise<ShownManifest> {
    const { place, memory, keyring } = this;
    // As it was before asking: what is committed meanwhile may or may not be in the answer.
    const here = await memory.read(place);
    const id = hex(keyring.id);
    const seen = isFirstContact(here, id) ? await seenElsewhere(memory, place, id) : here;
    const read = await this.shownManifest();
    seenAfter(seen, read.shown, place.name);
    return read;
  }

  async remember(manifest: Manifest, hash: string): Promise<void> {
    const { place, keyring, memory } = this;
    const known = await memory.read(place);
    if (known?.version === manifest.version && known.hash === hash) return;
    // Another name may have been given the same collection while this one was read.
    const id = hex(keyring.id);
    const elsewhere = isFirstContact(known, id) ? await seenElsewhere(memory, place, id) : undefined;
    const { unverified, stopped } = elsewhere ?? {};
    const carried = { ...(unverified ? { unverified } : {}), ...(stopped ? { stopped } : {}) };
    await memory.update(place, (seen) => ({
      ...(isFirstContact(seen, id) ? carried : {}),
      ...laterOf(seen, this.asShown(manifest, hash), place.name),
    }));
  }

  /**
   * The current view; what `known` has already is not fetched again. When another writer comes in
   * between, what has changed since is read again: STALE when that happens every time. When no
   * newer manifest shows that it happened, the error stands.
   */
  async view(known?: View): Promise<View> {
    let opened = openedIn(known);
    let fields = known && JSON.stringify(known.manifest.fields);
    let failed: { readonly version: number; readonly error: unknown } | undefined;
    for (let attempt = 1; ; attempt++) {
      // Nothing is read between a manifest and what it names: it would give a writer the time to
      // change it.
      const { manifest, hash } = await this.manifest();
      if (failed && manifest.version <= failed.version) throw failed.error;
      if (known?.hash === hash) {
        await this.remember(manifest, hash);
        return known;
      }
      // Of a pending record only the values of the fields are kept that there were.
      const text = JSON.stringify(manifest.fields);
      if (fields !== undefined && fields !== text) opened = openedIn(known, false);
      fields = text;
      if (attempt > MAX_ATTEMPTS)
        throw new HersError('STALE', 'the collection changes faster than it can be read; try again');
      try {
        // Pending records first: they are what changes.
        const pending = await this.#pending(manifest, opened);
        const { spaces, space } = await this.#spaces(manifest);
        const lists = await this.#lists(manifest, spaces, opened);
        await this.remember(manifest, hash);
        const view = new View({ manifest, hash, ...lists, pending, spaces, space });
        return known ? view.follows(known) : view;
      } catch (error) {
        if (!mayBeOvertaken(error)) throw error;
        failed = { version: manifest.version, error };
        // Much has changed after a pause, and little right after an attempt: so every other
        // attempt follows at once.
        if (attempt % 2 === 0) await pauseAfter(attempt / 2);
      }
    }
  }

  /** Opens sealed records in the order of their handles. No epoch after the `newest` has a key. */
  async *records(
    handles: readonly string[],
    { newest, signal }: { readonly newest: number; readonly signal?: AbortSignal | undefined },
  ): AsyncGenerator<PlainRecord> {
    const { service, place, keyring } = this;
    const sealerOf = (epoch: number) => {
      if (epoch > newest) throw new InconsistentRead('the store gave a record of a later key than the manifest names');
      return keyring.sealer(epoch);
    };
    const sealedRecords = service.getRecords(place.name, handles.map(fromHex), signal ? { signal } : {});
    let at = 0;
    for await (const { handle, sealed } of sealedRecords) {
      if (hex(handle) !== handles[at])
        throw new HersError('INTEGRITY', 'the store gave another record than was asked for');
      at++;
      yield keyring.records.open(sealerOf, handle, sealed.subarray(this.#skip));
    }
    if (at !== handles.length) throw new HersError('INTEGRITY', 'the store has lost a record of this collection');
  }

  async #spaces(manifest: Manifest): Promise<{ spaces: Map<number, Space>; space: Space }> {
    const { service, place, keyring } = this;
    const spaces = new Map<number, Space>();
    for (const { epoch } of [manifest, ...manifest.blocks]) {
      if (spaces.has(epoch)) continue;
      const kept = manifest.compressors.find((compressor) => compressor.epoch === epoch);
      const { id, descriptor } = keyring;
      const sealer = await keyring.sealer(epoch);
      const compression =
        kept &&
        (keyring.knownCompressor(kept.digest) ??
          (await fetchCompressor(service, place.name, sealer, id, kept, descriptor.request, this.#skip)));
      spaces.set(epoch, keyring.space(epoch, compression));
    }
    return { spaces, space: spaces.get(manifest.epoch)! };
  }

  /**
   * Reads lists and columns of all blocks and fields: what is fetched must not depend on filters.
   */
  async #lists(
    manifest: Manifest,
    spaces: ReadonlyMap<number, Space>,
    opened: Opened,
  ): Promise<Pick<View, 'entries' | 'scoreSums' | 'columns'>> {
    const { hashText } = await import('#sealing');
    const takers = await this.#missing(manifest, spaces, opened);
    // An earlier view has what was cached, and what is new is not there yet.
    const cached =
      opened.lists.size === 0 ? await this.cache?.open(hex(this.keyring.id), new Set(takers.keys())) : undefined;
    const opening = new Openings();
    try {
      for await (const { name, sealed } of cached?.read() ?? []) {
        const taker = takers.get(name);
        // Another of the same name may follow, and otherwise it is fetched.
        if (!taker || (await hashText(sealed)) !== name) continue;
        takers.delete(name);
        await opening.add(taker(sealed));
      }
      const names = [...takers.keys()];
      let at = 0;
      if (names.length > 0)
        for await (const sealed of this.service.getLists(this.place.name, names.map(fromHex))) {
          if (at === names.length) break;
          const name = names[at++];
          if ((await hashText(sealed)) !== name)
            throw new HersError('INTEGRITY', 'the store gave another list than the manifest names');
          await cached?.put({ name, sealed });
          await opening.add(takers.get(name)!(sealed));
        }
      if (at < names.length) throw new HersError('INTEGRITY', 'the store has lost a list of this collection');
      await opening.end();
    } finally {
      await opening.settled();
      await cached?.close();
    }
    const entries = new Map<string, List>();
    const scoreSums = new Map<string, Uint8Array>();
    const columns = new Map<string, BlockColumns>();
    for (const block of manifest.blocks) {
      const sums = opened.sums.get(block.id);
      entries.set(block.id, opened.lists.get(block.list)!);
      if (sums) scoreSums.set(block.id, sums);
      const named = Object.entries(block.columns ?? {});
      columns.set(block.id, new Map(named.map(([field, name]) => [field, opened.columns.get(name)!])));
    }
    return { entries, scoreSums, columns };
  }

  /** The names of lists and columns that are not opened yet, each with what opens and keeps it. */
  async #missing(
    manifest: Manifest,
    spaces: ReadonlyMap<number, Space>,
    opened: Opened,
  ): Promise<Map<string, (sealed: Uint8Array) => Promise<void>>> {
    const { id } = this.keyring;
    const takers = new Map<string, (sealed: Uint8Array) => Promise<void>>();
    const blocks = new Set<string>();
    for (const block of manifest.blocks) {
      if (blocks.has(block.id)) throw new HersError('INTEGRITY', 'the manifest names a block twice');
      blocks.add(block.id);
      const sealer = await this.keyring.sealer(block.epoch);
      if (!opened.lists.has(block.list))
        takers.set(block.list, async (sealed) => {
          const { list, sums } = await openList(sealer, id, sealed.subarray(this.#skip));
          if (list.count !== block.count)
            throw new HersError('INTEGRITY', 'the list of a block does not fit its number of records');
          const { plan } = spaces.get(block.epoch)!;
          if ((sums !== undefined) !== (plan.profile === 'exact'))
            throw new HersError(
              'INTEGRITY',
              'a list says what the scores of its block add up to under exact, and only there',
            );
          if (sums) decodeScoreSums(plan, sums);
          opened.lists.set(block.list, list);
          if (sums) opened.sums.set(block.id, sums);
        });
      for (const [field, name] of Object.entries(block.columns ?? {})) {
        if (opened.columns.has(name)) continue;
        if (!Object.hasOwn(manifest.fields, field))
          throw new HersError('INTEGRITY', 'the manifest names a column of a field that there is not');
        const shape = { field, type: manifest.fields[field], count: block.count };
        takers.set(name, async (sealed) => {
          opened.columns.set(name, await openColumn(sealer, id, shape, sealed.subarray(this.#skip), this.interned));
        });
      }
    }
    return takers;
  }

  async #pending(manifest: Manifest, opened: Opened): Promise<Map<string, PendingRecord>> {
    const pending = new Map<string, PendingRecord>();
    const wanted = manifest.pending.filter((named) => !opened.pending.has(pendingKey(named)));
    if (wanted.length > 0) {
      const handles = wanted.map(({ handle }) => handle);
      // Also what the manifest does not name: a later one may.
      for await (const record of this.records(handles, { newest: manifest.epoch }))
        opened.pending.set(pendingKey(record), PendingRecord.of(record, manifest.fields));
    }
    for (const named of manifest.pending) {
      const record = opened.pending.get(pendingKey(named));
      if (!record) throw new InconsistentRead('the store gave an older copy of a record than the manifest names');
      if (manifest.sections && partitionOf(manifest, record.values) !== named.partition)
        throw new HersError('INTEGRITY', 'a section of the manifest names a record of another partition');
      pending.set(named.handle, record);
    }
    return pending;
  }
}

/** Lists that are opened at a time: where promises decrypt, each waits for its own. */
const TOGETHER = 32;

/** Lists that are being opened. Whoever adds the next one, or waits for the end, gets the error. */
class Openings {
  readonly #running = new Set<Promise<unknown>>();
  #failure: { readonly error: unknown } | undefined;

  async add(opening: Promise<void>): Promise<void> {
    const running = opening
      .catch((error) => (this.#failure ??= { error }))
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
    if (this.#running.size >= TOGETHER) await Promise.race(this.#running);
    this.#check();
  }

  async end(): Promise<void> {
    await this.settled();
    this.#check();
  }

  /** Waits until none is running, whatever came of them. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }

  #check(): void {
    if (this.#failure) throw this.#failure.error;
  }
}

/** What was opened already: by an earlier view, and by attempts at this one. */
interface Opened {
  /** By the names of lists and columns. What has a name never changes. */
  readonly lists: Map<string, List>;
  readonly columns: Map<string, Column>;
  /** By block. */
  readonly sums: Map<string, Uint8Array>;
  /** By `pendingKey`. */
  readonly pending: Map<string, PendingRecord>;
}

const pendingKey = ({ handle, version }: Pick<PendingRecord, 'handle' | 'version'>) => `${handle} ${version}`;

/** Without the pending records of the view, if those are to be read again. */
function openedIn(known: View | undefined, withPending = true): Opened {
  const [lists, columns] = [new Map<string, List>(), new Map<string, Column>()];
  for (const block of known?.manifest.blocks ?? []) {
    lists.set(block.list, known!.entries.get(block.id)!);
    const own = known!.columns.get(block.id)!;
    for (const [field, name] of Object.entries(block.columns ?? {})) columns.set(name, own.get(field)!);
  }
  const pending = new Map<string, PendingRecord>();
  if (withPending) for (const record of known?.pending.values() ?? []) pending.set(pendingKey(record), record);
  return { lists, columns, sums: new Map(known?.scoreSums), pending };
}
