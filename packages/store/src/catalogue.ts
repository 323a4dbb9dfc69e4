// The catalogue: one SQLite file that says which collections there are and where everything of them lies. It is written in transactions that are on disk
// when they return (WAL, synchronous = FULL), and what is deleted in it is overwritten (secure_delete).

import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { HersError } from '@hers/service';
import type { Disk } from './disk.ts';
import { fault } from './faults.ts';
import { PageSums } from './page-sums.ts';
import { damaged, storageError } from './storage-errors.ts';
import { EMPTY_WAL, readWal } from './wal.ts';

export const CATALOGUE = 'catalogue.db';
const WAL = `${CATALOGUE}-wal`;
export const SUMS = 'catalogue.sums';
/** The log is copied into the database when it has grown to this. */
const WAL_BYTES = 2 ** 25;
const CACHE_BYTES = 2 ** 26;
/** A vacuum builds the new database in memory up to this size, else in a temporary file. */
const VACUUM_IN_MEMORY = 2 ** 28;

/** The tables of a collection end in its number; see tables.ts. */
const TABLE_OF_COLLECTION = /^(?:current|records|fresh|lists|blocks|segments|packs)_(\d+)$/;

const SCHEMA = `CREATE TABLE IF NOT EXISTS collections (
  key INTEGER PRIMARY KEY AUTOINCREMENT, -- in the names of its tables and files; never used again
  name TEXT UNIQUE,                      -- NULL while it is being restored
  id BLOB NOT NULL,
  descriptor BLOB NOT NULL
) STRICT`;

const BRING_BACK = `Bring back ${CATALOGUE}, ${WAL} and ${SUMS} from one moment; nothing was changed`;

/** Damaged pages of the catalogue, and the collections they belong to. */
interface Damage {
  readonly pages: readonly number[];
  readonly collections: ReadonlySet<number>;
}

/** The counter has 31 bits, and 0 is that of a database without anything in it. */
const COUNTS = 2 ** 31 - 1;
const after = (transactions: number) => (transactions % COUNTS) + 1;
/** The counter goes round, so the shorter way tells which is the older. */
const isOlder = (one: number, other: number) => {
  const distance = (other - one + COUNTS) % COUNTS;
  return distance > 0 && distance < COUNTS / 2;
};

export class Catalogue {
  readonly #disk: Disk;
  readonly #db: DatabaseSync;
  /** Kept open as long as the database: closing any descriptor of a file drops the locks that the process has on it. */
  readonly #file: number;
  #sums: PageSums;
  readonly #damage: Damage | undefined;
  /** Counts transactions; also in the database, and with the sums. */
  #transactions: number;
  /** A transaction failed, and what it wrote may still be in the log. */
  #unclean = false;

  /** `isInUse`: the folder holds what only a catalogue can name. Then one that is not there, empty, or older than its sums is not the one written last, and nothing is touched. */
  constructor(disk: Disk, isInUse: boolean) {
    this.#disk = disk;
    const known = readSums(disk);
    const size = disk.sizeSync(CATALOGUE) ?? 0;
    if ((known || isInUse) && size === 0 && (disk.sizeSync(WAL) ?? 0) === 0)
      throw damaged(CATALOGUE, `it is ${disk.sizeSync(CATALOGUE) === undefined ? 'missing' : 'empty'}. ${BRING_BACK}`);
    try {
      this.#file = openSync(disk.path(CATALOGUE), 'a+', 0o600);
    } catch (error) {
      throw storageError(error, CATALOGUE);
    }
    try {
      const wal = ofLog(disk, readWal) ?? EMPTY_WAL;
      if (wal.damage) throw damaged(WAL, wal.damage);
      const counter = transactionsIn(this.#file);
      // Sums are written before the log is copied: a database that lacks what they count, and has no log to take it from, has lost it.
      if (known && wal.pages.size === 0 && isOlder(counter, known.transactions))
        throw damaged(
          CATALOGUE,
          `it is older than ${SUMS}: an older copy, or one without its log ${WAL}. ${BRING_BACK}`,
        );
      const old = known && wal.pages.size === 0 && counter !== known.transactions;
      const sums = old ? undefined : known;
      const pages = sums?.damagedPages(this.#file, fstatSync(this.#file).size, wal) ?? [];
      this.#db = openDatabase(disk);
      try {
        this.#transactions = this.#number('PRAGMA user_version');
        if (pages.length > 0) this.#damage = { pages, collections: this.#collectionsOf(pages) };
        this.#sums = sums ?? this.#makeSums();
        if (this.#transactions === 0) this.transaction(() => this.#db.exec(SCHEMA));
      } catch (error) {
        this.#db.close();
        throw error;
      }
    } catch (error) {
      closeSync(this.#file);
      throw storageError(error, CATALOGUE);
    }
    fault('catalogue.made');
  }

  #number(sql: string): number {
    return Object.values(this.#db.prepare(sql).get() ?? {})[0] as number;
  }

  /** Which collections the pages belong to. A page that all need is the end of it; one of no table leaves all of them readable. */
  #collectionsOf(pages: readonly number[]): Set<number> {
    const where = new Set(pages);
    const collections = new Set<number>();
    try {
      this.#db.prepare('SELECT * FROM collections').all();
      for (const row of this.#db.prepare('SELECT name, pageno FROM dbstat').iterate()) {
        if (!where.has(row.pageno as number)) continue;
        const key = TABLE_OF_COLLECTION.exec(row.name as string)?.[1];
        if (key === undefined) throw new Error(`${row.name} cannot be read`);
        collections.add(Number(key));
      }
    } catch (error) {
      throw damaged(CATALOGUE, `page ${pages[0]} of it is not what was written (${(error as Error).message})`);
    }
    return collections;
  }

  /** The sums are missing, old or damaged themselves: what SQLite can check is checked, then they are made anew. */
  #makeSums(): PageSums {
    const contradiction = this.#contradiction();
    if (contradiction) throw contradiction;
    this.#db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
    const pageSize = this.#number('PRAGMA page_size');
    const pages = fstatSync(this.#file).size / pageSize;
    const sums = PageSums.of(this.#file, pageSize, pages, this.#transactions);
    this.#disk.replaceSync(SUMS, sums.encode());
    return sums;
  }

  /** The error for anything that is damaged in the catalogue: everything of some collections, and writing for all. */
  damageOf(key?: number): HersError | undefined {
    if (!this.#damage || (key !== undefined && !this.#damage.collections.has(key))) return undefined;
    const where = `page ${this.#damage.pages[0]} of it is not what was written`;
    if (key !== undefined) return damaged(CATALOGUE, `${where}, and belongs to this collection`);
    return new HersError(
      'DAMAGED',
      `${CATALOGUE} is damaged: ${where}. The folder is open for reading: take snapshots of what can be read, and restore them elsewhere`,
    );
  }

  /** What is known since it was opened, when every page was compared with its sum; and whether the pages fit together. */
  scrub(): { readonly file: string; readonly bytes: number; readonly damage?: HersError } {
    const file = { file: CATALOGUE, bytes: fstatSync(this.#file).size };
    const damage = this.damageOf() ?? this.#contradiction();
    return damage ? { ...file, damage } : file;
  }

  #contradiction(): HersError | undefined {
    const [first] = this.#db.prepare('PRAGMA integrity_check(1)').all();
    return first?.integrity_check === 'ok' ? undefined : damaged(CATALOGUE, String(first?.integrity_check));
  }

  prepare(sql: string): StatementSync {
    return this.#db.prepare(sql);
  }

  exec(sql: string): void {
    this.#db.exec(sql);
  }

  /** All of it is on disk when this returns, or none. `work` is synchronous, so nobody sees a state in between. */
  transaction<T>(work: () => T): T {
    const damage = this.damageOf();
    if (damage) throw damage;
    // What a failed transaction left in the log could look like damage after a crash.
    if (this.#unclean) this.checkpoint();
    let result: T;
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      result = work();
      this.#db.exec(`PRAGMA user_version = ${after(this.#transactions)}; COMMIT`);
    } catch (error) {
      this.#unclean = true;
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      throw storageError(error, CATALOGUE);
    }
    this.#transactions = after(this.#transactions);
    this.#disk.note({ kind: 'commit', path: CATALOGUE });
    if ((this.#disk.sizeSync(WAL) ?? 0) > WAL_BYTES) this.#checkpointIfPossible();
    return result;
  }

  /** After a commit nothing may fail. A log that cannot be copied now is only longer, and whatever is wrong shows again. */
  #checkpointIfPossible(): boolean {
    try {
      this.checkpoint();
      return true;
    } catch {
      return false;
    }
  }

  /** Copies the log into the database and empties it; see page-sums.ts for the order. */
  checkpoint(): void {
    try {
      const sums = ofLog(this.#disk, (file, size) => {
        const wal = readWal(file, size);
        return wal.pages.size > 0 ? this.#sums.with(file, wal, this.#transactions) : undefined;
      });
      if (sums) {
        this.#disk.replaceSync(SUMS, sums.encode(), () => fault('sums.written'));
        this.#sums = sums;
        fault('sums.renamed');
      }
      this.#db.prepare('PRAGMA wal_checkpoint(PASSIVE)').get();
      fault('checkpoint.written');
      this.#db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
      fault('checkpoint.done');
      this.#unclean = false;
    } catch (error) {
      throw storageError(error, CATALOGUE);
    }
  }

  /** Writes the database anew from what is in it, so that its files hold nothing else. */
  vacuum(): void {
    try {
      const bytes = this.#number('PRAGMA page_count') * this.#sums.pageSize;
      this.#db.exec(`PRAGMA temp_store = ${bytes < VACUUM_IN_MEMORY ? 'MEMORY' : 'FILE'}`);
      this.#transactions = after(this.#transactions);
      this.#db.exec(`PRAGMA user_version = ${this.#transactions}; VACUUM`);
    } catch (error) {
      this.#unclean = true;
      throw storageError(error, CATALOGUE);
    }
    this.#disk.note({ kind: 'commit', path: CATALOGUE });
    fault('purge.vacuumed');
    this.checkpoint();
    fault('purge.truncated');
  }

  close(): void {
    try {
      // SQLite copies the log when it closes. Sums that could not be written before must not contradict it.
      if (!this.#checkpointIfPossible()) this.#disk.removeSync(SUMS);
    } finally {
      this.#db.close();
      closeSync(this.#file);
    }
  }
}

function openDatabase(disk: Disk): DatabaseSync {
  const db = new DatabaseSync(disk.path(CATALOGUE));
  try {
    // Exclusive locking also keeps the index of the log in memory, so there is no file for it. Checkpoints are ours: see `checkpoint`.
    db.exec(`PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
      PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = ${-CACHE_BYTES / 1024}; PRAGMA foreign_keys = OFF`);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function readSums(disk: Disk): PageSums | undefined {
  if (disk.sizeSync(SUMS) === undefined) return undefined;
  try {
    return PageSums.decode(readFileSync(disk.path(SUMS)));
  } catch (error) {
    throw storageError(error, SUMS);
  }
}

/** The counter in the header of the database file: its user version. */
function transactionsIn(file: number): number {
  const header = Buffer.alloc(64);
  readSync(file, header, 0, header.length, 0);
  return header.readUInt32BE(60);
}

/** What `read` makes of the log, if there is one. */
function ofLog<T>(disk: Disk, read: (file: number, size: number) => T): T | undefined {
  const size = disk.sizeSync(WAL);
  if (size === undefined) return undefined;
  const file = openSync(disk.path(WAL), 'r');
  try {
    return read(file, size);
  } finally {
    closeSync(file);
  }
}
