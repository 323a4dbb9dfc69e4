// The address of a server with the wrong scheme: said at once, and in words.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { startServer } from '@hers/server';
import { selfSigned } from '@hers/server/testing';
import { openStore } from '@hers/store';
import { connect, MasterSeed, type RetryEvent } from '../index.ts';

const key = MasterSeed.generate();

/** The port of a server, with TLS or without. */
async function portOf(t: TestContext, tls: boolean): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-scheme-'));
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  const pair = selfSigned();
  await writeFile(files.cert, pair.cert);
  await writeFile(files.key, pair.key);
  const server = await startServer(await openStore(join(folder, 'gallery')), {
    port: 0,
    ...(tls ? { tls: files } : {}),
  });
  t.after(async () => {
    await server.close();
    await rm(folder, { recursive: true });
  });
  return new URL(server.url).port;
}

for (const [given, tls, message] of [
  ['http', true, /^http:\S+ speaks TLS; its address is https:\/\/127\.0\.0\.1:\d+$/],
  ['https', false, /^https:\S+ does not speak TLS; if that is meant, its address is http:\/\/127\.0\.0\.1:\d+$/],
] as const)
  test(`${given} in the address of a server that speaks the other`, async (t) => {
    const address = `${given}://127.0.0.1:${await portOf(t, tls)}`;
    const retries: RetryEvent[] = [];
    const onRetry = (event: RetryEvent) => retries.push(event);
    await assert.rejects(connect(address, { key, onRetry }), { code: 'INVALID_ARGUMENT', message });
    assert.deepEqual(retries, []);
  });

test('a server without TLS that closes connections is asked again, and for TLS only once', async (t) => {
  const first: number[] = [];
  const server = createServer((socket) => {
    socket.once('data', ([byte]) => {
      first.push(byte);
      socket.destroy();
    });
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as { port: number };
  await assert.rejects(connect(`http://127.0.0.1:${port}`, { key, retryMs: 500 }), {
    code: 'UNAVAILABLE',
    message: /tried \d+ times/,
  });
  const HANDSHAKE = 22; // the type of a TLS record that begins with a ClientHello
  assert.equal(first.filter((byte) => byte === HANDSHAKE).length, 1);
  assert.ok(first.filter((byte) => byte === 'G'.charCodeAt(0)).length > 1);
});
