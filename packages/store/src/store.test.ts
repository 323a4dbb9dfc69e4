import { rm } from 'node:fs/promises';
import { type Kernel, openKernel, ReferenceKernel } from '@hers/scan';
import { conformance, heldTo } from '@hers/service/conformance';
import { makeFolder } from '../testing/crash.ts';
import { openStore } from './store.ts';

const kernels: Record<string, () => Promise<Kernel>> = {
  'the reference kernel': async () => new ReferenceKernel(),
  'the fastest kernel': async () => (await openKernel({ warn: () => {} })).kernel,
};

for (const [name, kernel] of Object.entries(kernels)) {
  conformance(`a folder, with ${name}`, async () => {
    const folder = await makeFolder();
    let service = await openStore(folder, { kernel, quietMs: 5 });
    return {
      service,
      async reopen() {
        await service.close();
        service = await openStore(folder, { kernel });
        return service;
      },
      heldTo: async (_, partitions) => heldTo(service, partitions),
      async done() {
        await service.close();
        await rm(folder, { recursive: true });
      },
    };
  });
}
