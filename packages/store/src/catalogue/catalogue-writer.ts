// The catalogue of a folder that this process writes.

import { fstatSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { fault } from '../faults.ts';
import type { Disk } from '../files/disk.ts';
import { setAside } from '../files/lost-and-found.ts';
import { giveReserveBack, keepReserve } from '../files/reserve.ts';
import { damaged, isNoRoom, storageError } from '../storage-errors.ts';
import { Catalogue } from './catalogue.ts';
import { examineFile, openShared, ROLLBACK, type SharedFile } from './catalogue-file.ts';
import { Journal, type JournalPart, type Mark } from './journal.ts';
import { PageSums } from './page-sums.ts';
import { after, CATALOGUE, ofLog, type Proof, SUMS, WAL } from './proof.ts';
import { readWal } from './wal.ts';

/** The log is copied into the database when it has grown to this. */
const WAL_BYTES = 2 ** 25;
const CACHE_BYTES = 2 ** 26;
/** A vacuum builds the new database in memory up to this size, else in a temporary file. */
const VACUUM_IN_MEMORY = 2 ** 28;
/** The journal is rewritten when it has grown to this, or to twice of what it was. */
const JOURNAL_BYTES = 2 ** 20;
/** How long the writer waits for a process that begins or ends reading. */
const BUSY_MS = 5000;

const SCHEMA = `CREATE TABLE IF NOT EXISTS collections (
  key INTEGER PRIMARY KEY AUTOINCREMENT, -- in the names of its tables and files; never used again
  name TEXT UNIQUE,                      -- NULL while it is being restored
  id BLOB NOT NULL,
  descriptor BLOB NOT NULL
) STRICT`;

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
   * SQLite copies the log when the last connection that may write is closed. Ours must not, before
   * the sums are written; so there is another, which may not.
   */
  readonly #guard: DatabaseSync;
  readonly #file: SharedFile;
  #sums: PageSums | undefined;
  #journal: Journal | undefined;
  #mark: Mark;
  #deleted: ReadonlySet<number> = new Set();
  /** Its length when it was last rewritten. */
  #journalBytes = 0;
  /** A transaction failed, and what it wrote may still be in the log. */
  #unclean = false;
  /**
   * The log is copied when it has grown to this: more than usual while others read what is in it.
   */
  #checkpointAt = WAL_BYTES;

  /**
   * `isInUse`: the folder holds what only a catalogue can name. Then one that is not there, empty,
   * or older than it should be is not the one written last, and nothing is touched.
   */
  constructor(disk: Disk, isInUse: boolean) {
    super(disk);
    const proof = examineFile(disk, isInUse);
    // SQLite would play it back into the database.
    if (!proof.isNew && disk.sizeSync(ROLLBACK) !== undefined) setAside(disk, ROLLBACK);
    // Before the database: whatever is in that later, the journal is not behind it by more than one
    // transaction.
    if (proof.isNew)
      this.#journal = proof.journal?.last ? Journal.open(disk, proof.journal) : Journal.make(disk, proof.mark, []);
    this.#file = openShared(disk, true);
    this.#mark = proof.mark;
    let [db, guard]: DatabaseSync[] = [];
    try {
      // A new database is made first. Of any other the guard is there before and after, whatever
      // fails in between.
      if (proof.isNew) db = openDatabase(disk);
      guard = openGuard(disk);
      db ??= openDatabase(disk);
      [this.db, this.#guard] = [db, guard];
      this.#begin(proof);
    } catch (error) {
      db?.close();
      guard?.close();
      this.#journal?.close();
      this.#file.close();
      throw storageError(error, CATALOGUE);
    }
    closeAtExit(this);
    fault('catalogue.made');
  }

  /** Numbers of collections that were deleted lately, of which files may be left. */
  get deleted(): ReadonlySet<number> {
    return this.#deleted;
  }

  /** Collections to come get higher numbers than this: files of other ones may still have it. */
  keepNumbersAbove(highest: number): void {
    if (this.number('SELECT coalesce(max(seq), 0) FROM sqlite_sequence') >= highest) return;
    this.transaction(() => {
      this.db.exec(`DELETE FROM sqlite_sequence WHERE name = 'collections'`);
      this.db.prepare(`INSERT INTO sqlite_sequence (name, seq) VALUES ('collections', ?)`).run(highest);
    });
  }

  /** Whether the sums had to be made again, because SQLite has copied the log without them. */
  get areSumsBehind(): boolean {
    return this.#areSumsBehind;
  }

  #areSumsBehind = false;

  #begin(proof: Proof): void {
    this.#areSumsBehind = proof.areSumsBehind && !proof.isOlderEdition;
    this.#deleted = proof.journal?.gone ?? new Set();
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
      // A crash came between a transaction and its entry.
      this.#journal.rewrite(this.#mark, this.#contents());
    }
  }

  /**
   * A process that is killed while it commits may leave a transaction in the log that SQLite does
   * not know: as long as somebody reads, it goes by the memory they share. Nobody was told of it,
   * and the next one takes its place.
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
   * Of a new database; of one of the older edition that was not closed; and when proofs are mended.
   * What SQLite can check is checked before.
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

  /** What the journal must hold of all collections. */
  #contents(): JournalPart[] {
    const parts: JournalPart[] = [];
    const rows = this.db.prepare('SELECT key AS number, name, id, descriptor FROM collections').all() as unknown as {
      number: number;
      name: string | null;
      id: Uint8Array;
      descriptor: Uint8Array;
    }[];
    for (const { number, name, id, descriptor } of rows) {
      const seeds = this.db.prepare(`SELECT id, seed FROM blocks_${number} WHERE seed IS NOT NULL`).all();
      parts.push({ number, seeds: seeds as unknown as { id: Uint8Array; seed: Uint8Array }[] });
      if (name === null) continue;
      const current = this.db.prepare(`SELECT version, manifest FROM current_${number}`).get();
      const { version, manifest } = current as unknown as { version: number; manifest: Uint8Array };
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

  #transaction<T>(work: () => T, parts: () => readonly JournalPart[]): T {
    const damage = this.damageOf();
    if (damage) throw damage;
    const mark = { counter: after(this.#mark.counter), stamp: randomStamp() };
    let result: T;
    try {
      this.#journal!.settle();
      // What a failed transaction left in the log could look like damage after a crash.
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
   * After a commit nothing may fail. A log that cannot be copied now is only longer, and whatever
   * is wrong shows again.
   */
  #checkpointIfPossible(): boolean {
    try {
      return this.checkpoint();
    } catch {
      return false;
    }
  }

  /** See page-sums.ts for the order. */
  checkpoint(): boolean {
    if (this.damageOf()) return false;
    try {
      const sums = ofLog(this.disk, (file, size) => {
        // What a commit that failed has left there is none of it.
        const { log } = this.db.prepare('PRAGMA wal_checkpoint(NOOP)').get() as unknown as { log: number };
        const wal = readWal(file, size, Math.max(0, log));
        return wal.pages.size > 0 ? this.#sums!.with(file, wal, this.#mark.counter) : undefined;
      });
      if (sums) {
        this.disk.replaceSync(SUMS, sums.encode(), () => fault('sums.written'));
        this.#sums = sums;
        fault('sums.renamed');
      }
      this.db.prepare('PRAGMA wal_checkpoint(PASSIVE)').get();
      fault('checkpoint.written');
      // It does not wait for readers.
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
    // The counter grows, so that what is behind is known to be.
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
   * Makes sums and journal again where one of them is missing or damaged, and nothing else is
   * wrong. Returns whether all is proven then.
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
      // The last one that may write empties what is empty already, and removes the log.
      for (const connection of emptied ? [this.#guard, this.db] : [this.db, this.#guard]) connection.close();
    } finally {
      this.#file.close();
    }
  }

  #checkpointWithReserve(): boolean {
    try {
      return this.checkpoint();
    } catch (error) {
      return isNoRoom(error) && giveReserveBack(this.disk) && this.#checkpointIfPossible();
    } finally {
      // With the log gone there is room for it again: for the next time, before others take it.
      if (!this.damageOf()) keepReserve(this.disk, 0);
    }
  }
}

/**
 * When a process ends without closing a folder, Node closes the database, in an order of its own,
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
    // Checkpoints are ours: see `checkpoint`.
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
