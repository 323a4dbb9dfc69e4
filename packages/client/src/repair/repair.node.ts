// Makes a new folder of a damaged one, with the key: everything that was acknowledged and is not in
// the damaged bytes, and a report of what is missing. The damaged folder is only read.
//
//   1  What the journal and the catalogue still know of collections; of each the newest manifest
//      that opens.
//   2  All packs, front to back: the lists that manifests name, which name the records that there
//      must be.
//   3  Blocks, each proven by its hash or its tag; and all packs again: records, each opened and of
//      the version that its list names.
//   4  A snapshot of that, restored into a new folder. If something is missing, the next manifest
//      says so.
//   5  The new folder is read to its end, opened with the key, and gets its name.

import { existsSync } from 'node:fs';
import { access, constants, readdir, realpath } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { MasterSeed } from '@hers/scheme/secret';
import { HANDLE_BYTES, HersError, type OptionNames, refuseUnknown } from '@hers/service';
import { type FolderStore, mendProofs, openStore } from '@hers/store';
import { type KnownCollection, openSalvage, type Salvage } from '@hers/store/salvage';
import { hex, sha256 } from '../bytes.ts';
import { Database } from '../database.ts';
import { invalid } from '../fields/field.ts';
import { manifestHash, openManifest } from '../formats/manifest.ts';
import { type Descriptor, Keyring, openDescriptor } from '../keys/keyring.ts';
import { InMemoryVersions, type Place, type VersionMemory } from '../session/versions.ts';
import { keyOf, RECORD, Rescue } from './repair-collection.node.ts';
import { clearLeftovers, finishRenames, RepairFolder } from './repair-folder.node.ts';
import type {
  DamagedPlace,
  RepairedCollection,
  RepairProgress,
  RepairReport,
  UnknownCollection,
} from './repair-report.ts';

export type * from './repair-report.ts';

/** How the address of a folder begins. */
const FILE = 'file:';

export interface RepairOptions {
  /** The folder of the damaged gallery. */
  readonly folder: string;
  /**
   * A new folder for what is repaired. Without one it takes the place of the damaged folder, which
   * is kept beside it.
   */
  readonly into?: string;
  /** The master seed, or its 32 bytes. */
  readonly key: MasterSeed | Uint8Array;
  /** What was seen of collections: it tells whether versions are missing. */
  readonly versions?: VersionMemory;
  /**
   * Brings back records that are in the vault and that no list names, in the version written last.
   * Deleted ones may be among them.
   */
  readonly unlisted?: boolean;
  /** Threads for encryption and decryption; all cores by default. */
  readonly threads?: number;
  /** Ends the repair when it aborts. */
  readonly signal?: AbortSignal;
  /** Called as each step proceeds. */
  readonly onProgress?: (progress: RepairProgress) => void;
}

const OPTIONS: OptionNames<RepairOptions> = {
  ...{ folder: true, into: true, key: true, versions: true, unlisted: true, threads: true },
  ...{ signal: true, onProgress: true },
};

/**
 * Repairs a gallery.
 *
 * @example const { complete, backup } = await repairGallery({ folder: './gallery', key });
 */
export async function repairGallery(options: RepairOptions): Promise<RepairReport> {
  refuseUnknown(options, OPTIONS, 'a repair');
  const signal = options.signal ?? new AbortController().signal;
  signal.throwIfAborted();
  const given = resolve(options.folder);
  const finished = options.into === undefined ? await finishRenames(given) : undefined;
  if (!existsSync(given)) throw new HersError('NOT_FOUND', `there is no gallery at ${given}`);
  const folder = await realpath(given);
  await checkGallery(folder);
  using seed = options.key instanceof Uint8Array ? MasterSeed.from(options.key) : options.key.clone();
  const repair = new Repair(folder, seed, { ...options, signal });
  const looked = await repair.look();
  if (looked && finished !== undefined) return { ...looked, outcome: 'finished', backup: finished };
  if (looked?.outcome === 'whole' && looked.collections.length === 0 && looked.ofOtherKeys.length > 0)
    throw wrongKey(folder, looked.ofOtherKeys, 'Its files are whole, and nothing was done');
  if (looked) return looked;
  return await repair.rebuild(); // awaited: the seed is wiped on the way out
}

/** So that a wrong path is not taken for a gallery that has lost everything. */
async function checkGallery(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => [] as string[]);
  const own = ['format', 'catalogue.db', 'catalogue.journal', 'vault', 'blocks', 'segments'];
  if (!names.some((name) => own.includes(name)))
    throw invalid(`${folder} is not a gallery: it holds nothing that HERS has written`);
}

function wrongKey(folder: string, names: readonly string[], what: string): HersError {
  return new HersError(
    'WRONG_KEY',
    `everything in ${folder} was made with another key (${names.join(', ')}); use that. ${what}`,
  );
}

const CODES_OF_DAMAGE = ['DAMAGED', 'INTEGRITY', 'NOT_FOUND', 'MALFORMED', 'KEY_MISMATCH'];

function isDamage(error: unknown): boolean {
  if (error instanceof HersError) return CODES_OF_DAMAGE.includes(error.code);
  // What SQLite says of a catalogue that was opened all the same.
  return (error as { code?: unknown } | undefined)?.code === 'ERR_SQLITE_ERROR';
}

/** What a look has found in a folder without damage. */
type Looked = Pick<RepairReport, 'collections' | 'ofOtherKeys'>;

/** Names of collections that a rebuilt folder does not have, by the reason. */
type LeftOut = Pick<RepairReport, 'ofOtherKeys' | 'withoutManifest' | 'deleted'>;

/** Ranges in their order, with those together that touch. */
function joined(ranges: DamagedPlace['ranges']): DamagedPlace['ranges'] {
  const out: { from: number; to: number }[] = [];
  for (const { from, to } of ranges.toSorted((a, b) => a.from - b.from)) {
    const last = out.at(-1);
    if (last && from <= last.to) last.to = Math.max(last.to, to);
    else out.push({ from, to });
  }
  return out;
}

class Repair {
  readonly #folder: string;
  readonly #seed: MasterSeed;
  readonly #options: RepairOptions & { readonly signal: AbortSignal };
  readonly #memory: VersionMemory;
  /** What is wrong, as it was first seen. */
  #reason: string | undefined;
  /** The catalogue is older than what was seen: then nothing may prove it to be the latest. */
  #isBehind = false;

  constructor(folder: string, seed: MasterSeed, options: RepairOptions & { readonly signal: AbortSignal }) {
    this.#folder = folder;
    this.#seed = seed;
    this.#options = options;
    this.#memory = options.versions ?? new InMemoryVersions();
  }

  get #signal(): AbortSignal {
    return this.#options.signal;
  }

  #progress(step: RepairProgress['step'], total: number, unit: RepairProgress['unit'] = 'bytes') {
    let done = 0;
    return (more: number) => {
      done += more;
      this.#options.onProgress?.({ step, done: Math.min(done, total), total, unit });
    };
  }

  // — is there anything to do? —

  /** What there is to say when nothing has to be rebuilt. */
  async look(): Promise<RepairReport | undefined> {
    const whole = await this.#lookInto();
    if (whole) return this.#nothingDone('whole', whole);
    if (this.#options.into !== undefined) return undefined;
    await this.#checkWritable();
    if (this.#isBehind || !(await this.#mend())) return undefined;
    const mended = await this.#lookInto();
    return mended && this.#nothingDone('mended', mended);
  }

  /**
   * Checks before everything is read: a repair in place moves the folder, and makes one beside it.
   */
  async #checkWritable(): Promise<void> {
    for (const path of [this.#folder, dirname(this.#folder)])
      await access(path, constants.W_OK).catch(() => {
        throw new HersError(
          'STORAGE',
          `${path} is read-only, or belongs to another user, and cannot be repaired in place; with --into <folder> the repaired gallery is made in a new folder elsewhere`,
        );
      });
  }

  async #mend(): Promise<boolean> {
    try {
      return await mendProofs(this.#folder);
    } catch (error) {
      if (isDamage(error) || (error instanceof HersError && error.code === 'INVALID_ARGUMENT')) return false;
      throw error;
    }
  }

  #damaged(error: unknown): undefined {
    this.#reason ??= error instanceof Error ? error.message : String(error);
  }

  #nothingDone(outcome: 'whole' | 'mended', { collections, ofOtherKeys }: Looked): RepairReport {
    return {
      outcome,
      folder: this.#folder,
      ...(this.#reason === undefined ? {} : { reason: this.#reason }),
      complete: collections.every(({ complete }) => complete),
      collections,
      ofOtherKeys,
      withoutManifest: [],
      deleted: [],
      unknown: [],
      damage: [],
      bytes: 0,
      leftovers: [],
    };
  }

  /** The collections of a folder without any damage; undefined where there is some. */
  async #lookInto(): Promise<Looked | undefined> {
    const troubles: unknown[] = [];
    let store: FolderStore;
    try {
      store = await openStore(this.#folder, { onBackgroundError: (error) => troubles.push(error) });
    } catch (error) {
      // What cannot be opened because it cannot be written can still be read.
      const isReadOnly = error instanceof HersError && error.code === 'STORAGE' && this.#options.into !== undefined;
      if (isDamage(error) || isReadOnly || (error instanceof HersError && error.code === 'INVALID_ARGUMENT'))
        return this.#damaged(error);
      if (error instanceof HersError && error.code === 'STORAGE') await this.#checkWritable();
      throw error;
    }
    const database = new Database(store, { key: this.#seed, threads: 1 });
    try {
      const [first = (await this.#scrub(store, 'Checking')) ?? store.damagedCollections()[0]?.damage] = troubles;
      for (const { id, version } of await store.listCollections())
        if ((await this.#missing(hex(id), version)) > 0) this.#isBehind = true;
      if (first) return this.#damaged(first);
      return await this.#openAll(database, store);
    } catch (error) {
      this.#signal.throwIfAborted();
      if (isDamage(error)) return this.#damaged(error);
      throw error;
    } finally {
      await database.close();
    }
  }

  /** The first damage in it, if there is any. */
  async #scrub(store: FolderStore, step: 'Checking' | 'Verifying'): Promise<HersError | undefined> {
    const infos = await store.listCollections();
    const total = infos.reduce((sum, { bytes }) => sum + bytes, 0);
    const progress = this.#progress(step, total);
    for await (const { bytes, damage } of store.scrub({ signal: this.#signal })) {
      if (damage) return damage;
      progress(bytes);
    }
    return undefined;
  }

  async #openAll(database: Database, store: FolderStore): Promise<Looked | undefined> {
    const seen: RepairedCollection[] = [];
    const ofOtherKeys: string[] = [];
    for (const { name, id, blocks } of await store.listCollections()) {
      try {
        await database.collection(name);
      } catch (error) {
        if (!(error instanceof HersError && error.code === 'WRONG_KEY')) throw error;
        ofOtherKeys.push(name);
        continue;
      }
      const { version, records } = await database.describe(name);
      const missingVersions = await this.#missing(hex(id), version);
      if (missingVersions > 0 && this.#options.unlisted) return undefined;
      seen.push({
        name,
        found: version,
        version,
        missingVersions,
        records,
        lost: { count: 0, ids: [] },
        blocks: { kept: blocks, rebuilt: 0, dropped: 0 },
        unlisted: { found: 0, broughtBack: 0 },
        lostCompressor: false,
        lostEvaluation: false,
        complete: missingVersions === 0,
      });
    }
    return { collections: seen, ofOtherKeys };
  }

  /**
   * How many versions were seen after this one. Those that another folder has are not missing: a
   * copy, such as an earlier repair has made, goes its own way.
   */
  async #missing(id: string, version: number): Promise<number> {
    let newest = version;
    for (const { place, seen } of await this.#memory.places(id)) {
      if (seen.id !== id || seen.deleted || seen.version <= newest) continue;
      if (!(await this.#isElsewhere(place, id, seen.version))) newest = seen.version;
    }
    return newest - version;
  }

  async #isElsewhere({ gallery, name }: Place, id: string, version: number): Promise<boolean> {
    const folder = gallery.startsWith(FILE) ? gallery.slice(FILE.length) : this.#folder;
    if (folder === this.#folder || !existsSync(folder)) return false;
    try {
      const store = await openStore(folder, { mode: 'read', onBackgroundError: () => {} });
      const database = new Database(store, { key: this.#seed, threads: 1 });
      try {
        const info = await store.getCollection(name);
        return hex(info.id) === id && (await database.describe(name)).version >= version;
      } finally {
        await database.close();
      }
    } catch {
      return false; // what cannot be told counts as missing
    }
  }

  // — rebuilding —

  async rebuild(): Promise<RepairReport> {
    const { into } = this.#options;
    const target = new RepairFolder(this.#folder, into === undefined ? undefined : resolve(into));
    let onBytes = (_: number) => {};
    const salvage = await openSalvage(this.#folder, {
      signal: this.#signal,
      mayBeReadOnly: into !== undefined,
      onBytes: (bytes) => onBytes(bytes),
    });
    const rescues: Rescue[] = [];
    try {
      const leftovers = into === undefined ? await clearLeftovers(this.#folder) : [];
      const { packs, blocks } = salvage.bytes;
      onBytes = this.#progress('Reading', packs);
      const chosen = await this.#choose(salvage, rescues);
      const unknown = await this.#readLists(salvage, rescues);
      this.#checkWorthIt(salvage, rescues, chosen, unknown);
      onBytes = this.#progress('Opening', packs);
      await this.#findRecords(salvage, rescues);
      await this.#findBlocks(salvage, rescues);
      for (const rescue of rescues) rescue.settle();
      onBytes = () => {};
      await target.begin();
      let collections: RepairedCollection[];
      let backup: string | undefined;
      try {
        collections = await this.#write(target.building, salvage, rescues);
        await this.#verify(target.building, collections);
        this.#signal.throwIfAborted();
        backup = await target.finish();
      } catch (error) {
        await target.abandon();
        throw error;
      }
      const isUnknownLost = unknown.length > 0 && !salvage.isJournalWhole;
      return {
        outcome: 'rebuilt',
        folder: target.target,
        ...(this.#reason === undefined ? {} : { reason: this.#reason }),
        ...(backup === undefined ? {} : { backup }),
        complete:
          collections.every(({ complete }) => complete) &&
          chosen.ofOtherKeys.length === 0 &&
          chosen.withoutManifest.length === 0 &&
          !isUnknownLost,
        collections,
        ...chosen,
        unknown,
        damage: salvage.damage().map(({ file, ranges }) => ({ file, ranges: joined(ranges) })),
        bytes: packs + blocks,
        leftovers,
      };
    } finally {
      for (const { keyring } of rescues) await keyring.close();
      await salvage.close();
    }
  }

  /** Of every collection the newest manifest that opens. */
  async #choose(salvage: Salvage, rescues: Rescue[]): Promise<LeftOut> {
    const ofOtherKeys = new Set<string>();
    const withoutManifest = new Set<string>();
    const deleted = new Set<string>();
    const taken = new Set<string>();
    const byId = Map.groupBy(salvage.collections(), ({ id }) => hex(id));
    // A name that is in use twice belongs to the collection that something here is of, and of
    // several to the one made last.
    const rank = ([{ number: key, id }]: readonly KnownCollection[]) => (salvage.hasPacks(id) ? 1e12 : 0) + key;
    for (const versions of [...byId.values()].sort((a, b) => rank(b) - rank(a))) {
      const rescue = await this.#newest(salvage, versions, ofOtherKeys, withoutManifest);
      if (!rescue) continue;
      const { name } = rescue.known;
      if ((await this.#wasDeleted(rescue.id, name)) && !salvage.isJournalWhole) deleted.add(name);
      else if (!taken.has(name)) {
        taken.add(name);
        rescues.push(rescue);
        continue;
      }
      await rescue.keyring.close();
    }
    for (const name of taken) for (const names of [ofOtherKeys, withoutManifest]) names.delete(name);
    return { ofOtherKeys: [...ofOtherKeys], withoutManifest: [...withoutManifest], deleted: [...deleted] };
  }

  async #newest(
    salvage: Salvage,
    versions: readonly KnownCollection[],
    ofOtherKeys: Set<string>,
    withoutManifest: Set<string>,
  ) {
    let ours: KnownCollection | undefined;
    for (const known of versions.toSorted((a, b) => b.version - a.version)) {
      let descriptor: Descriptor;
      try {
        descriptor = openDescriptor(this.#seed, known.name, known.descriptor);
      } catch (error) {
        if (!(error instanceof HersError && ['WRONG_KEY', 'INTEGRITY'].includes(error.code))) throw error;
        ofOtherKeys.add(known.name);
        continue;
      }
      ours ??= known;
      const keyring = await Keyring.make(this.#seed, descriptor, this.#options.threads);
      try {
        const { id, version, manifest: sealed } = { ...known, id: descriptor.id };
        const handleOf = (partition: string | undefined) => keyring.partitionHandle(partition);
        const manifest = await openManifest(await keyring.manifestSealer(), id, version, sealed, { handleOf });
        const missingVersions = await this.#missing(hex(id), version);
        ofOtherKeys.delete(known.name);
        return new Rescue({ ...known, id }, keyring, manifest, await manifestHash(sealed), {
          missingVersions,
          isUncertain: !salvage.isJournalWhole,
          bringUnlisted: this.#options.unlisted ?? false,
          signal: this.#signal,
        });
      } catch (error) {
        await keyring.close();
        if (!(error instanceof HersError && error.code === 'INTEGRITY')) throw error;
      }
    }
    // Whoever may write can commit a manifest that opens for nobody: its collection is not deleted.
    if (ours && (salvage.isJournalWhole || !(await this.#wasDeleted(hex(ours.id), ours.name))))
      withoutManifest.add(ours.name);
    return undefined;
  }

  async #wasDeleted(id: string, name: string): Promise<boolean> {
    const places = (await this.#memory.places(id)).filter(({ place }) => place.name === name);
    return (
      places.length > 0 && places.every(({ seen }) => seen.deletedIds?.includes(id) || (seen.id === id && seen.deleted))
    );
  }

  /** Reads all packs: lists that are named, and collections of which nothing else is known. */
  async #readLists(salvage: Salvage, rescues: readonly Rescue[]): Promise<UnknownCollection[]> {
    const ids = new Set(rescues.map(({ id }) => id));
    const strangers = new Map<string, { handles: Set<string>; lists: number; key: number }>();
    for await (const { pack, found } of salvage.scan()) {
      const { collection, collectionNumber: key } = salvage.packs[pack];
      const isStranger = collection !== undefined && !ids.has(collection);
      for (const { entry, offset } of found) {
        if (entry.kind === RECORD && !isStranger) continue;
        if (isStranger) {
          const stranger = strangers.get(collection) ?? { handles: new Set(), lists: 0, key };
          strangers.set(collection, stranger);
          if (entry.kind === RECORD) stranger.handles.add(keyOf(entry.content.subarray(0, HANDLE_BYTES)));
          else stranger.lists++;
          continue;
        }
        const id = hex(await sha256(entry.content));
        for (const rescue of rescues) if (rescue.wants(id)) await rescue.takeList(id, entry.content, { pack, offset });
      }
    }
    for (const rescue of rescues) rescue.gatherLive(salvage);
    return [...strangers].map(([id, { handles, lists, key }]) => ({
      id,
      records: handles.size,
      lists,
      blockFiles: salvage.blockFilesOf(key),
    }));
  }

  /** Refuses to put less in the place of a folder than it might still hold for somebody. */
  #checkWorthIt(
    salvage: Salvage,
    rescues: readonly Rescue[],
    { ofOtherKeys, withoutManifest }: LeftOut,
    unknown: readonly UnknownCollection[],
  ): void {
    if (withoutManifest.length > 0 && (rescues.length === 0 || this.#options.into === undefined))
      throw new HersError(
        'DAMAGED',
        `no manifest of ${withoutManifest.join(', ')} in ${this.#folder} opens, and nothing else tells which of its records count. Nothing was written and nothing was deleted; restore a snapshot under another name, or after deleting the collection, or bring back the folder from a copy${rescues.length === 0 ? '' : '; with --into <folder> the other collections are repaired into a new folder'}`,
      );
    if (ofOtherKeys.length > 0 && rescues.length === 0)
      throw wrongKey(this.#folder, ofOtherKeys, 'Nothing was written');
    if (ofOtherKeys.length > 0 && this.#options.into === undefined)
      throw new HersError(
        'WRONG_KEY',
        `${ofOtherKeys.join(', ')} in ${this.#folder} was made with another key: repair into a new folder, with each key. Nothing was written`,
      );
    if (rescues.length > 0 || salvage.isJournalWhole || salvage.isEmpty) return;
    const records = unknown.reduce((sum, each) => sum + each.records, 0);
    throw new HersError(
      'DAMAGED',
      `no manifest of any collection is left in ${this.#folder}: ${records} sealed records are there, and nothing tells which of them count. Nothing was written and nothing was deleted; bring back catalogue.journal or catalogue.db from a copy, or the collections from snapshots`,
    );
  }

  async #findRecords(salvage: Salvage, rescues: readonly Rescue[]): Promise<void> {
    const byId = Map.groupBy(rescues, ({ id }) => id);
    for await (const { pack, found } of salvage.again()) {
      const { collection } = salvage.packs[pack];
      // Where a pack has lost its head, its entries tell where they belong.
      const candidates = collection === undefined ? rescues : (byId.get(collection) ?? []);
      for (const each of found)
        if (each.entry.kind === RECORD) for (const rescue of candidates) await rescue.consider(pack, each);
    }
  }

  async #findBlocks(salvage: Salvage, rescues: readonly Rescue[]): Promise<void> {
    const places = Map.groupBy(await salvage.blockPlaces(), ({ id }) => id);
    const total = rescues.reduce((sum, { manifest }) => sum + manifest.blocks.length, 0);
    const progress = this.#progress('Reading', total, 'blocks');
    for (const rescue of rescues) await rescue.findBlocks(salvage, places, () => progress(1));
  }

  async #write(folder: string, salvage: Salvage, rescues: readonly Rescue[]): Promise<RepairedCollection[]> {
    const { packs, blocks } = salvage.bytes;
    const onPiece = this.#progress('Writing', packs + blocks);
    const onBlocks = (done: number, total: number) =>
      this.#options.onProgress?.({ step: 'Indexing', done, total, unit: 'blocks' });
    const written: RepairedCollection[] = [];
    const store = await openStore(folder, { onBackgroundError: () => {} });
    try {
      for (const rescue of rescues.toSorted((a, b) => a.known.number - b.known.number))
        written.push(await rescue.write(store, salvage, onBlocks, onPiece));
    } finally {
      await store.close();
    }
    return written.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The new folder is read to its end, and opened with the key, before anybody relies on it. */
  async #verify(folder: string, collections: readonly RepairedCollection[]): Promise<void> {
    const wrong = (what: string) =>
      new HersError(
        'STORAGE',
        `the repaired gallery is not what was written to it (${what}): check the disk; nothing was replaced`,
      );
    const store = await openStore(folder, { onBackgroundError: () => {} });
    const database = new Database(store, { key: this.#seed, threads: 1 });
    try {
      const damage = await this.#scrub(store, 'Verifying');
      if (damage) throw wrong(damage.message);
      for (const { name, records, version } of collections) {
        const opened = await database.collection(name);
        const description = await database.describe(name);
        if ((await opened.count()) !== records || description.version !== version) throw wrong(name);
      }
    } finally {
      await database.close();
    }
  }
}
