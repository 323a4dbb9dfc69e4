// What a client knows about a collection at one version: the manifest, which record is in which slot, and the records that wait for a block.
// Lists and waiting records are fetched once and kept.

import { HersError, type Service } from '@hers/service';
import { fromHex, hex, sha256 } from './bytes.ts';
import type { Keyring } from './keyring.ts';
import { inOrder, type ListEntry, openList } from './lists.ts';
import { type Manifest, type ManifestBlock, manifestHash, openManifest } from './manifest.ts';
import { fetchModel } from './models.ts';
import { type OpenedRecord, WaitingRecord } from './records.ts';
import type { Space } from './space.ts';
import { laterOf, type Place, type Seen, type Shown, seenAfter, type VersionMemory } from './versions.ts';

/** Where a record is. */
export type RecordLocation = { readonly block: ManifestBlock; readonly slot: number } | 'pending';

const PENDING = -1;
const SLOTS = 65536;

export class View {
  readonly manifest: Manifest;
  /** Of the manifest as it is sealed. */
  readonly hash: string;
  /** The entries of every block, by block id. */
  readonly entries: ReadonlyMap<string, readonly ListEntry[]>;
  /** Waiting records by handle. */
  readonly pending: ReadonlyMap<string, WaitingRecord>;
  /** By epoch: those that have blocks, and the current one. */
  readonly spaces: ReadonlyMap<number, Space>;
  #index: Map<string, number> | undefined;

  constructor(
    manifest: Manifest,
    hash: string,
    entries: ReadonlyMap<string, readonly ListEntry[]>,
    pending: ReadonlyMap<string, WaitingRecord>,
    spaces: ReadonlyMap<number, Space>,
  ) {
    this.manifest = manifest;
    this.hash = hash;
    this.entries = entries;
    this.pending = pending;
    this.spaces = spaces;
  }

  /** The space that new blocks are in, and that waiting records are compared in. */
  get space(): Space {
    return this.spaces.get(this.manifest.epoch)!;
  }

  /** Id → block number and slot, made when first needed: a million records take about a second and 100 MB. */
  #places(): Map<string, number> {
    if (!this.#index) {
      const index = new Map<string, number>();
      this.manifest.blocks.forEach((block, number) => {
        const dead = new Set(block.dead);
        this.entries.get(block.id)!.forEach((entry, slot) => {
          if (!dead.has(slot)) index.set(entry.id, number * SLOTS + slot);
        });
      });
      for (const record of this.pending.values()) index.set(record.id, PENDING);
      this.#index = index;
    }
    return this.#index;
  }

  locate(id: string): RecordLocation | undefined {
    const place = this.#places().get(id);
    if (place === undefined) return undefined;
    if (place === PENDING) return 'pending';
    return { block: this.manifest.blocks[Math.floor(place / SLOTS)], slot: place % SLOTS };
  }

  /** The version of the record with this id, if there is one. */
  versionOf(id: string, handle: string): string | undefined {
    const place = this.locate(id);
    if (place === undefined) return undefined;
    return place === 'pending'
      ? this.pending.get(handle)?.version
      : this.entries.get(place.block.id)![place.slot].version;
  }

  /** The ids, block by block in the order in which they were written. */
  *ids(): Generator<string> {
    for (const block of this.manifest.blocks) {
      const dead = new Set(block.dead);
      for (const { entry, slot } of inOrder(this.entries.get(block.id)!)) if (!dead.has(slot)) yield entry.id;
    }
    for (const record of this.pending.values()) yield record.id;
  }

  /** The view after a change of our own, without fetching anything. The index moves along where the change is small beside it. */
  next(
    manifest: Manifest,
    hash: string,
    entries: ReadonlyMap<string, readonly ListEntry[]>,
    pending: ReadonlyMap<string, WaitingRecord>,
    spaces: ReadonlyMap<number, Space>,
    gone: Iterable<string>,
  ): View {
    const view = new View(manifest, hash, entries, pending, spaces);
    const index = this.#index;
    // Numbers of blocks change when one is dropped; then the index is made anew.
    const kept = this.manifest.blocks.every((block, i) => manifest.blocks[i]?.id === block.id);
    if (index && kept) {
      for (const id of gone) index.delete(id);
      for (let number = this.manifest.blocks.length; number < manifest.blocks.length; number++) {
        entries.get(manifest.blocks[number].id)!.forEach((entry, slot) => {
          index.set(entry.id, number * SLOTS + slot);
        });
      }
      for (const record of pending.values()) index.set(record.id, PENDING);
      this.#index = undefined;
      view.#index = index;
    }
    return view;
  }
}

/** What was read does not fit the manifest: either the store gave the wrong thing, or somebody changed it in between. */
export class OutOfStep extends HersError {
  constructor(message: string) {
    super('INTEGRITY', message);
  }
}

/** Reading again and again means that something else is wrong. */
const MAX_ATTEMPTS = 20;

/** Whether another writer may be the reason of this error, which then is none. Whether one is, only a newer manifest tells. */
export function mayBeOvertaken(error: unknown): boolean {
  return (
    error instanceof HersError && (error.code === 'STALE' || error.code === 'NOT_FOUND' || error instanceof OutOfStep)
  );
}

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1000;

/** Before trying again: longer each time, and never as long as another that failed at the same moment. */
export function pauseAfter(attempt: number): Promise<void> {
  const ms = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  return new Promise((resolve) => setTimeout(resolve, ms * (0.5 + Math.random() / 2)));
}

/** What opening a collection's manifest takes. */
export interface Source {
  readonly service: Service;
  readonly place: Place;
  readonly keyring: Keyring;
  readonly memory: VersionMemory;
}

/** The state that a first contact is held to: of the same collection, by the same name, wherever it was seen. */
async function seenElsewhere({ place, keyring, memory }: Source) {
  const all = (await memory.places(hex(keyring.id)))
    .filter((other) => other.place.name === place.name && !other.seen.deleted)
    .sort((a, b) => b.seen.version - a.seen.version);
  // What was shown there says nothing about this gallery.
  const { unverified: _, stopped: __, ...seen } = all[0]?.seen ?? {};
  return all.length === 0 ? undefined : (seen as Seen);
}

export interface ShownManifest {
  readonly manifest: Manifest;
  readonly hash: string;
  /** What there is to remember of it. */
  readonly shown: Shown;
}

/** Opens the current manifest, whatever was seen before. INTEGRITY when it was altered, or is of another collection. */
export async function openShown({ service, place, keyring }: Omit<Source, 'memory'>): Promise<ShownManifest> {
  const { version, manifest: sealed } = await service.getManifest(place.name);
  const manifest = await openManifest(await keyring.manifestSealer(), keyring.id, version, sealed);
  if (manifest.version !== version)
    throw new HersError('INTEGRITY', 'the manifest has another version than the store says');
  const hash = await manifestHash(sealed);
  return { manifest, hash, shown: shownOf(keyring, manifest, hash) };
}

function shownOf({ id }: Keyring, { version, history }: Manifest, hash: string): Shown {
  return { id: hex(id), version, hash, ...(history ? { history } : {}) };
}

/** Reads the current manifest. INTEGRITY when it was altered, or contradicts what was seen before. */
export async function readManifest(source: Source): Promise<ShownManifest> {
  const { place, memory } = source;
  // As it was before asking: what is committed meanwhile may or may not be in the answer.
  const seen = (await memory.read(place)) ?? (await seenElsewhere(source));
  const read = await openShown(source);
  seenAfter(seen, read.shown, place.name);
  return read;
}

/** Remembers that this manifest was seen. */
export async function remember({ place, keyring, memory }: Source, manifest: Manifest, hash: string): Promise<void> {
  const known = await memory.read(place);
  if (known?.version === manifest.version && known.hash === hash) return;
  await memory.update(place, (seen) => laterOf(seen, shownOf(keyring, manifest, hash), place.name));
}

/** Reads the current state, reusing what `known` has already. */
export async function readView(source: Source, known?: View): Promise<View> {
  const { service, place, keyring } = source;
  const { name } = place;
  let { manifest, hash } = await readManifest(source);
  for (let attempt = 1; ; attempt++) {
    try {
      const entries = await readEntries(service, name, keyring, manifest, known);
      const pending = await readPending(service, name, keyring, manifest, known);
      const spaces = await readSpaces(service, name, keyring, manifest);
      await remember(source, manifest, hash);
      return new View(manifest, hash, entries, pending, spaces);
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !mayBeOvertaken(error)) throw error;
      const now = await readManifest(source);
      if (now.manifest.version <= manifest.version) throw error;
      ({ manifest, hash } = now);
      await pauseAfter(attempt);
    }
  }
}

async function readSpaces(
  service: Service,
  name: string,
  keyring: Keyring,
  manifest: Manifest,
): Promise<Map<number, Space>> {
  const spaces = new Map<number, Space>();
  for (const epoch of new Set([manifest.epoch, ...manifest.blocks.map((block) => block.epoch)])) {
    const kept = manifest.models.find((model) => model.epoch === epoch);
    const { id, descriptor } = keyring;
    const model =
      kept &&
      (keyring.knownModel(kept.digest) ??
        (await fetchModel(service, name, await keyring.sealer(epoch), id, kept, descriptor.request)));
    spaces.set(epoch, keyring.space(epoch, model));
  }
  return spaces;
}

async function readEntries(
  service: Service,
  name: string,
  keyring: Keyring,
  manifest: Manifest,
  known?: View,
): Promise<Map<string, readonly ListEntry[]>> {
  const entries = new Map<string, readonly ListEntry[]>();
  const wanted: ManifestBlock[] = [];
  for (const block of manifest.blocks) {
    if (entries.has(block.id)) throw new HersError('INTEGRITY', 'the manifest names a block twice');
    const have = known?.entries.get(block.id);
    entries.set(block.id, have ?? []);
    if (!have) wanted.push(block);
  }
  const ids = wanted.flatMap((block) => block.lists);
  const lists = service.getLists(name, ids.map(fromHex))[Symbol.asyncIterator]();
  try {
    for (const block of wanted) {
      const sealer = await keyring.sealer(block.epoch);
      const all: ListEntry[] = [];
      for (const id of block.lists) {
        const { value, done } = await lists.next();
        if (done) throw new HersError('INTEGRITY', 'the store has lost a list of this collection');
        if (hex(await sha256(value)) !== id)
          throw new HersError('INTEGRITY', 'the store gave another list than the manifest names');
        all.push(...(await openList(sealer, keyring.id, value)));
      }
      if (all.length !== block.count)
        throw new HersError('INTEGRITY', 'the lists of a block do not fit its number of records');
      entries.set(block.id, all);
    }
  } finally {
    await lists.return?.();
  }
  return entries;
}

async function readPending(
  service: Service,
  name: string,
  keyring: Keyring,
  manifest: Manifest,
  known?: View,
): Promise<Map<string, WaitingRecord>> {
  const pending = new Map<string, WaitingRecord>();
  const wanted = manifest.pending.filter(({ handle, version }) => known?.pending.get(handle)?.version !== version);
  const fetched = new Map<string, WaitingRecord>();
  if (wanted.length > 0) {
    const handles = wanted.map((p) => p.handle);
    for await (const record of readRecords(service, name, keyring, handles, { newest: manifest.epoch }))
      fetched.set(record.handle, WaitingRecord.of(record));
  }
  for (const { handle, version } of manifest.pending) {
    const record = fetched.get(handle) ?? known?.pending.get(handle);
    if (record?.version !== version)
      throw new OutOfStep('the store gave an older copy of a record than the manifest names');
    pending.set(handle, record);
  }
  return pending;
}

/** Opens sealed records in the order of their handles. No epoch after the `newest` has a key: records of one belong to a newer manifest, or to nothing. */
export async function* readRecords(
  service: Service,
  name: string,
  keyring: Keyring,
  handles: readonly string[],
  { newest, signal }: { readonly newest: number; readonly signal?: AbortSignal | undefined },
): AsyncGenerator<OpenedRecord> {
  const sealerOf = (epoch: number) => {
    if (epoch > newest) throw new OutOfStep('the store gave a record of a later key than the manifest names');
    return keyring.sealer(epoch);
  };
  let at = 0;
  for await (const { handle, sealed } of service.getRecords(name, handles.map(fromHex), signal ? { signal } : {})) {
    if (hex(handle) !== handles[at])
      throw new HersError('INTEGRITY', 'the store gave another record than was asked for');
    at++;
    yield keyring.records.open(sealerOf, handle, sealed);
  }
  if (at !== handles.length) throw new HersError('INTEGRITY', 'the store has lost a record of this collection');
}
