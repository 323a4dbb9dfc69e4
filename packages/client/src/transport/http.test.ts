// The same suite that a folder passes, over HTTP.
//
// Mostly waits: the runner starts it beside others.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer, TokenStore } from '@hers/server';
import type { Service } from '@hers/service';
import { conformance } from '@hers/service/conformance';
import { openStore } from '@hers/store';
import { HttpService } from './http.ts';

conformance('a server', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-http-'));
  const tokens = new TokenStore(join(folder, 'tokens.json'));
  const start = async () => {
    const store = await openStore(join(folder, 'gallery'), { quietMs: 5 });
    const { secret } = await tokens.create({ scope: 'admin' });
    const server = await startServer(store, { port: 0, tokens: tokens.path });
    const service: Service = new HttpService(server.url, { token: secret });
    const stop = async () => {
      await service.close();
      await server.close();
    };
    return { service, server, stop };
  };
  let running = await start();
  return {
    service: running.service,
    async reopen() {
      await running.stop();
      running = await start();
      return running.service;
    },
    async heldTo(collection, partitions) {
      const { secret } = await tokens.create({ scope: 'write', collection, partitions: [...partitions] });
      return new HttpService(running.server.url, { token: secret });
    },
    async done() {
      await running.stop();
      await rm(folder, { recursive: true });
    },
  };
});
