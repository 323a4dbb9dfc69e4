// Reads a catalogue that may be damaged or out of date. It is copied, and read table by table as
// far as possible. Nothing in it is trusted before it is verified: a manifest by its seal, a seed
// by the hash of its block.

import { constants } from 'node:fs';
import { chmod, copyFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { HANDLE_BYTES } from '@hers/service';
import { asBuffer, handleKey, hex } from '../base/bytes.ts';
import type { JournalCollection } from '../catalogue/journal.ts';
import type { Disk } from '../files/disk.ts';
import { DELETED, decodePlace, PLACE_BYTES, type Place } from '../files/entry.ts';
import { CATALOGUE, WAL } from '../files/layout.ts';
import { ROW_BYTES } from '../files/vault.ts';

/** A collection, as the journal or a catalogue knows it. */
export type KnownCollection = JournalCollection;

export interface KnownBlock {
  readonly hash?: Uint8Array | undefined;
  readonly seed?: Uint8Array | undefined;
}

/**
 * Where a catalogue places a block in a segment: enough to find it without the segment's header.
 */
export interface SegmentRow {
  readonly id: Uint8Array;
  readonly keyId: Uint8Array;
  readonly parameters: number;
  readonly width: number;
  readonly galleryScale: number;
  readonly first: number;
  readonly count: number;
  readonly position: number;
  readonly total: number;
}

type Row = Record<string, unknown>;

const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array;

export class OldCatalogue {
  readonly #databases: readonly DatabaseSync[];
  readonly #folder: string;
  readonly collections: KnownCollection[] = [];
  readonly blocks: Map<string, KnownBlock> = new Map();
  readonly segments: Map<string, SegmentRow[]> = new Map();
  /** The highest transaction counter in it. */
  counter = 0;

  private constructor(folder: string, databases: readonly DatabaseSync[]) {
    this.#folder = folder;
    this.#databases = databases;
    for (const database of databases) this.#read(database);
  }

  /** With its log, and without: the log may belong to another database. */
  static async open(disk: Disk): Promise<OldCatalogue> {
    const folder = await mkdtemp(join(tmpdir(), 'hers-catalogue-'));
    const databases: DatabaseSync[] = [];
    try {
      for (const withLog of [true, false]) {
        const copy = join(folder, `${withLog ? 'with' : 'without'}-log.db`);
        if (!(await copied(disk.path(CATALOGUE), copy))) continue;
        if (withLog && !(await copied(disk.path(WAL), `${copy}-wal`))) continue;
        try {
          databases.push(new DatabaseSync(copy));
        } catch {}
      }
      return new OldCatalogue(folder, databases);
    } catch (error) {
      for (const database of databases) database.close();
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  async close(): Promise<void> {
    for (const database of this.#databases) database.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** As many rows as can be read; false if there are more. */
  #rows(database: DatabaseSync, sql: string, take: (row: Row) => void): boolean {
    try {
      for (const row of database.prepare(sql).iterate()) take(row as Row);
      return true;
    } catch {
      return false;
    }
  }

  #read(database: DatabaseSync): void {
    this.#rows(database, 'PRAGMA user_version', ({ user_version }) => {
      this.counter = Math.max(this.counter, Number(user_version));
    });
    const rows: Row[] = [];
    this.#rows(database, 'SELECT key AS number, name, id, descriptor FROM collections', (row) => rows.push(row));
    for (const { number, name, id, descriptor } of rows) {
      if (!Number.isSafeInteger(number)) continue;
      this.#readBlocks(database, number as number);
      if (typeof name !== 'string' || !isBytes(id) || !isBytes(descriptor)) continue;
      this.#rows(database, `SELECT version, manifest FROM current_${number}`, ({ version, manifest }) => {
        const numbers = { number: number as number, version: version as number };
        if (Number.isSafeInteger(version) && isBytes(manifest))
          this.collections.push({ ...numbers, name, id, descriptor, manifest });
      });
    }
  }

  #readBlocks(database: DatabaseSync, number: number): void {
    const totals = new Map<string, number>();
    this.#rows(database, `SELECT file, blocks FROM segments_${number}`, ({ file, blocks }) => {
      totals.set(String(file), Number(blocks));
    });
    this.#rows(database, `SELECT * FROM blocks_${number}`, (row) => {
      const { id, hash, seed, file, position } = row;
      if (!isBytes(id)) return;
      const known = this.blocks.get(hex(id));
      this.blocks.set(hex(id), {
        hash: known?.hash ?? (isBytes(hash) ? hash : undefined),
        seed: known?.seed ?? (isBytes(seed) ? seed : undefined),
      });
      const total = totals.get(String(file));
      if (position === null || total === undefined || !isBytes(row.key_id)) return;
      const rows = this.segments.get(String(file)) ?? [];
      this.segments.set(String(file), rows);
      rows.push({
        id,
        keyId: row.key_id,
        parameters: Number(row.parameters),
        width: Number(row.width),
        galleryScale: Number(row.gallery_scale),
        first: Number(row.first),
        count: Number(row.count),
        position: Number(position),
        total,
      });
    });
  }

  /**
   * Where every record of a collection was at this version, by handle; undefined if the table
   * cannot be read to its end.
   */
  records({ number, version }: { readonly number: number; readonly version: number }): Map<string, Place> | undefined {
    for (const database of this.#databases) {
      let current: unknown;
      this.#rows(database, `SELECT version FROM current_${number}`, (row) => {
        current = row.version;
      });
      const places = new Map<string, Place>();
      const stored =
        current === version &&
        this.#rows(database, `SELECT handle, place FROM records_${number}`, (row) =>
          take(places, row.handle, row.place),
        );
      const fresh =
        stored &&
        this.#rows(database, `SELECT entries FROM fresh_${number} ORDER BY batch`, ({ entries }) =>
          takeBatch(places, entries),
        );
      if (fresh) return places;
    }
    return undefined;
  }
}

function take(places: Map<string, Place>, handle: unknown, place: unknown): void {
  if (!isBytes(handle) || !isBytes(place) || handle.length !== HANDLE_BYTES || place.length !== PLACE_BYTES)
    throw new TypeError('this is no row of a record');
  const where = decodePlace(place);
  if (where.pack === DELETED.pack) places.delete(handleKey(handle));
  else places.set(handleKey(handle), where);
}

function takeBatch(places: Map<string, Place>, entries: unknown): void {
  if (!isBytes(entries)) throw new TypeError('this is no batch of records');
  const rows = asBuffer(entries);
  for (let at = 0; at + ROW_BYTES <= rows.length; at += ROW_BYTES)
    take(places, rows.subarray(at, at + HANDLE_BYTES), rows.subarray(at + HANDLE_BYTES, at + ROW_BYTES));
}

/** Whether there was something to copy. */
async function copied(from: string, to: string): Promise<boolean> {
  try {
    if (!(await stat(from)).isFile()) return false; // reading a pipe would block
    await copyFile(from, to, constants.COPYFILE_FICLONE);
    await chmod(to, 0o600); // the copy is ours to write, even if the original is read-only
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') throw error;
    return false;
  }
}
