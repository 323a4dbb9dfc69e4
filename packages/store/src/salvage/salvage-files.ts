// The files of a damaged folder, wherever they are and whatever their names: their first bytes tell
// what they are, and if those are damaged, their names do.

import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Disk } from '../files/disk.ts';
import { BLOCKS, SEGMENTS, VAULT } from '../files/layout.ts';
import { LOST_AND_FOUND } from '../files/lost-and-found.ts';

export type FileKind = 'pack' | 'block' | 'segment';

export interface FolderFile {
  /** Within the folder. */
  readonly path: string;
  readonly kind: FileKind;
  readonly size: number;
  /**
   * The number of the collection, and for a pack its own number, as the file's name has it; 0 if it
   * has none.
   */
  readonly collectionNumber: number;
  readonly pack: number;
}

const NAME = /^(\d{1,9})-([0-9a-f]+)\.(pack|block|segment)(?![a-z])/;
const START_BYTES = 8;
const STARTS: readonly [string, FileKind][] = [
  ['HERSPACK', 'pack'],
  ['HERSSEG\0', 'segment'],
];

/** All files that may hold data; packs in the order in which they were written. */
export async function filesOf(disk: Disk): Promise<FolderFile[]> {
  const files: FolderFile[] = [];
  for (const folder of [VAULT, BLOCKS, SEGMENTS, LOST_AND_FOUND]) {
    for (const path of await pathsIn(disk, folder)) {
      const file = await fileAt(disk, path);
      if (file) files.push(file);
    }
  }
  return files.sort((a, b) => a.collectionNumber - b.collectionNumber || a.pack - b.pack || (a.path < b.path ? -1 : 1));
}

async function pathsIn(disk: Disk, folder: string): Promise<string[]> {
  let found: Dirent[];
  try {
    found = readdirSync(disk.path(folder), { withFileTypes: true });
  } catch {
    return []; // there is none, or it is not a folder
  }
  const paths: string[] = [];
  for (const entry of found) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) paths.push(...(await pathsIn(disk, path)));
    else if (entry.isFile()) paths.push(path);
  }
  return paths.sort();
}

async function fileAt(disk: Disk, path: string): Promise<FolderFile | undefined> {
  const name = NAME.exec(path.slice(path.lastIndexOf('/') + 1));
  const size = disk.sizeSync(path) ?? 0;
  const start = await startOf(disk, path);
  const kind = STARTS.find(([text]) => text === start)?.[1] ?? (name?.[3] as FileKind | undefined);
  if (!kind) return undefined;
  return {
    path,
    kind,
    size,
    collectionNumber: Number(name?.[1] ?? 0),
    pack: kind === 'pack' ? Number(name?.[2]) || 0 : 0,
  };
}

async function startOf(disk: Disk, path: string): Promise<string> {
  try {
    const file = disk.openToRead(path);
    try {
      return (await file.read(0, START_BYTES)).toString('latin1');
    } finally {
      file.close();
    }
  } catch {
    return '';
  }
}
