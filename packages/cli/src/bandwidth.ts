// How fast this machine reads its memory: the floor under every scan, which reads each stored byte
// once.

import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';

/** Beyond any cache. */
const BYTES_EACH = 2 ** 26;
const MEASURED_MS = 200;

/** Bytes per second over all threads. */
export async function memoryBandwidth(threads: number = availableParallelism()): Promise<number> {
  const workers = Array.from(
    { length: threads },
    () =>
      new Worker(new URL('./bandwidth-worker.ts', import.meta.url), {
        workerData: { bytes: BYTES_EACH, ms: MEASURED_MS },
      }),
  );
  try {
    // All begin together, or the last would have the memory to itself.
    await Promise.all(workers.map((worker) => answerOf(worker)));
    const rates = workers.map((worker) => answerOf(worker));
    for (const worker of workers) worker.postMessage('begin');
    return (await Promise.all(rates)).reduce((sum, rate) => sum + rate, 0);
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

function answerOf(worker: Worker): Promise<number> {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}
