import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ReferenceKernel } from '@hers/scan';
import { conformance, heldTo } from '@hers/service/conformance';
import { type FolderStore, openStore } from '@hers/store';
import { Coordinator } from './coordinator.ts';
import { MemoryLedger } from './ledger-memory.ts';
import { ClusterNode } from './node.ts';

const PARENT = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const NAMES = ['n1', 'n2', 'n3'];

/** Three nodes in this process; the service is that of the first. */
async function start(folder: string, ledger: MemoryLedger) {
  const stores = new Map<string, FolderStore>();
  for (const name of NAMES)
    stores.set(
      name,
      await openStore(join(folder, name), { shards: true, quietMs: 5, kernel: async () => new ReferenceKernel() }),
    );
  const nodes: ClusterNode[] = [];
  for (const name of NAMES) {
    const shared = {
      append: ledger.append.bind(ledger),
      read: ledger.read.bind(ledger),
      watch: ledger.watch.bind(ledger),
      trim: ledger.trim.bind(ledger),
      close: async () => {},
    };
    const node = new ClusterNode({
      name,
      url: `memory:${name}`,
      store: stores.get(name)!,
      ledger: shared,
      connect: (other) => Object.assign(Object.create(stores.get(other)!), {}) && stores.get(other)!,
      onBackgroundError: (error) => console.error(name, error),
    });
    await node.start();
    nodes.push(node);
  }
  return nodes;
}

conformance('a cluster in one process', async () => {
  const folder = await mkdtemp(join(PARENT, 'hers-cluster-'));
  const ledger = new MemoryLedger();
  let nodes = await start(folder, ledger);
  const make = () => new Coordinator(nodes[0], { secret: 'secret', shards: 4 });
  let service = make();
  return {
    service,
    keepsStages: true,
    async reopen() {
      await Promise.all(nodes.map((node) => node.close()));
      nodes = await start(folder, ledger);
      service = make();
      return service;
    },
    heldTo: async (_, partitions) => heldTo(service, partitions),
    async done() {
      await Promise.all(nodes.map((node) => node.close()));
      await rm(folder, { recursive: true });
    },
  };
});
