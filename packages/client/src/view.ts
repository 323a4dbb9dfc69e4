// What a client knows about a collection at one version: the manifest, which record is in which slot, and the records that wait for a block.
// Lists and waiting records are fetched once and kept.

import { HersError, type Service } from '@hers/service';
import { fromHex, hex, sha256 } from './bytes.ts';
import type { Keyring } from './keyring.ts';
import { type ListEntry, openList } from './lists.ts';
import { type Manifest, type ManifestBlock, openManifest } from './manifest.ts';
import { fetchModel } from './models.ts';
import { type PlainRecord, WaitingRecord } from './records.ts';
import type { Space } from './space.ts';
import { rememberedAs, type VersionMemory } from './versions.ts';

/** Where a record is. */
export type Place = { readonly block: ManifestBlock; readonly slot: number } | 'pending';

const PENDING = -1;
const SLOTS = 65536;

export class View {
  readonly manifest: Manifest;
  /** The entries of every block, by block id. */
  readonly entries: ReadonlyMap<string, readonly ListEntry[]>;
  /** Waiting records by handle. */
  readonly pending: ReadonlyMap<string, WaitingRecord>;
  /** By epoch: those that have blocks, and the current one. */
  readonly spaces: ReadonlyMap<number, Space>;
  #index: Map<string, number> | undefined;

  constructor(
    manifest: Manifest,
    entries: ReadonlyMap<string, readonly ListEntry[]>,
    pending: ReadonlyMap<string, WaitingRecord>,
    spaces: ReadonlyMap<number, Space>,
  ) {
    this.manifest = manifest;
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

  locate(id: string): Place | undefined {
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

  /** The ids in order of their places. */
  *ids(): Generator<string> {
    for (const block of this.manifest.blocks) {
      const dead = new Set(block.dead);
      const entries = this.entries.get(block.id)!;
      for (let slot = 0; slot < entries.length; slot++) if (!dead.has(slot)) yield entries[slot].id;
    }
    for (const record of this.pending.values()) yield record.id;
  }

  /** The view after a change of our own, without fetching anything. The index moves along where the change is small beside it. */
  next(
    manifest: Manifest,
    entries: ReadonlyMap<string, readonly ListEntry[]>,
    pending: ReadonlyMap<string, WaitingRecord>,
    spaces: ReadonlyMap<number, Space>,
    gone: Iterable<string>,
  ): View {
    const view = new View(manifest, entries, pending, spaces);
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

/** Whether another writer was the reason of this error, which then is none: what was read belongs to an older version than the current one. */
export async function isOvertaken(service: Service, name: string, version: number, error: unknown): Promise<boolean> {
  if (!(error instanceof HersError)) return false;
  if (error.code === 'STALE') return true;
  if (error.code !== 'NOT_FOUND' && !(error instanceof OutOfStep)) return false;
  return (await service.getManifest(name)).version > version;
}

/** Reads the current manifest. INTEGRITY when the store shows an older version than was seen before, or anything altered. */
export async function readManifest(
  service: Service,
  name: string,
  keyring: Keyring,
  memory: VersionMemory,
  known = 0,
): Promise<{ readonly manifest: Manifest; readonly isNew: boolean }> {
  const { version, manifest: sealed } = await service.getManifest(name);
  const seen = Math.max((await memory.read(rememberedAs(keyring.id, name))) ?? 0, known);
  if (version < seen) {
    throw new HersError(
      'INTEGRITY',
      `collection ${JSON.stringify(name)} was rolled back: it is at version ${version} and version ${seen} was seen before`,
    );
  }
  const manifest = await openManifest(await keyring.manifestSealer(), keyring.id, version, sealed);
  if (manifest.version !== version)
    throw new HersError('INTEGRITY', 'the manifest has another version than the store says');
  return { manifest, isNew: version > seen };
}

/** Reads the current state, reusing what `known` has already. */
export async function readView(
  service: Service,
  name: string,
  keyring: Keyring,
  memory: VersionMemory,
  known?: View,
): Promise<View> {
  for (let attempt = 1; ; attempt++) {
    const { manifest, isNew } = await readManifest(service, name, keyring, memory, known?.manifest.version);
    try {
      const entries = await readEntries(service, name, keyring, manifest, known);
      const pending = await readPending(service, name, keyring, manifest, known);
      const spaces = await readSpaces(service, name, keyring, manifest);
      if (isNew) await memory.write(rememberedAs(keyring.id, name), manifest.version);
      return new View(manifest, entries, pending, spaces);
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !(await isOvertaken(service, name, manifest.version, error))) throw error;
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
    for await (const record of readRecords(
      service,
      name,
      keyring,
      wanted.map((p) => p.handle),
    ))
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

/** Opens sealed records in the order of their handles. */
export async function* readRecords(
  service: Service,
  name: string,
  keyring: Keyring,
  handles: readonly string[],
  signal?: AbortSignal,
): AsyncGenerator<PlainRecord> {
  let at = 0;
  for await (const { handle, sealed } of service.getRecords(name, handles.map(fromHex), signal ? { signal } : {})) {
    if (hex(handle) !== handles[at])
      throw new HersError('INTEGRITY', 'the store gave another record than was asked for');
    at++;
    yield keyring.records.open((epoch) => keyring.sealer(epoch), handle, sealed);
  }
  if (at !== handles.length) throw new HersError('INTEGRITY', 'the store has lost a record of this collection');
}
