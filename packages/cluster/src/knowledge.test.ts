// A node that cannot know says UNAVAILABLE: never that there is no such collection, nor that a
// client's version is old. Nobody looks after shards in these tests, so nothing depends on when.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { encodeBlock, encodeQuery, Samples } from '@hers/service/samples';
import { LocalCluster } from '../testing/local.ts';
import { DIRECTORY, encodeDirectory } from './directory.ts';
import { HOME, shardName, shardOf } from './shard.ts';

const NAMES = ['n1', 'n2', 'n3'];
const samples = new Samples(7);
const created = () => ({ id: samples.id(), descriptor: new Uint8Array(1), manifest: new Uint8Array(1) });
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function withCluster(names: readonly string[], work: (cluster: LocalCluster) => Promise<void>): Promise<void> {
  const cluster = await LocalCluster.make({ tendMs: 600_000 });
  try {
    await cluster.start(...names);
    await work(cluster);
  } finally {
    cluster.withoutLedger.clear();
    await cluster.close();
  }
}

/** A node hears nothing more, neither of the ledger nor of these nodes. */
function isolate(cluster: LocalCluster, name: string, others: readonly string[]): void {
  cluster.lagging.set(name, cluster.ledger.copy());
  for (const other of others) cluster.cut.add([name, other].sort().join());
}

const versionOf = (cluster: LocalCluster, name: string) => cluster.nodes.get(name)!.members.directory.version;

it('a node that lost its folder is not counted among those that know the directory', () =>
  withCluster(NAMES, async (cluster) => {
    isolate(cluster, 'n3', ['n1', 'n2']);
    await cluster.coordinator('n1').createCollection('faces', created());
    assert.ok(versionOf(cluster, 'n3') < versionOf(cluster, 'n1'));
    await cluster.stop('n1', 'n2');
    await cluster.wipe('n1');
    // It waits for the ledger, and answers others meanwhile.
    cluster.withoutLedger.add('n1');
    const starting = cluster.start('n1');
    cluster.cut.clear();
    while (
      !(await cluster.nodes
        .get('n1')
        ?.isKnown()
        .catch(() => false)) &&
      !cluster.nodes.get('n1')
    )
      await pause(5);
    const asked = () => cluster.coordinator('n3').getManifest('faces');
    for (let i = 0; i < 20; i++) {
      await assert.rejects(asked(), { code: 'UNAVAILABLE' });
      await pause(5);
    }
    // Nor does what others tell it make it one of them.
    const service = cluster.nodes.get('n1')!.shards;
    await assert.rejects(service.getManifest(DIRECTORY), { code: 'UNAVAILABLE' });
    await assert.rejects(service.commit(DIRECTORY, { expected: 1, manifest: new Uint8Array(1) }), {
      code: 'UNAVAILABLE',
    });
    // With the ledger and one of those that knew, it does.
    await cluster.start('n2');
    cluster.withoutLedger.delete('n1');
    await starting;
    const { collections } = await cluster.nodes.get('n3')!.members.read();
    assert.deepEqual(Object.keys(collections), ['faces']);
  }));

it('a node that missed many others asks those that there are now', () =>
  withCluster(NAMES, async (cluster) => {
    isolate(cluster, 'n1', ['n2', 'n3', 'n4', 'n5']);
    await cluster.start('n4');
    // Of the fourth node n2 has heard, and not of the fifth.
    const append = cluster.ledger.append.bind(cluster.ledger);
    cluster.ledger.append = async (...args) => {
      isolate(cluster, 'n2', ['n3', 'n4', 'n5']);
      return append(...args);
    };
    await cluster.start('n5');
    cluster.ledger.append = append;
    const faces = { uid: 'ab'.repeat(16), placement: 1, replicas: 1, base: 1, shards: [['n3']] };
    await cluster.nodes.get('n3')!.members.change((directory) => ({ ...directory, collections: { faces } }));
    assert.ok(versionOf(cluster, 'n1') < versionOf(cluster, 'n2'));
    assert.ok(versionOf(cluster, 'n2') < versionOf(cluster, 'n3'));
    // Two of the three nodes that it knows, both of which have heard of the fourth alone.
    cluster.cut.delete('n1,n2');
    const { shards: n1 } = cluster.nodes.get('n1')!;
    const heard = encodeDirectory(cluster.nodes.get('n2')!.members.directory);
    await n1.commit(DIRECTORY, { expected: (await n1.getManifest(DIRECTORY)).version, manifest: heard });
    const service = cluster.coordinator('n1');
    await assert.rejects(service.getManifest('faces'), { code: 'UNAVAILABLE' });
    await assert.rejects(service.createCollection('faces', created()), { code: 'UNAVAILABLE' });
    for (const other of ['n3', 'n4', 'n5']) cluster.cut.delete(`n1,${other}`);
    await assert.rejects(service.createCollection('faces', created()), { code: 'ALREADY_EXISTS' });
  }));

it('a directory that the ledger has lost, and nodes have, is built on', () =>
  withCluster(NAMES, async (cluster) => {
    isolate(cluster, 'n3', ['n1', 'n2']);
    // What was lost is in nobody's way: earlier entries are still there.
    cluster.ledger.trim = async () => {};
    await cluster.coordinator('n1').createCollection('faces', created());
    cluster.ledger.lose(DIRECTORY);
    // One that missed it adds another collection, and one that lost its folder enters itself.
    cluster.lagging.clear();
    cluster.cut.clear();
    await cluster.coordinator('n3').createCollection('guests', created());
    await cluster.coordinator('n2').createCollection('staff', created());
    cluster.ledger.lose(DIRECTORY);
    await cluster.stop('n1');
    await cluster.wipe('n1');
    await cluster.start('n1');
    for (const name of NAMES) {
      const { collections } = await cluster.nodes.get(name)!.members.read();
      assert.deepEqual(Object.keys(collections).sort(), ['faces', 'guests', 'staff'], name);
    }
  }));

it('all of the ledger is lost: changes go on from what nodes have', () =>
  withCluster(NAMES, async (cluster) => {
    const service = cluster.coordinator('n2');
    await service.createCollection('faces', created());
    assert.equal(await service.commit('faces', { expected: 1, manifest: new Uint8Array(2) }), 2);
    const { uid } = cluster.nodes.get('n2')!.members.directory.collections.faces;
    for (let i = 0; i < 100; i++) for (const topic of [DIRECTORY, uid]) cluster.ledger.lose(topic);
    assert.equal(await service.commit('faces', { expected: 2, manifest: new Uint8Array(3) }), 3);
    await service.createCollection('guests', created());
    for (const name of NAMES) assert.equal((await cluster.coordinator(name).listCollections()).length, 2);
    // Without any change, the directory is put back.
    for (let i = 0; i < 100; i++) cluster.ledger.lose(DIRECTORY);
    await cluster.nodes.get('n1')!.mover.step();
    await cluster.start('n4');
    assert.equal((await cluster.coordinator('n4').listCollections()).length, 2);
  }));

it('shards that nodes have lost are missing, and the collection is not', () =>
  withCluster(NAMES, async (cluster) => {
    const service = cluster.coordinator('n2');
    await service.createCollection('faces', created());
    const records = samples.records(8);
    const block = samples.block();
    await service.commit('faces', {
      expected: 1,
      manifest: new Uint8Array(2),
      records: [await service.stageRecords('faces', records)],
      blocks: [await service.stageBlock('faces', [encodeBlock(block)])],
    });
    const { uid, shards } = cluster.nodes.get('n2')!.members.directory.collections.faces;
    for (const name of ['n1', 'n3'])
      for (const shard of [...shards.keys()].slice(1))
        await cluster.nodes.get(name)!.store.deleteCollection(shardName(uid, shard));
    // The home has a majority. Of the others, two nodes have nothing, and one is gone.
    await cluster.stop('n2');
    const request = { version: 2, queries: [encodeQuery(samples.query())] };
    for (const name of ['n1', 'n3']) {
      const asked = cluster.coordinator(name);
      const calls: Record<string, () => Promise<unknown>> = {
        search: () => Array.fromAsync(asked.search('faces', request)),
        blocks: () => Array.fromAsync(asked.search('faces', { ...request, blocks: [block.blockId] })),
        records: () =>
          Array.fromAsync(
            asked.getRecords(
              'faces',
              records.map(({ handle }) => handle),
            ),
          ),
        block: () => Array.fromAsync(asked.getBlock('faces', block.blockId)),
        stage: () => asked.stageRecords('faces', records),
        info: () => asked.getCollection('faces'),
        list: () => asked.listCollections(),
        snapshot: () => Array.fromAsync(asked.snapshot('faces')),
      };
      for (const [call, work] of Object.entries(calls))
        await assert.rejects(work(), { code: 'UNAVAILABLE' }, `${call} of ${name}`);
      assert.equal((await asked.getManifest('faces')).version, 2);
    }
    await cluster.start('n2');
    assert.equal((await Array.fromAsync(cluster.coordinator('n1').search('faces', request))).length, 1);
    // What there never was is not there: the home says so.
    const none = cluster.coordinator('n2').getRecords('faces', [new Uint8Array(16)]);
    await assert.rejects(Array.fromAsync(none), { code: 'NOT_FOUND' });
  }));

it('a search of the newest version that replicas lack is not too old', () =>
  withCluster(NAMES, async (cluster) => {
    const service = cluster.coordinator('n1');
    await service.createCollection('faces', created());
    let block = samples.block();
    while (shardOf(block.blockId, 4) === HOME) block = samples.block();
    const blocks = [await service.stageBlock('faces', [encodeBlock(block)])];
    const { uid } = cluster.nodes.get('n1')!.members.directory.collections.faces;
    // Shards that are not the home get nothing of the change.
    for (const name of NAMES) {
      const { store } = cluster.nodes.get(name)!;
      const apply = store.apply.bind(store);
      store.apply = async (shard, ...rest) => (shard === shardName(uid, HOME) ? apply(shard, ...rest) : 1);
    }
    await service.commit('faces', { expected: 1, manifest: new Uint8Array(2), blocks });
    assert.equal((await service.getManifest('faces')).version, 2);
    const request = { version: 2, queries: [encodeQuery(samples.query())], blocks: [block.blockId] };
    await assert.rejects(Array.fromAsync(service.search('faces', request)), { code: 'UNAVAILABLE' });
  }));
