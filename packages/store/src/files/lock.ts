// One process writes to a folder: it holds the lock, and the catalogue stays untouched until it is
// known to be ours. Beside it stands who has it, for whoever is refused.

import { accessSync, closeSync, constants, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { DatabaseSync } from 'node:sqlite';
import { HersError } from '@hers/service';
import { isNotWritable, storageError } from '../storage-errors.ts';
import type { Disk } from './disk.ts';
import { FileLock } from './file-lock.ts';
import { hasFormat, LOCK_FILE, WRITER_FILE } from './layout.ts';

export class FolderLock {
  readonly #file: FileLock;

  /** Undefined where the folder is there, and cannot be written. */
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

  /** Says who has it, once the folder is ours: nothing depends on that. */
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
 * Who holds the lock, for those who only read. It is asked for only where somebody has left a name
 * who may still run: asking is in the way of a process that takes the lock at the same moment.
 */
export function writerNow(disk: Disk): string | undefined {
  const writer = leftName(disk);
  return writer && mayRun(writer) && isHeld(disk) ? writerOf(disk) : undefined;
}

/** Of another machine nobody knows. */
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
    const file = new DatabaseSync(disk.path(LOCK_FILE), { readOnly: true });
    try {
      file.exec('SELECT * FROM sqlite_schema');
      return false;
    } finally {
      file.close();
    }
  } catch (error) {
    const reason = storageError(error, LOCK_FILE);
    return reason instanceof HersError && reason.code === 'LOCKED';
  }
}
