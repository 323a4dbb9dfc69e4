// Where a file may be written: under a new name, or over a file. Whatever else has the name (a
// device, a pipe, a folder, a link) is somebody's, and stays as it is.

import { randomBytes } from 'node:crypto';
import { constants, lstatSync, renameSync, type Stats, statSync } from 'node:fs';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { HersError } from '@hers/scheme';

/** What is at a path, in words; nothing where it is a file. */
function otherThanFile(about: Stats): string | undefined {
  if (about.isFile()) return undefined;
  if (about.isSymbolicLink()) return 'a symbolic link';
  if (about.isDirectory()) return 'a folder';
  if (about.isFIFO()) return 'a named pipe';
  if (about.isSocket()) return 'a socket';
  return 'a device';
}

/** Refuses what is no file, and was not reached through a link. */
export function requireFile(path: string, about: Stats): void {
  const what = otherThanFile(about);
  if (what === undefined) return;
  const also = about.isSymbolicLink() ? ', or the one that it leads to' : '';
  throw new HersError('INVALID_ARGUMENT', `${path} is ${what}; name another file${also}`);
}

/**
 * Whether there is a file at a path that is to be written. Anything else that is there is refused,
 * a link as well, wherever it leads.
 */
export function isFileThere(path: string): boolean {
  const about = lstatSync(path, { throwIfNoEntry: false });
  if (about) requireFile(path, about);
  return about !== undefined;
}

/**
 * Gives a finished file the name of another, or a new one. Nothing of this process comes between
 * the look and the renaming.
 */
export function renameOverFile(from: string, to: string): void {
  isFileThere(to);
  renameSync(from, to);
}

/**
 * Writes a file that only its owner can read, and gives it its name when all of it is on disk: a
 * crash leaves the old content or the new one. What `isFleeting` is not synced. `rename` may refuse
 * to replace what is there.
 */
export async function replaceFile(
  path: string,
  write: (file: FileHandle) => Promise<void>,
  {
    isFleeting = false,
    rename = renameOverFile,
  }: { readonly isFleeting?: boolean; readonly rename?: (from: string, to: string) => void | Promise<void> } = {},
): Promise<void> {
  isFileThere(path);
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  const file = await open(temporary, 'wx', 0o600).catch((error) => {
    // The name that somebody knows; and where there is no folder, it is that which is not there.
    throw Object.assign(error, { path: error.code === 'ENOENT' ? dirname(path) : path });
  });
  try {
    await write(file);
    if (!isFleeting) await file.sync();
    await file.close();
    await rename(temporary, path);
    if (!isFleeting) await syncFolder(dirname(path));
  } finally {
    await file.close().catch(() => {});
    await unlink(temporary).catch(() => {});
  }
}

/** Errors of folders that may not be opened, and of file systems that cannot sync one. */
const UNSYNCED = ['EACCES', 'EPERM', 'EISDIR', 'EINVAL', 'ENOTSUP'];

/**
 * Syncs a folder, because a name is on disk when its folder is. Where that is impossible, the
 * rename has to do; a disk that fails is an error.
 */
export async function syncFolder(path: string): Promise<void> {
  let folder: FileHandle | undefined;
  try {
    folder = await open(path, 'r');
    await folder.sync();
  } catch (error) {
    if (!UNSYNCED.includes((error as NodeJS.ErrnoException).code!)) throw error;
  } finally {
    await folder?.close();
  }
}

/**
 * For opening what `isFileThere` allowed: if it was exchanged since then, a link is not followed,
 * and a pipe is not waited for.
 */
export const AS_FILE: number = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Changes when one of these files does. Throws where one is missing. */
export function stampOf(...paths: readonly string[]): string {
  const stamp = ({ mtimeMs, ino, size }: Stats) => `${mtimeMs} ${ino} ${size}`;
  return paths.map((path) => stamp(statSync(path))).join();
}
