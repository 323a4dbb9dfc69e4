// Reads what a store shows of a collection: the manifest, and everything the manifest names, into
// one view. Whatever was altered, lost or rolled back is INTEGRITY.

import type { Plan } from '@hers/scheme';
import { addScoreSums, decodeScoreSums, encodeScoreSums, type ScoreSums } from '@hers/scheme/secret';
import { HersError, type Service } from '@hers/service';
import { fromHex, hex, sha256 } from '../bytes.ts';
import { fetchCompressor } from '../formats/compressors.ts';
import { List, openList } from '../formats/lists.ts';
import { type Manifest, type ManifestBlock, manifestHash, openManifest } from '../formats/manifest.ts';
import { type OpenedRecord, PendingRecord } from '../formats/records.ts';
import type { Keyring } from '../keys/keyring.ts';
import { type Space, spaceName } from './space.ts';
import {
  isFirstContact,
  laterOf,
  type Place,
  type Shown,
  seenAfter,
  seenElsewhere,
  type VersionMemory,
} from './versions.ts';
import { View } from './view.ts';

/**
 * What was read does not fit the manifest: either the store gave the wrong thing, or somebody
 * changed the collection in between.
 */
export class InconsistentRead extends HersError {
  constructor(message: string) {
    super('INTEGRITY', message);
  }
}

/** How often a collection is read that changes while it is. */
const MAX_ATTEMPTS = 20;

/**
 * Whether another writer may have caused this error, in which case it is none. Only a newer
 * manifest proves it.
 */
export function mayBeOvertaken(error: unknown): boolean {
  return (
    error instanceof HersError &&
    (error.code === 'STALE' || error.code === 'NOT_FOUND' || error instanceof InconsistentRead)
  );
}

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1000;

/**
 * Before a retry: longer each time, and never as long as another that failed at the same moment.
 */
export function pauseAfter(attempt: number): Promise<void> {
  const ms = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  return new Promise((resolve) => setTimeout(resolve, ms * (0.5 + Math.random() / 2)));
}

/** What reading a collection takes. */
export interface Source {
  readonly service: Service;
  readonly place: Place;
  readonly keyring: Keyring;
  readonly memory: VersionMemory;
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

  constructor({ service, place, keyring, memory }: Source) {
    this.service = service;
    this.place = place;
    this.keyring = keyring;
    this.memory = memory;
  }

  /**
   * Opens the current manifest, whatever was seen before. INTEGRITY when it was altered, or is of
   * another collection.
   */
  async shownManifest(): Promise<ShownManifest> {
    const { service, place, keyring } = this;
    const { version, manifest: sealed } = await service.getManifest(place.name);
    const manifest = await openManifest(await keyring.manifestSealer(), keyring.id, version, sealed);
    if (manifest.version !== version)
      throw new HersError('INTEGRITY', 'the manifest has another version than the store says');
    const hash = await manifestHash(sealed);
    return { manifest, hash, shown: this.asShown(manifest, hash) };
  }

  asShown({ version, history }: Manifest, hash: string): Shown {
    return { id: hex(this.keyring.id), version, hash, ...(history ? { history } : {}) };
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

  /** Remembers that this manifest was seen. */
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
    const opened = new Opened(known);
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
      if (attempt > MAX_ATTEMPTS)
        throw new HersError('STALE', 'the collection changes faster than it can be read; try again');
      try {
        // Pending records first: they are what changes.
        const pending = await this.#pending(manifest, opened);
        const { spaces, space } = await this.#spaces(manifest);
        const { entries, scoreSums } = await this.#entries(manifest, spaces, opened);
        await this.remember(manifest, hash);
        const view = new View({ manifest, hash, entries, scoreSums, pending, spaces, space });
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

  /**
   * Opens sealed records in the order of their handles. No epoch after the `newest` has a key:
   * records of one belong to a newer manifest, or to nothing.
   */
  async *records(
    handles: readonly string[],
    { newest, signal }: { readonly newest: number; readonly signal?: AbortSignal | undefined },
  ): AsyncGenerator<OpenedRecord> {
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
      yield keyring.records.open(sealerOf, handle, sealed);
    }
    if (at !== handles.length) throw new HersError('INTEGRITY', 'the store has lost a record of this collection');
  }

  /** The spaces of all blocks, and the current one. */
  async #spaces(manifest: Manifest): Promise<{ spaces: Map<string, Space>; space: Space }> {
    const { service, place, keyring } = this;
    const current = { epoch: manifest.epoch, edition: keyring.edition };
    const spaces = new Map<string, Space>();
    for (const each of [current, ...manifest.blocks]) {
      const { epoch, edition } = each;
      const name = spaceName(each);
      if (spaces.has(name)) continue;
      const kept = manifest.compressors.find((compressor) => compressor.epoch === epoch);
      const { id, descriptor } = keyring;
      const compression =
        kept &&
        (keyring.knownCompressor(kept.digest) ??
          (await fetchCompressor(service, place.name, await keyring.sealer(epoch), id, kept, descriptor.request)));
      spaces.set(name, keyring.space(epoch, compression, edition));
    }
    return { spaces, space: spaces.get(spaceName(current))! };
  }

  async #entries(
    manifest: Manifest,
    spaces: ReadonlyMap<string, Space>,
    opened: Opened,
  ): Promise<{ entries: Map<string, List>; scoreSums: Map<string, Uint8Array> }> {
    const { service, place, keyring } = this;
    const entries = new Map<string, List>();
    const wanted: ManifestBlock[] = [];
    for (const block of manifest.blocks) {
      if (entries.has(block.id)) throw new HersError('INTEGRITY', 'the manifest names a block twice');
      const have = opened.entries(block.id);
      entries.set(block.id, have ?? List.of([]));
      if (!have) wanted.push(block);
    }
    const ids = wanted.flatMap((block) => block.lists);
    const lists = service.getLists(place.name, ids.map(fromHex))[Symbol.asyncIterator]();
    try {
      for (const block of wanted) {
        const sealer = await keyring.sealer(block.epoch);
        const parts: List[] = [];
        const sums: (Uint8Array | undefined)[] = [];
        for (const id of block.lists) {
          const { value, done } = await lists.next();
          if (done) throw new HersError('INTEGRITY', 'the store has lost a list of this collection');
          if (hex(await sha256(value)) !== id)
            throw new HersError('INTEGRITY', 'the store gave another list than the manifest names');
          const opened = await openList(sealer, keyring.id, value);
          parts.push(opened.list);
          sums.push(opened.sums);
        }
        const all = List.join(parts);
        if (all.count !== block.count)
          throw new HersError('INTEGRITY', 'the lists of a block do not fit its number of records');
        entries.set(block.id, all);
        opened.keepEntries(block.id, all, sumOf(spaces.get(spaceName(block))!.plan, sums));
      }
    } finally {
      await lists.return?.();
    }
    const scoreSums = new Map<string, Uint8Array>();
    for (const { id } of manifest.blocks) {
      const sums = opened.sums(id);
      if (sums) scoreSums.set(id, sums);
    }
    return { entries, scoreSums };
  }

  async #pending(manifest: Manifest, opened: Opened): Promise<Map<string, PendingRecord>> {
    const pending = new Map<string, PendingRecord>();
    const wanted = manifest.pending.filter(({ handle, version }) => !opened.record(handle, version));
    if (wanted.length > 0) {
      const handles = wanted.map(({ handle }) => handle);
      for await (const record of this.records(handles, { newest: manifest.epoch }))
        opened.keepRecord(PendingRecord.of(record));
    }
    for (const { handle, version } of manifest.pending) {
      const record = opened.record(handle, version);
      if (!record) throw new InconsistentRead('the store gave an older copy of a record than the manifest names');
      pending.set(handle, record);
    }
    return pending;
  }
}

/** What was opened already: by an earlier view, and by attempts at this one. */
class Opened {
  readonly #known: View | undefined;
  readonly #entries = new Map<string, List>();
  readonly #sums = new Map<string, Uint8Array>();
  readonly #pending = new Map<string, PendingRecord>();

  constructor(known: View | undefined) {
    this.#known = known;
  }

  /** Of a block; they never change. */
  entries(block: string): List | undefined {
    return this.#entries.get(block) ?? this.#known?.entries.get(block);
  }

  sums(block: string): Uint8Array | undefined {
    return this.#sums.get(block) ?? this.#known?.scoreSums.get(block);
  }

  keepEntries(block: string, entries: List, sums: Uint8Array | undefined): void {
    this.#entries.set(block, entries);
    if (sums) this.#sums.set(block, sums);
  }

  record(handle: string, version: string): PendingRecord | undefined {
    const record = this.#pending.get(`${handle} ${version}`) ?? this.#known?.pending.get(handle);
    return record?.version === version ? record : undefined;
  }

  /** Also where it is not what the manifest names: a later manifest may name it. */
  keepRecord(record: PendingRecord): void {
    this.#pending.set(`${record.handle} ${record.version}`, record);
  }
}

/** Undefined if a part of the block was added by a program that did not know sums. */
function sumOf(plan: Plan, parts: readonly (Uint8Array | undefined)[]): Uint8Array | undefined {
  let sum: ScoreSums | undefined;
  for (const part of parts) {
    if (!part) return undefined;
    const next = decodeScoreSums(plan, part);
    sum = sum ? addScoreSums(sum, next) : next;
  }
  return sum && encodeScoreSums(sum);
}
