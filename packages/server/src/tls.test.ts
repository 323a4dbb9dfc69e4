// What is spoken under TLS, with the first certificate and with the next.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type ConnectionOptions, connect, createServer } from 'node:tls';
import { selfSigned } from '../testing/server.ts';
import { readTls, watchTls } from './tls.ts';

describe('TLS', () => {
  it('has no suite with CBC or without forward secrecy, before and after the certificate was replaced', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-tls-'));
    t.after(() => rm(folder, { recursive: true }));
    const files = { cert: join(folder, 'crt'), key: join(folder, 'key') };
    const write = async ({ cert, key }: { cert: string; key: string }) => {
      await writeFile(files.key, key);
      await writeFile(files.cert, cert);
    };
    await write(selfSigned('first'));
    const server = createServer(readTls(files), (socket) => socket.end()).listen(0, '127.0.0.1');
    t.after(() => server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const agreed = async (options: ConnectionOptions) => {
      const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options });
      try {
        await once(socket, 'secureConnect');
        const { CN } = socket.getPeerCertificate().subject;
        return [CN, socket.getProtocol(), socket.getCipher().name];
      } finally {
        socket.destroy();
      }
    };
    const under12 = (ciphers: string) => agreed({ maxVersion: 'TLSv1.2', ciphers });
    const check = async (name: string) => {
      const [GCM, CHACHA] = ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-CHACHA20-POLY1305'];
      assert.deepEqual(await under12(GCM), [name, 'TLSv1.2', GCM]);
      assert.deepEqual(await under12(CHACHA), [name, 'TLSv1.2', CHACHA]);
      assert.deepEqual((await agreed({})).slice(0, 2), [name, 'TLSv1.3']);
      for (const cbc of ['ECDHE-ECDSA-AES128-SHA', 'ECDHE-ECDSA-AES256-SHA384', 'ECDHE-ECDSA-AES128-SHA256'])
        await assert.rejects(under12(cbc), { code: /HANDSHAKE_FAILURE/ }, cbc);
      await assert.rejects(
        agreed({ minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' }),
        /protocol version/i,
      );
    };
    await check('first');
    const changed = Promise.withResolvers<void>();
    // Between the two files there may be trouble.
    const unwatch = watchTls(files, server, { onChange: changed.resolve, onBackgroundError: () => {}, everyMs: 10 });
    await write(selfSigned('second'));
    await changed.promise;
    unwatch();
    await check('second');
  });
});
