// Checks a folder without reading its files: does every file that the catalogue names exist, with
// the right length? The content is for the scrub.

import type { Collection } from '../collection.ts';
import type { Scrubbed } from '../scrub/scrub.ts';
import { damaged } from '../storage-errors.ts';

/** The files of a collection, each with what its length shows. */
export function lengthsOf({ name, folder, sources, vault, tables }: Collection): Scrubbed[] {
  // Beyond the end of a pack are entries being written, or left by a crash.
  const packs = tables.packs().map(({ pack, ends }) => ({ path: vault.path(pack), bytes: ends, mayBeLonger: true }));
  const blocks = [...sources].map(({ path, bytes }) => ({ path, bytes, mayBeLonger: false }));
  return [...packs, ...blocks].map(({ path, bytes, mayBeLonger }) => {
    const size = folder.disk.sizeSync(path);
    const fits = size === bytes || (mayBeLonger && size !== undefined && size > bytes);
    if (fits) return { file: path, collection: name, bytes };
    const what = size === undefined ? 'it is missing' : `it has ${size} bytes and should have ${bytes}`;
    return { file: path, collection: name, bytes, damage: damaged(path, what) };
  });
}
