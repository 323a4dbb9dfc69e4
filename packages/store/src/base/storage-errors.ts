// Turns errors of the operating system and of SQLite into one error that names the file and says
// what to do. Other errors pass through unchanged.

import { constants } from 'node:os';
import { type ErrorCode, HersError } from '@hers/service';

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

type Reason = (name: string, error: Error) => HersError;

const folderThere: Reason = (name) => damaged(name, FOLDER_THERE);
const otherThere: Reason = (name, error) =>
  (error as { syscall?: unknown }).syscall === 'open' ? damaged(name, OTHER_THERE) : refused(name, error.message);
const occupied: Reason = (name) => damaged(name, 'something else is in its place already');
const tooManyFiles: Reason = (name) =>
  new HersError(
    'STORAGE',
    `${name} cannot be opened: this process has as many files open as it may (see ulimit -n); close some, or raise the limit`,
  );
const busy: Reason = (name) =>
  new HersError('STORAGE', `${name} is being used by something else at the moment: end that, and try again`);

/** By the name of an error of the operating system. The system refuses where none is here. */
const OF_SYSTEM: Readonly<Record<string, Reason>> = {
  ENOSPC: full,
  EDQUOT: full,
  EROFS: readOnly,
  EACCES: readOnly,
  EPERM: readOnly,
  EMFILE: tooManyFiles,
  ENFILE: tooManyFiles,
  ENOENT: (name) => damaged(name, 'it is missing'),
  EISDIR: folderThere,
  ENOTDIR: (name) => damaged(name, NO_FOLDER_THERE),
  ELOOP: (name) => damaged(name, 'a symbolic link that leads in a circle is in its place'),
  EEXIST: occupied,
  ENOTEMPTY: occupied,
  ESPIPE: (name) => damaged(name, 'it is not a file'),
  ENXIO: otherThere,
  ENODEV: otherThere,
  EOPNOTSUPP: otherThere,
  ENOTSUP: otherThere,
  ENAMETOOLONG: (name) =>
    new HersError('INVALID_ARGUMENT', `the path of ${name} is too long for this system: choose a shorter one`),
  EFBIG: tooLong,
  EOVERFLOW: tooLong,
  EAGAIN: busy,
  EWOULDBLOCK: busy,
  EBUSY: busy,
  ETXTBSY: busy,
  ESTALE: (name) =>
    new HersError('STORAGE', `the disk that holds ${name} was lost: connect it again, and open the folder again`),
  EIO: (name, error) => failing(name, error.message),
};

const inUse: Reason = (name) => new HersError('LOCKED', `${name} is in use by another process; close it there first`);

/** By the primary code of an error of SQLite. Others are not about storage. */
const OF_SQLITE: Readonly<Record<number, Reason>> = {
  3: readOnly, // SQLITE_PERM
  5: inUse, // SQLITE_BUSY
  6: inUse, // SQLITE_LOCKED
  7: (name, error) => refused(name, error.message), // SQLITE_NOMEM
  8: readOnly, // SQLITE_READONLY
  10: (name, error) => failing(name, error.message), // SQLITE_IOERR
  11: (name, error) => damaged(name, error.message), // SQLITE_CORRUPT
  13: full, // SQLITE_FULL
  14: (name) => new HersError('STORAGE', `${name} cannot be opened: it is read-only, or too many files are open`), // SQLITE_CANTOPEN
  15: inUse, // SQLITE_PROTOCOL
  22: tooLong, // SQLITE_NOLFS
  26: (name, error) => damaged(name, error.message), // SQLITE_NOTADB
};
/** There was no room for the small file that readers and the writer share. */
const SQLITE_IOERR_SHMSIZE = 4874;

/**
 * The error for a failure of the file `name`. Returns the error itself if it is not about storage.
 */
export function storageError(error: unknown, name: string): unknown {
  if (!(error instanceof Error) || error instanceof HersError) return error;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  if (code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number') {
    if (errcode === SQLITE_IOERR_SHMSIZE) return full(name);
    return OF_SQLITE[errcode & 0xff]?.(name, error) ?? error;
  }
  const system = systemCode(error);
  if (system === undefined) return error;
  return OF_SYSTEM[system]?.(name, error) ?? refused(name, error.message);
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
