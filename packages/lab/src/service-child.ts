// A server in a process of its own, for benchmarks and campaigns: serves a folder, says where, and
// goes down in order when it is told to. A second port only moves bytes, to measure the line.

import { createServer } from 'node:net';
import { keepProcessSmall, startServer } from '@hers/server';
import { openStore } from '@hers/store';

const [folder, given] = process.argv.slice(2);
const { logs, ...options } = JSON.parse(given);
keepProcessSmall();
const server = await startServer(await openStore(folder), {
  ...options,
  // Mistakes of the server, with their stacks; a line for every request would be most of what it
  // does under a flood.
  ...(logs ? { log: { level: 'error', stream: process.stderr } } : {}),
});

/**
 * Reads as many bytes as the first eight say, then sends as many as the second eight say; again and
 * again.
 */
const line = createServer((socket) => {
  let left = -1;
  let answer = 0;
  socket.on('data', (bytes) => {
    let rest = bytes.length;
    if (left < 0) {
      left = Number(bytes.readBigUInt64LE(0));
      answer = Number(bytes.readBigUInt64LE(8));
      rest -= 16;
    }
    left -= rest;
    if (left > 0) return;
    left = -1;
    socket.write(Buffer.alloc(answer));
  });
  socket.on('error', () => {});
});
await new Promise<void>((resolve) => line.listen(0, '127.0.0.1', resolve));
console.log(JSON.stringify({ url: server.url, line: (line.address() as { port: number }).port }));

/** Collects garbage and says what is left. */
process.on('message', () => {
  globalThis.gc?.();
  process.send?.(process.memoryUsage());
});

process.on('SIGTERM', async () => {
  line.close();
  await server.close();
  process.exit(0);
});
