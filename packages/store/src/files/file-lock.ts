// A file that one process holds at a time: an empty SQLite file in an exclusive transaction. The
// operating system ends the transaction with the process, however it ends. So no lock is left
// behind, and no code has to decide whether one is stale. The file itself stays: if it were
// removed, two processes could hold two files of the same name. A client loads this too, and
// nothing else of the store with it.

import { accessSync, chmodSync, closeSync, constants, openSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { HersError } from '@hers/service';
import { isFileThere } from '@hers/service/target';
import { storageError } from '../base/storage-errors.ts';

/** Between two attempts, with jitter, so that waiting processes do not retry in step. */
const PAUSE_MS = 10;

export class FileLock {
  readonly #file: DatabaseSync;

  /**
   * Throws the system's or SQLite's own error. If another process holds the lock, `storageError`
   * turns SQLite's into LOCKED.
   */
  constructor(path: string) {
    makePrivate(path);
    accessSync(path, constants.W_OK);
    this.#file = new DatabaseSync(path, { timeout: 0 });
    try {
      this.#file.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    } catch (error) {
      this.#file.close();
      throw error;
    }
  }

  release(): void {
    this.#file.close();
  }
}

/**
 * Waits for a lock for up to `ms`, then throws LOCKED. A file with content is not a lock, and stays
 * as it is.
 */
export async function lockFile(path: string, ms: number): Promise<FileLock> {
  const until = performance.now() + ms;
  for (;;) {
    if (isFileThere(path) && statSync(path).size > 0)
      throw new HersError('LOCKED', `${path} should be an empty file, and holds something; move it away`);
    try {
      return new FileLock(path);
    } catch (error) {
      const reason = storageError(error, path);
      if (!(reason instanceof HersError && reason.code === 'LOCKED')) throw error;
      if (performance.now() >= until)
        throw new HersError('LOCKED', `${path} has been held by another process for too long; try again`);
    }
    await pause(PAUSE_MS * (0.5 + Math.random()));
  }
}

/**
 * Created, or changed by name: closing a descriptor of the file would release a lock that this
 * process may hold.
 */
function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    try {
      chmodSync(path, 0o600);
    } catch {} // another owner's, or on a read-only disk
  }
}
