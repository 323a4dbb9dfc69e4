// Open collections on several nodes, where replicas break off, lag, lose their disk, or keep none
// of the evaluation keys.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { it } from 'node:test';
import { HttpService } from '@hers/client/transport';
import { type Block, peekAnyResponse, peekQuery } from '@hers/scheme';
import { startServer } from '@hers/server';
import { HersError, type Service, withMethods } from '@hers/service';
import { OpenSamples } from '@hers/service/open-samples';
import { encodeBlock, Samples } from '@hers/service/samples';
import { LocalCluster } from '../testing/local.ts';
import { searchShards } from './search.ts';
import { HOME, isCurrent, type ShardService, shardName, shardOf } from './shard.ts';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const text = (value: string) => new TextEncoder().encode(value);
const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());

/** Fewer than fit into one response, and more than half of that. */
const PER_SHARD = 5;

const keysIn = (evaluation: readonly Uint8Array[]) => ({ evaluation, devices: [], inbox: [] });

/** An open collection with as many blocks in every shard. */
async function filled(nodes: readonly string[], replicas: number, shards = 6) {
  const cluster = await LocalCluster.make({ tendMs: 20 });
  await cluster.start(...nodes);
  const service = cluster.coordinator('n1', { replicas, shards });
  const open = new OpenSamples();
  const created = { id: new Samples(1).id(), descriptor: text('open'), manifest: text('1') };
  await service.createCollection('doors', created);
  const lists = await Promise.all(open.pieces.map((piece) => service.stageList('doors', piece)));
  const blocks = new Map<string, Block>();
  const stages: string[] = [];
  for (let i = 0; blocks.size < PER_SHARD * shards; i++) {
    const block = open.block(1 + (i % 90));
    const { blockId } = block;
    const others = [...blocks.values()].filter((each) => shardOf(each.blockId, shards) === shardOf(blockId, shards));
    if (others.length === PER_SHARD) continue;
    blocks.set(hex(blockId), block);
    stages.push(await service.stageBlock('doors', [encodeBlock(block)]));
  }
  await service.commit('doors', { expected: 1, manifest: text('2'), lists, blocks: stages });
  const evaluation = open.pieces.map(sha256);
  /** All blocks are answered for, and every response as the scheme says. Returns how many came. */
  const check = async (from: Service, version = 2, queries = [open.query(), open.query()]) => {
    const left = new Set(
      queries.flatMap((query) => [...blocks.keys()].map((id) => hex(peekQuery(query).queryId) + id)),
    );
    let named = 0;
    for await (const response of from.search('doors', {
      version,
      queries,
      open: keysIn(evaluation),
    })) {
      const { queryId, blocks: answered } = peekAnyResponse(response);
      const query = queries.find((each) => hex(peekQuery(each).queryId) === hex(queryId))!;
      assert.equal(hex(response), hex(open.expected(query, blocks, response)));
      named += answered.length;
      const fresh = answered.filter(({ blockId }) => left.delete(hex(queryId) + hex(blockId)));
      assert.ok(fresh.length > 0, 'a response without anything new');
    }
    assert.equal(left.size, 0);
    return named;
  };
  return { cluster, service, open, blocks, evaluation, check };
}

it('nodes that do not keep the evaluation keys read them where they are', async () => {
  const names = ['n1', 'n2', 'n3', 'n4'];
  const { cluster, check } = await filled(names, 1, 8);
  try {
    // With one replica, each list is on one node alone.
    for (const name of names) assert.equal(await check(cluster.coordinator(name)), 2 * PER_SHARD * 8);
  } finally {
    await cluster.close();
  }
});

it('a replica that breaks off is replaced', async () => {
  const { cluster, service, check } = await filled(['n1', 'n2', 'n3'], 3);
  const other = withMethods(cluster.coordinator('n3'), { close: async () => {} });
  const server = await startServer(other, { port: 0, allowAnyone: true });
  const client = new HttpService(server.url, {});
  try {
    // It is asked for two shards, and answers for eight of ten blocks at most.
    cluster.breaking.set('n2', 1);
    await check(service);
    await check(client);
    cluster.breaking.set('n2', 0);
    cluster.breaking.set('n1', 0);
    await check(client);
  } finally {
    await client.close();
    await server.close();
    await cluster.close();
  }
});

it('where another replica packs other blocks together, what is new in a response counts', async () => {
  const { cluster, service, open, blocks, evaluation } = await filled(['n1'], 1, 1);
  const query = open.query();
  const ids = [...blocks.values()].map(({ blockId }) => blockId);
  /** One response for these blocks. */
  const packed = async (...numbers: number[]) => {
    const request = {
      version: 2,
      queries: [query],
      open: keysIn(evaluation),
      blocks: numbers.map((number) => ids[number]),
    };
    const found = await Array.fromAsync(service.search('doors', request));
    assert.equal(found.length, 1);
    return found[0];
  };
  const [early, known, both, late] = [await packed(0, 1, 2), await packed(0, 1), await packed(2, 3), await packed(4)];
  const asked: Record<string, () => AsyncGenerator<Uint8Array>> = {
    async *n1() {
      yield early;
      throw new HersError('UNAVAILABLE', 'n1 has ended');
    },
    async *n2() {
      yield* [known, both, late];
    },
  };
  const shard = { name: 'x', version: 2, replicas: ['n1', 'n2'], open: keysIn(evaluation) };
  const peer = (node: string) => ({ searchShards: () => asked[node]() }) as unknown as ShardService;
  const options = { signal: new AbortController().signal, onSuspect: () => {} };
  const given = (await Array.fromAsync(searchShards([shard], [query], peer, options))).flat();
  assert.deepEqual(given.map(hex), [early, both, late].map(hex));

  // A client takes it from its server, and no response without anything new.
  let answer = given;
  const search = async function* () {
    yield* answer;
  };
  const server = await startServer(withMethods(service, { search, close: async () => {} }), { port: 0 });
  const client = new HttpService(server.url, {});
  try {
    const request = { version: 2, queries: [query], open: keysIn(evaluation) };
    assert.deepEqual((await Array.fromAsync(client.search('doors', request))).map(hex), given.map(hex));
    answer = [early, both, known];
    await assert.rejects(Array.fromAsync(client.search('doors', request)), { code: 'INTEGRITY' });
  } finally {
    await client.close();
    await server.close();
    await cluster.close();
  }
});

it('evaluation keys are copied with their shards to a node that lost its disk, and moved with them', async () => {
  const { cluster, evaluation, check } = await filled(['n1', 'n2', 'n3'], 3);
  try {
    await cluster.stop('n2');
    await cluster.wipe('n2');
    await cluster.start('n2');
    const isWhole = async () => {
      const node = cluster.nodes.get('n2')!;
      const placed = node.members.directory.collections.doors;
      const { home, version, state } = await node.changes.home(placed);
      const states = home.shards.map((each, shard) => (shard === HOME ? { version, state } : each));
      for (const shard of placed.shards.keys()) {
        const here = await node.store.getState(shardName(placed.uid, shard)).catch(() => undefined);
        if (!here || !isCurrent(here, states, shard)) return false;
      }
      return true;
    };
    while (!(await isWhole().catch(() => false))) await new Promise((go) => setTimeout(go, 20));
    await cluster.stop('n1');
    const service = cluster.coordinator('n2');
    await check(service);
    assert.equal((await Array.fromAsync(service.getLists('doors', evaluation))).length, evaluation.length);
    // A snapshot of it holds the keys, and is restored elsewhere in the cluster.
    await cluster.start('n1');
    await service.restore('copy', service.snapshot('doors'));
    await check(withMethods(service, { search: (_, ...rest) => service.search('copy', ...rest) }));
    await service.purge('doors');
    await service.deleteCollection('doors');
    await check(withMethods(service, { search: (_, ...rest) => service.search('copy', ...rest) }));
  } finally {
    await cluster.close();
  }
});

it('keys that were dropped serve no search, though nodes have them in memory', async () => {
  const { cluster, service, open, blocks, evaluation, check } = await filled(['n1', 'n2', 'n3'], 3);
  try {
    await check(service);
    await service.commit('doors', { expected: 2, manifest: text('3'), droppedLists: [evaluation[0]] });
    await assert.rejects(check(service, 3), { code: 'NOT_FOUND' });
    // At the version before, which is still answered otherwise, they were there.
    await assert.rejects(check(service, 2), { code: 'STALE' });
    // Even where no block is asked for of the shard that had them.
    const some = [...blocks.values()].slice(0, 1).map(({ blockId }) => blockId);
    const request = { version: 3, queries: [open.query()], open: keysIn(evaluation), blocks: some };
    await assert.rejects(Array.fromAsync(service.search('doors', request)), { code: 'NOT_FOUND' });
  } finally {
    await cluster.close();
  }
});

it('a client that sends damaged queries, or keys that are none, has no shard copied again', async () => {
  const { cluster, service, open, evaluation, check } = await filled(['n1', 'n2', 'n3'], 3);
  try {
    const copies: string[] = [];
    for (const [name, { store }] of cluster.nodes) {
      const replace = store.replace.bind(store);
      store.replace = (shard, ...rest) => {
        copies.push(`${name} ${shard}`);
        return replace(shard, ...rest);
      };
    }
    const flipped = (bytes: Uint8Array, at: number) => bytes.with(at, bytes[at] ^ 1);
    const bad = flipped(open.query(), 90);
    const request = { version: 2, queries: [bad], open: keysIn(evaluation) };
    await assert.rejects(Array.fromAsync(service.search('doors', request)), { code: 'DAMAGED' });
    const pieces = open.pieces.map((piece) => flipped(piece, piece.length - 20));
    const lists = await Promise.all(pieces.map((piece) => service.stageList('doors', piece)));
    await service.commit('doors', { expected: 2, manifest: text('3'), lists });
    const other = { version: 3, queries: [open.query()], open: keysIn(pieces.map(sha256)) };
    await assert.rejects(Array.fromAsync(service.search('doors', other)), { code: 'MALFORMED' });
    await new Promise((go) => setTimeout(go, 200));
    assert.deepEqual(copies, []);
    await check(service, 3);
  } finally {
    await cluster.close();
  }
});
