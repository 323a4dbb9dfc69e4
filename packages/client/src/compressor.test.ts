// A collection with a compressor: what is indexed is shorter, what people give and get is not.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { fit } from '@hers/training';
import { bytesIn, type Call, scoreOf, vectorOf, watched } from '../testing/client.ts';
import { type Collection, connect, Database, HersError, MasterSeed } from './index.ts';

const DIMENSION = 32;
const KEPT = 8;
const refused = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

const folders: string[] = [];
const temporary = async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-compressor-'));
  folders.push(folder);
  return folder;
};
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

/** Vectors that nearly lie in a space of KEPT dimensions. */
function embedding(seed: number): Float32Array {
  const out = vectorOf(seed + 10_000_000, DIMENSION, 0.15);
  const inner = vectorOf(seed, KEPT);
  for (let k = 0; k < KEPT; k++) {
    const axis = vectorOf(20_000_000 + k, DIMENSION);
    for (let i = 0; i < DIMENSION; i++) out[i] += inner[k] * axis[i];
  }
  return out;
}
const records = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => ({ id: `r${from + i}`, vector: embedding(from + i) }));

/** The best ids by the full vectors. */
const best = (all: readonly { id: string; vector: Float32Array }[], probe: Float32Array, limit: number) =>
  all
    .map(({ id, vector }) => ({ id, score: scoreOf('cosine', vector, probe) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, limit);

let model: Uint8Array;
let narrower: Uint8Array;

before(async () => {
  const training = new Float32Array(1000 * DIMENSION);
  for (let i = 0; i < 1000; i++) training.set(embedding(-1 - i), i * DIMENSION);
  model = (await fit('pca', training, undefined, { inputDimension: DIMENSION, dimension: KEPT })).save();
  narrower = (await fit('pca', training, undefined, { inputDimension: DIMENSION, dimension: KEPT - 2 })).save();
});

const all = records(0, 4096 + 500);

async function assertWorks(faces: Collection, dimension: number) {
  const { plan, compressor } = await faces.index();
  assert.equal(plan.dimension, dimension);
  assert.equal(compressor?.outputDimension ?? DIMENSION, dimension);
  for (const number of [3, 4095, 4097]) {
    const probe = embedding(number);
    const { matches, coverage } = await faces.search(probe, { limit: 3, rerank: 64 });
    assert.deepEqual(coverage, { searched: all.length, total: all.length });
    const expected = best(all, probe, 3);
    assert.equal(matches[0].id, `r${number}`);
    matches.forEach((match, i) => {
      assert.equal(match.scoreOrigin, 'recomputed');
      assert.ok(match.score <= expected[i].score + 1e-6);
    });
    // Without the second stage the scores are those of the short vectors.
    const short = await faces.search(probe, { limit: 1 });
    assert.equal(short.matches[0].id, `r${number}`);
    assert.ok(Math.abs(short.matches[0].score - 1) < 0.02);
  }
}

describe('a collection with a compressor', () => {
  for (const profile of ['compact', 'exact'] as const)
    it(`indexes short vectors and keeps the full ones (${profile})`, async () => {
      const folder = await temporary();
      const key = MasterSeed.generate();
      const db = await connect(`file:${folder}`, { key });
      const faces = await db.createCollection('faces', { dimension: DIMENSION, profile, compressor: model });
      await faces.upsert(all);
      await assertWorks(faces, KEPT);
      assert.deepEqual((await faces.get('r7'))[0].vector, all[7].vector);
      const description = await db.describe('faces');
      assert.equal(description.dimension, DIMENSION);
      assert.deepEqual(description.compressor, { method: 'pca', dimension: KEPT });
      assert.equal(description.plan.dimension, KEPT);
      const probe = embedding(9);
      const full = scoreOf('cosine', all[10].vector, probe);
      const { score, scoreOrigin } = await faces.verify('r10', probe, { rerank: true });
      assert.equal(scoreOrigin, 'recomputed');
      assert.ok(Math.abs(score - full) < 1e-5);
      await db.close();

      const again = await connect(`file:${folder}`, { key });
      await assertWorks(await again.collection('faces'), KEPT);
      await again.close();
    });

  it('takes another compressor, or none, without enrolling again, and goes on where it was interrupted', async () => {
    const store = await openStore(await temporary());
    const key = MasterSeed.generate();
    const db = new Database(store, { key });
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    await faces.upsert(all);
    await assertWorks(faces, DIMENSION);
    await faces.reindex(model);
    await assertWorks(faces, KEPT);
    const { version } = await store.getManifest('faces');
    await faces.reindex(model);
    assert.equal((await store.getManifest('faces')).version, version, 'nothing to do');

    // Interrupted after the first commit: one epoch with either compressor.
    let commits = 0;
    const stopping = withMethods(store, {
      commit: (name, change) => {
        if (++commits > 1) throw new HersError('CLOSED', 'stopped');
        return store.commit(name, change);
      },
    });
    await assert.rejects(
      (await new Database(stopping, { key }).collection('faces')).reindex(narrower),
      refused('CLOSED'),
    );
    const other = await new Database(store, { key }).collection('faces');
    const { matches } = await other.search(embedding(11), { limit: 1 });
    assert.equal(matches[0].id, 'r11');
    await other.reindex(narrower);
    await assertWorks(other, KEPT - 2);
    // A client that had the collection open notices.
    await faces.upsert([{ id: 'new', vector: embedding(8_000_000) }]);
    assert.equal((await faces.index()).plan.dimension, KEPT - 2);
    await faces.delete('new');
    assert.equal(await faces.rotateKey(), 3);
    await assertWorks(faces, KEPT - 2);
    await faces.reindex(null);
    await assertWorks(faces, DIMENSION);
    await db.close();
  });

  it('refuses what does not fit', async () => {
    const db = await connect(`file:${await temporary()}`, { key: MasterSeed.generate() });
    const create = (options: object) => db.createCollection('faces', { dimension: DIMENSION, ...options });
    await assert.rejects(create({ dimension: 33, compressor: model }), refused('INVALID_ARGUMENT'));
    await assert.rejects(create({ compressor: Uint8Array.of(1, 2, 3) }), refused('INVALID_ARGUMENT'));
    await assert.rejects(create({ metric: 'dot', normBound: 2, compressor: model }), refused('INVALID_ARGUMENT'));
    assert.deepEqual(await db.listCollections(), []);
    await db.close();
  });

  it('is not left behind without the compressor that was asked for', async () => {
    const store = await openStore(await temporary());
    const failing = withMethods(store, {
      stageList: () => Promise.reject(new HersError('STORAGE', 'no room, says the test')),
    });
    const key = MasterSeed.generate();
    const options = { dimension: DIMENSION, compressor: model };
    await assert.rejects(new Database(failing, { key }).createCollection('faces', options), refused('STORAGE'));
    assert.deepEqual(await store.listCollections(), []);
    const db = new Database(store, { key });
    const faces = await db.createCollection('faces', options);
    assert.equal((await faces.index()).plan.dimension, KEPT);
    await db.close();
  });

  it('never shows the compressor to the store, and notices another one', async () => {
    const store = await openStore(await temporary());
    const key = MasterSeed.generate();
    const calls: Call[] = [];
    const db = new Database(watched(store, calls), { key });
    await db.createCollection('faces', { dimension: DIMENSION, compressor: model });
    const inside = Buffer.from(model.subarray(200, 216));
    for (const { args } of calls)
      for (const bytes of bytesIn(args)) assert.equal(Buffer.from(bytes).indexOf(inside), -1);
    const cheating = withMethods(store, {
      async *getLists(name, ids, options) {
        for await (const list of store.getLists(name, ids, options)) yield list.map((x, i) => (i === 100 ? x ^ 1 : x));
      },
    });
    await assert.rejects(new Database(cheating, { key }).collection('faces'), refused('INTEGRITY'));
    await db.close();
  });
});
