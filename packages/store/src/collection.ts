// A collection of an open folder: its catalogue entries in memory, and the basic steps of commits,
// searches and upkeep.

import { randomBytes } from 'node:crypto';
import type { Kernel } from '@hers/scan';
import { type CollectionInfo, decodeSections, HersError, type Partitions } from '@hers/service';
import { hex } from './base/bytes.ts';
import { fault } from './base/faults.ts';
import { SerialQueue } from './base/serial-queue.ts';
import type { Assembler } from './blocks/assembler.ts';
import { Source, type StoredBlock, storedBlock } from './blocks/source.ts';
import type { Catalogue, CollectionRow } from './catalogue/catalogue.ts';
import type { JournalPart } from './catalogue/journal.ts';
import { RecordIndex } from './catalogue/record-index.ts';
import { type BlockRow, Tables } from './catalogue/tables.ts';
import type { Evaluators } from './evaluation/evaluator.ts';
import type { Disk } from './files/disk.ts';
import { BLOCKS, blockPath, packPath, SEGMENTS, VAULT } from './files/layout.ts';
import { clearSetAside } from './files/lost-and-found.ts';
import { Vault } from './files/vault.ts';
import { Past } from './past.ts';
import { type ShardState, Stages, stateOf } from './stages.ts';

/** What all collections of a folder share. */
export interface Folder {
  readonly disk: Disk;
  readonly catalogue: Catalogue;
  readonly assembler: Assembler;
  /** Opened on first use. */
  readonly kernel: () => Promise<Kernel>;
  readonly evaluators: Evaluators;
  /**
   * Whether its collections are shards: what is staged is kept, and so is what was dropped lately.
   */
  readonly holdsShards: boolean;
  /** Where another process writes: takes over its commits, and returns whether there were any. */
  readonly refresh: () => boolean;
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
  /** Of a shard. */
  readonly past: Past = new Past(() => this.retireEmpty());
  readonly sources: Set<Source> = new Set();
  /**
   * Commits are serial. So are compactions, purges and the starts of snapshots. The two kinds may
   * overlap.
   */
  readonly commitQueue: SerialQueue = new SerialQueue();
  readonly upkeepQueue: SerialQueue = new SerialQueue();
  /** Aborts background work when the collection is deleted or the folder is closed. */
  readonly ending: AbortController = new AbortController();
  /** What is being changed or staged. */
  readonly writes: Set<Promise<unknown>> = new Set();
  name: string;
  readonly #snapshots = new Set<AbortController>();
  readonly #retiring = new Set<Promise<void>>();
  #snapshotsEnded: (() => void)[] = [];
  #newNames = false;
  #state: ShardState | undefined;
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
    // A pack that is longer than committed (a crash left data, which is kept for a while) or
    // shorter (it is damaged) takes no more entries.
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
    if (folder.holdsShards) this.stages.load(this.tables.stages());
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
   * Another process has written: takes over the catalogue's state, and keeps what has not changed.
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

  /**
   * Every file on disk that the catalogue names: segments, blocks, and packs with the end of each.
   */
  files(): { readonly named: string[]; readonly packEnds: [string, number][] } {
    const named = [...this.sources].map((source) => source.path);
    if (this.folder.holdsShards) named.push(...this.stages.files());
    return { named, packEnds: this.tables.packs().map(({ pack, ends }) => [packPath(this.number, pack), ends]) };
  }

  /** The handles of its partitions; none if its manifest has no sections that can be read. */
  partitions(): Partitions {
    try {
      const { sections } = decodeSections(this.tables.manifest().manifest) ?? { sections: [] };
      return new Set(sections.map(({ handle }) => hex(handle)));
    } catch {
      return new Set();
    }
  }

  /** For the blocks in memory: another process may have changed the collection since. */
  get version(): number {
    return this.folder.catalogue.isReadOnly ? this.#version : this.tables.current().version;
  }

  /** Of a shard: which change made this version. */
  state(): string {
    const { version } = this.tables.current();
    if (this.#state?.version !== version) this.#state = { version, state: stateOf(this.tables.manifest().manifest) };
    return this.#state.state;
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
   * Removes sources without blocks from the collection. Resolves when their files are gone, except
   * those still being read.
   */
  async retireEmpty(): Promise<void> {
    const prompt: Promise<void>[] = [];
    for (const source of this.sources) {
      if (source.live.size + source.kept.size > 0) continue;
      this.sources.delete(source);
      // If this fails, the file is removed when the folder is opened again.
      const gone = source.retire().catch(() => {});
      this.#retiring.add(gone);
      gone.then(() => this.#retiring.delete(gone));
      if (!source.beingRead) prompt.push(gone);
    }
    await Promise.all(prompt);
  }

  /** Releases everything after another process has deleted the collection. */
  letGo(): void {
    for (const source of this.sources) source.letGo();
  }

  dropAll(): void {
    this.blocks.clear();
    for (const source of this.sources) source.live.clear();
    void this.past.clear();
    void this.retireEmpty();
  }

  /** Resolves when all files that should be removed are gone. */
  async filesGone(): Promise<void> {
    await Promise.all(this.#retiring);
  }

  /**
   * Writes an encoded block to a file that nothing refers to yet, so it needs no temporary name.
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

  /** Syncs the names of new files, before a commit refers to them. */
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

  /** Returns a function that ends the snapshot if it blocks the collection for too long. */
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

  /** Resolves when nothing is running any more; `ending` makes that happen. */
  async idle(): Promise<void> {
    await this.commitQueue.idle();
    await this.upkeepQueue.idle();
    await this.records.idle();
  }

  /** Refuses calls that came too late. */
  checkUsable(): void {
    if (this.ending.signal.aborted) throw this.ending.signal.reason;
    const damage = this.folder.catalogue.damageOf(this.number);
    if (damage) throw damage;
  }
}

export function noSuchCollection(name: string): HersError {
  return new HersError('NOT_FOUND', `there is no collection ${JSON.stringify(name)}`);
}

/**
 * Creates a collection and returns its number. If it gets no name, it is removed when the folder is
 * opened next.
 */
export function createRow(
  catalogue: Catalogue,
  name: string | null,
  made: { id: Uint8Array; descriptor: Uint8Array; manifest: Uint8Array; version: number },
  keepsStages: boolean,
): number {
  let number = 0;
  const { id, descriptor, version, manifest } = made;
  const parts = (): JournalPart[] =>
    name === null ? [] : [{ collection: { number, name, id, descriptor, version, manifest } }];
  catalogue.transaction(() => {
    const insert = catalogue.prepare('INSERT INTO collections (name, id, descriptor) VALUES (?, ?, ?)');
    number = Number(insert.run(name, id, descriptor).lastInsertRowid);
    new Tables(catalogue, number).create(version, manifest, { keepsStages });
    fault('collection.committing');
  }, parts);
  return number;
}

/** Names a restored collection, which exists from now on; the `old` one of this name is gone. */
export function nameRow(collection: Collection, name: string, old?: Collection): void {
  const { number, id, descriptor, tables } = collection;
  const { catalogue } = collection.folder;
  catalogue.transaction(
    () => {
      if (old) deleteRow(catalogue, old.number);
      catalogue.prepare('UPDATE collections SET name = ? WHERE key = ?').run(name, number);
      fault('restore.within');
    },
    () => [
      ...(old ? [{ gone: old.number }] : []),
      { collection: { number, name, id, descriptor, ...tables.manifest() } },
    ],
  );
  fault('restore.committed');
  collection.name = name;
}

function deleteRow(catalogue: Catalogue, number: number): void {
  new Tables(catalogue, number).drop();
  catalogue.prepare('DELETE FROM collections WHERE key = ?').run(number);
}

export function dropRow(catalogue: Catalogue, number: number): void {
  catalogue.transaction(
    () => {
      deleteRow(catalogue, number);
      fault('delete.within');
    },
    () => [{ gone: number }],
    { mayUseReserve: true },
  );
  fault('delete.committed');
}

/**
 * Removes the files of a collection that is no longer in the catalogue. Files that cannot be
 * removed now are removed when the folder is opened next.
 */
export async function removeFiles(disk: Disk, number: number): Promise<void> {
  try {
    clearSetAside(disk, number);
  } catch {}
  for (const folder of [BLOCKS, SEGMENTS, VAULT])
    for (const file of disk.listSync(folder))
      if (file.startsWith(`${number}-`)) await disk.remove(`${folder}/${file}`).catch(() => {});
}
