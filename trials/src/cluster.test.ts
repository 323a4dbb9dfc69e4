// A client with keys, on a cluster: it searches a part when it may, and a cluster that cheats is
// caught as any other store is.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Database, HttpService, MasterSeed } from '@hers/client';
import { LocalCluster } from '@hers/cluster/testing/local';
import { startServer } from '@hers/server';
import { withMethods } from '@hers/service';
import { identities } from '@hers/vectors/synthetic';
import { cheating } from './campaigns/cheating/campaign.ts';

it('a client searches what is left of a cluster, and is told how much that is', async () => {
  const cluster = await LocalCluster.make();
  await cluster.start('n1', 'n2', 'n3');
  const key = MasterSeed.generate();
  const vectors = identities(30, 1, 8).gallery().vectors;
  const records = Array.from({ length: 30 }, (_, i) => ({ id: `r${i}`, vector: vectors.subarray(8 * i, 8 * (i + 1)) }));
  const first = new Database(cluster.coordinator('n1', { replicas: 1, shards: 16 }), { key });
  // All records are in one block: one of a shard that is not on the node that is home.
  let [name, gone, lost, home] = ['', '', 0, ''];
  for (let i = 0; gone === home; i++) {
    name = `faces${i}`;
    const faces = await first.createCollection(name, { dimension: 8 });
    await faces.upsert(records);
    await faces.optimize();
    const { uid, shards } = cluster.nodes.get('n1')!.members.directory.collections[name];
    home = shards[0][0];
    for (const [shard, [node]] of shards.entries())
      if ((await cluster.nodes.get(node)!.store.getCollection(`${uid}.${shard}`)).blocks > 0) gone = node;
    lost = shards.filter(([node]) => node === gone).length;
  }
  const service = cluster.coordinator(home);
  const server = await startServer(withMethods(service, { close: async () => {} }), { port: 0 });
  const db = new Database(new HttpService(server.url, { retryMs: 200 }), { key });
  const collection = await db.collection(name);
  const probe = records[3].vector;
  const whole = await collection.search(probe, { partial: true });
  assert.equal(whole.matches[0].id, 'r3');
  assert.deepEqual(whole.coverage, { searched: 30, total: 30, shards: { answered: 16, failed: 0, timedOut: 0 } });
  await cluster.stop(gone);
  await assert.rejects(collection.search(probe), { code: 'UNAVAILABLE' });
  const { coverage, matches } = await collection.search(probe, { partial: true });
  assert.deepEqual(coverage, { searched: 0, total: 30, shards: { answered: 16 - lost, failed: lost, timedOut: 0 } });
  assert.deepEqual(matches, []);
  await db.close();
  await server.close();
  await cluster.close();
});

it('a cluster that cheats at random: nothing wrong without an error', async () => {
  const cluster = await LocalCluster.make();
  await cluster.start('n1', 'n2', 'n3');
  const lines: string[] = [];
  const store = cluster.coordinator('n1');
  assert.ok(await cheating({ calls: 40, seed: 2, store, log: (line) => lines.push(line) }), lines.join('\n'));
  await cluster.close();
});
