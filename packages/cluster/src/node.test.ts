import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import { HersError } from '@hers/service';
import { conformance, heldTo } from '@hers/service/conformance';
import { openStore } from '@hers/store';
import { MemoryLedger } from '../testing/ledger-memory.ts';
import { LocalCluster } from '../testing/local.ts';
import { Coordinator } from './coordinator.ts';
import { DIRECTORY, EMPTY_DIRECTORY, encodeDirectory } from './directory.ts';
import type { LedgerEntry } from './ledger.ts';
import { ClusterNode } from './node.ts';

/** A ledger as a server of NATS gives it that has just started. */
class UnsteadyLedger extends MemoryLedger {
  /** How many of the next reads find nothing, or fail. */
  empty = 0;
  failing = 0;
  /** What the next reads find in place of the newest. */
  old: LedgerEntry[] = [];

  override async *read(topic: string, after: number | 'newest'): AsyncGenerator<LedgerEntry> {
    if (this.failing-- > 0) throw new HersError('UNAVAILABLE', 'NATS does not answer');
    if (this.empty-- > 0) return;
    const old = after === 'newest' ? this.old.shift() : undefined;
    if (old) return yield old;
    yield* super.read(topic, after);
  }
}

async function withNode(work: (node: ClusterNode, ledger: UnsteadyLedger) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-node-'));
  const ledger = new UnsteadyLedger();
  const store = await openStore(join(folder, 'n1'), { shards: true, kernel: async () => new ReferenceKernel() });
  const connect = () => assert.fail('there is no other node');
  const node = new ClusterNode({ name: 'n1', url: 'memory:n1', store, ledger, connect });
  try {
    await work(node, ledger);
  } finally {
    await node.close();
    await rm(folder, { recursive: true });
  }
}

it('a node joins when the ledger begins to answer', () =>
  withNode(async (node, ledger) => {
    ledger.failing = 3;
    await node.start();
    assert.deepEqual(Object.keys(node.members.directory.nodes), ['n1']);
  }));

it('a node without its folder takes no directory of long ago for the newest', () =>
  withNode(async (node, ledger) => {
    const first = { ...EMPTY_DIRECTORY, version: 1, nodes: { n1: { url: 'memory:n1' } } };
    const faces = { uid: 'ab'.repeat(16), placement: 1, replicas: 1, base: 1, shards: [['n1']] };
    const position = await ledger.append(DIRECTORY, 0, encodeDirectory(first));
    const second = encodeDirectory({ ...first, version: 2, collections: { faces } });
    await ledger.append(DIRECTORY, position, second);
    const entry = { topic: DIRECTORY, position, content: encodeDirectory(first) };
    ledger.old = [entry, entry, entry];
    await node.start();
    assert.deepEqual(Object.keys(node.members.directory.collections), ['faces']);
    assert.equal(node.members.directory.version, 3);
  }));

it('a directory that is older than one that was seen is not built on', () =>
  withNode(async (node, ledger) => {
    await node.start();
    const service = new Coordinator(node, { secret: 'secret', shards: 2, replicas: 1 });
    const created = { id: new Uint8Array(16), descriptor: new Uint8Array(1), manifest: new Uint8Array(1) };
    await service.createCollection('faces', created);
    ledger.empty = 1;
    await service.createCollection('guests', created);
    const names = async () => (await service.listCollections()).map(({ name }) => name).sort();
    assert.deepEqual(await names(), ['faces', 'guests']);
    ledger.empty = 1;
    await service.deleteCollection('faces');
    assert.deepEqual(await names(), ['guests']);
    assert.deepEqual(Object.keys(node.members.directory.nodes), ['n1']);
    await service.close();
  }));

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
