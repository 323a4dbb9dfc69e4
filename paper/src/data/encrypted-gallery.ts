// A gallery in the database as a user would have it: a folder, a key, a collection, searched
// through the client. For experiments about answers, not about time.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Collection,
  type CollectionDescription,
  connect,
  type Database,
  HersError,
  MasterSeed,
  type Profile,
  type SearchOptions,
  type VectorRecord,
} from '@hers/client';

export interface Found {
  /** Place in the gallery. */
  readonly index: number;
  readonly score: number;
}

export interface GalleryOptions {
  readonly dimension: number;
  readonly profile: Profile;
  /** A saved compressor: the scanned vectors are then shorter than the enrolled ones. */
  readonly compressor?: Uint8Array;
}

export class EncryptedGallery {
  readonly #folder: string;
  readonly #database: Database;
  readonly #collection: Collection;
  readonly #dimension: number;
  #size = 0;

  private constructor(folder: string, database: Database, collection: Collection, dimension: number) {
    this.#folder = folder;
    this.#database = database;
    this.#collection = collection;
    this.#dimension = dimension;
  }

  static async open({ dimension, profile, compressor }: GalleryOptions): Promise<EncryptedGallery> {
    const folder = await mkdtemp(join(tmpdir(), 'hers-gallery-'));
    try {
      const database = await connect(`file:${folder}`, { key: MasterSeed.generate() });
      const collection = await database.createCollection('gallery', {
        dimension,
        profile,
        ...(compressor ? { compressor } : {}),
      });
      return new EncryptedGallery(folder, database, collection, dimension);
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** Undefined under `small` where it is refused, for it takes no fewer bytes than the vectors. */
  static async openOffered(options: GalleryOptions): Promise<EncryptedGallery | undefined> {
    try {
      return await EncryptedGallery.open(options);
    } catch (error) {
      if (options.profile === 'small' && error instanceof HersError && error.code === 'UNSUPPORTED_PLAN')
        return undefined;
      throw error;
    }
  }

  get size(): number {
    return this.#size;
  }

  /** The plan of the scanned vectors, and the size of the folder. */
  describe(): Promise<CollectionDescription> {
    return this.#database.describe('gallery');
  }

  /** Enrols vectors, in the places after those enrolled so far. */
  async enrol(vectors: Float32Array, onProgress?: (done: number) => void): Promise<void> {
    const [first, dimension] = [this.#size, this.#dimension];
    const count = vectors.length / dimension;
    const records = function* (): Generator<VectorRecord> {
      for (let i = 0; i < count; i++)
        yield { id: String(first + i), vector: vectors.subarray(i * dimension, (i + 1) * dimension) };
    };
    await this.#collection.upsert(records(), { onProgress: ({ acknowledged }) => onProgress?.(acknowledged) });
    this.#size += count;
  }

  /**
   * Puts everything into encrypted blocks. Otherwise the client itself compares pending records.
   */
  async seal(): Promise<void> {
    await this.#collection.optimize();
  }

  /**
   * The best matches of each probe, best first. Every template must have been compared, or the
   * answer would mean nothing.
   */
  async search(probes: Float32Array, limit: number): Promise<Found[][]> {
    return (await this.searchTwice(probes, { limit: Math.min(limit, this.#size) })).map(({ found }) => found);
  }

  /** The same with a second stage, if one is requested; returns how many records it fetched. */
  async searchTwice(probes: Float32Array, options: SearchOptions): Promise<{ found: Found[]; fetched: number }[]> {
    const vectors = Array.from({ length: probes.length / this.#dimension }, (_, i) =>
      probes.subarray(i * this.#dimension, (i + 1) * this.#dimension),
    );
    const results = await this.#collection.searchBatch(vectors, options);
    return results.map(({ matches, coverage, fetched }) => {
      if (coverage.searched !== this.#size) throw new Error(`${coverage.searched} of ${this.#size} were compared`);
      return { found: matches.map(({ id, score }) => ({ index: Number(id), score })), fetched };
    });
  }

  async close(): Promise<void> {
    await this.#database.close();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
