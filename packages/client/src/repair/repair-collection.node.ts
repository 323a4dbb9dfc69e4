// One collection of a damaged folder: what its manifest names, what of that is there, and what
// becomes of the rest.

import { HANDLE_BYTES, HersError, PARTITION_BYTES, type Service, withMethods } from '@hers/service';
import { type BlockPlace, type FoundEntry, type KnownCollection, type Salvage, snapshotOf } from '@hers/store/salvage';
import { fromHex, hex, sha256 } from '../bytes.ts';
import { type ListEntry, openList } from '../formats/lists.ts';
import {
  evaluationListsOf,
  historyAfter,
  liveCount,
  type Manifest,
  type ManifestBlock,
  type ManifestEvaluation,
  sealManifest,
  sealSections,
} from '../formats/manifest.ts';
import { PendingRecord } from '../formats/records.ts';
import type { Keyring } from '../keys/keyring.ts';
import { Draft } from '../session/draft.ts';
import { CollectionSession } from '../session/session.ts';
import { InMemoryVersions } from '../session/versions.ts';
import { fillBlocks } from '../writing/enrolment.ts';
import { rewrite } from '../writing/maintenance.ts';
import type { RepairedCollection } from './repair-report.ts';

/** The kind of an entry, in packs and snapshots. */
export const RECORD = 1;
/** Blocks' worth of records that are put into blocks together. */
const BLOCKS_AT_ONCE = 8;

/** A map key that is shorter than hexadecimal. */
export const keyOf = (handle: Uint8Array): string =>
  Buffer.from(handle.buffer, handle.byteOffset, handle.length).toString('latin1');
const fromKey = (key: string) => new Uint8Array(Buffer.from(key, 'latin1'));

interface FoundBlock {
  readonly place: BlockPlace;
  readonly seed: Uint8Array | undefined;
}

type Fate = 'kept' | 'again' | 'dropped';

export interface RescueOptions {
  /** Versions that were seen after the one that was found. */
  readonly missingVersions: number;
  /** Whether it may be that a later version was committed. */
  readonly isUncertain: boolean;
  readonly bringUnlisted: boolean;
  readonly signal: AbortSignal;
}

export class Rescue {
  readonly known: KnownCollection;
  readonly keyring: Keyring;
  readonly manifest: Manifest;
  readonly #hash: string;
  readonly #options: RescueOptions;
  /**
   * Lists that the manifest names. Nothing is read here from opaque ones: columns, and pieces of a
   * compressor.
   */
  readonly #wanted = new Map<string, { readonly epoch: number; readonly isOpaque: boolean }>();
  readonly #places = new Map<string, EntryPlace>();
  readonly #lists = new Map<string, readonly ListEntry[]>();
  /** Of blocks whose lists are there, by block. */
  readonly #entries = new Map<string, readonly ListEntry[]>();
  /** Records of blocks whose lists are missing. */
  #slotsWithoutList = 0;
  readonly #live = new Live();
  readonly #blocks = new Map<string, FoundBlock>();
  readonly #fates = new Map<string, Fate>();
  /** Where records are that nothing names, by handle. */
  readonly #unlisted = new Map<string, EntryPlace & { readonly isNamed: boolean }>();
  #told: ReturnType<Salvage['recordPlaces']>;
  #brought: string[] = [];

  constructor(known: KnownCollection, keyring: Keyring, manifest: Manifest, hash: string, options: RescueOptions) {
    this.known = known;
    this.keyring = keyring;
    this.manifest = manifest;
    this.#hash = hash;
    this.#options = options;
    for (const { list, epoch } of manifest.blocks) this.#wanted.set(list, { epoch, isOpaque: false });
    for (const { columns = {}, epoch } of manifest.blocks)
      for (const column of Object.values(columns)) this.#wanted.set(column, { epoch, isOpaque: true });
    for (const { lists, epoch } of manifest.compressors)
      for (const list of lists) this.#wanted.set(list, { epoch, isOpaque: true });
    for (const each of manifest.evaluation)
      for (const list of evaluationListsOf(each)) this.#wanted.set(list, { epoch: each.epoch, isOpaque: true });
  }

  get id(): string {
    return hex(this.keyring.id);
  }

  /** Bytes before every seal: the handle of a partition, if the manifest has sections. */
  get #skip(): number {
    return this.manifest.sections ? PARTITION_BYTES : 0;
  }

  // — lists —

  wants(list: string): boolean {
    return this.#wanted.has(list) && !this.#places.has(list);
  }

  /** The hash of a list proves it; that it opens is only certain afterwards. */
  async takeList(id: string, content: Uint8Array, place: EntryPlace): Promise<void> {
    const { epoch, isOpaque } = this.#wanted.get(id)!;
    this.#places.set(id, place);
    if (isOpaque) return;
    const { list } = await openList(await this.keyring.sealer(epoch), this.keyring.id, content.subarray(this.#skip));
    this.#lists.set(id, [...list]);
  }

  #takeEntries(): void {
    for (const { id, list, count, dead } of this.manifest.blocks) {
      const entries = this.#lists.get(list);
      if (entries?.length === count) this.#entries.set(id, entries);
      else this.#slotsWithoutList += count - dead.length;
    }
  }

  #hasCompressor(epoch: number): boolean {
    const compressor = this.manifest.compressors.find((each) => each.epoch === epoch);
    return !compressor || compressor.lists.every((list) => this.#places.has(list));
  }

  /** Gathers which records there must be, once all lists are taken. */
  gatherLive(salvage: Salvage): void {
    const { records } = this.keyring;
    this.#takeEntries();
    for (const block of this.manifest.blocks) {
      const dead = new Set(block.dead);
      this.#entries.get(block.id)?.forEach(({ id, version }, slot) => {
        if (!dead.has(slot)) this.#live.add(keyOf(records.handleOf(id)), id, version, block.epoch);
      });
    }
    for (const { handle, version } of this.manifest.pending)
      this.#live.add(keyOf(fromHex(handle)), undefined, version, this.manifest.epoch);
    if (this.#slotsWithoutList > 0) this.#told = salvage.recordPlaces(this.known);
  }

  // — records —

  /** An entry of a pack that may be one of ours; whether it is. */
  async consider(pack: number, { entry, offset, length }: FoundEntry): Promise<boolean> {
    const handle = entry.content.subarray(0, HANDLE_BYTES);
    const key = keyOf(handle);
    if (this.#live.has(key)) {
      if (!this.#live.isOpen(key)) return true;
      const record = await this.#open(handle, entry.content.subarray(HANDLE_BYTES));
      if (record) this.#live.take(key, record.version, record.epoch, { pack, offset });
      return record !== undefined;
    }
    const { isUncertain, missingVersions } = this.#options;
    if (!isUncertain && missingVersions === 0 && this.#slotsWithoutList === 0) return false;
    const record = await this.#open(handle, entry.content.subarray(HANDLE_BYTES));
    if (!record) return false;
    const told = this.#told?.get(key);
    // Packs may have been exchanged; but no two versions of a record lie at the same place of two
    // packs.
    const isNamed = told !== undefined && told.offset === offset && told.length === length;
    // The one that the catalogue names, else the one that was written last.
    if (isNamed || !this.#unlisted.get(key)?.isNamed) this.#unlisted.set(key, { pack, offset, isNamed });
    return true;
  }

  async #open(handle: Uint8Array, sealed: Uint8Array) {
    const newest = this.manifest.epoch;
    try {
      return await this.keyring.records.open(
        (epoch) => {
          if (epoch > newest) throw new HersError('INTEGRITY', 'no manifest names this epoch');
          return this.keyring.sealer(epoch);
        },
        handle,
        sealed.subarray(this.#skip),
      );
    } catch {
      return undefined; // of another collection, or of nobody
    }
  }

  #chooseUnlisted(): string[] {
    const all = [...this.#unlisted.keys()];
    const slots = this.#slotsWithoutList;
    if (this.#options.bringUnlisted) return all;
    if (slots > 0 && this.#told) return all.filter((key) => this.#unlisted.get(key)!.isNamed);
    return all.length === slots ? all : [];
  }

  // — blocks —

  /** Finds the blocks that are worth keeping, each in the first place where it proves itself. */
  async findBlocks(
    salvage: Salvage,
    places: ReadonlyMap<string, readonly BlockPlace[]>,
    onBlock: () => void,
  ): Promise<void> {
    for (const block of this.manifest.blocks) {
      if (!this.#hasCompressor(block.epoch) || !this.#entries.has(block.id)) continue;
      const { seed } = salvage.knownBlock(block.id);
      for (const place of places.get(block.id) ?? []) {
        if (await proven(salvage, block, { place, seed })) {
          this.#blocks.set(block.id, { place, seed });
          break;
        }
        await salvage.examine(place);
      }
      onBlock();
    }
  }

  // — what becomes of it —

  /** Decides what becomes of every block, after everything was looked at. */
  settle(): void {
    this.#brought = this.#chooseUnlisted();
    for (const block of this.manifest.blocks) this.#fates.set(block.id, this.#fateOf(block));
  }

  #fateOf(block: ManifestBlock): Fate {
    const entries = this.#entries.get(block.id);
    if (!entries) return 'dropped';
    if (this.#blocks.has(block.id)) return 'kept';
    return entries.length > this.#deadOf(block).length ? 'again' : 'dropped';
  }

  /** Slots that are dead, and those whose records are lost. */
  #deadOf(block: ManifestBlock): number[] {
    const dead = new Set(block.dead);
    this.#entries.get(block.id)?.forEach(({ id }, slot) => {
      if (!dead.has(slot) && !this.#live.isFound(keyOf(this.keyring.records.handleOf(id)))) dead.add(slot);
    });
    return [...dead].sort((a, b) => a - b);
  }

  /** Whether everything is there, exactly as it was. */
  get #isWhole(): boolean {
    return (
      this.manifest.blocks.every(({ id }) => this.#fates.get(id) === 'kept') &&
      this.manifest.compressors.every(({ epoch }) => this.#hasCompressor(epoch)) &&
      !this.#hasLostEvaluation() &&
      this.#live.found === this.#live.size &&
      this.#brought.length === 0
    );
  }

  #keptBlocks(): ManifestBlock[] {
    return this.manifest.blocks.filter(({ id }) => this.#fates.get(id) === 'kept');
  }

  #hasLostEvaluation(): boolean {
    return this.manifest.evaluation.some((each) => evaluationListsOf(each).some((list) => !this.#places.has(list)));
  }

  /** Evaluation keys of which every piece was found; `optimize` makes the others again. */
  #keptEvaluation(): ManifestEvaluation[] {
    const isFound = (list: string) => this.#places.has(list);
    return this.manifest.evaluation
      .filter(({ lists }) => lists.every(isFound))
      .map(({ devices, ...rest }) => {
        if (!devices) return rest;
        return { ...rest, devices: Object.fromEntries(Object.entries(devices).filter(([, list]) => isFound(list))) };
      });
  }

  #keptLists(): Set<string> {
    const blocks = this.manifest.blocks.filter(({ id }) => this.#fates.get(id) !== 'dropped');
    const compressors = this.manifest.compressors.filter(({ epoch }) => this.#hasCompressor(epoch));
    const columns = blocks.flatMap((block) => Object.values(block.columns ?? {}));
    const lists = [...blocks.map(({ list }) => list), ...compressors.flatMap((each) => each.lists)];
    const evaluation = this.#keptEvaluation().flatMap(evaluationListsOf);
    return new Set([...lists, ...evaluation, ...columns].filter((list) => this.#places.has(list)));
  }

  // — the new folder —

  /**
   * Writes what is there into a new folder, and where something is missing a manifest that fits it.
   */
  async write(
    service: Service,
    salvage: Salvage,
    onBlocks: (done: number, total: number) => void,
    onPiece: (bytes: number) => void,
  ): Promise<RepairedCollection> {
    await this.#restore(service, salvage, onPiece);
    if (this.#isWhole) return this.#report(this.manifest, 0);
    await this.#commitLoss(service);
    const { manifest, rebuilt } = await this.#index(service, onBlocks);
    return this.#report(manifest, rebuilt);
  }

  async #restore(service: Service, salvage: Salvage, onPiece: (bytes: number) => void): Promise<void> {
    const lists = this.#keptLists();
    const blocks = this.#keptBlocks();
    const { id, descriptor } = this.known;
    const { version } = this.manifest;
    const records = this.#live.found + this.#brought.length;
    const header = {
      id,
      version,
      descriptor,
      manifest: this.known.manifest,
      records,
      lists: lists.size,
      blocks: blocks.length,
    };
    const pieces = snapshotOf(header, this.#liveEntries(salvage, lists), this.#encodedBlocks(salvage, blocks));
    const counted = async function* () {
      for await (const piece of pieces) {
        yield piece;
        onPiece(piece.length);
      }
    };
    await service.restore(this.known.name, counted(), { signal: this.#options.signal });
  }

  async *#liveEntries(salvage: Salvage, lists: ReadonlySet<string>) {
    const brought = new Set(this.#brought);
    const places = new Map([...lists].map((list) => [placeKey(this.#places.get(list)!), list]));
    const packs = this.#live.packs();
    for (const list of lists) packs.add(this.#places.get(list)!.pack);
    for (const key of brought) packs.add(this.#unlisted.get(key)!.pack);
    for await (const { pack, found } of salvage.again((each) => packs.has(each))) {
      for (const { entry, offset } of found) {
        if (entry.kind !== RECORD) {
          if (places.has(placeKey({ pack, offset }))) yield entry;
          continue;
        }
        const key = keyOf(entry.content.subarray(0, HANDLE_BYTES));
        const unlisted = brought.has(key) ? this.#unlisted.get(key) : undefined;
        if (this.#live.isAt(key, pack, offset) || (unlisted?.pack === pack && unlisted.offset === offset)) yield entry;
      }
    }
  }

  async *#encodedBlocks(salvage: Salvage, blocks: readonly ManifestBlock[]) {
    for (const block of blocks) {
      const found = this.#blocks.get(block.id)!;
      const encoded = await proven(salvage, block, found);
      if (!encoded)
        throw new HersError('DAMAGED', `${found.place.path} changes while it is read; end what writes to it`);
      yield encoded;
    }
  }

  /** The current epoch; the next one if the compressor of this one is missing. */
  get #epoch(): number {
    const { epoch } = this.manifest;
    return this.#hasCompressor(epoch) ? epoch : epoch + 1;
  }

  /** The next manifest: without what is lost. Blocks that are made again are still in it. */
  async #commitLoss(service: Service): Promise<void> {
    const { manifest, keyring } = this;
    const blocks: ManifestBlock[] = [];
    for (const block of manifest.blocks) {
      if (this.#fates.get(block.id) === 'dropped') continue;
      const dead = this.#deadOf(block);
      // Columns that are lost are made again from the vault, by `optimize`.
      const columns = Object.entries(block.columns ?? {}).filter(([, name]) => this.#places.has(name));
      blocks.push({ ...block, dead, columns: Object.fromEntries(columns) });
    }
    const lost: Manifest = {
      version: manifest.version + 1,
      epoch: this.#epoch,
      seals: this.#epoch === manifest.epoch ? manifest.seals : 0,
      blocks,
      pending: manifest.pending.filter(({ handle }) => this.#live.isFound(keyOf(fromHex(handle)))),
      compressors: manifest.compressors.filter(({ epoch }) => this.#hasCompressor(epoch)),
      evaluation: this.#keptEvaluation(),
      ...(manifest.devices ? { devices: manifest.devices } : {}),
      fields: manifest.fields,
      ...(manifest.partitionBy === undefined ? {} : { partitionBy: manifest.partitionBy }),
      history: historyAfter(this.#hash, manifest.history),
    };
    const sealer = await keyring.manifestSealer();
    const handleOf = (name: string | undefined) => keyring.partitionHandle(name);
    const sections = manifest.sections && (await sealSections(sealer, keyring.id, lost, manifest, { handleOf }));
    const sealed = await sealManifest(sealer, keyring.id, { ...lost, ...(sections ? { sections } : {}) });
    await service.commit(this.known.name, { expected: manifest.version, manifest: sealed });
  }

  /** Puts records into blocks again whose blocks are gone, and those that no list names. */
  async #index(service: Service, onBlocks: (done: number, total: number) => void) {
    const { name } = this.known;
    const { signal } = this.#options;
    const again = new Set([...this.#fates].filter(([, fate]) => fate === 'again').map(([id]) => id));
    const session = new CollectionSession({
      service: withoutBlocks(service, again),
      place: { gallery: '', name },
      keyring: this.keyring,
      memory: new InMemoryVersions(),
    });
    if (again.size > 0)
      await rewrite(session, (block) => again.has(block.id), this.#epoch, {
        signal,
        onProgress: ({ done, total }) => onBlocks(done, total),
      });
    const together = BLOCKS_AT_ONCE * this.keyring.plan.capacity;
    for (let at = 0; at < this.#brought.length; at += together)
      await this.#adopt(session, this.#brought.slice(at, at + together));
    return { manifest: (await session.view()).manifest, rebuilt: again.size };
  }

  #adopt(session: CollectionSession, keys: readonly string[]): Promise<void> {
    const { signal } = this.#options;
    return session.write(async (view) => {
      const draft = new Draft(view);
      const handles = keys.map((key) => hex(fromKey(key))).sort();
      const newest = view.manifest.epoch;
      for await (const record of session.reader.records(handles, { newest, signal }))
        draft.pending.set(record.handle, PendingRecord.of(record, draft.fields));
      await fillBlocks(session, draft, { signal });
      return { draft, result: undefined };
    });
  }

  // — what is said about it —

  #report(manifest: Manifest, rebuilt: number): RepairedCollection {
    const { missingVersions } = this.#options;
    const lost = this.#lost();
    const lostCompressor = this.manifest.compressors.some(({ epoch }) => !this.#hasCompressor(epoch));
    const lostEvaluation = this.#hasLostEvaluation();
    const kept = this.#keptBlocks().length;
    // Of those in whose place others came, and of nothing, nobody needs to hear.
    const told = this.#told;
    const unlisted = [...this.#unlisted.keys()].filter((key) => !told || told.has(key) || missingVersions > 0);
    return {
      name: this.known.name,
      found: this.manifest.version,
      version: manifest.version,
      missingVersions,
      records: liveCount(manifest),
      lost,
      blocks: { kept, rebuilt, dropped: this.manifest.blocks.length - kept - rebuilt },
      unlisted: { found: unlisted.length, broughtBack: this.#brought.length },
      lostCompressor,
      lostEvaluation,
      complete: lost.count === 0 && missingVersions === 0 && !lostCompressor && !lostEvaluation,
    };
  }

  #lost(): RepairedCollection['lost'] {
    const named = this.#live.lost();
    const ids = named.filter((id) => id !== undefined);
    const withoutList = Math.max(0, this.#slotsWithoutList - this.#brought.length);
    return { count: named.length + withoutList, ids };
  }
}

/** The bytes of a block, if they are those that the manifest names. */
async function proven(salvage: Salvage, { hash }: ManifestBlock, { place, seed }: FoundBlock) {
  const read = await salvage.readBlock(place, seed);
  return read && hex(await sha256(read.encoded)) === hash ? read.encoded : undefined;
}

const placeKey = ({ pack, offset }: EntryPlace) => `${pack} ${offset}`;

/** A service that has never had these blocks, and does not mind that they are dropped. */
function withoutBlocks(service: Service, missing: ReadonlySet<string>): Service {
  return withMethods(service, {
    commit(name, change) {
      const dropped = [...(change.dropped ?? [])].filter((id) => !missing.has(hex(id)));
      return service.commit(name, { ...change, dropped });
    },
  });
}

const NONE = -1;

/** Where an entry lies: the number of a pack, and the offset in it. */
export interface EntryPlace {
  readonly pack: number;
  readonly offset: number;
}

/**
 * The records that a collection must hold, and where each was found: places and not bytes, because
 * a gallery is larger than memory.
 */
class Live {
  readonly #index = new Map<string, number>();
  readonly #ids: (string | undefined)[] = [];
  readonly #versions: string[] = [];
  readonly #epochs: number[] = [];
  readonly #packs: number[] = [];
  readonly #offsets: number[] = [];
  readonly #found: number[] = [];

  get size(): number {
    return this.#ids.length;
  }

  /** A record that is named by a list or by the manifest, and the epoch that it is sealed under. */
  add(handle: string, id: string | undefined, version: string, epoch: number): void {
    if (this.#index.has(handle)) throw new HersError('INTEGRITY', 'the manifest names a record twice');
    this.#index.set(handle, this.#ids.length);
    this.#ids.push(id);
    this.#versions.push(version);
    this.#epochs.push(epoch);
    this.#packs.push(NONE);
    this.#offsets.push(0);
    this.#found.push(NONE);
  }

  has(handle: string): boolean {
    return this.#index.has(handle);
  }

  /** Whether an entry of this handle is worth opening. */
  isOpen(handle: string): boolean {
    const i = this.#index.get(handle);
    return i !== undefined && this.#found[i] !== this.#epochs[i];
  }

  /**
   * An entry that was opened. Sealed under the epoch that it should be is best; under another it is
   * the same record.
   */
  take(handle: string, version: string, epoch: number, { pack, offset }: EntryPlace): void {
    const i = this.#index.get(handle)!;
    if (version !== this.#versions[i] || (epoch !== this.#epochs[i] && epoch <= this.#found[i])) return;
    this.#packs[i] = pack;
    this.#offsets[i] = offset;
    this.#found[i] = epoch;
  }

  isFound(handle: string): boolean {
    const i = this.#index.get(handle);
    return i !== undefined && this.#packs[i] !== NONE;
  }

  isAt(handle: string, pack: number, offset: number): boolean {
    const i = this.#index.get(handle);
    return i !== undefined && this.#packs[i] === pack && this.#offsets[i] === offset;
  }

  get found(): number {
    return this.#packs.reduce((sum, pack) => sum + (pack === NONE ? 0 : 1), 0);
  }

  /**
   * Ids of those that are nowhere; undefined for those that were pending, which only their
   * handle names.
   */
  lost(): (string | undefined)[] {
    return this.#ids.filter((_, i) => this.#packs[i] === NONE);
  }

  packs(): Set<number> {
    return new Set(this.#packs);
  }
}
