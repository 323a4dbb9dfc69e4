// Opens as many idle connections as requested, or as the descriptor limit allows. The server must
// still answer others, and close the idle ones.

import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ServiceProcess } from '../service-process.ts';

const IDLE_SECONDS = 5;
/** Descriptors that this process and the server need for other things. */
const SPARE = 200;

export async function idleConnections(wanted: number, log: (line: string) => void = console.log): Promise<boolean> {
  const limit = Number(spawnSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).stdout);
  const count = Number.isFinite(limit) ? Math.min(wanted, limit - SPARE) : wanted;
  log(`${count} connections (asked for ${wanted}; the descriptor limit is ${limit || 'none'})`);
  const folder = await mkdtemp(join(tmpdir(), 'hers-idle-'));
  const server = await ServiceProcess.start(folder, {
    limits: { connections: count + SPARE, idleSeconds: IDLE_SECONDS, headerSeconds: IDLE_SECONDS },
  });
  const { hostname, port } = new URL(server.url);
  const before = server.bytes;
  const sockets: Socket[] = [];
  try {
    const closed: Promise<void>[] = [];
    for (let i = 0; i < count; i++) {
      const socket = connect(Number(port), hostname).resume(); // its data is ignored, its end is not
      sockets.push(socket);
      closed.push(new Promise((resolve) => socket.on('error', () => {}).once('close', () => resolve())));
      // A few at a time: the queue of the listening socket is short.
      if (i % 100 === 99) await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
    }
    const began = performance.now();
    const answer = await fetch(`${server.url}/v1`);
    const ms = performance.now() - began;
    const held = server.bytes - before;
    log(
      `another client is answered with ${answer.status} in ${ms.toFixed(0)} ms; the server holds ${(held / 1e6).toFixed(1)} MB more`,
    );
    await Promise.all(closed);
    log(`all were let go after ${((performance.now() - began) / 1000).toFixed(1)} s`);
    return answer.status === 200;
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
