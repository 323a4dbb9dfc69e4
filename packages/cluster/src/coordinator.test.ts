import { conformance, heldTo } from '@hers/service/conformance';
import { LocalCluster } from '../testing/local.ts';

const NAMES = ['n1', 'n2', 'n3'];

conformance('a cluster in one process', async () => {
  const cluster = await LocalCluster.make();
  await cluster.start(...NAMES);
  let service = cluster.coordinator('n1');
  return {
    service,
    keepsStages: true,
    async reopen() {
      await cluster.stop(...NAMES);
      await cluster.start(...NAMES);
      service = cluster.coordinator('n1');
      return service;
    },
    heldTo: async (_, partitions) => heldTo(service, partitions),
    done: () => cluster.close(),
  };
});
