// Every byte of a collection's files, compared with the checksums that were written with it: what a disk loses in silence is found before it is needed.

import { checksum } from '@hers/ring';
import { HersError } from '@hers/service';
import type { Collection } from './collection.ts';
import type { Disk } from './disk.ts';
import { readSegmentHeader, readStoredBlock } from './rebuild.ts';
import { atOneMoment, entriesMissing, type Moment, namedEntries } from './snapshot.ts';
import { damaged } from './storage-errors.ts';

/** A file that was read to its end, or as far as its damage. */
export interface Scrubbed {
  readonly file: string;
  /** The collection it belongs to; the catalogue belongs to all. */
  readonly collection?: string;
  readonly bytes: number;
  readonly damage?: HersError;
}

/** Verifies file after file, and goes on after damage: all of it should be known. */
export function scrubCollection(collection: Collection, signal: AbortSignal): AsyncGenerator<Scrubbed> {
  const { name, key, folder, vault } = collection;
  const verify = async (file: string, bytes: number, work: () => Promise<void>): Promise<Scrubbed> => {
    signal.throwIfAborted();
    const damage = await work().then(() => undefined, damageIn);
    return { file, collection: name, bytes, ...(damage ? { damage } : {}) };
  };
  return atOneMoment(collection, signal, async function* (moment) {
    let missing = moment.header.records + moment.header.lists;
    let whole = true;
    for (const pack of moment.packs) {
      const scrubbed = await verify(vault.path(pack.pack), pack.ends, async () => {
        for await (const _ of namedEntries(collection, moment, pack)) missing--;
      });
      whole &&= !scrubbed.damage;
      yield scrubbed;
    }
    if (whole && missing !== 0)
      yield { file: 'vault', collection: name, bytes: 0, damage: entriesMissing(key, missing) };
    for (const [source, blocks] of bySource(moment.blocks)) {
      yield await verify(source.path, source.bytes, async () => {
        if (source.sealed) await verifySegment(folder.disk, source.path, moment.signal);
        for (const block of blocks) {
          moment.signal.throwIfAborted();
          await readStoredBlock(folder.disk, block);
        }
      });
    }
  });
}

/** Damage is a finding; anything else, such as an abort or a lack of memory, ends the scrub. */
function damageIn(error: unknown): HersError {
  if (error instanceof HersError && error.code === 'DAMAGED') return error;
  throw error;
}

function bySource(blocks: Moment['blocks']) {
  return Map.groupBy(blocks, ({ source }) => source);
}

/** The header, and the checksum of every part: the digits of the masks have no other. */
async function verifySegment(disk: Disk, path: string, signal: AbortSignal): Promise<void> {
  const file = disk.openToRead(path);
  try {
    const { dataAt, partBytes, partChecksums } = await readSegmentHeader(file);
    for (const [part, sum] of partChecksums.entries()) {
      signal.throwIfAborted();
      if (checksum(await file.read(dataAt + part * partBytes, partBytes)) !== sum)
        throw damaged(path, `part ${part} of it is not what was written`);
    }
  } finally {
    file.close();
  }
}
