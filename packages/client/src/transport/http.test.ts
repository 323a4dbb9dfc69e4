// The same suite that a folder passes, over HTTP.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer } from '@hers/server';
import type { Service } from '@hers/service';
import { conformance } from '@hers/service/conformance';
import { openStore } from '@hers/store';
import { HttpService } from './http.ts';

conformance('a server', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-http-'));
  const start = async () => {
    const store = await openStore(folder, { quietMs: 5 });
    const server = await startServer(store, { port: 0 });
    const service: Service = new HttpService(server.url);
    const stop = async () => {
      await service.close();
      await server.close();
    };
    return { service, stop };
  };
  let running = await start();
  return {
    service: running.service,
    async reopen() {
      await running.stop();
      running = await start();
      return running.service;
    },
    async done() {
      await running.stop();
      await rm(folder, { recursive: true });
    },
  };
});
