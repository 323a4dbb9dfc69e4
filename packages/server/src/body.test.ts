import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { bodyOf, Pace } from './body.ts';

/** What `work` does with the body of a request that is really sent. */
async function received<T>(body: Uint8Array<ArrayBuffer>, work: (raw: IncomingMessage) => Promise<T>): Promise<T> {
  const server = createServer();
  const done = new Promise<T>((resolve, reject) => {
    server.once('request', (request, response) => {
      work(request)
        .then(resolve, reject)
        .finally(() => response.end());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    await (await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body })).arrayBuffer();
    return await done;
  } finally {
    server.close();
  }
}

describe('the pieces of a body', () => {
  it('are freed when the next is asked for, so they are copied by then, and a slice is a copy', async () => {
    const body = new Uint8Array(randomBytes(2 ** 20 + 77));
    let littered = 0;
    const litter = (bytes: number) => {
      littered += bytes;
    };
    const limits = { bytes: undefined, stallMs: 5000, signal: new AbortController().signal, pace: new Pace(), litter };
    const { copies, pieces } = await received(body, async (raw) => {
      const pieces: Uint8Array[] = [];
      const copies: Uint8Array[] = [];
      for await (const piece of bodyOf(raw, limits)) {
        assert.ok(pieces.every(({ length }) => length === 0));
        pieces.push(piece);
        copies.push(piece.slice());
      }
      return { pieces, copies };
    });
    assert.ok(pieces.length > 2 && pieces.every(({ length }) => length === 0));
    assert.equal(littered, 0);
    const hashed = createHash('sha256');
    for (const copy of copies) hashed.update(copy);
    assert.deepEqual(hashed.digest(), createHash('sha256').update(body).digest());
  });
});
