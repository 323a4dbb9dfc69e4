// Every byte of a folder's files, compared with the checksums that were written with it: what a
// disk loses in silence is found before it is needed. The bytes are read in other threads
// (scrub-crew.ts); what needs the catalogue is done here (scrub-collection.ts).

import type { CallOptions, HersError } from '@hers/service';
import type { Collection } from '../collection.ts';
import { atOneMoment } from '../snapshot.ts';
import { CollectionScrub } from './scrub-collection.ts';
import { ScrubCrew } from './scrub-crew.ts';

/** A file that was read to its end, or as far as its damage. */
export interface Scrubbed {
  readonly file: string;
  /** The collection it belongs to; the catalogue belongs to all. */
  readonly collection?: string;
  readonly bytes: number;
  readonly damage?: HersError;
}

export interface ScrubOptions extends CallOptions {
  /** Hears how many bytes are done, also in the middle of a file. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
  /** How many threads read; by default one for each core, and none for a small folder. */
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

  /** So many more bytes are done. */
  tell(bytes: number): void {
    this.#done += bytes;
    // What was written since the scrub began is read too, and changes nothing about how much there
    // was to do.
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
