// NATS loses an entry that one replica has applied, and takes another in its place. The replica has
// the same version as the others, and is not taken for one of them.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { encodeBlock, Samples } from '@hers/service/samples';
import { stateOf } from '@hers/store/stages';
import { ChangeHistory } from '../testing/history.ts';
import { LocalCluster } from '../testing/local.ts';
import { statesOf } from './changes.ts';
import { encodeHome, HOME, homeState, shardManifest, shardName, shardState } from './shard.ts';

const NAMES = ['n1', 'n2', 'n3'];
const text = (value: string) => new TextEncoder().encode(value);

it('a replica that applied what the ledger lost answers for nobody, and is copied from the majority', async () => {
  const reported: string[] = [];
  const onBackgroundError = (error: unknown) => reported.push((error as Error).message);
  // Nobody looks after shards until a node is started again.
  const cluster = await LocalCluster.make({ tendMs: 600_000, onBackgroundError });
  await cluster.start(...NAMES);
  let through = 'n2';
  const history = new ChangeHistory(3, () => cluster.coordinator(through));
  await history.begin();
  for (let i = 0; i < 3; i++) await history.change();

  const node = cluster.nodes.get('n1')!;
  const placed = node.members.directory.collections[ChangeHistory.COLLECTION];
  const current = await node.changes.home(placed);
  const states = statesOf(current);
  const version = current.version + 1;
  for (const other of ['n2', 'n3']) cluster.cut.add(`n1,${other}`);
  // The change that was lost: of every shard, with a block that no other replica has.
  const samples = new Samples(99);
  const shards = states.map((_, shard) => (shard === HOME ? homeState(version) : shardState(version, 'lost')));
  const home = encodeHome({ ...current.home, version: current.home.version + 1, manifest: text('lost'), shards });
  const lost = [];
  for (const [shard, { version: expected, state: basis }] of states.entries()) {
    const name = shardName(placed.uid, shard);
    const manifest = shard === HOME ? home : shardManifest(version, 'lost');
    const blocks = [await node.store.stageBlock(name, [encodeBlock(samples.block())])];
    const change = await node.store.prepare(name, { expected, basis, version, manifest, blocks });
    lost.push({ shard, change, version, state: stateOf(manifest) });
    await node.store.apply(name, lost[shard]);
  }
  await history.change();
  assert.equal(history.acknowledged, current.home.version + 1);
  cluster.cut.clear();

  const heldBy = (name: string) =>
    Promise.all(placed.shards.map((_, shard) => cluster.nodes.get(name)!.store.getState(shardName(placed.uid, shard))));
  assert.deepEqual(
    await heldBy('n1'),
    lost.map(({ version, state }) => ({ version, state })),
  );
  // While it lasts: whoever is asked, the answer is that of the majority.
  for (through of NAMES)
    for (let i = 0; i < 5; i++) {
      const before = history.searches;
      await history.search();
      assert.equal(history.searches, before + 1, history.refusal);
      const { manifest } = await cluster.coordinator(through).getManifest(ChangeHistory.COLLECTION);
      assert.notDeepEqual(manifest, text('lost'));
    }
  // The lost change comes back from somewhere: it is too late.
  const entry = { version: history.acknowledged, nonce: 'lost', fence: 0, shards: lost };
  await assert.rejects(cluster.nodes.get('n2')!.changes.settle(placed, entry, 200), { code: 'STALE' });
  await cluster.stop('n1');
  await cluster.start('n1');
  const until = performance.now() + 60_000;
  for (;;) {
    const [here, there] = [await heldBy('n1'), await heldBy('n2')];
    if (JSON.stringify(here) === JSON.stringify(there)) break;
    assert.ok(performance.now() < until, 'n1 was not mended');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(reported.filter((message) => message.includes('the ledger lost')).length, lost.length);
  for (const name of NAMES) await history.check(cluster.coordinator(name));
  await history.change();
  for (const name of NAMES) await history.check(cluster.coordinator(name));
  await cluster.close();
});
