// A server in its own process, for benchmarks and campaigns: serves a folder, prints its address,
// and shuts down in order when told to. A second port only moves bytes, to measure the connection.

import { createServer } from 'node:net';
import { keepProcessSmall, startServer } from '@hers/server';
import { freeBytes } from '@hers/service';
import { openStore } from '@hers/store';

const [folder, given] = process.argv.slice(2);
const { logs, ...options } = JSON.parse(given);
keepProcessSmall();
const server = await startServer(await openStore(folder), {
  ...options,
  // Bugs of the server, with their stacks. Under a flood, one log entry per request would be most
  // of its work.
  ...(logs ? { log: { level: 'error', stream: process.stderr } } : {}),
});

/**
 * Reads as many bytes as the first eight say, then sends as many as the second eight say;
 * repeatedly.
 */
const line = createServer((socket) => {
  let left = -1;
  let answer = 0;
  let zeros = Buffer.alloc(0);
  socket.on('data', (bytes) => {
    let rest = bytes.length;
    if (left < 0) {
      left = Number(bytes.readBigUInt64LE(0));
      answer = Number(bytes.readBigUInt64LE(8));
      rest -= 16;
    }
    freeBytes(bytes);
    left -= rest;
    if (left > 0) return;
    left = -1;
    if (zeros.length < answer) zeros = Buffer.alloc(answer);
    socket.write(zeros.subarray(0, answer));
  });
  socket.on('error', () => {});
});
await new Promise<void>((resolve) => line.listen(0, '127.0.0.1', resolve));
console.log(JSON.stringify({ url: server.url, line: (line.address() as { port: number }).port }));

/** Collects garbage and reports what is left. */
process.on('message', () => {
  globalThis.gc?.();
  process.send?.(process.memoryUsage());
});

process.on('SIGTERM', async () => {
  line.close();
  await server.close();
  process.exit(0);
});
