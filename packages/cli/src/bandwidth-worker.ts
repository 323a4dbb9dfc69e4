// Reads two areas against each other (memcmp, which does nothing but read) for a while, and says
// how many bytes a second that was.

import { parentPort, workerData } from 'node:worker_threads';

const { bytes, ms } = workerData as { bytes: number; ms: number };
const a = Buffer.alloc(bytes / 2, 1);
const b = Buffer.alloc(bytes / 2, 1);
Buffer.compare(a, b);

parentPort!.once('message', () => {
  const start = performance.now();
  let read = 0;
  while (performance.now() - start < ms) {
    Buffer.compare(a, b);
    read += bytes;
  }
  parentPort!.postMessage((1000 * read) / (performance.now() - start));
});
parentPort!.postMessage(0);
