// The catalogue of a folder that this process writes.

import { fstatSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { fault } from '../base/faults.ts';
import { damaged, isNoRoom, storageError } from '../base/storage-errors.ts';
import { Disk } from '../files/disk.ts';
import { CATALOGUE, checkFormat, isInUse, SUMS, WAL } from '../files/layout.ts';
import { FolderLock } from '../files/lock.ts';
import { setAside } from '../files/lost-and-found.ts';
import { giveReserveBack, keepReserve } from '../files/reserve.ts';
import { Catalogue } from './catalogue.ts';
import { Journal, type JournalPart, type Mark } from './journal.ts';
import { PageSums } from './page-sums.ts';
import { after, examineFile, ofLog, openShared, type Proof, ROLLBACK, type SharedFile } from './proof.ts';
import { Tables } from './tables.ts';
import { readWal } from './wal.ts';

/** Size of the log at which it is copied into the database. */
const WAL_BYTES = 2 ** 25;
const CACHE_BYTES = 2 ** 26;
/**
 * A vacuum builds the new database in memory up to this size, and in a temporary file beyond it.
 */
const VACUUM_IN_MEMORY = 2 ** 28;
/** The journal is rewritten when it reaches this size, or twice its size after the last rewrite. */
const JOURNAL_BYTES = 2 ** 20;
/** How long the writer waits for a process that is starting or ending a read. */
const BUSY_MS = 5000;

const SCHEMA = `CREATE TABLE IF NOT EXISTS collections (
  key INTEGER PRIMARY KEY AUTOINCREMENT, -- in the names of its tables and files; never used again
  name TEXT UNIQUE,                      -- NULL while it is being restored
  id BLOB NOT NULL,
  descriptor BLOB NOT NULL
) STRICT`;

/** Work for the next transaction of several. */
interface Waiting {
  /** Does it, and returns what is to be done when it is on disk. */
  readonly attempt: () => () => void;
  readonly parts: () => readonly JournalPart[];
  resolve(): void;
  reject(error: unknown): void;
}

export class WritableCatalogue extends Catalogue {
  /** The same; on a full disk, with the room of the reserve. */
  static open(disk: Disk, isInUse: boolean): WritableCatalogue {
    try {
      return new WritableCatalogue(disk, isInUse);
    } catch (error) {
      if (!isNoRoom(error) || !giveReserveBack(disk)) throw error;
      return new WritableCatalogue(disk, isInUse);
    }
  }

  protected readonly db: DatabaseSync;
  /**
   * SQLite copies the log when the last connection that can write is closed. That must not happen
   * before the sums are written. So a second, read-only connection stays open.
   */
  readonly #guard: DatabaseSync;
  readonly #file: SharedFile;
  #sums: PageSums | undefined;
  #journal: Journal | undefined;
  #mark: Mark;
  /** Numbers of recently deleted collections. Some of their files may be left. */
  readonly deleted: ReadonlySet<number>;
  /** Whether the sums had to be computed again, because SQLite copied the log without them. */
  readonly areSumsBehind: boolean;
  readonly #waiting: Waiting[] = [];
  /** Length of the journal after its last rewrite. */
  #journalBytes = 0;
  /** A transaction failed, and its frames may still be in the log. */
  #unclean = false;
  /**
   * Size of the log at which it is copied. It is larger than the default while readers use the log.
   */
  #checkpointAt = WAL_BYTES;

  /**
   * `isInUse`: the folder holds files that only a catalogue can name. If the catalogue is then
   * missing, empty or too old, it is not the one written last, and nothing is changed.
   */
  constructor(disk: Disk, isInUse: boolean) {
    super(disk);
    const proof = examineFile(disk, isInUse);
    this.areSumsBehind = proof.areSumsBehind;
    this.deleted = proof.journal?.gone ?? new Set();
    // SQLite would roll it back into the database.
    if (!proof.isNew && disk.sizeSync(ROLLBACK) !== undefined) setAside(disk, ROLLBACK);
    // Before the database: so the journal is at most one transaction behind the database.
    if (proof.isNew)
      this.#journal = proof.journal?.last ? Journal.open(disk, proof.journal) : Journal.make(disk, proof.mark, []);
    this.#file = openShared(disk, true);
    this.#mark = proof.mark;
    let [db, guard]: DatabaseSync[] = [];
    try {
      // A new database is created first. For an existing one the guard is there before and after,
      // even if a step in between fails.
      if (proof.isNew) db = openDatabase(disk);
      guard = openGuard(disk);
      db ??= openDatabase(disk);
      [this.db, this.#guard] = [db, guard];
      this.#begin(proof);
    } catch (error) {
      db?.close();
      guard?.close();
      this.#journal?.close();
      this.#file[Symbol.dispose]();
      throw storageError(error, CATALOGUE);
    }
    closeAtExit(this);
    fault('catalogue.made');
  }

  /** New collections get higher numbers than this: files with lower numbers may still exist. */
  keepNumbersAbove(highest: number): void {
    if (this.number('SELECT coalesce(max(seq), 0) FROM sqlite_sequence') >= highest) return;
    this.transaction(() => {
      this.db.exec(`DELETE FROM sqlite_sequence WHERE name = 'collections'`);
      this.db.prepare(`INSERT INTO sqlite_sequence (name, seq) VALUES ('collections', ?)`).run(highest);
    });
  }

  #begin(proof: Proof): void {
    this.takeDamage(proof, this.db);
    this.#mark = this.#markOf(proof);
    if (this.damageOf()) return;
    this.#sums = proof.sums ?? this.#makeSums();
    this.#journal ??= proof.journal
      ? Journal.open(this.disk, proof.journal)
      : Journal.make(this.disk, this.#mark, this.#contents());
    this.#journalBytes = this.#journal.bytes;
    if (proof.isNew) this.transaction(() => this.db.exec(SCHEMA));
    else if (proof.journal?.last && proof.journal.last.counter !== this.#mark.counter) {
      // A crash came between a transaction and its journal entry.
      this.#journal.rewrite(this.#mark, this.#contents());
    }
  }

  /**
   * A process that is killed while it commits may leave a transaction in the log that SQLite does
   * not know: as long as there are readers, SQLite uses the index in their shared memory. That
   * transaction was never acknowledged, and the next one overwrites it.
   */
  #markOf({ mark, journal }: Proof): Mark {
    const known = { counter: this.number('PRAGMA user_version'), stamp: this.number('PRAGMA application_id') };
    if (known.counter === mark.counter) return mark;
    if (mark.counter !== after(known.counter) || journal?.last?.counter === mark.counter)
      throw damaged(CATALOGUE, `SQLite finds transaction ${known.counter} in it, and ${mark.counter} was the last`);
    return known;
  }

  get isReadOnly(): boolean {
    return this.damageOf() !== undefined;
  }

  /**
   * Used for a new database, for one whose sums are behind, and to repair proofs. SQLite's own
   * checks come before.
   */
  #makeSums(): PageSums {
    const contradiction = this.contradiction();
    if (contradiction) throw contradiction;
    this.db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
    const pageSize = this.number('PRAGMA page_size');
    const pages = fstatSync(this.#file.descriptor).size / pageSize;
    const sums = PageSums.of(this.#file.descriptor, pageSize, pages, this.#mark.counter);
    this.disk.replaceSync(SUMS, sums.encode());
    return sums;
  }

  /** What the journal must hold about all collections. */
  #contents(): JournalPart[] {
    const parts: JournalPart[] = [];
    for (const { number, name, id, descriptor } of this.collections()) {
      const seeds = this.db.prepare(`SELECT id, seed FROM blocks_${number}`).all();
      parts.push({ number, seeds: seeds as unknown as { id: Uint8Array; seed: Uint8Array }[] });
      if (name === null) continue;
      const { version, manifest } = new Tables(this, number).manifest();
      parts.push({ collection: { number, name, id, descriptor, version, manifest } });
    }
    return parts;
  }

  transaction<T>(
    work: () => T,
    parts: () => readonly JournalPart[] = () => [],
    { mayUseReserve = false }: { mayUseReserve?: boolean } = {},
  ): T {
    try {
      return this.#transaction(work, parts);
    } catch (error) {
      if (!mayUseReserve || !isNoRoom(error) || !giveReserveBack(this.disk)) throw error;
      return this.#transaction(work, parts);
    }
  }

  together<T>(work: () => T, parts: () => readonly JournalPart[], done: (result: T) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const attempt = () => {
        const result = work();
        return () => done(result);
      };
      if (this.#waiting.push({ attempt, parts, resolve, reject }) === 1) setImmediate(() => this.#runTogether());
    });
  }

  #runTogether(): void {
    const all = this.#waiting.splice(0);
    try {
      this.#runAll(all);
    } catch (error) {
      // One that fails must not fail the others.
      for (const each of all)
        try {
          if (all.length === 1) throw error;
          this.#runAll([each]);
        } catch (own) {
          each.reject(own);
        }
    }
  }

  #runAll(all: readonly Waiting[]): void {
    const done = this.#transaction(
      () => all.map(({ attempt }) => attempt()),
      () => all.flatMap(({ parts }) => parts()),
    );
    for (const [i, { resolve, reject }] of all.entries())
      try {
        done[i]();
        resolve();
      } catch (error) {
        reject(error);
      }
  }

  #transaction<T>(work: () => T, parts: () => readonly JournalPart[]): T {
    const damage = this.damageOf();
    if (damage) throw damage;
    const mark = { counter: after(this.#mark.counter), stamp: randomStamp() };
    let result: T;
    try {
      this.#journal!.settle();
      // After a crash, the frames of a failed transaction could look like damage.
      if (this.#unclean) this.checkpoint();
      this.db.exec('BEGIN IMMEDIATE');
      result = work();
      this.db.exec(`PRAGMA user_version = ${mark.counter}; PRAGMA application_id = ${mark.stamp}; COMMIT`);
    } catch (error) {
      this.#unclean = true;
      if (this.db.isTransaction) this.db.exec('ROLLBACK');
      throw storageError(error, CATALOGUE);
    }
    this.#mark = mark;
    this.disk.note({ kind: 'commit', path: CATALOGUE });
    fault('catalogue.committed');
    this.#journal!.append(mark, parts());
    fault('catalogue.journalled');
    if ((this.disk.sizeSync(WAL) ?? 0) > this.#checkpointAt) this.#checkpointIfPossible();
    return result;
  }

  /**
   * Nothing may fail after a commit. If the log cannot be copied now, it only stays longer, and the
   * error shows again later.
   */
  #checkpointIfPossible(): boolean {
    try {
      return this.checkpoint();
    } catch {
      return false;
    }
  }

  /** page-sums.ts explains the order. */
  checkpoint(): boolean {
    if (this.damageOf()) return false;
    try {
      const sums = ofLog(this.disk, (file, size) => {
        // Frames of a failed commit do not count.
        const { log } = this.db.prepare('PRAGMA wal_checkpoint(NOOP)').get() as unknown as { log: number };
        const wal = readWal(file, size, Math.max(0, log));
        return wal.pages.size > 0 ? this.#sums!.with(file, size, wal, this.#mark.counter) : undefined;
      });
      if (sums) {
        this.disk.replaceSync(SUMS, sums.encode(), () => fault('sums.written'));
        this.#sums = sums;
        fault('sums.renamed');
      }
      this.db.prepare('PRAGMA wal_checkpoint(PASSIVE)').get();
      fault('checkpoint.written');
      // This does not wait for readers.
      const emptied = this.#truncate();
      this.#checkpointAt = emptied ? WAL_BYTES : (this.disk.sizeSync(WAL) ?? 0) + WAL_BYTES;
      fault('checkpoint.done');
      if (emptied) this.#unclean = false;
      if (this.#journal!.bytes > Math.max(JOURNAL_BYTES, 2 * this.#journalBytes)) this.#rewriteJournal();
      keepReserve(this.disk);
      return emptied;
    } catch (error) {
      throw storageError(error, CATALOGUE);
    }
  }

  #truncate(): boolean {
    this.db.exec('PRAGMA busy_timeout = 0');
    try {
      return this.number('PRAGMA wal_checkpoint(TRUNCATE)') === 0;
    } finally {
      this.db.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
    }
  }

  #rewriteJournal(): void {
    this.#journal!.rewrite(this.#mark, this.#contents());
    this.#journalBytes = this.#journal!.bytes;
    fault('journal.rewritten');
  }

  forgetPast(): boolean {
    const damage = this.damageOf();
    if (damage) throw damage;
    this.#rewriteJournal();
    return this.checkpoint();
  }

  vacuum(): void {
    // The counter increases, so that older files are recognized as older.
    this.transaction(() => {});
    try {
      const bytes = this.number('PRAGMA page_count') * this.#sums!.pageSize;
      this.db.exec(`PRAGMA temp_store = ${bytes < VACUUM_IN_MEMORY ? 'MEMORY' : 'FILE'}; VACUUM`);
    } catch (error) {
      this.#unclean = true;
      throw storageError(error, CATALOGUE);
    }
    this.disk.note({ kind: 'commit', path: CATALOGUE });
    fault('purge.vacuumed');
  }

  /**
   * Computes the sums and the journal again if one is missing or damaged and everything else is
   * valid. Returns whether the catalogue is proven afterwards.
   */
  mend(): boolean {
    const damage = this.damageOf();
    if (!damage) return true;
    if (this.isCertainlyDamaged || this.contradiction()) return false;
    this.#makeSums();
    Journal.make(this.disk, this.#mark, this.#contents()).close();
    return true;
  }

  close(): void {
    open.delete(this);
    const emptied = this.#checkpointWithReserve();
    try {
      this.#journal?.close();
      // The last connection that can write finds an empty log, and removes it.
      for (const connection of emptied ? [this.#guard, this.db] : [this.db, this.#guard]) connection.close();
    } finally {
      this.#file[Symbol.dispose]();
    }
  }

  #checkpointWithReserve(): boolean {
    try {
      return this.checkpoint();
    } catch (error) {
      return isNoRoom(error) && giveReserveBack(this.disk) && this.#checkpointIfPossible();
    } finally {
      // Removing the log made room for the reserve. It is made again at once, before other programs
      // take the room.
      if (!this.damageOf()) keepReserve(this.disk, 0);
    }
  }
}

/**
 * When a process exits without closing a folder, Node closes the database in an order of its own,
 * and SQLite would copy the log without writing sums.
 */
const open = new Set<WritableCatalogue>();
let isWatching = false;

function closeAtExit(catalogue: WritableCatalogue): void {
  open.add(catalogue);
  if (isWatching) return;
  isWatching = true;
  process.once('exit', () => {
    for (const each of open) each.close();
  });
}

function randomStamp(): number {
  return 1 + Math.floor(Math.random() * (2 ** 31 - 2));
}

function openDatabase(disk: Disk): DatabaseSync {
  const db = new DatabaseSync(disk.path(CATALOGUE), { timeout: BUSY_MS });
  try {
    // SQLite's own checkpoints are off: see `checkpoint`.
    db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
      PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = ${-CACHE_BYTES / 1024}; PRAGMA foreign_keys = OFF`);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function openGuard(disk: Disk): DatabaseSync {
  const guard = new DatabaseSync(disk.path(CATALOGUE), { readOnly: true, timeout: BUSY_MS });
  try {
    guard.prepare('SELECT count(*) FROM sqlite_schema').get();
    return guard;
  } catch (error) {
    guard.close();
    throw error;
  }
}

/**
 * Whether the catalogue of a folder is proven now. Returns false, and changes nothing, if the
 * catalogue itself is damaged.
 *
 * @param folder - Where the gallery is.
 * @throws {HersError} DAMAGED: where the catalogue is not the one that was written last.
 * @throws {HersError} LOCKED: where another process writes to the folder.
 * @throws {HersError} INVALID_ARGUMENT, UNSUPPORTED_VERSION, STORAGE: as {@link openStore}.
 */
export async function mendProofs(folder: string): Promise<boolean> {
  const disk = new Disk(folder);
  checkFormat(disk);
  const lock = new FolderLock(disk);
  try {
    const catalogue = new WritableCatalogue(disk, isInUse(disk));
    try {
      return catalogue.mend();
    } finally {
      catalogue.close();
    }
  } finally {
    lock.release();
  }
}
