// The gallery in fixtures/gallery opens and answers as when it was written: known answers for every
// format on a disk. A change of one makes it again (testing/fixture.ts says how).

import assert from 'node:assert/strict';
import { cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type FolderStore, openStore } from '@hers/store';
import { type Answers, FIXTURE } from '../../testing/fixture.ts';
import { Database } from '../index.ts';

let folder: string;
let store: FolderStore;
let key: Uint8Array;
let answers: Answers;
let db: Database;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-fixture-'));
  await cp(join(FIXTURE, 'gallery'), folder, { recursive: true });
  for (const name of ['blocks', 'segments', 'vault']) await mkdir(join(folder, name), { recursive: true });
  key = Buffer.from((await readFile(join(FIXTURE, 'key.hex'), 'utf8')).trim(), 'hex');
  answers = JSON.parse(await readFile(join(FIXTURE, 'answers.json'), 'utf8'));
  store = await openStore(folder);
  db = new Database(store, { key });
});

after(async () => {
  await db.close();
  await rm(folder, { recursive: true, force: true });
});

test('what is in it, what searches find, and nothing that reading changes', async () => {
  const names = Object.keys(answers.ids);
  const manifests = () => Promise.all(names.map((name) => store.getManifest(name)));
  const sealed = await manifests();
  for (const name of names) {
    const collection = await db.collection(name);
    assert.equal((await Array.fromAsync(collection.list())).sort().join(' '), answers.ids[name]);
    const [record] = await collection.get('r5');
    assert.deepEqual(record?.payload, { number: 5, site: 's2' });
  }
  for (const { collection, probe, options, matches } of answers.searches) {
    const found = await (await db.collection(collection)).search(probe, options);
    assert.deepEqual(
      found.matches.map(({ id }) => id),
      matches.map(([id]) => id),
    );
    // Scores under `exact` and those of `rerank` have no noise.
    const isNoisy = collection !== 'faces' && !options.rerank;
    for (const [i, { score }] of found.matches.entries())
      assert.ok(Math.abs(score - matches[i][1]) < (isNoisy ? 0.01 : 1e-6), `${collection}: ${score}, ${matches[i][1]}`);
  }
  assert.deepEqual(await manifests(), sealed);
  for await (const { damage } of store.scrub()) assert.equal(damage, undefined);
});

test('what is written to it later is found beside what was there', async () => {
  for (const [name, ids] of Object.entries(answers.ids)) {
    const collection = await db.collection(name);
    const { vector } = (await collection.get('r5'))[0]!;
    await collection.upsert({ id: 'new', vector, payload: { number: 71, site: 's0' } });
    await collection.optimize();
    await collection.rotateKey();
    assert.deepEqual((await Array.fromAsync(collection.list())).sort(), [...ids.split(' '), 'new'].sort());
    const { matches } = await collection.search(vector, { limit: 2 });
    assert.deepEqual(matches.map(({ id }) => id).sort(), ['new', 'r5']);
  }
});
