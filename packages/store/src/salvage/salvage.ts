// Reads a folder that cannot be opened, or not completely: collections as the journal and the
// catalogue know them, entries of packs, blocks. It never writes to the folder and has no key. Only
// a client can verify what it finds, by seals and hashes, and write it to a new folder (the
// client's repair.node.ts).

import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { HersError, otherFormat, refuseUnknown } from '@hers/service';
import { hex } from '../base/bytes.ts';
import type { ReadBlock } from '../blocks/rebuild.ts';
import { type JournalContent, readJournal } from '../catalogue/journal.ts';
import { Disk } from '../files/disk.ts';
import { type Entry, PACK_HEADER_BYTES, type Place } from '../files/entry.ts';
import { BLOCKS, FORMAT, readFormat, SEGMENTS, VAULT } from '../files/layout.ts';
import { FolderLock } from '../files/lock.ts';
import { LOST_AND_FOUND } from '../files/lost-and-found.ts';
import { encodeSnapshotHeader, Frames, type SnapshotHeader } from '../snapshot.ts';
import { type BlockPlace, blockPlaces, damagedParts, readBlockAt } from './salvage-blocks.ts';
import { type KnownBlock, type KnownCollection, OldCatalogue } from './salvage-catalogue.ts';
import {
  type ByteRange,
  entriesOf,
  type FoundEntry,
  PackSalvage,
  packCollection,
  readThrough,
} from './salvage-pack.ts';

export type { BlockPlace, ByteRange as Range, FoundEntry, KnownCollection };

export interface SalvageOptions {
  readonly signal: AbortSignal;
  /** A folder that cannot be written is read without its lock. */
  readonly mayBeReadOnly?: boolean;
  readonly onBytes?: (bytes: number) => void;
}

/** A pack, and its readable parts. */
export interface SalvagedPack extends FolderFile {
  /** The collection that it says it belongs to, in hexadecimal; undefined if that is damaged. */
  readonly collection: string | undefined;
  readonly runs: readonly ByteRange[];
}

export interface DamagedFile {
  readonly file: string;
  readonly ranges: readonly ByteRange[];
}

/** Locks a folder and lists its files; `close` releases it. */
export async function openSalvage(folder: string, options: SalvageOptions): Promise<Salvage> {
  refuseUnknown(options, { signal: true, mayBeReadOnly: true, onBytes: true }, 'a salvage');
  const disk = new Disk(folder);
  checkFormatLine(disk);
  const lock = lockOf(disk, options.mayBeReadOnly ?? false);
  try {
    const catalogue = await OldCatalogue.open(disk);
    try {
      const files = await filesOf(disk);
      const owners = await ownersOf(disk, files);
      return new Salvage({ disk, lock, catalogue, journal: journalOf(disk), files, owners, options });
    } catch (error) {
      await catalogue.close();
      throw error;
    }
  } catch (error) {
    lock?.release();
    throw error;
  }
}

/** Refuses a folder that may be whole, but is not for this. */
function checkFormatLine(disk: Disk): void {
  let named: ReturnType<typeof readFormat>;
  try {
    named = readFormat(disk);
  } catch {}
  if (!named) return;
  if (named.format > FORMAT) throw otherFormat(disk.folder);
  if (named.kind === 'shards')
    throw new HersError(
      'INVALID_ARGUMENT',
      `${disk.folder} is the folder of a node, which copies damaged shards from other nodes; start the node, if need be with an empty folder`,
    );
}

function lockOf(disk: Disk, mayBeReadOnly: boolean): FolderLock | undefined {
  try {
    return new FolderLock(disk);
  } catch (error) {
    if (mayBeReadOnly && !(error instanceof HersError && error.code === 'LOCKED')) return undefined;
    throw error;
  }
}

/** The collections that packs say they belong to, in hexadecimal. */
async function ownersOf(disk: Disk, files: readonly FolderFile[]): Promise<Set<string>> {
  const owners = new Set<string>();
  for (const { path, kind, size } of files) {
    if (kind !== 'pack' || size < PACK_HEADER_BYTES) continue;
    using file = disk.openToRead(path);
    const id = packCollection(await readThrough(file, 0, PACK_HEADER_BYTES));
    if (id) owners.add(hex(id));
  }
  return owners;
}

function journalOf(disk: Disk): JournalContent | undefined {
  try {
    return readJournal(disk);
  } catch {
    return undefined;
  }
}

interface Folder {
  readonly disk: Disk;
  readonly lock: FolderLock | undefined;
  readonly catalogue: OldCatalogue;
  readonly journal: JournalContent | undefined;
  readonly files: readonly FolderFile[];
  readonly owners: ReadonlySet<string>;
  readonly options: SalvageOptions;
}

export class Salvage {
  readonly #in: Folder;
  readonly #damage = new Map<string, ByteRange[]>();
  readonly packs: SalvagedPack[] = [];

  constructor(folder: Folder) {
    this.#in = folder;
  }

  async close(): Promise<void> {
    await this.#in.catalogue.close();
    this.#in.lock?.release();
  }

  /** Bytes of everything that may be read: packs, blocks, segments. */
  get bytes(): { readonly packs: number; readonly blocks: number } {
    const sum = (isPack: boolean) =>
      this.#in.files.filter(({ kind }) => (kind === 'pack') === isPack).reduce((bytes, { size }) => bytes + size, 0);
    return { packs: sum(true), blocks: sum(false) };
  }

  get isEmpty(): boolean {
    return this.#in.files.length === 0;
  }

  /** Files of blocks and segments whose names belong to this collection. */
  blockFilesOf(collectionNumber: number): number {
    return this.#in.files.filter((file) => file.kind !== 'pack' && file.collectionNumber === collectionNumber).length;
  }

  /**
   * Whether the journal is whole and the catalogue is not ahead of it. Then the journal knows every
   * collection and the last commit.
   */
  get isJournalWhole(): boolean {
    const { last, damage } = this.#in.journal ?? {};
    const isWhole = last !== undefined && damage === undefined && this.#in.catalogue.counter <= last.counter;
    return isWhole && (this.#journalled.length === 0 || this.#isOurs(this.#journalled, this.#in.catalogue.collections));
  }

  get #journalled(): readonly KnownCollection[] {
    return [...(this.#in.journal?.collections.values() ?? [])];
  }

  /**
   * A journal or a catalogue may come from another folder. Then nothing here belongs to its
   * collections, and the other file does not know them.
   */
  #isOurs(one: readonly KnownCollection[], other: readonly KnownCollection[]): boolean {
    const known = new Set(other.map(({ id }) => hex(id)));
    return this.#in.owners.size === 0 || one.some(({ id }) => this.hasPacks(id) || known.has(hex(id)));
  }

  /** Known collections; several versions of one, if sources differ. */
  collections(): KnownCollection[] {
    const journalled = this.#journalled;
    if (this.isJournalWhole) return [...journalled];
    const { collections } = this.#in.catalogue;
    const ours = [
      ...(this.#isOurs(journalled, collections) ? journalled : []),
      ...(this.#isOurs(collections, journalled) ? collections : []),
    ];
    return ours.length > 0 ? ours : [...journalled, ...collections];
  }

  hasPacks(id: Uint8Array): boolean {
    return this.#in.owners.has(hex(id));
  }

  knownBlock(id: string): KnownBlock {
    const { hash, seed } = this.#in.catalogue.blocks.get(id) ?? {};
    for (const { seeds } of this.#in.journal?.collections.values() ?? []) {
      const known = seeds.get(id);
      if (known) return { hash, seed: known };
    }
    return { hash, seed };
  }

  /** Where every record was at this version, by handle, if the catalogue has it. */
  recordPlaces(collection: KnownCollection): Map<string, Place> | undefined {
    const isThere = this.#in.catalogue.collections.some(
      ({ number, id }) => number === collection.number && hex(id) === hex(collection.id),
    );
    return isThere ? this.#in.catalogue.records(collection) : undefined;
  }

  // — packs —

  /** Reads all packs to their end: every intact entry. Call this first. */
  async *scan(): AsyncGenerator<{ readonly pack: number; readonly found: readonly FoundEntry[] }> {
    for (const file of this.#in.files.filter(({ kind }) => kind === 'pack')) {
      const pack = this.packs.length;
      try {
        using reader = this.#in.disk.openToRead(file.path);
        const id = packCollection(await readThrough(reader, 0, Math.min(PACK_HEADER_BYTES, file.size)));
        const salvage = new PackSalvage(reader, this.#in.options.signal);
        this.packs.push({ ...file, collection: id && hex(id), runs: salvage.runs });
        yield* this.#counted(pack, salvage.entries());
        for (const range of salvage.damage) this.#spoil(file.path, range);
      } catch (error) {
        this.#in.options.signal.throwIfAborted();
        if (!(error instanceof HersError)) throw error;
        this.#spoil(file.path, { from: 0, to: file.size });
        if (this.packs.length === pack) this.packs.push({ ...file, collection: undefined, runs: [] });
      }
    }
  }

  /** The same entries again, of the packs that are wanted. */
  async *again(
    isWanted: (pack: number) => boolean = () => true,
  ): AsyncGenerator<{ readonly pack: number; readonly found: readonly FoundEntry[] }> {
    for (const [pack, { path, runs }] of this.packs.entries()) {
      if (!isWanted(pack) || runs.length === 0) continue;
      using reader = this.#in.disk.openToRead(path);
      yield* this.#counted(pack, entriesOf(reader, runs, this.#in.options.signal));
    }
  }

  async *#counted(pack: number, all: AsyncIterable<FoundEntry[]>) {
    for await (const found of all) {
      yield { pack, found };
      const last = found[found.length - 1];
      this.#in.options.onBytes?.(last.offset + last.length - found[0].offset);
    }
  }

  // — blocks —

  blockPlaces(): Promise<BlockPlace[]> {
    const rowsOf = (path: string) => this.#in.catalogue.segments.get(path);
    return blockPlaces(this.#in.disk, this.#in.files, rowsOf, (path, range) => this.#spoil(path, range));
  }

  readBlock(place: BlockPlace, seed: Uint8Array | undefined): Promise<ReadBlock | undefined> {
    this.#in.options.signal.throwIfAborted();
    return readBlockAt(this.#in.disk, place, seed);
  }

  /** Finds where a file is damaged whose block is not the right one. */
  async examine(place: BlockPlace): Promise<void> {
    if (this.#damage.has(place.path)) return;
    const parts = await damagedParts(this.#in.disk, place, this.#in.options.signal).catch(() => []);
    const size = this.#in.disk.sizeSync(place.path) ?? 0;
    for (const range of parts.length > 0 || place.header ? parts : [{ from: 0, to: size }])
      this.#spoil(place.path, range);
  }

  // — what is wrong —

  #spoil(path: string, range: ByteRange): void {
    const ranges = this.#damage.get(path);
    if (ranges) ranges.push(range);
    else this.#damage.set(path, [range]);
  }

  damage(): DamagedFile[] {
    return [...this.#damage].map(([file, ranges]) => ({ file, ranges }));
  }
}

/** A snapshot of these entries and blocks, which the header has counted. */
export async function* snapshotOf(
  header: SnapshotHeader,
  entries: AsyncIterable<Entry>,
  blocks: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const frames = new Frames();
  yield* frames.put(undefined, encodeSnapshotHeader(header));
  for await (const entry of entries) yield* frames.entry(entry);
  for await (const encoded of blocks) yield* frames.block(encoded);
  yield frames.end();
}

export type FileKind = 'pack' | 'block' | 'segment';

export interface FolderFile {
  readonly path: string;
  readonly kind: FileKind;
  readonly size: number;
  /**
   * The number of the collection, and for a pack its own number, as the file's name has it; 0 if it
   * has none.
   */
  readonly collectionNumber: number;
  readonly pack: number;
}

const NAME = /^(\d{1,9})-([0-9a-f]+)\.(pack|block|segment)(?![a-z])/;
const START_BYTES = 8;
const STARTS: readonly [string, FileKind][] = [
  ['HERSPACK', 'pack'],
  ['HERSSEG\0', 'segment'],
];

/** All files that may hold data; packs in the order in which they were written. */
export async function filesOf(disk: Disk): Promise<FolderFile[]> {
  const files: FolderFile[] = [];
  for (const folder of [VAULT, BLOCKS, SEGMENTS, LOST_AND_FOUND]) {
    for (const path of await pathsIn(disk, folder)) {
      const file = await fileAt(disk, path);
      if (file) files.push(file);
    }
  }
  return files.sort((a, b) => a.collectionNumber - b.collectionNumber || a.pack - b.pack || (a.path < b.path ? -1 : 1));
}

async function pathsIn(disk: Disk, folder: string): Promise<string[]> {
  let found: Dirent[];
  try {
    found = readdirSync(disk.path(folder), { withFileTypes: true });
  } catch {
    return []; // there is none, or it is not a folder
  }
  const paths: string[] = [];
  for (const entry of found) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) paths.push(...(await pathsIn(disk, path)));
    else if (entry.isFile()) paths.push(path);
  }
  return paths.sort();
}

async function fileAt(disk: Disk, path: string): Promise<FolderFile | undefined> {
  const name = NAME.exec(path.slice(path.lastIndexOf('/') + 1));
  const size = disk.sizeSync(path) ?? 0;
  const start = await startOf(disk, path);
  const kind = STARTS.find(([text]) => text === start)?.[1] ?? (name?.[3] as FileKind | undefined);
  if (!kind) return undefined;
  return {
    path,
    kind,
    size,
    collectionNumber: Number(name?.[1] ?? 0),
    pack: kind === 'pack' ? Number(name?.[2]) || 0 : 0,
  };
}

async function startOf(disk: Disk, path: string): Promise<string> {
  try {
    using file = disk.openToRead(path);
    return (await file.read(0, START_BYTES)).toString('latin1');
  } catch {
    return '';
  }
}
