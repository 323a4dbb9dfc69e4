import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ReferenceKernel } from '@hers/scan';
import { conformance } from '@hers/service/conformance';
import { openStore } from './store.ts';

const kernel = async () => new ReferenceKernel();

conformance('a folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-store-'));
  let service = await openStore(folder, { kernel, quietMs: 5 });
  return {
    service,
    async reopen() {
      await service.close();
      service = await openStore(folder, { kernel });
      return service;
    },
    async done() {
      await service.close();
      await rm(folder, { recursive: true });
    },
  };
});
