// What lies in a folder, and which version of it this program knows.
//
//   format          one line that names the version; read before anything else
//   lock            held while a process has the folder open
//   catalogue.db    SQLite: collections, and where everything of them is (tables.ts); catalogue.db-wal, its log; catalogue.sums (page-sums.ts)
//   blocks/         encoded blocks that are not in a segment yet
//   segments/       many blocks each, in the layout that is scanned
//   vault/          packs of sealed records and lists (entry.ts)
//
// The names of files in the three folders begin with the number of the collection they belong to. A file that the catalogue does not name belongs to nothing.

import { readFileSync } from 'node:fs';
import { HersError } from '@hers/service';
import { CATALOGUE } from './catalogue.ts';
import type { Disk } from './disk.ts';
import { fault } from './faults.ts';
import { LOCK_FILE } from './lock.ts';
import { storageError } from './storage-errors.ts';

export const FORMAT = 1;
const FORMAT_FILE = 'format';
const FORMAT_LINE = /^HERS store, format (\d{1,9})\n$/;

export const BLOCKS = 'blocks';
export const SEGMENTS = 'segments';
export const VAULT = 'vault';
const FOLDERS = [BLOCKS, SEGMENTS, VAULT];

export const packPath = (key: number, pack: number) => `${VAULT}/${key}-${pack}.pack`;
export const blockPath = (key: number, name: string) => `${BLOCKS}/${key}-${name}.block`;
export const segmentPath = (key: number, name: string) => `${SEGMENTS}/${key}-${name}.segment`;

/** Refuses a folder that is not ours, or is of a later format, and leaves it as it is. */
export function checkFormat(disk: Disk): void {
  const files = disk.sizeSync('.') === undefined ? [] : disk.listSync('.');
  if (files.includes(FORMAT_FILE)) {
    const line = FORMAT_LINE.exec(readLine(disk));
    if (!line)
      throw new HersError('DAMAGED', `${FORMAT_FILE} is damaged: it should read "HERS store, format ${FORMAT}"`);
    if (Number(line[1]) !== FORMAT)
      throw new HersError(
        'UNSUPPORTED_VERSION',
        `${disk.folder} was written in format ${line[1]}, and this program knows format ${FORMAT}; use a newer program`,
      );
  } else if (files.some((file) => file !== LOCK_FILE && file !== `${FORMAT_FILE}.tmp`)) {
    // Cleaning up in a folder of somebody else would be a disaster.
    const what = files.includes(CATALOGUE) ? `lacks its file ${FORMAT_FILE}` : 'holds other files already';
    throw new HersError('INVALID_ARGUMENT', `${disk.folder} ${what}; choose an empty folder, or one that HERS made`);
  }
}

function readLine(disk: Disk): string {
  try {
    return readFileSync(disk.path(FORMAT_FILE), 'latin1').slice(0, 100);
  } catch (error) {
    throw storageError(error, FORMAT_FILE);
  }
}

/** Makes what is missing of a new folder. */
export function makeLayout(disk: Disk): void {
  if (disk.sizeSync(FORMAT_FILE) === undefined) {
    disk.replaceSync(FORMAT_FILE, new TextEncoder().encode(`HERS store, format ${FORMAT}\n`));
    fault('format.written');
  }
  const missing = FOLDERS.filter((folder) => disk.sizeSync(folder) === undefined);
  for (const folder of missing) disk.makeFolderSync(folder);
  if (missing.length > 0) disk.syncFolderSync('.');
}

/** What the store itself calls its files, finished or not. */
const OWN_NAME = /^\d+-[0-9a-f]+\.(?:pack|block|segment|building)(?:\.[0-9a-f]+)?(?:\.tmp)?$/;

/** Whether the folder holds files that only a catalogue can name. */
export function isInUse(disk: Disk): boolean {
  return FOLDERS.some(
    (folder) => disk.sizeSync(folder) !== undefined && disk.listSync(folder).some((file) => OWN_NAME.test(file)),
  );
}

/** Removes what the catalogue does not name, files of somebody else excepted, and cuts packs behind their last committed entry: all that a crash can leave. */
export function cleanFolders(disk: Disk, named: ReadonlySet<string>, packEnds: ReadonlyMap<string, number>): void {
  for (const folder of FOLDERS) {
    for (const file of disk.listSync(folder)) {
      const path = `${folder}/${file}`;
      const end = packEnds.get(path);
      if (end === undefined && !named.has(path) && OWN_NAME.test(file)) disk.removeSync(path);
      else if (end !== undefined && (disk.sizeSync(path) ?? 0) > end) disk.truncateSync(path, end);
    }
  }
}
