// What lies in a folder, and which format of it this version knows.
//
//   format          one line that says what kind of folder it is, and in which format; read first
//   lock            held by the process that writes; writer, which one that is
//   reserve         room for the day on which there is none (reserve.ts)
//   catalogue.db    SQLite: collections, and where everything of them is (tables.ts);
//                   catalogue.db-wal, its log; catalogue.db-shm, while it is open
//   catalogue.sums  a checksum of every page of it (page-sums.ts)
//   catalogue.journal  what was committed last, and can be told without a catalogue (journal.ts)
//   blocks/         encoded blocks that are not in a segment yet
//   segments/       many blocks each, in the layout that is scanned
//   vault/          packs of sealed records and lists (entry.ts)
//   lost+found/     what the catalogue does not name (lost-and-found.ts)
//
// File names in blocks/, segments/ and vault/ begin with the number of their collection. A file
// that the catalogue does not name belongs to no collection.

import { readFileSync } from 'node:fs';
import { HersError, otherFormat } from '@hers/service';
import { fault } from '../base/faults.ts';
import { storageError } from '../base/storage-errors.ts';
import type { Disk } from './disk.ts';
import { LOST_AND_FOUND, setAside, type Tail } from './lost-and-found.ts';

/** The number of the format of a folder. */
export const FORMAT = 1;
/** A gallery, or the shards of a node, whose catalogue also keeps what is staged. */
export type FolderKind = 'store' | 'shards';
const FORMAT_FILE = 'format';
const FORMAT_LINE = /^HERS (store|shards), format (\d{1,9})\n$/;

export const LOCK_FILE = 'lock';
export const WRITER_FILE = 'writer';
export const BLOCKS = 'blocks';
export const SEGMENTS = 'segments';
export const VAULT = 'vault';
export const CATALOGUE = 'catalogue.db';
export const WAL: 'catalogue.db-wal' = `${CATALOGUE}-wal`;
export const SUMS = 'catalogue.sums';
const FOLDERS = [BLOCKS, SEGMENTS, VAULT];

export const packPath = (collectionNumber: number, pack: number) => `${VAULT}/${collectionNumber}-${pack}.pack`;
export const blockPath = (collectionNumber: number, name: string) => `${BLOCKS}/${collectionNumber}-${name}.block`;
export const segmentPath = (collectionNumber: number, name: string) =>
  `${SEGMENTS}/${collectionNumber}-${name}.segment`;

/** Refuses a folder that is not a HERS folder, or is in another format, and leaves it unchanged. */
export function checkFormat(disk: Disk): void {
  disk.checkKindSync(FORMAT_FILE, 'file');
  for (const folder of FOLDERS) disk.checkKindSync(folder, 'folder');
  const files = disk.sizeSync('.') === undefined ? [] : disk.listSync('.');
  if (files.includes(FORMAT_FILE)) {
    const named = readFormat(disk);
    if (!named)
      throw new HersError('DAMAGED', `${FORMAT_FILE} is damaged: it should read "HERS store, format ${FORMAT}"`);
    if (named.format !== FORMAT) throw otherFormat(disk.folder);
  } else if (files.some((file) => ![LOCK_FILE, WRITER_FILE, `${FORMAT_FILE}.tmp`].includes(file))) {
    // Cleaning up in a foreign folder would be a disaster.
    const what = files.includes(CATALOGUE) ? `lacks its file ${FORMAT_FILE}` : 'holds other files already';
    throw new HersError('INVALID_ARGUMENT', `${disk.folder} ${what}; choose an empty folder, or one that HERS made`);
  }
}

export function holdsShards(disk: Disk): boolean {
  return hasFormat(disk) && readFormat(disk)?.kind === 'shards';
}

export function hasFormat(disk: Disk): boolean {
  return disk.sizeSync(FORMAT_FILE) !== undefined;
}

/** Reads what a folder is; undefined where the line is none that any version writes. */
export function readFormat(disk: Disk): { readonly kind: FolderKind; readonly format: number } | undefined {
  try {
    disk.checkKindSync(FORMAT_FILE, 'file');
    const [, kind, format] = FORMAT_LINE.exec(readFileSync(disk.path(FORMAT_FILE), 'latin1').slice(0, 100)) ?? [];
    return kind === undefined ? undefined : { kind: kind as FolderKind, format: Number(format) };
  } catch (error) {
    throw storageError(error, FORMAT_FILE);
  }
}

export function makeLayout(disk: Disk, kind: FolderKind): void {
  if (disk.sizeSync(FORMAT_FILE) === undefined) {
    disk.replaceSync(FORMAT_FILE, new TextEncoder().encode(`HERS ${kind}, format ${FORMAT}\n`));
    fault('format.written');
  }
  const missing = FOLDERS.filter((folder) => disk.sizeSync(folder) === undefined);
  for (const folder of missing) disk.makeFolderSync(folder);
  if (missing.length > 0) disk.syncFolderSync('.');
}

/** File names that the store itself uses, for finished and unfinished files. */
const OWN_NAME = /^\d+-[0-9a-f]+\.(?:pack|block|segment|building)(?:\.[0-9a-f]+)?(?:\.tmp)?$/;

/** The highest collection number in any file name, including files in lost+found. */
export function highestNumber(disk: Disk): number {
  const folders = [...FOLDERS, LOST_AND_FOUND].filter((folder) => disk.sizeSync(folder) !== undefined);
  const files = folders.flatMap((folder) => disk.listSync(folder)).filter((file) => OWN_NAME.test(file));
  // No collection ever had a higher number.
  const numbers = files.map(numberOf).filter((number) => number < 2 ** 31);
  return numbers.reduce((highest, number) => Math.max(highest, number), 0);
}

/** Whether the folder holds files that only a catalogue can name. */
export function isInUse(disk: Disk): boolean {
  return FOLDERS.some(
    (folder) => disk.sizeSync(folder) !== undefined && disk.listSync(folder).some((file) => OWN_NAME.test(file)),
  );
}

/** Names of unfinished files. No catalogue ever named them. */
const UNFINISHED = /\.(?:building|tmp)(?:\.|$)/;

const numberOf = (file: string) => Number.parseInt(file, 10);

/**
 * Moves files that a proven catalogue does not name to lost+found, except foreign ones. Files of
 * deleted collections and unfinished files are removed. Returns the packs that are longer than
 * committed.
 */
export function clearFolders(
  disk: Disk,
  named: ReadonlySet<string>,
  packEnds: ReadonlyMap<string, number>,
  deleted: ReadonlySet<number>,
): Tail[] {
  const tails: Tail[] = [];
  for (const folder of FOLDERS) {
    let changed = false;
    for (const file of disk.listSync(folder)) {
      const path = `${folder}/${file}`;
      const end = packEnds.get(path);
      if (end !== undefined) {
        if ((disk.sizeSync(path) ?? 0) > end) tails.push({ path, end });
      } else if (!named.has(path) && OWN_NAME.test(file)) {
        if (deleted.has(numberOf(file)) || UNFINISHED.test(file)) disk.removeSync(path);
        else setAside(disk, path);
        changed = true;
      }
    }
    if (changed) disk.syncFolderSync(folder);
  }
  return tails;
}
