// Files that only their owner can read: a crash leaves the old content or the new, never half.

import { type FileHandle, link, mkdir } from 'node:fs/promises';
import { isFileThere, renameOverFile, replaceFile } from '@hers/service/target';
import { absentError, type CommandError } from './exit.ts';

/** A folder that others cannot look into, where there is none yet. */
export async function makePrivateFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    // What Node says where the disk is read-only.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') Object.assign(error as Error, { code: 'EACCES' });
    throw error;
  }
}

/**
 * Calls `write` with a new file beside `path`, and gives it that name when all of it is on disk.
 * EEXIST where `path` exists and may not be replaced. What is no file is never replaced:
 * INVALID_ARGUMENT, before anything is written.
 */
export async function writePrivately(
  path: string,
  { replace }: { readonly replace: boolean },
  write: (file: FileHandle) => Promise<void>,
): Promise<void> {
  if (isFileThere(path) && !replace) throw taken(path);
  await replaceFile(path, write, replace ? {} : { rename: nameOnce });
}

/** A link fails where the name is taken, a rename would not. */
async function nameOnce(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (isFileThere(path) || code === 'EEXIST') throw taken(path);
    renameOverFile(temporary, path); // a file system without links
  }
}

/** Does the same for commands that take --replace. */
export async function writeOrReplace(
  path: string,
  replace: boolean | undefined,
  write: (file: FileHandle) => Promise<void>,
): Promise<void> {
  await writePrivately(path, { replace: replace ?? false }, write).catch((error) => {
    throw error.code === 'EEXIST' ? mayReplace(path) : error;
  });
}

/** Says what to do about a file that is there already, where it may be replaced. */
export const mayReplace = (path: string): CommandError =>
  absentError(`${path} exists already`, 'choose another name, or add --replace');

/** As the system says it. */
export function taken(path: string): Error {
  return Object.assign(new Error(`${path} exists already`), { code: 'EEXIST', path });
}
