// Many searches on a small gallery, with writes, deletions and optimization in between: memory must
// not grow.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { connect, MasterSeed } from '@hers/client';
import { identities } from '@hers/vectors/synthetic';

const DIMENSION = 32;
const PEOPLE = 3000;
/** Growth of the resident set, after a warm-up, that counts as a leak. */
const ALLOWED_BYTES = 48e6;

/** Collects garbage, so that only real growth shows. */
function collect(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

/** Searches `count` times; true if memory stayed flat and every answer was right. */
export async function soak(count: number, log: (line: string) => void = console.log): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-soak-'));
  try {
    const db = await connect(`file:${folder}`, { key: MasterSeed.generate() });
    const collection = await db.createCollection('soak', { dimension: DIMENSION });
    const world = identities(PEOPLE, 1, DIMENSION, { noise: 0.5 });
    const { vectors } = world.gallery();
    const vectorOf = (i: number) => vectors.subarray(i * DIMENSION, (i + 1) * DIMENSION);
    await collection.upsert(Array.from({ length: PEOPLE }, (_, i) => ({ id: String(i), vector: vectorOf(i) })));
    const settled = async () => {
      collect();
      await new Promise((resolve) => setTimeout(resolve, 20));
      return process.memoryUsage().rss;
    };
    let wrong = 0;
    let baseline = 0;
    let last = 0;
    // Long enough for the garbage collector of every thread to settle: two optimizes, if there is
    // time for them.
    const warmUp = Math.min(Math.floor(0.7 * count), Math.max(2100, Math.floor(count / 5)));
    for (let i = 0; i < count; i++) {
      const person = (i * 7919) % PEOPLE;
      const { matches } = await collection.search(vectorOf(person), { limit: 1 });
      if (matches[0].id !== String(person)) wrong++;
      if (i % 100 === 99) {
        await collection.delete(String(person));
        await collection.upsert({ id: String(person), vector: vectorOf(person) });
      }
      if (i % 1000 === 999) await collection.optimize();
      if (i === warmUp) baseline = await settled();
      if (i > warmUp && (i + 1) % Math.max(1, Math.floor(count / 10)) === 0) {
        last = await settled();
        log(
          `${i + 1} searches: ${(last / 1e6).toFixed(0)} MB, ${((last - baseline) / 1e6).toFixed(1)} MB since the warm-up, ${wrong} wrong`,
        );
      }
    }
    await db.close();
    const flat = last - baseline < ALLOWED_BYTES;
    log(flat && wrong === 0 ? 'Memory stayed flat, every answer was right.' : 'NOT as it should be: see above.');
    return flat && wrong === 0;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
