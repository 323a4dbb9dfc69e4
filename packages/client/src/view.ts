// What a client knows about a collection at one version: the manifest, which record is in which slot, and the records that wait for a block.
// Lists and waiting records are fetched once and kept.

import type { Plan } from '@hers/scheme';
import { addScoreSums, decodeScoreSums, encodeScoreSums, type ScoreSums } from '@hers/scheme/secret';
import { HersError, type Service } from '@hers/service';
import { fromHex, hex, sha256 } from './bytes.ts';
import type { Keyring } from './keyring.ts';
import { inOrder, type ListEntry, openList } from './lists.ts';
import { type Manifest, type ManifestBlock, manifestHash, openManifest } from './manifest.ts';
import { fetchModel } from './models.ts';
import { type OpenedRecord, WaitingRecord } from './records.ts';
import type { Space } from './space.ts';
import {
  isFirstContact,
  laterOf,
  type Place,
  type Shown,
  seenAfter,
  seenElsewhere,
  type VersionMemory,
} from './versions.ts';

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
  /** What the scores of a block add up to (`scoreSums` of scheme/secret), by block id, where that is known. */
  readonly scoreSums: ReadonlyMap<string, Uint8Array>;
  /** Waiting records by handle. */
  readonly pending: ReadonlyMap<string, WaitingRecord>;
  /** By epoch: those that have blocks, and the current one. */
  readonly spaces: ReadonlyMap<number, Space>;
  #index: Map<string, number> | undefined;

  constructor(
    manifest: Manifest,
    hash: string,
    entries: ReadonlyMap<string, readonly ListEntry[]>,
    scoreSums: ReadonlyMap<string, Uint8Array>,
    pending: ReadonlyMap<string, WaitingRecord>,
    spaces: ReadonlyMap<number, Space>,
  ) {
    this.manifest = manifest;
    this.hash = hash;
    this.entries = entries;
    this.scoreSums = scoreSums;
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
    scoreSums: ReadonlyMap<string, Uint8Array>,
    pending: ReadonlyMap<string, WaitingRecord>,
    spaces: ReadonlyMap<number, Space>,
    gone: Iterable<string>,
  ): View {
    const view = new View(manifest, hash, entries, scoreSums, pending, spaces);
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

/** How often a collection is read that changes while it is. */
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

export function shownOf({ id }: Keyring, { version, history }: Manifest, hash: string): Shown {
  return { id: hex(id), version, hash, ...(history ? { history } : {}) };
}

/** Reads the current manifest. INTEGRITY when it was altered, or contradicts what was seen before. */
export async function readManifest(source: Source): Promise<ShownManifest> {
  const { place, memory, keyring } = source;
  // As it was before asking: what is committed meanwhile may or may not be in the answer.
  const here = await memory.read(place);
  const id = hex(keyring.id);
  const seen = isFirstContact(here, id) ? await seenElsewhere(memory, place, id) : here;
  const read = await openShown(source);
  seenAfter(seen, read.shown, place.name);
  return read;
}

/** Remembers that this manifest was seen. */
export async function remember({ place, keyring, memory }: Source, manifest: Manifest, hash: string): Promise<void> {
  const known = await memory.read(place);
  if (known?.version === manifest.version && known.hash === hash) return;
  // Another name may have been given the same collection while this one was read.
  const id = hex(keyring.id);
  const elsewhere = isFirstContact(known, id) ? await seenElsewhere(memory, place, id) : undefined;
  const { unverified, stopped } = elsewhere ?? {};
  const carried = { ...(unverified ? { unverified } : {}), ...(stopped ? { stopped } : {}) };
  await memory.update(place, (seen) => ({
    ...(isFirstContact(seen, id) ? carried : {}),
    ...laterOf(seen, shownOf(keyring, manifest, hash), place.name),
  }));
}

/** What was opened already: by an earlier view, and by attempts at this one. */
class Opened {
  readonly #known: View | undefined;
  readonly #entries = new Map<string, readonly ListEntry[]>();
  readonly #sums = new Map<string, Uint8Array>();
  readonly #pending = new Map<string, WaitingRecord>();

  constructor(known: View | undefined) {
    this.#known = known;
  }

  /** Of a block; they never change. */
  entries(block: string): readonly ListEntry[] | undefined {
    return this.#entries.get(block) ?? this.#known?.entries.get(block);
  }

  sums(block: string): Uint8Array | undefined {
    return this.#sums.get(block) ?? this.#known?.scoreSums.get(block);
  }

  keepEntries(block: string, entries: readonly ListEntry[], sums: Uint8Array | undefined): void {
    this.#entries.set(block, entries);
    if (sums) this.#sums.set(block, sums);
  }

  record(handle: string, version: string): WaitingRecord | undefined {
    const record = this.#pending.get(`${handle} ${version}`) ?? this.#known?.pending.get(handle);
    return record?.version === version ? record : undefined;
  }

  /** Also where it is not what the manifest names: a later manifest may. */
  keepRecord(record: WaitingRecord): void {
    this.#pending.set(`${record.handle} ${record.version}`, record);
  }
}

/**
 * Reads the current state, reusing what `known` has already. Where another writer comes in between, it is read again, and fetched is what has changed since. STALE when that happens
 * every time; when no newer manifest shows that it happened, the error stands.
 */
export async function readView(source: Source, known?: View): Promise<View> {
  const { service, place, keyring } = source;
  const { name } = place;
  const opened = new Opened(known);
  let failed: { readonly version: number; readonly error: unknown } | undefined;
  for (let attempt = 1; ; attempt++) {
    // Nothing stands between a manifest and what it names: whatever does gives a writer the time to change it.
    const { manifest, hash } = await readManifest(source);
    if (failed && manifest.version <= failed.version) throw failed.error;
    if (known?.hash === hash) {
      await remember(source, manifest, hash);
      return known;
    }
    if (attempt > MAX_ATTEMPTS)
      throw new HersError('STALE', 'the collection changes faster than it can be read; try again');
    try {
      // What waits is what changes.
      const pending = await readPending(service, name, keyring, manifest, opened);
      const spaces = await readSpaces(service, name, keyring, manifest);
      const { entries, scoreSums } = await readEntries(service, name, keyring, manifest, spaces, opened);
      await remember(source, manifest, hash);
      return new View(manifest, hash, entries, scoreSums, pending, spaces);
    } catch (error) {
      if (!mayBeOvertaken(error)) throw error;
      failed = { version: manifest.version, error };
      // Much has changed after a pause, and little right after an attempt: so every other follows at once.
      if (attempt % 2 === 0) await pauseAfter(attempt / 2);
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
  spaces: ReadonlyMap<number, Space>,
  opened: Opened,
): Promise<{ entries: Map<string, readonly ListEntry[]>; scoreSums: Map<string, Uint8Array> }> {
  const entries = new Map<string, readonly ListEntry[]>();
  const wanted: ManifestBlock[] = [];
  for (const block of manifest.blocks) {
    if (entries.has(block.id)) throw new HersError('INTEGRITY', 'the manifest names a block twice');
    const have = opened.entries(block.id);
    entries.set(block.id, have ?? []);
    if (!have) wanted.push(block);
  }
  const ids = wanted.flatMap((block) => block.lists);
  const lists = service.getLists(name, ids.map(fromHex))[Symbol.asyncIterator]();
  try {
    for (const block of wanted) {
      const sealer = await keyring.sealer(block.epoch);
      const all: ListEntry[] = [];
      const sums: (Uint8Array | undefined)[] = [];
      for (const id of block.lists) {
        const { value, done } = await lists.next();
        if (done) throw new HersError('INTEGRITY', 'the store has lost a list of this collection');
        if (hex(await sha256(value)) !== id)
          throw new HersError('INTEGRITY', 'the store gave another list than the manifest names');
        const list = await openList(sealer, keyring.id, value);
        all.push(...list.entries);
        sums.push(list.sums);
      }
      if (all.length !== block.count)
        throw new HersError('INTEGRITY', 'the lists of a block do not fit its number of records');
      entries.set(block.id, all);
      opened.keepEntries(block.id, all, sumOf(spaces.get(block.epoch)!.plan, sums));
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

/** Nothing where a part of a block was added by a program that did not know them. */
function sumOf(plan: Plan, parts: readonly (Uint8Array | undefined)[]): Uint8Array | undefined {
  let sum: ScoreSums | undefined;
  for (const part of parts) {
    if (!part) return undefined;
    const next = decodeScoreSums(plan, part);
    sum = sum ? addScoreSums(sum, next) : next;
  }
  return sum && encodeScoreSums(sum);
}

async function readPending(
  service: Service,
  name: string,
  keyring: Keyring,
  manifest: Manifest,
  opened: Opened,
): Promise<Map<string, WaitingRecord>> {
  const pending = new Map<string, WaitingRecord>();
  const wanted = manifest.pending.filter(({ handle, version }) => !opened.record(handle, version));
  if (wanted.length > 0) {
    const handles = wanted.map((p) => p.handle);
    for await (const record of readRecords(service, name, keyring, handles, { newest: manifest.epoch }))
      opened.keepRecord(WaitingRecord.of(record));
  }
  for (const { handle, version } of manifest.pending) {
    const record = opened.record(handle, version);
    if (!record) throw new OutOfStep('the store gave an older copy of a record than the manifest names');
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
