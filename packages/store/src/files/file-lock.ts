// A file that one process holds at a time: an empty SQLite file in an exclusive transaction. The
// operating system ends that with the process, however it ends, so nobody leaves a lock behind, and
// nobody has to judge whether one is stale. The file itself stays: where it is removed, two
// processes may hold two files of one name.

import { accessSync, chmodSync, closeSync, constants, openSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { HersError } from '@hers/service';
import { isFileThere } from '@hers/service/target';
import { storageError } from '../storage-errors.ts';

/** Between two tries; more or less by chance, so that those who wait do not try in step. */
const PAUSE_MS = 10;

export class FileLock {
  readonly #file: DatabaseSync;

  /**
   * Throws what the system or SQLite says, as it is; of the latter, `storageError` makes LOCKED
   * where somebody else holds it.
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
 * Waits for a lock, up to `ms`; then LOCKED. A file that holds something is nobody's lock, and
 * stays as it is.
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
 * Made, or changed by its name: to close a descriptor of it would let go of the lock that this
 * process may have.
 */
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
