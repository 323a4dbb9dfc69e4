// The same suite that a folder passes, on three nodes and three servers of NATS, each a process of
// its own; and what happens when some of them are killed.
//
// Long: node.test.ts holds the same of a cluster in one process.

import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { HttpService } from '@hers/client/transport';
import type { Service } from '@hers/service';
import { conformance } from '@hers/service/conformance';
import { natsServer, TestCluster } from '../testing/cluster.ts';
import { faultTrial } from '../testing/faults.ts';
import { inboxTrial } from '../testing/inbox-trial.ts';
import { DIRECTORY, decodeDirectory } from './directory.ts';
import { HOME, shardName } from './shard.ts';
import { clusterStatus } from './status.ts';
import { HttpShards } from './transport.ts';

const nats = natsServer();

describe('a cluster of processes', { skip: nats.skip }, () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.start(nats.path!, {
      reference: true,
      quiet: true,
      inMemory: true,
      tending: { scrubMs: 1000 },
    });
  });
  after(() => cluster?.close());

  conformance('three nodes and three servers of NATS', async () => {
    const open = () => new HttpService(cluster.urls, { token: cluster.token });
    let service: Service = open();
    const opened = [service];
    return {
      service,
      keepsStages: true,
      // Another client, which begins with another node.
      async reopen() {
        await service.close();
        service = new HttpService(cluster.urls.toReversed(), { token: cluster.token });
        opened.push(service);
        return service;
      },
      async heldTo(collection, partitions) {
        const { secret } = await cluster.tokens.create({ scope: 'write', collection, partitions: [...partitions] });
        return new HttpService(cluster.urls[1], { token: secret });
      },
      async done() {
        await Promise.all(opened.map((each) => each.close()));
        const sweeper = open();
        for (const { name } of await sweeper.listCollections()) await sweeper.deleteCollection(name);
        await sweeper.close();
      },
    };
  });

  it('says what it looks like', async () => {
    const status = await clusterStatus(cluster.nodeUrls[0], (url) => new HttpShards(url, { token: cluster.nodeToken }));
    assert.deepEqual(
      status.nodes.map(({ name, error, lagging }) => [name, error, lagging]),
      ['n1', 'n2', 'n3'].map((name) => [name, undefined, 0]),
    );
  });

  it('refuses other nodes that have no token', async () => {
    const stranger = new HttpShards(cluster.nodeUrls[0], {});
    await assert.rejects(stranger.listCollections(), { code: 'UNAUTHENTICATED' });
    await stranger.close();
    // The token of a client is none of a node, and the other way round.
    for (const [url, token] of [
      [cluster.nodeUrls[0], cluster.token],
      [cluster.urls[0], cluster.nodeToken],
    ]) {
      const other = new HttpShards(url, { token });
      await assert.rejects(other.listCollections(), { code: 'UNAUTHENTICATED' });
      await other.close();
    }
  });

  it('loses nothing that a device posted, and gives it one number, while processes are killed', async () => {
    await inboxTrial(cluster, { posts: 60, kills: 3, seed: 1 });
  });

  it('gives clients nothing that nodes ask of each other, whatever path they try', async () => {
    const service = new HttpService(cluster.urls, { token: cluster.token });
    const created = { id: new Uint8Array(16), descriptor: new Uint8Array(1), manifest: new Uint8Array(1) };
    for (const name of ['mine', 'theirs']) await service.createCollection(name, created);
    const node = new HttpShards(cluster.nodeUrls[0], { token: cluster.nodeToken });
    const { uid } = decodeDirectory((await node.getManifest(DIRECTORY)).manifest).collections.theirs;
    const { secret } = await cluster.tokens.create({ scope: 'admin', collection: 'mine' });
    const shard = shardName(uid, HOME);
    const ask = (method: string, path: string, token: string) =>
      new Promise<number>((resolve, reject) => {
        // As it is: fetch would tidy the path up.
        const { hostname, port } = new URL(cluster.urls[0]);
        const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/octet-stream' };
        const request = httpRequest({ hostname, port, method, path, headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode!);
        });
        request.on('error', reject);
        request.end(method === 'GET' ? undefined : 'x');
      });
    const paths = [
      ['POST', '/v1/shards/search'],
      ['POST', '/v1/cluster/drain'],
      ['POST', '/v1/collections/mine/replicas'],
      ['GET', '/v1/collections/mine/state'],
      ['POST', '/v1/collections/mine/changes'],
      ['POST', '/v1/collections/mine/apply'],
      ['GET', `/v1/collections/mine/staged/${'A'.repeat(43)}`],
      ['GET', `/v1/collections/${shard}/manifest`],
      ['GET', `/v1/collections/${DIRECTORY}/manifest`],
      ['GET', `/v1/collections/mine%2F..%2F${shard}/manifest`],
      ['GET', `/v1/collections/mine/../${shard}/manifest`],
      ['GET', `/v1/collections/mine/..%2ftheirs/manifest`],
      ['GET', `//v1/collections/theirs/manifest`],
      ['GET', `/v1/collections/mine%00theirs/manifest`],
      ['DELETE', `/v1/collections/${shard}`],
    ] as const;
    for (const [method, path] of paths)
      for (const token of [secret, cluster.token]) {
        const status = await ask(method, path, token);
        assert.ok(status >= 400 && status < 500, `${method} ${path}: ${status}`);
      }
    // A token of one collection reaches no other, by any name of it.
    for (const name of ['theirs', shard, DIRECTORY]) {
      const held = new HttpService(cluster.urls, { token: secret });
      await assert.rejects(held.getManifest(name), { code: 'FORBIDDEN' }, name);
      await assert.rejects(held.deleteCollection(name), { code: 'FORBIDDEN' }, name);
      await held.close();
    }
    assert.equal((await service.getManifest('theirs')).version, 1);
    // The port for nodes takes no more of its own token than it can hold.
    await assert.rejects(node.commit('x', { expected: 1, manifest: new Uint8Array(2 ** 28 + 2 ** 21) }), {
      code: 'TOO_LARGE',
    });
    await node.close();
    for (const name of ['mine', 'theirs']) await service.deleteCollection(name);
    await service.close();
  });

  it('loses nothing that it acknowledged, whatever breaks', async () => {
    const faults = [
      'kill a node',
      'kill a server of NATS',
      'pause a node',
      'wipe a disk',
      'turn a clock',
      'flip a byte',
    ] as const;
    const least = { kills: 1, changes: 5, searches: 5 };
    await faultTrial(cluster, { seconds: 12, seed: 1, faults, natsSeconds: 3, least });
  });
});
