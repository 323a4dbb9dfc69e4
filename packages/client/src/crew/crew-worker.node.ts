// One thread of a crew: works until it is ended.

import { parentPort, workerData } from 'node:worker_threads';
import { type KeyMaterial, workFor } from './crew.ts';
import type { Task } from './workers.ts';

// `workerData` lasts as long as the thread, and the seed in it not longer than this.
const work = workFor(workerData as KeyMaterial);

parentPort!.on('message', async (task: Task) => {
  const { answer, transfer } = await work(task);
  parentPort!.postMessage(answer, transfer);
});
