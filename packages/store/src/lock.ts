// One process writes to a folder. The lock is an empty SQLite file of its own, held in an exclusive transaction: the operating system releases it when the
// process ends, however it ends, and the catalogue stays untouched until it is known to be ours. Beside it stands who has it, for whoever is refused.

import { accessSync, chmodSync, closeSync, constants, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { DatabaseSync } from 'node:sqlite';
import { HersError } from '@hers/service';
import type { Disk } from './disk.ts';
import { storageError } from './storage-errors.ts';

export const LOCK_FILE = 'lock';
export const WRITER_FILE = 'writer';

export class FolderLock {
  readonly #file: DatabaseSync;

  constructor(disk: Disk) {
    disk.checkKindSync(LOCK_FILE, 'file');
    try {
      accessSync(disk.folder, constants.W_OK);
      makePrivate(disk.path(LOCK_FILE));
      accessSync(disk.path(LOCK_FILE), constants.W_OK);
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
        throw new HersError(
          'LOCKED',
          `${disk.folder} is being written by ${writerOf(disk)}: one process writes at a time, and others may read meanwhile; wait for it`,
        );
      throw reason;
    }
  }

  /** Says who has it, once the folder is ours: nothing depends on that. */
  leaveName(disk: Disk): void {
    const name = { process: process.pid, host: hostname(), since: new Date().toISOString() };
    try {
      rmSync(disk.path(WRITER_FILE), { force: true });
      writeFileSync(disk.path(WRITER_FILE), `${JSON.stringify(name)}\n`, { flag: 'wx', mode: 0o600 });
    } catch {}
  }

  release(): void {
    this.#file.close();
  }
}

/** Made, or changed by its name: to close a descriptor of it would let go of the lock that this process may have. */
function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    try {
      chmodSync(path, 0o600);
    } catch {} // the owner's, or on a disk that cannot be written
  }
}

function writerOf(disk: Disk): string {
  let file: number | undefined;
  try {
    file = disk.openSync(WRITER_FILE);
    const { process: id, host, since } = JSON.parse(readFileSync(file, 'utf8'));
    if (!Number.isSafeInteger(id)) throw new Error();
    const where = host === hostname() ? '' : ` on ${String(host).slice(0, 100)}`;
    return id === process.pid && where === ''
      ? 'this process'
      : `process ${id}${where}, since ${String(since).slice(0, 30)}`;
  } catch {
    return 'another process';
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
