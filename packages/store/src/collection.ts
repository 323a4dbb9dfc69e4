// A collection of an open folder: what the catalogue says about it, in memory, and the small steps
// that commits, searches and upkeep are made of.

import { randomBytes } from 'node:crypto';
import type { Kernel } from '@hers/scan';
import { type CollectionInfo, HersError } from '@hers/service';
import type { Assembler } from './blocks/assembler.ts';
import { Source } from './blocks/source.ts';
import { type StoredBlock, storedBlock } from './blocks/stored-block.ts';
import type { Catalogue } from './catalogue/catalogue.ts';
import { RecordIndex } from './catalogue/record-index.ts';
import { type BlockRow, Tables } from './catalogue/tables.ts';
import { fault } from './faults.ts';
import type { Disk } from './files/disk.ts';
import { BLOCKS, blockPath, packPath } from './files/layout.ts';
import { Vault } from './files/vault.ts';
import { SerialQueue } from './serial-queue.ts';
import { Stages } from './stages.ts';

/** What all collections of a folder share. */
export interface Folder {
  readonly disk: Disk;
  readonly catalogue: Catalogue;
  readonly assembler: Assembler;
  /** Opened when it is first needed. */
  readonly kernel: () => Promise<Kernel>;
  /**
   * Where another process writes: sees what it has committed meanwhile, and says whether that is
   * anything.
   */
  readonly refresh: () => boolean;
}

export interface CollectionRow {
  readonly number: number;
  readonly name: string | null;
  readonly id: Uint8Array;
  readonly descriptor: Uint8Array;
}

export class Collection {
  readonly folder: Folder;
  readonly number: number;
  readonly id: Uint8Array;
  readonly descriptor: Uint8Array;
  readonly tables: Tables;
  readonly records: RecordIndex;
  readonly vault: Vault;
  readonly stages: Stages = new Stages();
  readonly blocks: Map<string, StoredBlock> = new Map();
  readonly sources: Set<Source> = new Set();
  /**
   * Commits come one after the other, and so do compactions, purges and the beginnings of
   * snapshots; the two kinds may overlap.
   */
  readonly commitQueue: SerialQueue = new SerialQueue();
  readonly upkeepQueue: SerialQueue = new SerialQueue();
  /** Ends what goes on in the background when the collection is deleted or the folder closed. */
  readonly ending: AbortController = new AbortController();
  name: string;
  readonly #snapshots = new Set<AbortController>();
  readonly #retiring = new Set<Promise<void>>();
  #snapshotsEnded: (() => void)[] = [];
  #newNames = false;
  #version = 0;

  constructor(folder: Folder, row: CollectionRow) {
    this.folder = folder;
    this.number = row.number;
    this.name = row.name ?? '';
    this.id = row.id;
    this.descriptor = row.descriptor;
    const { disk, catalogue } = folder;
    this.tables = new Tables(catalogue, row.number);
    this.records = new RecordIndex(catalogue, this.tables, () => this.beingCopied);
    const tail = this.tables.packs().at(-1);
    // A pack that is longer (what a crash left is kept for a while) or shorter (it is damaged) than
    // was committed takes nothing more.
    const fits = tail !== undefined && disk.sizeSync(packPath(row.number, tail.pack)) === tail.ends;
    const { last_pack } = this.tables.current();
    this.vault = new Vault(
      disk,
      row.number,
      row.id,
      last_pack,
      fits ? { pack: tail.pack, length: tail.ends } : undefined,
    );
    this.#load(new Map());
  }

  #load(known: ReadonlyMap<string, Source>): void {
    const segments = new Map<string, Source>();
    for (const { file, blocks, bytes } of this.tables.segments()) {
      segments.set(file, this.addSource({ path: file, inSegment: true, bytes, total: blocks }, known));
    }
    for (const row of this.tables.blocks()) this.addBlock(row, segments.get(row.file), known);
    this.#version = this.tables.current().version;
  }

  /**
   * Another process has written: takes over what the catalogue says now, and keeps what is still
   * the same.
   */
  refresh(): void {
    this.tables.reset();
    const known = new Map([...this.sources].map((source) => [source.path, source]));
    for (const source of this.sources) source.live.clear();
    this.sources.clear();
    this.blocks.clear();
    this.#load(known);
    this.records.reload();
    for (const source of known.values()) if (!this.sources.has(source)) source.letGo();
  }

  /** Everything on disk that is named: segments and blocks; and packs, with the end of each. */
  files(): { readonly named: string[]; readonly packEnds: [string, number][] } {
    const named = [...this.sources].map((source) => source.path);
    return { named, packEnds: this.tables.packs().map(({ pack, ends }) => [packPath(this.number, pack), ends]) };
  }

  /** Of the blocks that are in memory: another process may have gone on. */
  get version(): number {
    return this.folder.catalogue.isReadOnly ? this.#version : this.tables.current().version;
  }

  info(): CollectionInfo {
    const { name, id, descriptor, version } = this;
    const bytes =
      this.tables.packs().reduce((sum, { ends }) => sum + ends, 0) +
      [...this.sources].reduce((sum, source) => sum + source.bytes, 0);
    return { name, id, descriptor, version, records: this.records.count(), blocks: this.blocks.size, bytes };
  }

  // — blocks and their files —

  addSource(
    file: { path: string; inSegment: boolean; bytes: number; total: number },
    known: ReadonlyMap<string, Source> = new Map(),
  ): Source {
    const source = known.get(file.path) ?? new Source(this.folder.disk, this.folder.kernel, file);
    this.sources.add(source);
    return source;
  }

  addBlock(row: BlockRow, segment?: Source, known?: ReadonlyMap<string, Source>): StoredBlock {
    const source = segment ?? this.addSource({ path: row.file, inSegment: false, bytes: row.bytes, total: 1 }, known);
    const block = storedBlock(row, source);
    this.blocks.set(block.name, block);
    source.live.add(block);
    return block;
  }

  /**
   * Takes sources without a block out of the collection; resolves when the files of those are gone
   * that nobody reads.
   */
  async retireEmpty(): Promise<void> {
    const prompt: Promise<void>[] = [];
    for (const source of this.sources) {
      if (source.live.size > 0) continue;
      this.sources.delete(source);
      // Should it fail, the file goes when the folder is opened again.
      const gone = source.retire().catch(() => {});
      this.#retiring.add(gone);
      gone.then(() => this.#retiring.delete(gone));
      if (!source.beingRead) prompt.push(gone);
    }
    await Promise.all(prompt);
  }

  /** Lets go of everything, when another process has deleted the collection. */
  letGo(): void {
    for (const source of this.sources) source.letGo();
  }

  /** Lets go of everything, when the collection is deleted. */
  dropAll(): void {
    this.blocks.clear();
    for (const source of this.sources) source.live.clear();
    void this.retireEmpty();
  }

  /** Resolves when all files are gone that should be. */
  async filesGone(): Promise<void> {
    await Promise.all(this.#retiring);
  }

  /**
   * Writes an encoded block to a file that nothing refers to yet; so it needs no temporary name.
   */
  async writeBlock(encoded: Uint8Array): Promise<string> {
    const { disk } = this.folder;
    const path = blockPath(this.number, randomBytes(16).toString('hex'));
    const file = disk.create(path);
    fault('block.created');
    this.#newNames = true;
    try {
      await file.write(encoded, 0);
      fault('block.written');
      await file.sync();
      fault('block.synced');
    } catch (error) {
      await disk.remove(path).catch(() => {});
      throw error;
    } finally {
      file.close();
    }
    return path;
  }

  /** Makes the names of new files certain; before a commit refers to them. */
  async syncNames(): Promise<void> {
    await this.vault.syncNames();
    if (!this.#newNames) return;
    this.#newNames = false;
    try {
      await this.folder.disk.syncFolder(BLOCKS);
    } catch (error) {
      this.#newNames = true;
      throw error;
    }
  }

  // — snapshots, during which the B-tree of records stays as it is —

  get beingCopied(): boolean {
    return this.#snapshots.size > 0;
  }

  /** Returns what ends the snapshot, should it hold up too much. */
  beginSnapshot(): AbortController {
    const copying = new AbortController();
    this.#snapshots.add(copying);
    return copying;
  }

  endSnapshot(copying: AbortController): void {
    this.#snapshots.delete(copying);
    if (!this.beingCopied) for (const ended of this.#snapshotsEnded.splice(0)) ended();
  }

  stopSnapshots(reason: HersError): void {
    for (const copying of this.#snapshots) copying.abort(reason);
  }

  async snapshotsEnd(signal: AbortSignal): Promise<void> {
    while (this.beingCopied) {
      signal.throwIfAborted();
      await new Promise<void>((resolve, reject) => {
        const stop = () => reject(signal.reason);
        signal.addEventListener('abort', stop, { once: true });
        this.#snapshotsEnded.push(() => {
          signal.removeEventListener('abort', stop);
          resolve();
        });
      });
    }
  }

  /** Resolves when nothing goes on any more, which `ending` brings about. */
  async idle(): Promise<void> {
    await this.commitQueue.idle();
    await this.upkeepQueue.idle();
    await this.records.idle();
  }

  /** Refuses what came too late. */
  checkUsable(): void {
    if (this.ending.signal.aborted) throw this.ending.signal.reason;
    const damage = this.folder.catalogue.damageOf(this.number);
    if (damage) throw damage;
  }
}

export function noSuchCollection(name: string): HersError {
  return new HersError('NOT_FOUND', `there is no collection ${JSON.stringify(name)}`);
}
