// Encrypted searches for a report, by the product itself: a collection in a folder that exists for
// as long as it is measured, under a key that nobody keeps.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, MasterSeed, type Plan, type Profile } from '@hers/client';

export interface EncryptedScores {
  /** A row for each vector; where a match was not among the first ten thousand, −2. */
  readonly scores: Float32Array;
  readonly plan: Plan;
  /** Of the folder. */
  readonly bytes: number;
  readonly searchSeconds: number;
  readonly enrolSeconds: number;
  /** After a rotation of the key, the share of vectors whose best match is the same as before. */
  readonly sameAfterRotation: number;
}

/** The most matches that one search returns. */
const MOST = 10_000;
const BATCH = 16;
/** Searches that are made again after the rotation. */
const AGAIN = 50;

/** Scores of every vector with every other. */
export async function encryptedScores(
  vectors: Float32Array,
  dimension: number,
  profile: Profile,
  { signal, onProgress }: { readonly signal: AbortSignal; readonly onProgress: (done: number) => void },
): Promise<EncryptedScores> {
  const count = vectors.length / dimension;
  const folder = await mkdtemp(join(tmpdir(), 'hers-report-'));
  const database = await connect(`file:${join(folder, 'gallery')}`, { key: MasterSeed.generate() });
  try {
    const collection = await database.createCollection('report', { dimension, profile });
    const row = (i: number) => vectors.subarray(i * dimension, (i + 1) * dimension);
    const begun = performance.now();
    await collection.upsert(
      Array.from({ length: count }, (_, i) => ({ id: String(i), vector: row(i) })),
      { signal, optimize: 'always' },
    );
    const enrolSeconds = (performance.now() - begun) / 1000;
    const scores = new Float32Array(count * count).fill(-2);
    const best = new Int32Array(count);
    const started = performance.now();
    for (let from = 0; from < count; from += BATCH) {
      const probes = Array.from({ length: Math.min(BATCH, count - from) }, (_, p) => row(from + p));
      const results = await collection.searchBatch(probes, { limit: Math.min(MOST, count), signal });
      results.forEach(({ matches, pending }, p) => {
        if (pending > 0) throw new Error('a record was compared in the clear');
        best[from + p] = Number(matches.find(({ id }) => Number(id) !== from + p)?.id ?? -1);
        for (const { id, score } of matches) scores[(from + p) * count + Number(id)] = score;
      });
      onProgress(Math.min(count, from + BATCH));
    }
    const searchSeconds = (performance.now() - started) / 1000 / count;
    const { plan, bytes } = await database.describe('report');
    await collection.rotateKey({ signal });
    const again = await collection.searchBatch(
      Array.from({ length: Math.min(AGAIN, count) }, (_, i) => row(i)),
      { limit: 2, signal },
    );
    const same = again.filter(({ matches }, i) => matches.some(({ id }) => Number(id) === best[i])).length;
    return { scores, plan, bytes, searchSeconds, enrolSeconds, sameAfterRotation: same / again.length };
  } finally {
    await database.close();
    await rm(folder, { recursive: true, force: true });
  }
}
