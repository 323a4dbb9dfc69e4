// Enrols made-up records into a collection of its own until it is ended, and tells how many are
// acknowledged: the other client of `npm run bench -- service`.

import { Database, HttpService, MasterSeed, type VectorRecord } from '@hers/client';

export interface EnrolTold {
  readonly acknowledged: number;
}

/** Different vectors; what they are does not matter to a server. */
const VECTORS = 4096;

const [url, size] = process.argv.slice(2);
const dimension = Number(size);
const vectors = Float32Array.from({ length: VECTORS * dimension }, () => (Math.random() - 0.5) / dimension);

function* records(): Generator<VectorRecord> {
  for (let i = 0; ; i++) {
    const at = (i % VECTORS) * dimension;
    yield { id: String(i), vector: vectors.subarray(at, at + dimension) };
  }
}

process.on('disconnect', () => process.exit(0));
const db = new Database(new HttpService(url), { key: MasterSeed.generate() });
const collection = await db.createCollection('other', { dimension });
await collection.upsert(records(), { onProgress: (told: EnrolTold) => process.send?.(told) });
