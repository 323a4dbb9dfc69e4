// The same suite that a folder passes, on three nodes and three servers of NATS, each a process of
// its own; and what happens when some of them are killed.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { HttpService } from '@hers/client/transport';
import type { Service } from '@hers/service';
import { conformance } from '@hers/service/conformance';
import { natsServer, TestCluster } from '../testing/cluster.ts';
import { faultTrial } from '../testing/faults.ts';
import { inboxTrial } from '../testing/inbox-trial.ts';
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

  it('loses nothing that it acknowledged, whatever breaks', async () => {
    const faults = [
      'kill a node',
      'kill a server of NATS',
      'pause a node',
      'wipe a disk',
      'turn a clock',
      'flip a byte',
    ] as const;
    const trial = await faultTrial(cluster, { seconds: 12, seed: 1, faults, natsSeconds: 3 });
    assert.ok(trial.kills >= 1, `${trial.kills} kills`);
    assert.ok(trial.changes >= 5, `${trial.changes} changes`);
    assert.ok(trial.searches >= 5, `${trial.searches} searches`);
  });
});
