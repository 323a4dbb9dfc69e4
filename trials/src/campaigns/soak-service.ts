// Many searches over HTTP, with writes, optimization, refused and broken requests in between: the
// server's memory must not grow.

import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Database, HttpService, MasterSeed } from '@hers/client';
import { identities } from '@hers/vectors/synthetic';
import { ServiceProcess } from '../service-process.ts';

const DIMENSION = 32;
const PEOPLE = 3000;
const CLIENTS = 4;
/**
 * Growth of the server's memory over the second half that counts as a leak. In the first half the
 * system's allocator still fills its arenas: about 70 MB in 10 000 searches, and then no more.
 */
const ALLOWED_BYTES = 24e6;

/** Searches `count` times; true when the server's memory stayed flat and every answer was right. */
export async function soakService(count: number, log: (line: string) => void = console.log): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-soak-'));
  const server = await ServiceProcess.start(folder, { limits: { requestsPerSecond: 100_000 } });
  try {
    const db = new Database(new HttpService(server.url), { key: MasterSeed.generate(), threads: 1 });
    const collection = await db.createCollection('soak', { dimension: DIMENSION });
    const { vectors } = identities(PEOPLE, 1, DIMENSION, { noise: 0.5 }).gallery();
    const vectorOf = (i: number) => vectors.subarray(i * DIMENSION, (i + 1) * DIMENSION);
    await collection.upsert(Array.from({ length: PEOPLE }, (_, i) => ({ id: String(i), vector: vectorOf(i) })));
    let [wrong, done, baseline, last] = [0, 0, 0, 0];
    const warmUp = Math.floor(count / 2);
    const report = Math.max(1, Math.floor(count / 10));
    const client = async () => {
      while (done < count) {
        const i = done++;
        const person = (i * 7919) % PEOPLE;
        const { matches } = await collection.search(vectorOf(person), { limit: 1 });
        if (matches[0].id !== String(person)) wrong++;
        if (i % 100 === 99) await collection.upsert({ id: `new-${i % 1000}`, vector: vectorOf(person).map((x) => -x) });
        if (i % 1000 === 999) await collection.optimize();
        if (i % 10 === 9) await rude(server.url, i);
        if (i === warmUp) {
          await server.settled();
          baseline = server.bytes;
        }
        if (i > warmUp && (i + 1) % report === 0) {
          const { heapUsed, arrayBuffers } = await server.settled();
          last = server.bytes;
          const grown = ((last - baseline) / 1e6).toFixed(1);
          log(
            `${i + 1} searches: the server holds ${(last / 1e6).toFixed(0)} MB, ${grown} MB since half of them, ${(heapUsed / 1e6).toFixed(1)} MB of objects, ${(arrayBuffers / 1e6).toFixed(1)} MB of buffers, ${wrong} wrong`,
          );
        }
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    await db.close();
    const flat = last - baseline < ALLOWED_BYTES;
    log(flat && wrong === 0 ? 'Memory stayed flat, every answer was right.' : 'NOT as it should be: see above.');
    return flat && wrong === 0;
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** A client that leaves in the middle of a body, or is refused. */
async function rude(url: string, i: number): Promise<void> {
  if (i % 20 === 9) {
    const { status, body } = await fetch(`${url}/v1/collections/none/search`, {
      method: 'POST',
      body: new Uint8Array(100_000),
      headers: { 'content-type': 'application/octet-stream' },
    });
    await body?.cancel();
    if (status >= 500) throw new Error(`nonsense was answered with ${status}`);
    return;
  }
  const { hostname, port } = new URL(url);
  await new Promise<void>((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(
        'POST /v1/collections/soak/search HTTP/1.1\r\nhost: x\r\ncontent-type: application/octet-stream\r\ncontent-length: 1000000\r\n\r\n',
      );
      socket.write(Buffer.alloc(100_000), () => socket.destroy());
    });
    socket.on('error', () => {}).on('close', () => resolve());
  });
}
