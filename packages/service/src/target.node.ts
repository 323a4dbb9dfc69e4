// Where a file may be written: under a new name, or over a file. Whatever else has the name (a
// device, a pipe, a folder, a link) is somebody's, and stays as it is.

import { constants, lstatSync, renameSync, type Stats, statSync } from 'node:fs';
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
 * For opening what `isFileThere` allowed: if it was exchanged since then, a link is not followed,
 * and a pipe is not waited for.
 */
export const AS_FILE: number = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Changes when one of these files does. Throws where one is missing. */
export function stampOf(...paths: readonly string[]): string {
  const stamp = ({ mtimeMs, ino, size }: Stats) => `${mtimeMs} ${ino} ${size}`;
  return paths.map((path) => stamp(statSync(path))).join();
}
