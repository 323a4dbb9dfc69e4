// The thread of cut-child.ts that acts like a program that copies a file onto itself: it truncates
// the file and writes it again, in place, repeatedly.

import { openSync, readFileSync, truncateSync, writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';

const { original, victim, lengths } = workerData as { original: string; victim: string; lengths: readonly number[] };
const bytes = readFileSync(original);
const file = openSync(victim, 'r+');
const never = new Int32Array(new SharedArrayBuffer(4));

for (let i = 0; ; i++) {
  const length = lengths[i % lengths.length];
  truncateSync(victim, length);
  // Every other time it restores the length before the bytes: then no read raises a signal.
  if (i % 2 === 1) truncateSync(victim, bytes.length);
  writeSync(file, bytes, length, bytes.length - length, length);
  Atomics.wait(never, 0, 0, 4 * (i % 30));
}
