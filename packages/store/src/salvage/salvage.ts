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
import { type Entry, PACK_HEADER_BYTES, type Place, RECORD } from '../files/entry.ts';
import { BLOCKS, FORMAT, readFormat, SEGMENTS, VAULT } from '../files/layout.ts';
import { FolderLock } from '../files/lock.ts';
import { LOST_AND_FOUND } from '../files/lost-and-found.ts';
import { encodeSnapshotHeader, Frames, PART, type SnapshotHeader } from '../snapshot.ts';
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

const PIECE_BYTES = 2 ** 20;

export interface SalvageOptions {
  readonly signal: AbortSignal;
  /** A folder that cannot be written is read without its lock. */
  readonly mayBeReadOnly?: boolean;
  /** Called with the number of bytes read. */
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
      return new Salvage(disk, lock, catalogue, journalOf(disk), files, await ownersOf(disk, files), options);
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

export class Salvage {
  readonly #disk: Disk;
  readonly #lock: FolderLock | undefined;
  readonly #catalogue: OldCatalogue;
  readonly #journal: JournalContent | undefined;
  readonly #files: readonly FolderFile[];
  readonly #owners: ReadonlySet<string>;
  readonly #options: SalvageOptions;
  readonly #damage = new Map<string, ByteRange[]>();
  readonly packs: SalvagedPack[] = [];

  constructor(
    disk: Disk,
    lock: FolderLock | undefined,
    catalogue: OldCatalogue,
    journal: JournalContent | undefined,
    files: readonly FolderFile[],
    owners: ReadonlySet<string>,
    options: SalvageOptions,
  ) {
    this.#disk = disk;
    this.#lock = lock;
    this.#catalogue = catalogue;
    this.#journal = journal;
    this.#files = files;
    this.#owners = owners;
    this.#options = options;
  }

  async close(): Promise<void> {
    await this.#catalogue.close();
    this.#lock?.release();
  }

  /** Bytes of everything that may be read: packs, blocks, segments. */
  get bytes(): { readonly packs: number; readonly blocks: number } {
    const sum = (isPack: boolean) =>
      this.#files.filter(({ kind }) => (kind === 'pack') === isPack).reduce((bytes, { size }) => bytes + size, 0);
    return { packs: sum(true), blocks: sum(false) };
  }

  get isEmpty(): boolean {
    return this.#files.length === 0;
  }

  /** Files of blocks and segments whose names belong to this collection. */
  blockFilesOf(collectionNumber: number): number {
    return this.#files.filter((file) => file.kind !== 'pack' && file.collectionNumber === collectionNumber).length;
  }

  /**
   * Whether the journal is whole and the catalogue is not ahead of it. Then the journal knows every
   * collection and the last commit.
   */
  get isJournalWhole(): boolean {
    const { last, damage } = this.#journal ?? {};
    const isWhole = last !== undefined && damage === undefined && this.#catalogue.counter <= last.counter;
    return isWhole && (this.#journalled.length === 0 || this.#isOurs(this.#journalled, this.#catalogue.collections));
  }

  get #journalled(): readonly KnownCollection[] {
    return [...(this.#journal?.collections.values() ?? [])];
  }

  /**
   * A journal or a catalogue may come from another folder. Then nothing here belongs to its
   * collections, and the other file does not know them.
   */
  #isOurs(one: readonly KnownCollection[], other: readonly KnownCollection[]): boolean {
    const known = new Set(other.map(({ id }) => hex(id)));
    return this.#owners.size === 0 || one.some(({ id }) => this.hasPacks(id) || known.has(hex(id)));
  }

  /** Known collections; several versions of one, if sources differ. */
  collections(): KnownCollection[] {
    const journalled = this.#journalled;
    if (this.isJournalWhole) return [...journalled];
    const { collections } = this.#catalogue;
    const ours = [
      ...(this.#isOurs(journalled, collections) ? journalled : []),
      ...(this.#isOurs(collections, journalled) ? collections : []),
    ];
    return ours.length > 0 ? ours : [...journalled, ...collections];
  }

  /** Whether a pack says that it belongs to this collection. */
  hasPacks(id: Uint8Array): boolean {
    return this.#owners.has(hex(id));
  }

  /** What the journal or the catalogue knows about a block. */
  knownBlock(id: string): KnownBlock {
    const { hash, seed } = this.#catalogue.blocks.get(id) ?? {};
    for (const { seeds } of this.#journal?.collections.values() ?? []) {
      const known = seeds.get(id);
      if (known) return { hash, seed: known };
    }
    return { hash, seed };
  }

  /** Where every record was at this version, by handle, if the catalogue has it. */
  recordPlaces(collection: KnownCollection): Map<string, Place> | undefined {
    const isThere = this.#catalogue.collections.some(
      ({ number, id }) => number === collection.number && hex(id) === hex(collection.id),
    );
    return isThere ? this.#catalogue.records(collection) : undefined;
  }

  // — packs —

  /** Reads all packs to their end: every intact entry. Call this first. */
  async *scan(): AsyncGenerator<{ readonly pack: number; readonly found: readonly FoundEntry[] }> {
    for (const file of this.#files.filter(({ kind }) => kind === 'pack')) {
      const pack = this.packs.length;
      try {
        using reader = this.#disk.openToRead(file.path);
        const id = packCollection(await readThrough(reader, 0, Math.min(PACK_HEADER_BYTES, file.size)));
        const salvage = new PackSalvage(reader, this.#options.signal);
        this.packs.push({ ...file, collection: id && hex(id), runs: salvage.runs });
        yield* this.#counted(pack, salvage.entries());
        for (const range of salvage.damage) this.#spoil(file.path, range);
      } catch (error) {
        this.#options.signal.throwIfAborted();
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
      using reader = this.#disk.openToRead(path);
      yield* this.#counted(pack, entriesOf(reader, runs, this.#options.signal));
    }
  }

  async *#counted(pack: number, all: AsyncIterable<FoundEntry[]>) {
    for await (const found of all) {
      yield { pack, found };
      const last = found[found.length - 1];
      this.#options.onBytes?.(last.offset + last.length - found[0].offset);
    }
  }

  // — blocks —

  /** Every place where blocks may be. */
  blockPlaces(): Promise<BlockPlace[]> {
    const rowsOf = (path: string) => this.#catalogue.segments.get(path);
    return blockPlaces(this.#disk, this.#files, rowsOf, (path, range) => this.#spoil(path, range));
  }

  readBlock(place: BlockPlace, seed: Uint8Array | undefined): Promise<ReadBlock | undefined> {
    this.#options.signal.throwIfAborted();
    return readBlockAt(this.#disk, place, seed);
  }

  /** Finds where a file is damaged whose block is not the right one. */
  async examine(place: BlockPlace): Promise<void> {
    if (this.#damage.has(place.path)) return;
    const parts = await damagedParts(this.#disk, place, this.#options.signal).catch(() => []);
    const size = this.#disk.sizeSync(place.path) ?? 0;
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
  for await (const { kind, content } of entries) yield* frames.put(kind === RECORD ? PART.record : PART.list, content);
  for await (const encoded of blocks) {
    for (let at = 0; at < encoded.length; at += PIECE_BYTES) {
      const last = at + PIECE_BYTES >= encoded.length;
      yield* frames.put(last ? PART.blockEnd : PART.blockPiece, encoded.subarray(at, at + PIECE_BYTES));
    }
  }
  yield frames.end();
}

export type FileKind = 'pack' | 'block' | 'segment';

export interface FolderFile {
  /** Within the folder. */
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
