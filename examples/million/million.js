// node million.js [COUNT]: a worker makes vectors and streams them into a gallery, without ever
// holding them all; this thread stays free, and prints how far it is.

import { Worker } from 'node:worker_threads';

const count = Number(process.argv[2] ?? 1_000_000);
const worker = new Worker(new URL('./enrol.js', import.meta.url), { workerData: { count } });
const start = performance.now();
worker.on('message', ({ acknowledged, found }) => {
  const seconds = (performance.now() - start) / 1000;
  if (found !== undefined) console.log(`found ${found}`);
  else {
    const megabytes = Math.round(process.memoryUsage.rss() / 1e6);
    console.log(`${acknowledged} in ${seconds.toFixed(1)} s, ${megabytes} MB of memory`);
  }
});
worker.on('error', (error) => {
  console.error(error);
  process.exitCode = 1;
});
