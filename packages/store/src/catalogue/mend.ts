// Computes the proofs of a catalogue again, when they are all that is missing.

import { Disk } from '../files/disk.ts';
import { checkFormat, isInUse } from '../files/layout.ts';
import { FolderLock } from '../files/lock.ts';
import { WritableCatalogue } from './catalogue-writer.ts';

/**
 * Whether the catalogue of a folder is proven now. Returns false, and changes nothing, if the
 * catalogue itself is damaged.
 *
 * @param folder - Where the gallery is.
 * @throws {HersError} DAMAGED: where the catalogue is not the one that was written last.
 * @throws {HersError} LOCKED: where another process writes to the folder.
 * @throws {HersError} INVALID_ARGUMENT, UNSUPPORTED_VERSION, STORAGE: as {@link openStore}.
 */
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
