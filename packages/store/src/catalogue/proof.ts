// Checks that a catalogue is whole and is the one written last. This code only reads: a folder that
// fails the checks stays exactly as it is.
//
// Four files are compared. The journal is written after every transaction, so the catalogue may be
// one transaction ahead of it, and never behind. Sums are written before the log is copied into the
// database. So a page that the log does not hold matches its sum, and the database is never older
// than its sums unless the log has the rest.

import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, type Stats, statSync } from 'node:fs';
import { HersError } from '@hers/service';
import { damaged, storageError } from '../base/storage-errors.ts';
import type { Disk } from '../files/disk.ts';
import { CATALOGUE, SUMS, WAL } from '../files/layout.ts';
import { JOURNAL, type JournalContent, type Mark, readJournal } from './journal.ts';
import { PageSums } from './page-sums.ts';
import { EMPTY_WAL, readWal } from './wal.ts';

const HEADER_BYTES = 100;
const COUNTER_AT = 60; // "user version"
const STAMP_AT = 68; // "application id"

/** The counter has 31 bits. 0 means an empty database. */
const COUNTS = 2 ** 31 - 1;
export const after = (counter: number): number => (counter % COUNTS) + 1;
/** The counter wraps around, so the shorter distance tells which is older. */
const isOlder = (one: number, other: number) => {
  const distance = (other - one + COUNTS) % COUNTS;
  return distance > 0 && distance < COUNTS / 2;
};

/** Advice for a catalogue that is refused. */
const BRING_BACK = `nothing was changed. Run hers doctor --repair, or bring back all files catalogue.* from one moment`;

export interface Proof {
  /** The catalogue's own mark of its last transaction. */
  readonly mark: Mark;
  readonly journal: JournalContent | undefined;
  /** The sums of the database's pages, if they exist and belong to it. */
  readonly sums: PageSums | undefined;
  /** Pages (counted from 1) that do not match. */
  readonly pages: readonly number[];
  /**
   * Why the catalogue is unproven, though nothing contradicts it: one of the files is missing or
   * damaged.
   */
  readonly doubt: HersError | undefined;
  readonly isNew: boolean;
  /**
   * SQLite has copied the log by itself, as it does when a thread that has the folder open is
   * terminated. The journal knows what was committed.
   */
  readonly areSumsBehind: boolean;
}

/**
 * Throws DAMAGED when the catalogue is not the one written last.
 *
 * @param file the open database, undefined where there is none
 * @param isInUse whether the folder holds files that only a catalogue can name
 */
export function examine(disk: Disk, file: number | undefined, isInUse: boolean): Proof {
  // The journal first: a commit during these reads is then no contradiction.
  const journal = readJournal(disk);
  const known = readSums(disk);
  const wal = ofLog(disk, readWal) ?? EMPTY_WAL;
  const copied = markIn(file, 0);
  const mark = wal.pages.has(1) ? ofLog(disk, (log) => markIn(log, wal.pages.get(1)!))! : copied;

  const committed = journal?.last;
  const isNew = mark.counter === 0;
  // A log without a database proves nothing: SQLite would remove it.
  const isGone = !isNew && (file === undefined || fstatSync(file).size === 0);
  if (isGone || (isNew && (isInUse || (committed?.counter ?? 0) > 0 || (known?.transactions ?? 0) > 0))) {
    const size = file === undefined ? undefined : fstatSync(file).size;
    throw wal.damage && size !== undefined
      ? damaged(WAL, wal.damage)
      : damaged(CATALOGUE, `it is ${size === undefined ? 'missing' : 'empty'}`, BRING_BACK);
  }
  if (committed) {
    if (isOlder(mark.counter, committed.counter))
      throw damaged(
        disk.sizeSync(WAL) ? WAL : CATALOGUE,
        `the last commit in it is older than ${JOURNAL} says: it is an older copy, one without its log, or damaged`,
        BRING_BACK,
      );
    if (mark.counter === committed.counter && mark.stamp !== committed.stamp)
      throw damaged(CATALOGUE, `it is of another history than ${JOURNAL}`, BRING_BACK);
  } else if (wal.damage) throw damaged(WAL, wal.damage);
  if (known && isOlder(mark.counter, known.transactions))
    throw damaged(CATALOGUE, `it is older than ${SUMS}: an older copy, or one without its log ${WAL}`, BRING_BACK);

  const areOld = known !== undefined && isOlder(known.transactions, copied.counter);
  const sums = areOld ? undefined : known;
  // If one of the two does not match, it may be an older copy. If both contradict the catalogue,
  // the catalogue does not belong here.
  const isJournalled = committed !== undefined && isNext(mark, committed);
  if (areOld && committed && !isJournalled)
    throw damaged(CATALOGUE, `it fits neither ${SUMS} nor ${JOURNAL}`, BRING_BACK);
  const doubt = isNew ? undefined : (doubtSums(disk, known, areOld && !isJournalled) ?? doubtJournal(journal, mark));
  const size = file === undefined ? 0 : fstatSync(file).size;
  if (sums && wal.pages.size === 0 && size > sums.bytes)
    throw damaged(CATALOGUE, `it has ${size} bytes, and ${sums.bytes} were written`, BRING_BACK);
  const pages = file === undefined ? [] : (sums?.damagedPages(file, size, wal) ?? []);
  return { mark, journal, sums, pages, doubt, isNew, areSumsBehind: areOld && !doubt };
}

function doubtSums(disk: Disk, known: PageSums | undefined, areOld: boolean): HersError | undefined {
  if (!known) return witnessed(SUMS, disk.sizeSync(SUMS) === undefined ? 'is missing' : 'is damaged');
  if (areOld) return witnessed(SUMS, `is older than ${CATALOGUE}`);
  return undefined;
}

function doubtJournal(journal: JournalContent | undefined, mark: Mark): HersError | undefined {
  if (!journal) return witnessed(JOURNAL, 'is missing');
  if (journal.damage) return witnessed(JOURNAL, `is damaged: ${journal.damage}`);
  if (!journal.last) return witnessed(JOURNAL, 'is empty');
  return isNext(mark, journal.last) ? undefined : witnessed(JOURNAL, `is older than ${CATALOGUE}`);
}

/** Whether the journal has this transaction, or the one before. */
function isNext(mark: Mark, last: Mark): boolean {
  return mark.counter === last.counter ? mark.stamp === last.stamp : mark.counter === after(last.counter);
}

function witnessed(file: string, what: string): HersError {
  return new HersError(
    'DAMAGED',
    `${file} ${what}, so nothing proves that ${CATALOGUE} is the one written last. The folder can be read, not written: bring back ${file}, or run hers doctor --repair`,
  );
}

function readSums(disk: Disk): PageSums | undefined {
  if (disk.sizeSync(SUMS) === undefined) return undefined;
  try {
    disk.checkKindSync(SUMS, 'file');
    return PageSums.decode(readFileSync(disk.path(SUMS)));
  } catch (error) {
    throw storageError(error, SUMS);
  }
}

/** The result of `read` for the log, if there is one. */
export function ofLog<T>(disk: Disk, read: (file: number, size: number) => T): T | undefined {
  if (disk.sizeSync(WAL) === undefined) return undefined;
  const file = disk.openSync(WAL);
  try {
    return read(file, fstatSync(file).size);
  } finally {
    closeSync(file);
  }
}

/** The mark in the page that begins at `at`. */
function markIn(file: number | undefined, at: number): Mark {
  if (file === undefined) return { counter: 0, stamp: 0 };
  const header = Buffer.alloc(HEADER_BYTES);
  readSync(file, header, 0, header.length, at);
  return { counter: header.readUInt32BE(COUNTER_AT), stamp: header.readUInt32BE(STAMP_AT) };
}

/** A rollback journal, which a database with a write-ahead log never has. */
export const ROLLBACK: 'catalogue.db-journal' = `${CATALOGUE}-journal`;

/** Examines the database file where there is one. */
export function examineFile(disk: Disk, isInUse: boolean): Proof {
  for (const file of [CATALOGUE, WAL, `${CATALOGUE}-shm`, SUMS, JOURNAL]) {
    disk.checkKindSync(file, 'file');
    // If the file is a link, SQLite looks for the log beside the link's target.
    if (disk.isLinkSync(file)) throw damaged(file, 'a symbolic link is in its place');
  }
  const isThere = disk.sizeSync(CATALOGUE) !== undefined;
  using file = isThere ? openShared(disk) : undefined;
  return examine(disk, file?.descriptor, isInUse);
}

export interface SharedFile extends Disposable {
  readonly descriptor: number;
}

/**
 * The catalogue's file, identified by device and inode. Closing any descriptor of a file drops all
 * locks the process has on it, SQLite's included. So there is only one descriptor, and it is closed
 * last.
 */
const shared = new Map<string, { readonly descriptor: number; users: number }>();

export function openShared(disk: Disk, create = false): SharedFile {
  disk.checkKindSync(CATALOGUE, 'file');
  try {
    const there = statSync(disk.path(CATALOGUE), { throwIfNoEntry: false });
    let file = there && shared.get(nameOf(there));
    if (!file) {
      const flags = constants.O_RDONLY | (create ? constants.O_CREAT : 0);
      file = { descriptor: openSync(disk.path(CATALOGUE), flags, 0o600), users: 0 };
      shared.set(nameOf(fstatSync(file.descriptor)), file);
    }
    file.users++;
    return { descriptor: file.descriptor, [Symbol.dispose]: () => closeShared(file) };
  } catch (error) {
    throw storageError(error, CATALOGUE);
  }
}

const nameOf = ({ dev, ino }: Stats) => `${dev} ${ino}`;

function closeShared(file: { readonly descriptor: number; users: number }): void {
  if (--file.users > 0) return;
  shared.delete(nameOf(fstatSync(file.descriptor)));
  closeSync(file.descriptor);
}
