// What the operating system and SQLite say, as one error that says what to do. What is not about storage passes through unchanged.

import { HersError } from '@hers/service';

const SQLITE_BUSY = 5;
const SQLITE_READONLY = 8;
const SQLITE_IOERR = 10;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_CANTOPEN = 14;
const SQLITE_NOTADB = 26;

const full = (name: string) =>
  new HersError(
    'STORAGE',
    `there is no room left on the disk for ${name}: nothing acknowledged is lost, and it goes on when there is room`,
  );

const readOnly = (name: string) =>
  new HersError('STORAGE', `${name} cannot be written: the folder is read-only, or belongs to another user`);

const tooManyFiles = (name: string) =>
  new HersError(
    'STORAGE',
    `${name} cannot be opened: this process has as many files open as it may (see ulimit -n); close some, or raise the limit`,
  );

const failing = (name: string, detail: string) =>
  new HersError('STORAGE', `the disk reports an error at ${name} (${detail}): check it before going on`);

export function damaged(name: string, what: string): HersError {
  return new HersError('DAMAGED', `${name} is damaged: ${what}; restore it from a copy or a snapshot`);
}

/** The error for what went wrong with the file `name`; the error itself when it is none of the storage. */
export function storageError(error: unknown, name: string): unknown {
  if (!(error instanceof Error) || error instanceof HersError) return error;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  if (code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number') return catalogueError(error, errcode, name);
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return full(name);
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
      return readOnly(name);
    case 'EMFILE':
    case 'ENFILE':
      return tooManyFiles(name);
    case 'ENOENT':
      return damaged(name, 'it is missing');
    case 'EIO':
      return failing(name, error.message);
    default:
      return error;
  }
}

function catalogueError(error: Error, errcode: number, name: string): unknown {
  switch (errcode & 0xff) {
    case SQLITE_BUSY:
      return new HersError('LOCKED', `${name} is in use by another process; close it there first`);
    case SQLITE_READONLY:
      return readOnly(name);
    case SQLITE_FULL:
      return full(name);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return damaged(name, error.message);
    case SQLITE_IOERR:
      return failing(name, error.message);
    case SQLITE_CANTOPEN:
      return new HersError('STORAGE', `${name} cannot be opened: it is read-only, or too many files are open`);
    default:
      return error;
  }
}
