// The worker of million.js.

import { parentPort, workerData } from 'node:worker_threads';
import { connect, MasterSeed } from 'hers';

const DIMENSION = 64;
const { count } = workerData;

/** A generator with a seed, so that a vector can be made again to search for it. */
function vectorOf(index) {
  let state = index + 1;
  return Float32Array.from({ length: DIMENSION }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  });
}

// From a file or a database it would be an async generator: `upsert` takes both, and takes the next
// record only when there is room for it.
function* records() {
  for (let i = 0; i < count; i++) yield { id: `v${i}`, vector: vectorOf(i) };
}

const db = await connect('file:./gallery', { key: MasterSeed.generate() });
const vectors = await db.createCollection(`vectors-${Date.now()}`, { dimension: DIMENSION });
let said = 0;
await vectors.upsert(records(), {
  onProgress({ acknowledged }) {
    if (acknowledged < said + count / 10 && acknowledged < count) return;
    said = acknowledged;
    parentPort.postMessage({ acknowledged });
  },
});
const index = Math.floor(count / 3);
const { matches } = await vectors.search(vectorOf(index), { limit: 1 });
parentPort.postMessage({ found: matches[0].id });
await db.close();
