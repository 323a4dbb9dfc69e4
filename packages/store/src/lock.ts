// One process per folder. The lock is an empty SQLite file of its own, held in an exclusive transaction: the operating system releases it when the
// process ends, however it ends, and the catalogue stays untouched until it is known to be ours.

import { DatabaseSync } from 'node:sqlite';
import { HersError } from '@hers/service';
import type { Disk } from './disk.ts';
import { storageError } from './storage-errors.ts';

export const LOCK_FILE = 'lock';

export class FolderLock {
  readonly #file: DatabaseSync;

  constructor(disk: Disk) {
    try {
      this.#file = new DatabaseSync(disk.path(LOCK_FILE));
    } catch (error) {
      throw storageError(error, LOCK_FILE);
    }
    try {
      this.#file.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    } catch (error) {
      this.#file.close();
      const reason = storageError(error, LOCK_FILE);
      if (reason instanceof HersError && reason.code === 'LOCKED')
        throw new HersError('LOCKED', `${disk.folder} is in use by another process, or open already; close it there`);
      throw reason;
    }
  }

  release(): void {
    this.#file.close();
  }
}
