// Compares every byte of a folder's files with the checksums that were written with it, to find
// silent data loss before the data is needed. Worker threads read the bytes (scrub-crew.ts);
// scrub-collection.ts does what needs the catalogue.

import type { CallOptions, HersError } from '@hers/service';
import type { Collection } from '../collection.ts';
import { atOneMoment } from '../snapshot.ts';
import { CollectionScrub } from './scrub-collection.ts';
import { ScrubCrew } from './scrub-crew.ts';

/** A file that was read to its end, or up to its damage. */
export interface Scrubbed {
  /** Its path within the folder. */
  readonly file: string;
  /** The collection it belongs to; the catalogue belongs to all. */
  readonly collection?: string;
  /** How long it is. */
  readonly bytes: number;
  /** What is wrong with it, if anything is. */
  readonly damage?: HersError;
}

/** How a folder is read through. */
export interface ScrubOptions extends Omit<CallOptions, 'partitions'> {
  /** Called with the number of bytes done, also in the middle of a file. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
  /** How many threads read. By default one per core, and none for a small folder. */
  readonly threads?: number;
}

/** One run over a folder. */
export class Scrub {
  readonly #crew: ScrubCrew;
  readonly #onProgress: ScrubOptions['onProgress'];
  readonly #total: number;
  #done = 0;

  constructor(collections: readonly Collection[], catalogueBytes: number, options: ScrubOptions = {}) {
    const bytes = collections.reduce((sum, collection) => sum + bytesOf(collection), 0);
    this.#onProgress = options.onProgress;
    this.#total = catalogueBytes + bytes;
    this.#crew = new ScrubCrew(bytes, options.threads);
  }

  /** Adds to the bytes done. */
  tell(bytes: number): void {
    this.#done += bytes;
    // Data written since the scrub began is read too, but does not change the total.
    this.#onProgress?.({ done: Math.min(this.#done, this.#total), total: this.#total });
  }

  collection(collection: Collection, signal: AbortSignal): AsyncGenerator<Scrubbed> {
    const tell = (bytes: number) => this.tell(bytes);
    return atOneMoment(collection, signal, (moment) =>
      new CollectionScrub(collection, moment, this.#crew, tell).files(),
    );
  }

  close(): Promise<void> {
    return this.#crew.close();
  }
}

function bytesOf({ tables, sources }: Collection): number {
  const packs = tables.packs().reduce((sum, { ends }) => sum + ends, 0);
  return [...sources].reduce((sum, { bytes }) => sum + bytes, packs);
}
