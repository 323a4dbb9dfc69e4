import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { ShardCoverage } from '@hers/service';
import { encodeBlock, encodeQuery, expectedResponses, Samples } from '@hers/service/samples';
import { LocalCluster } from '../testing/local.ts';
import { HOME, shardOf } from './shard.ts';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const NAMES = ['n1', 'n2', 'n3'];

/** A collection of blocks, on three nodes. */
async function filled(replicas: number, shards: number = 6) {
  const cluster = await LocalCluster.make();
  await cluster.start(...NAMES);
  const samples = new Samples(3);
  const service = cluster.coordinator('n1', { replicas, shards });
  await service.createCollection('c', { id: samples.id(), descriptor: new Uint8Array(1), manifest: new Uint8Array(1) });
  const blocks = Array.from({ length: 24 }, () => samples.block());
  const stages = [];
  for (const block of blocks) stages.push(await service.stageBlock('c', [encodeBlock(block)]));
  await service.commit('c', { expected: 1, manifest: new Uint8Array(2), blocks: stages });
  const query = samples.query();
  const request = { version: 2, queries: [encodeQuery(query)] };
  const expected = (some: typeof blocks) => expectedResponses(some, [query]).map(hex).sort();
  return { cluster, service, request, blocks, expected };
}

it('a node that is much slower than its peers is overtaken by another replica', async () => {
  const { cluster, service, request, blocks, expected } = await filled(3);
  cluster.slow.set('n2', 3000);
  const began = performance.now();
  const found = await Array.fromAsync(service.search('c', request));
  const took = performance.now() - began;
  assert.deepEqual(found.map(hex).sort(), expected(blocks));
  assert.ok(took < 2900, `${took} ms`);
  assert.ok(
    cluster.searches.some(({ node, ended }) => node === 'n2' && ended === 'early'),
    'it was asked, and let go',
  );
  await cluster.close();
});

it('whoever cancels a search ends it on all nodes', async () => {
  const { cluster, service, request } = await filled(3);
  for (const name of NAMES) cluster.slow.set(name, 300);
  const ending = new AbortController();
  const reason = new Error('enough');
  setTimeout(() => ending.abort(reason), 100);
  await assert.rejects(Array.fromAsync(service.search('c', request, { signal: ending.signal })), reason);
  assert.ok(cluster.searches.length > 0);
  for (const { ended } of cluster.searches) assert.equal(ended, 'early');
  // The same for a caller that stops to read.
  for (const name of NAMES) cluster.slow.delete(name);
  cluster.searches.length = 0;
  for await (const _ of service.search('c', request)) break;
  for (const { ended } of cluster.searches) assert.notEqual(ended, undefined);
  await cluster.close();
});

it('a partial search says what it leaves out, and a whole one fails', async () => {
  const { cluster, request, blocks, expected } = await filled(1);
  const { shards } = cluster.nodes.get('n1')!.members.directory.collections.c;
  const gone = NAMES.find((name) => name !== shards[HOME][0])!;
  const asked = NAMES.find((name) => name !== gone)!;
  const lost = [...shards.keys()].filter((shard) => shards[shard][0] === gone);
  assert.ok(lost.length > 0 && lost.length < shards.length);
  await cluster.stop(gone);
  const service = cluster.coordinator(asked);
  await assert.rejects(Array.fromAsync(service.search('c', request)), { code: 'UNAVAILABLE' });
  let coverage: ShardCoverage | undefined;
  const onCoverage = (given: ShardCoverage) => {
    coverage = given;
  };
  const found = await Array.fromAsync(service.search('c', { ...request, partial: true }, { onCoverage }));
  const left = blocks.filter(({ blockId }) => !lost.includes(shardOf(blockId, shards.length)));
  assert.deepEqual(found.map(hex).sort(), expected(left));
  assert.deepEqual(coverage, { answered: shards.length - lost.length, failed: lost.length, timedOut: 0 });
  // A node that hangs is counted as such.
  await cluster.start(gone);
  cluster.slow.set(gone, 60_000);
  await Array.fromAsync(service.search('c', { ...request, partial: true }, { onCoverage }));
  assert.deepEqual(coverage, { answered: shards.length - lost.length, failed: 0, timedOut: lost.length });
  await cluster.close();
});
