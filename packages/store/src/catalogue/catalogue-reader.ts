// Reads a catalogue that another process may be writing. Within a transaction, SQLite shows the
// state of one commit. The reader never waits for the writer, and never makes it wait.
//
// This needs a small file beside the database. It may be missing in a folder that cannot be
// written, or on a full disk. Then the database is read directly if it has no log, and from a copy
// of both files otherwise.

import { cpSync, lstatSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { HersError } from '@hers/service';
import { damaged, readOnly, storageError } from '../base/storage-errors.ts';
import type { Disk } from '../files/disk.ts';
import { CATALOGUE, SUMS, WAL } from '../files/layout.ts';
import { Catalogue } from './catalogue.ts';
import { JOURNAL } from './journal.ts';
import { examineFile, openShared, type Proof, ROLLBACK, type SharedFile } from './proof.ts';

/** How often apparent damage is checked again if something was written in the meantime. */
const TRIES = 20;
const PAUSE_MS = 25;
const BUSY_MS = 5000;

abstract class UnwritableCatalogue extends Catalogue {
  readonly isReadOnly = true;

  transaction(): never {
    throw this.damageOf() ?? readOnly(this.disk.folder);
  }

  async together(): Promise<never> {
    return this.transaction();
  }

  checkpoint(): never {
    return this.transaction();
  }

  forgetPast(): never {
    return this.transaction();
  }

  vacuum(): never {
    return this.transaction();
  }
}

/** How a database is opened that another process writes, or none. */
interface Opened {
  readonly db: DatabaseSync;
  /** Another reader of the same database. */
  again(): DatabaseSync;
  /** Changes with every commit. */
  state(): number | string;
  close(): void;
}

export class ReadableCatalogue extends UnwritableCatalogue {
  readonly #isInUse: boolean;
  readonly #file: SharedFile;
  #opened: Opened;
  #state: number | string;

  constructor(disk: Disk, isInUse: boolean) {
    super(disk);
    this.#isInUse = isInUse;
    const proof = this.#examine();
    if (proof.isNew)
      throw new HersError('NOT_FOUND', `nothing was ever written to ${disk.folder}: make a collection first`);
    this.#file = openShared(disk);
    try {
      this.#opened = this.#open(proof);
      this.#state = this.#opened.state();
    } catch (error) {
      this.#file[Symbol.dispose]();
      throw storageError(error, CATALOGUE);
    }
  }

  #examine(): Proof {
    return steadily(this.disk, () => examineFile(this.disk, this.#isInUse));
  }

  #open(proof: Proof): Opened {
    if (this.disk.sizeSync(ROLLBACK) !== undefined)
      throw damaged(ROLLBACK, 'it does not belong here. Who opens the folder to write sets it aside');
    const opened = openSomehow(this.disk);
    try {
      this.takeDamage(proof, opened.db);
      return opened;
    } catch (error) {
      opened.close();
      throw error;
    }
  }

  protected get db(): DatabaseSync {
    return this.#opened.db;
  }

  /** Whether there was a commit since the last call. If so, statements must be prepared again. */
  hasChanged(): boolean {
    const state = this.#opened.state();
    if (state === this.#state) return false;
    if (typeof state === 'string') {
      const opened = this.#open(this.#examine());
      this.#opened.close();
      this.#opened = opened;
    }
    this.#state = this.#opened.state();
    return true;
  }

  /** Runs `work`, which sees the state of one commit. */
  atOnce<T>(work: () => T): T {
    this.db.exec('BEGIN');
    try {
      return work();
    } catch (error) {
      throw storageError(error, CATALOGUE);
    } finally {
      if (this.db.isTransaction) this.db.exec('COMMIT');
    }
  }

  /** The catalogue as it is now, for as long as the reader keeps it. */
  freeze(disk: Disk): FrozenCatalogue {
    return new FrozenCatalogue(disk, this.#opened.again(), this);
  }

  close(): void {
    try {
      this.#opened.close();
    } finally {
      this.#file[Symbol.dispose]();
    }
  }
}

/** The state of one commit. */
class FrozenCatalogue extends UnwritableCatalogue {
  protected readonly db: DatabaseSync;
  readonly #whole: Catalogue;

  constructor(disk: Disk, db: DatabaseSync, whole: Catalogue) {
    super(disk);
    this.db = db;
    this.#whole = whole;
    // A transaction begins with its first read.
    db.exec('BEGIN');
    db.prepare('SELECT count(*) FROM sqlite_schema').get();
  }

  override damageOf(collectionNumber?: number): HersError | undefined {
    return this.#whole.damageOf(collectionNumber);
  }

  close(): void {
    this.db.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * The result of `look`; again where it finds damage and something was written in the meantime.
 * Another process may be in the middle of a checkpoint.
 */
function steadily(disk: Disk, look: () => Proof): Proof {
  for (let left = TRIES; ; left--) {
    const before = filesOf(disk);
    try {
      const proof = look();
      if (left === 0 || (proof.pages.length === 0 && !proof.doubt)) return proof;
      pause();
      if (filesOf(disk) === before) return proof;
    } catch (error) {
      pause();
      if (left === 0 || filesOf(disk) === before) throw error;
    }
  }
}

function pause(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
}

/** Changes when one of the catalogue's files does. */
function filesOf(disk: Disk): string {
  return [CATALOGUE, WAL, SUMS, JOURNAL]
    .map((path) => {
      const file = lstatSync(disk.path(path), { bigint: true, throwIfNoEntry: false });
      return file ? `${file.ino} ${file.size} ${file.mtimeNs}` : '';
    })
    .join();
}

function openSomehow(disk: Disk): Opened {
  try {
    return openBeside(disk);
  } catch (error) {
    if ((disk.sizeSync(WAL) ?? 0) === 0) return openAlone(disk);
    try {
      return openCopy(disk);
    } catch {
      throw error;
    }
  }
}

/** Opens the database and reads something: SQLite does not look at the file before. */
function open(path: string | URL): DatabaseSync {
  const db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS });
  try {
    db.prepare('SELECT count(*) FROM sqlite_schema').get();
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Reads while another process writes. */
function openBeside(disk: Disk): Opened {
  const again = () => open(disk.path(CATALOGUE));
  const db = again();
  const version = db.prepare('PRAGMA data_version');
  return { db, again, state: () => version.get()!.data_version as number, close: () => db.close() };
}

/** A file that no process writes. If one starts to, the file is opened again. */
function openAlone(disk: Disk): Opened {
  const url = pathToFileURL(disk.path(CATALOGUE));
  url.searchParams.set('immutable', '1');
  const again = () => open(url);
  const db = again();
  return { db, again, state: () => filesOf(disk), close: () => db.close() };
}

function openCopy(disk: Disk): Opened {
  const folder = mkdtempSync(join(tmpdir(), 'hers-catalogue-'));
  const close = () => rmSync(folder, { recursive: true, force: true });
  try {
    for (const path of [CATALOGUE, WAL]) cpSync(disk.path(path), join(folder, path));
    const again = () => open(join(folder, CATALOGUE));
    const db = again();
    return {
      db,
      again,
      state: () => filesOf(disk),
      close() {
        db.close();
        close();
      },
    };
  } catch (error) {
    close();
    throw error;
  }
}
