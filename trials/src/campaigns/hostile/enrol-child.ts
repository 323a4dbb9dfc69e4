// Enrols records, one after the other, and reports how many are acknowledged. After the first of
// them it waits for the searchers. For busy.ts alone.

import { once } from 'node:events';
import { connect } from '@hers/client';
import { vectorOf } from './vectors.ts';

export interface EnrolOrder {
  readonly url: string;
  readonly token: string;
  readonly key: string;
  readonly collection: string;
  readonly records: number;
  readonly first: number;
  readonly seed: number;
}

export type EnrolTold =
  | { readonly acknowledged: number }
  | { readonly enrolled: true; readonly ms: number; readonly retries: number }
  | { readonly failed: string };

/** Written in this many calls. */
const BATCHES = 20;

const tell = (told: EnrolTold) => process.send!(told);
process.on('disconnect', () => process.exit());
process.once('message', async ({ url, token, key, collection: name, records, first, seed }: EnrolOrder) => {
  const go = once(process, 'message');
  let retries = 0;
  const onRetry = () => retries++;
  try {
    const db = await connect(url, { key: Buffer.from(key, 'hex'), token, threads: 1, onRetry });
    const collection = await db.collection(name);
    const enrol = async (from: number, to: number) => {
      const made = Array.from({ length: to - from }, (_, i) => ({
        id: String(from + i),
        vector: vectorOf(seed, from + i),
      }));
      const onProgress = (so: { acknowledged: number }) => tell({ acknowledged: from + so.acknowledged });
      await collection.upsert(made, { onProgress });
    };
    await enrol(0, first);
    await go;
    const since = performance.now();
    const batch = Math.ceil((records - first) / BATCHES);
    for (let from = first; from < records; from += batch) await enrol(from, Math.min(records, from + batch));
    tell({ enrolled: true, ms: performance.now() - since, retries });
  } catch (error) {
    tell({ failed: String(error) });
  }
});
