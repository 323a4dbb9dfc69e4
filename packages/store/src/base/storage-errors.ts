// Turns errors of the operating system and of SQLite into one error that names the file and says
// what to do. Other errors pass through unchanged.

import { constants } from 'node:os';
import { type ErrorCode, HersError } from '@hers/service';

const SQLITE_PERM = 3;
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;
const SQLITE_NOMEM = 7;
const SQLITE_READONLY = 8;
const SQLITE_IOERR = 10;
/** There was no room for the small file that readers and the writer share. */
const SQLITE_IOERR_SHMSIZE = 4874;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_CANTOPEN = 14;
const SQLITE_PROTOCOL = 15;
const SQLITE_NOLFS = 22;
const SQLITE_NOTADB = 26;

/**
 * Errors with a remedy: room can be made, and a folder that cannot be written can still be read.
 */
const noRoom = new WeakSet<object>();
const notWritable = new WeakSet<object>();

export const isNoRoom = (error: unknown): boolean => error instanceof Error && noRoom.has(error);
export const isNotWritable = (error: unknown): boolean => error instanceof Error && notWritable.has(error);

function full(name: string): HersError {
  const error = new HersError(
    'STORAGE',
    `there is no room left on the disk for ${name}: nothing acknowledged is lost, and it goes on when there is room`,
  );
  noRoom.add(error);
  return error;
}

export function readOnly(name: string): HersError {
  const error = new HersError(
    'STORAGE',
    `${name} cannot be written: the folder is read-only, or belongs to another user`,
  );
  notWritable.add(error);
  return error;
}

const failing = (name: string, detail: string) =>
  new HersError('STORAGE', `the disk reports an error at ${name} (${detail}): check it before going on`);

const tooLong = (name: string) =>
  new HersError('STORAGE', `the disk takes no file as long as ${name} would be: move the folder to another`);

const refused = (name: string, detail: string) =>
  new HersError('STORAGE', `the system refuses ${name} (${detail}): see what is wrong there, and try again`);

export const REPAIR = 'hers doctor --repair brings back what can be, a copy or a snapshot the rest';

export function damaged(name: string, what: string, remedy: string = REPAIR): HersError {
  return new HersError('DAMAGED', `${name} is damaged: ${what}; ${remedy}`);
}

const FOLDER_THERE = 'a folder is in its place';
const OTHER_THERE = 'a pipe, a socket or a device is in its place';
const NO_FOLDER_THERE = 'a file is in the place of a folder';

/** What `fs.Stats` says of a file. */
interface Kind {
  isFile(): boolean;
  isDirectory(): boolean;
}

/** The error if a file or a folder has been replaced by something else. */
export function kindError(kind: Kind, wanted: 'file' | 'folder', name: string): HersError | undefined {
  if (wanted === 'folder') return kind.isDirectory() ? undefined : damaged(name, NO_FOLDER_THERE);
  if (kind.isFile()) return undefined;
  return damaged(name, kind.isDirectory() ? FOLDER_THERE : OTHER_THERE);
}

/** The name of an error of the operating system. Node knows only the number of some. */
function systemCode(error: Error): string | undefined {
  const { code, errno, syscall } = error as { code?: unknown; errno?: unknown; syscall?: unknown };
  if (code === 'ERR_FS_EISDIR') return 'EISDIR';
  if (typeof code === 'string' && /^E[A-Z0-9]+$/.test(code)) return code;
  if (typeof errno !== 'number' || typeof syscall !== 'string') return undefined;
  const known = Object.entries(constants.errno).find(([, number]) => number === Math.abs(errno));
  return known ? known[0] : 'unknown';
}

/**
 * The error for a failure of the file `name`. Returns the error itself if it is not about storage.
 */
export function storageError(error: unknown, name: string): unknown {
  if (!(error instanceof Error) || error instanceof HersError) return error;
  const { code, errcode, syscall } = error as { code?: unknown; errcode?: unknown; syscall?: unknown };
  if (code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number') return catalogueError(error, errcode, name);
  const system = systemCode(error);
  switch (system) {
    case undefined:
      return error;
    case 'ENOSPC':
    case 'EDQUOT':
      return full(name);
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
      return readOnly(name);
    case 'EMFILE':
    case 'ENFILE':
      return new HersError(
        'STORAGE',
        `${name} cannot be opened: this process has as many files open as it may (see ulimit -n); close some, or raise the limit`,
      );
    case 'ENOENT':
      return damaged(name, 'it is missing');
    case 'EISDIR':
      return damaged(name, FOLDER_THERE);
    case 'ENOTDIR':
      return damaged(name, NO_FOLDER_THERE);
    case 'ELOOP':
      return damaged(name, 'a symbolic link that leads in a circle is in its place');
    case 'EEXIST':
    case 'ENOTEMPTY':
      return damaged(name, 'something else is in its place already');
    case 'ESPIPE':
      return damaged(name, 'it is not a file');
    case 'ENXIO':
    case 'ENODEV':
    case 'EOPNOTSUPP':
    case 'ENOTSUP':
      return syscall === 'open' ? damaged(name, OTHER_THERE) : refused(name, error.message);
    case 'ENAMETOOLONG':
      return new HersError('INVALID_ARGUMENT', `the path of ${name} is too long for this system: choose a shorter one`);
    case 'EFBIG':
    case 'EOVERFLOW':
      return tooLong(name);
    case 'EAGAIN':
    case 'EWOULDBLOCK':
    case 'EBUSY':
    case 'ETXTBSY':
      return new HersError('STORAGE', `${name} is being used by something else at the moment: end that, and try again`);
    case 'ESTALE':
      return new HersError(
        'STORAGE',
        `the disk that holds ${name} was lost: connect it again, and open the folder again`,
      );
    case 'EIO':
      return failing(name, error.message);
    default:
      return refused(name, error.message);
  }
}

function catalogueError(error: Error, errcode: number, name: string): unknown {
  switch (errcode & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return new HersError('LOCKED', `${name} is in use by another process; close it there first`);
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return readOnly(name);
    case SQLITE_FULL:
      return full(name);
    case SQLITE_NOLFS:
      return tooLong(name);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return damaged(name, error.message);
    case SQLITE_IOERR:
      return errcode === SQLITE_IOERR_SHMSIZE ? full(name) : failing(name, error.message);
    case SQLITE_NOMEM:
      return refused(name, error.message);
    case SQLITE_CANTOPEN:
      return new HersError('STORAGE', `${name} cannot be opened: it is read-only, or too many files are open`);
    default:
      return error;
  }
}

/** An error on its way from a thread: an instance of a class would arrive as one of another. */
export interface Failure {
  readonly message: string;
  readonly code: unknown;
  readonly ours: boolean;
}

export function failureOf(error: unknown): Failure {
  const { message, code } = error as { message: string; code?: unknown };
  return { message, code, ours: error instanceof HersError };
}

export function errorFrom({ message, code, ours }: Failure): Error {
  return ours ? new HersError(code as ErrorCode, message) : Object.assign(new Error(message), { code });
}
