import assert from 'node:assert/strict';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { HersError } from '@hers/service';
import { ChangeHistory } from '../testing/history.ts';
import { LocalCluster } from '../testing/local.ts';

const PAGE = 4096;

/** Changes bytes in the last pages of a catalogue. */
async function damage(folder: string): Promise<void> {
  const handle = await open(join(folder, 'catalogue.db'), 'r+');
  const { size } = await handle.stat();
  for (let page = 1; page <= 3; page++) await handle.write(Buffer.alloc(64, 0xa5), 0, 64, size - page * PAGE + 100);
  await handle.close();
}

/** A cluster whose node n3 is stopped and damaged. */
async function damaged(replicas: number, reported: string[]) {
  const onBackgroundError = (error: unknown) => reported.push(error instanceof HersError ? error.code : String(error));
  const cluster = await LocalCluster.make({ tendMs: 20, onBackgroundError });
  await cluster.start('n1', 'n2', 'n3');
  const history = new ChangeHistory(21, () => cluster.coordinator('n1', { replicas }));
  await history.begin();
  for (let i = 0; i < 4; i++) await history.change();
  await cluster.stop('n3');
  await damage(join(cluster.folder, 'n3'));
  return { cluster, history };
}

const asideIn = async ({ folder }: LocalCluster) =>
  (await readdir(folder)).filter((name) => name.startsWith('n3.damaged-'));

it('a node whose catalogue is damaged begins with an empty folder, and keeps the other aside', async () => {
  const reported: string[] = [];
  const { cluster, history } = await damaged(3, reported);
  await history.change();
  await cluster.start('n3');
  assert.deepEqual(reported, ['DAMAGED']);
  assert.equal((await asideIn(cluster)).length, 1);
  const { store } = cluster.nodes.get('n3')!;
  const until = performance.now() + 60_000;
  while ((await store.listCollections()).length < 5) {
    assert.ok(performance.now() < until, 'the shards are not copied');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(store.isReadOnly, false);
  // It counts as one of a majority again.
  await cluster.stop('n2');
  await history.change();
  for (const name of ['n1', 'n3']) await history.check(cluster.coordinator(name));
  await cluster.close();
});

it('what no majority of others has is not set aside', async () => {
  const reported: string[] = [];
  const { cluster } = await damaged(2, reported);
  // It may not get so far as to open it.
  await cluster.start('n3').catch((error) => reported.push(error.code, error.message));
  assert.ok(reported.includes('DAMAGED'), reported.join());
  assert.deepEqual(await asideIn(cluster), []);
  await cluster.close();
});
