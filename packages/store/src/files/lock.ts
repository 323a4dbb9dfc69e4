// One process writes to a folder: the one that holds the lock. It does not touch the catalogue
// before it has the lock. A file beside the lock names the holder, for the errors of other
// processes.

import { accessSync, closeSync, constants, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { DatabaseSync } from 'node:sqlite';
import { HersError } from '@hers/service';
import { isNotWritable, storageError } from '../base/storage-errors.ts';
import type { Disk } from './disk.ts';
import { FileLock } from './file-lock.ts';
import { hasFormat, LOCK_FILE, WRITER_FILE } from './layout.ts';

export class FolderLock {
  readonly #file: FileLock;

  /** Undefined if the folder exists but cannot be written. */
  static takeIfWritable(disk: Disk): FolderLock | undefined {
    try {
      disk.makeFolderSync('.');
      return new FolderLock(disk);
    } catch (error) {
      if (isNotWritable(error) && hasFormat(disk)) return undefined;
      throw error;
    }
  }

  constructor(disk: Disk) {
    disk.checkKindSync(LOCK_FILE, 'file');
    try {
      accessSync(disk.folder, constants.W_OK);
      this.#file = new FileLock(disk.path(LOCK_FILE));
    } catch (error) {
      const reason = storageError(error, LOCK_FILE);
      if (reason instanceof HersError && reason.code === 'LOCKED')
        throw new HersError(
          'LOCKED',
          `${disk.folder} is being written by ${writerOf(disk)}: one process writes at a time, and others may read meanwhile; wait for it`,
        );
      throw reason;
    }
  }

  /** Records the holder, once the folder is ours. Nothing depends on this file. */
  leaveName(disk: Disk): void {
    const name = { process: process.pid, host: hostname(), since: new Date().toISOString() };
    try {
      rmSync(disk.path(WRITER_FILE), { force: true });
      writeFileSync(disk.path(WRITER_FILE), `${JSON.stringify(name)}\n`, { flag: 'wx', mode: 0o600 });
    } catch {}
  }

  release(): void {
    this.#file.release();
  }
}

interface Writer {
  readonly process: number;
  readonly host: string;
  readonly since: string;
}

function leftName(disk: Disk): Writer | undefined {
  let file: number | undefined;
  try {
    file = disk.openSync(WRITER_FILE);
    const { process: id, host, since } = JSON.parse(readFileSync(file, 'utf8'));
    if (!Number.isSafeInteger(id)) return undefined;
    return { process: id, host: String(host).slice(0, 100), since: String(since).slice(0, 30) };
  } catch {
    return undefined;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function writerOf(disk: Disk): string {
  const writer = leftName(disk);
  if (!writer) return 'another process';
  const where = writer.host === hostname() ? '' : ` on ${writer.host}`;
  return writer.process === process.pid && where === ''
    ? 'this process'
    : `process ${writer.process}${where}, since ${writer.since}`;
}

/**
 * The holder of the lock, for readers. The lock is tested only if the recorded process may still
 * run: testing could get in the way of a process that takes the lock at that moment.
 */
export function writerNow(disk: Disk): string | undefined {
  const writer = leftName(disk);
  return writer && mayRun(writer) && isHeld(disk) ? writerOf(disk) : undefined;
}

/** Processes of another machine cannot be checked. */
function mayRun({ process: id, host }: Writer): boolean {
  if (host !== hostname()) return true;
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function isHeld(disk: Disk): boolean {
  try {
    using file = new DatabaseSync(disk.path(LOCK_FILE), { readOnly: true });
    file.exec('SELECT * FROM sqlite_schema');
    return false;
  } catch (error) {
    const reason = storageError(error, LOCK_FILE);
    return reason instanceof HersError && reason.code === 'LOCKED';
  }
}
