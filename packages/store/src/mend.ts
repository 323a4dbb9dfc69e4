// Makes the proofs of a catalogue anew, when they are all that is missing.

import { WritableCatalogue } from './catalogue.ts';
import { Disk } from './disk.ts';
import { checkFormat, isInUse } from './layout.ts';
import { FolderLock } from './lock.ts';

/** Whether the catalogue of a folder is proven now. False, and nothing changed, when it is damaged itself; throws when it is not the one written last. */
export async function mendProofs(folder: string): Promise<boolean> {
  const disk = new Disk(folder);
  checkFormat(disk);
  const lock = new FolderLock(disk);
  try {
    const catalogue = new WritableCatalogue(disk, isInUse(disk));
    try {
      return catalogue.mend();
    } finally {
      catalogue.close();
    }
  } finally {
    lock.release();
  }
}
