// Creates, names and deletes collections: their rows and tables in the catalogue, and their files.

import type { Catalogue } from './catalogue/catalogue.ts';
import type { JournalPart } from './catalogue/journal.ts';
import { Tables } from './catalogue/tables.ts';
import type { Collection } from './collection.ts';
import { fault } from './faults.ts';
import type { Disk } from './files/disk.ts';
import { BLOCKS, SEGMENTS, VAULT } from './files/layout.ts';
import { clearSetAside } from './files/lost-and-found.ts';

/**
 * Creates a collection and returns its number. If it gets no name, it is removed when the folder is
 * opened next.
 */
export function createRow(
  catalogue: Catalogue,
  name: string | null,
  made: { id: Uint8Array; descriptor: Uint8Array; manifest: Uint8Array; version: number },
  kind: { readonly keepsStages: boolean },
): number {
  let number = 0;
  const { id, descriptor, version, manifest } = made;
  const parts = (): JournalPart[] =>
    name === null ? [] : [{ collection: { number, name, id, descriptor, version, manifest } }];
  catalogue.transaction(() => {
    const insert = catalogue.prepare('INSERT INTO collections (name, id, descriptor) VALUES (?, ?, ?)');
    number = Number(insert.run(name, id, descriptor).lastInsertRowid);
    new Tables(catalogue, number).create(version, manifest, kind);
    fault('collection.committing');
  }, parts);
  return number;
}

/** Names a restored collection. From now on it exists. */
export function nameRow(collection: Collection, name: string): void {
  const { number, id, descriptor, tables } = collection;
  const { catalogue } = collection.folder;
  catalogue.transaction(
    () => {
      catalogue.prepare('UPDATE collections SET name = ? WHERE key = ?').run(name, number);
      fault('restore.within');
    },
    () => [{ collection: { number, name, id, descriptor, ...tables.manifest() } }],
  );
  fault('restore.committed');
  collection.name = name;
}

/** Gives a restored collection the name of another one, which is gone from then on. */
export function replaceRow(old: Collection, collection: Collection): void {
  const { number, id, descriptor, tables } = collection;
  const { catalogue } = collection.folder;
  const { name } = old;
  catalogue.transaction(
    () => {
      new Tables(catalogue, old.number).drop();
      catalogue.prepare('DELETE FROM collections WHERE key = ?').run(old.number);
      catalogue.prepare('UPDATE collections SET name = ? WHERE key = ?').run(name, number);
      fault('restore.within');
    },
    () => [{ gone: old.number }, { collection: { number, name, id, descriptor, ...tables.manifest() } }],
  );
  fault('restore.committed');
  collection.name = name;
}

/** Removes a collection from the catalogue. */
export function dropRow(catalogue: Catalogue, number: number): void {
  catalogue.transaction(
    () => {
      new Tables(catalogue, number).drop();
      catalogue.prepare('DELETE FROM collections WHERE key = ?').run(number);
      fault('delete.within');
    },
    () => [{ gone: number }],
    { mayUseReserve: true },
  );
  fault('delete.committed');
}

/**
 * Removes the files of a collection that is no longer in the catalogue. Files that cannot be
 * removed now are removed when the folder is opened next.
 */
export async function removeFiles(disk: Disk, number: number): Promise<void> {
  try {
    clearSetAside(disk, number);
  } catch {}
  for (const folder of [BLOCKS, SEGMENTS, VAULT])
    for (const file of disk.listSync(folder))
      if (file.startsWith(`${number}-`)) await disk.remove(`${folder}/${file}`).catch(() => {});
}
