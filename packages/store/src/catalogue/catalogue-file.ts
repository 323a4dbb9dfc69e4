// The file of the catalogue, apart from SQLite: checks before SQLite opens it, and one open
// descriptor.

import { closeSync, constants, fstatSync, openSync, type Stats, statSync } from 'node:fs';
import type { Disk } from '../files/disk.ts';
import { damaged, storageError } from '../storage-errors.ts';
import { JOURNAL } from './journal.ts';
import { CATALOGUE, examine, type Proof, SUMS, WAL } from './proof.ts';

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
  const file = isThere ? openShared(disk) : undefined;
  try {
    return examine(disk, file?.descriptor, isInUse);
  } finally {
    file?.close();
  }
}

export interface SharedFile {
  readonly descriptor: number;
  close(): void;
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
    return { descriptor: file.descriptor, close: () => closeShared(file) };
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
