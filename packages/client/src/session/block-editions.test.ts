// Blocks of the first edition, which have no canaries, beside those of the second: collections that
// an older program wrote are searched and written, and move on when their blocks are rewritten.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { decodeQuery } from '@hers/scheme';
import { type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { scoreOf, vectorOf } from '../../testing/client.ts';
import { createFirstEdition, openEdition } from '../../testing/editions.ts';
import type { Collection } from '../collection.ts';
import { encodeDescriptor, openDescriptor } from '../formats/descriptor.ts';
import { openManifest, sealManifest } from '../formats/manifest.ts';
import { Database, MasterSeed } from '../index.ts';
import { makeSealer } from '../keys/sealing.ts';

const DIMENSION = 8;
const seed = MasterSeed.generate();
const folders: string[] = [];
const opened: Service[] = [];
after(async () => {
  for (const store of opened) await store.close();
  await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
});

async function emptyStore(): Promise<Service> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-block-editions-'));
  folders.push(folder);
  const store = await openStore(folder);
  opened.push(store);
  return store;
}

const record = (i: number) => ({ id: `r${i}`, vector: vectorOf(i, DIMENSION) });
const several = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => record(from + i));

const editionsOf = async (store: Service, name: string) => {
  const { editions } = await new Database(store, { key: seed, threads: 1 }).describe(name);
  return Object.fromEntries(editions.map(({ edition, blocks }) => [edition, blocks]));
};

/**
 * That all of these are found, each with its own score, and in how many queries they were asked
 * for.
 */
async function found(collection: Collection, ids: readonly number[], tolerance: number): Promise<void> {
  const probe = vectorOf(70_000, DIMENSION);
  const { matches, coverage } = await collection.search(probe, { limit: ids.length + 5 });
  assert.deepEqual(coverage, { searched: ids.length, total: ids.length });
  assert.deepEqual(matches.map(({ id }) => id).sort(), ids.map((i) => `r${i}`).sort());
  for (const { id, score } of matches) {
    const right = scoreOf('cosine', probe, vectorOf(Number(id.slice(1)), DIMENSION));
    assert.ok(Math.abs(score - right) < tolerance, `${id}: ${score}, not ${right}`);
  }
}

/** The parameter sets of the queries that a search sends. */
async function queriesOf(store: Service, name: string): Promise<string[]> {
  const sets: string[] = [];
  const watching = withMethods(store, {
    search(where, request, options) {
      sets.push(...request.queries.map((query) => decodeQuery(query).parameters.name));
      return store.search(where, request, options);
    },
  });
  const collection = await openEdition(watching, seed, name, 2);
  await collection.search(vectorOf(1, DIMENSION));
  await collection.close();
  return sets.sort();
}

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const SETS = {
  compact: ['n_2048_logq_30', 'n_2048_logq_30_wide_5'],
  exact: ['n_4096_logq_30_30', 'n_4096_logq_30_30_wide_4'],
} as const;

for (const profile of ['compact', 'exact'] as const)
  describe(`${profile}, written by an older program`, () => {
    it('is searched, written, searched with blocks of both editions, and moves on', async () => {
      const store = await emptyStore();
      const options = { dimension: DIMENSION, profile };
      const before = await createFirstEdition(store, seed, 'faces', options);
      const n = before.plan.parameters.n;
      const [old, current] = SETS[profile];
      await before.upsert(several(0, n + 50));
      await before.optimize();
      assert.deepEqual(await editionsOf(store, 'faces'), { 1: 2 });
      await before.close();
      const tolerance = profile === 'compact' ? 0.02 : 0.01;

      const faces = await openEdition(store, seed, 'faces', 2);
      await found(faces, numbers(0, n + 50), tolerance);
      assert.deepEqual(await queriesOf(store, 'faces'), [old]);
      // What is new is of the second edition.
      await faces.upsert(several(n + 50, 2 * n + 100));
      assert.deepEqual(await editionsOf(store, 'faces'), { 1: 2, 2: 1 });
      assert.deepEqual(await queriesOf(store, 'faces'), [old, current]);
      await faces.delete(['r3', `r${n + 60}`]);
      const left = numbers(0, 2 * n + 100).filter((i) => i !== 3 && i !== n + 60);
      await found(faces, left, tolerance);
      const { matches } = await faces.search(vectorOf(5, DIMENSION), { limit: 3, rerank: true });
      assert.equal(matches[0].id, 'r5');
      for (const i of [7, n + 70]) {
        const { score } = await faces.verify(`r${i}`, vectorOf(i, DIMENSION));
        assert.ok(Math.abs(score - 1) < tolerance);
      }

      // Interrupted after the first step, and taken up again.
      const stop = new AbortController();
      await faces.optimize({ signal: stop.signal, onProgress: () => stop.abort() }).catch(() => {});
      await found(faces, left, tolerance);
      await faces.optimize();
      const after = await editionsOf(store, 'faces');
      assert.equal(after[1], undefined);
      assert.equal(after[2], Math.ceil(left.length / faces.plan.capacity));
      assert.deepEqual(await queriesOf(store, 'faces'), [current]);
      await found(faces, left, tolerance);
      await faces.close();
    });
  });

for (const way of ['rotateKey', 'reindex'] as const)
  it(`${way} turns blocks into the second edition, too`, async () => {
    const store = await emptyStore();
    const before = await createFirstEdition(store, seed, 'faces', { dimension: DIMENSION, profile: 'exact' });
    await before.upsert(several(0, 60));
    await before.optimize();
    const faces = await openEdition(store, seed, 'faces', 2);
    if (way === 'rotateKey') await faces.rotateKey();
    else {
      const { fit } = await import('@hers/training');
      const vectors = new Float32Array(60 * DIMENSION);
      several(0, 60).forEach(({ vector }, i) => {
        vectors.set(vector, i * DIMENSION);
      });
      const compressor = await fit('pca', vectors, undefined, { inputDimension: DIMENSION, dimension: 4 });
      await faces.reindex(compressor.save());
    }
    assert.deepEqual(await editionsOf(store, 'faces'), { 2: 1 });
    assert.equal((await faces.search(vectorOf(9, DIMENSION), { limit: 1, rerank: 9 })).matches[0].id, 'r9');
  });

describe('new collections', () => {
  it('are of the second edition', async () => {
    const store = await emptyStore();
    const db = new Database(store, { key: seed, threads: 1 });
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    assert.deepEqual([faces.plan.edition, faces.plan.canaries], [2, 8]);
  });

  it('small is refused where it is no smaller than floats, also of what a compressor leaves', async () => {
    const store = await emptyStore();
    const db = new Database(store, { key: seed, threads: 1 });
    const isSmaller = (dimension: number, width = dimension) => (width + 6) * 3 < dimension * 4;
    for (const dimension of [16, 18, 19, 32]) {
      const made = db.createCollection(`small-${dimension}`, { dimension, profile: 'small' });
      if (isSmaller(dimension)) assert.equal((await made).plan.canaries, 16);
      else await assert.rejects(made, { code: 'UNSUPPORTED_PLAN', message: /use compact/ });
    }
    const { fit } = await import('@hers/training');
    const vectors = new Float32Array(60 * 32).map((_, i) => vectorOf(i >> 5, 32)[i & 31]);
    const compressor = (await fit('pca', vectors, undefined, { inputDimension: 32, dimension: 8 })).save();
    await assert.rejects(db.createCollection('short', { dimension: 32, profile: 'small', compressor }), {
      code: 'UNSUPPORTED_PLAN',
    });
  });

  it('small: are written, searched, optimized and rotated like others', async () => {
    const store = await emptyStore();
    const db = new Database(store, { key: seed, threads: 1 });
    const faces = await db.createCollection('faces', { dimension: 32, profile: 'small' });
    const { capacity, noise } = faces.plan;
    const count = 2 * capacity + 30;
    await faces.upsert(Array.from({ length: count }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, 32) })));
    const probe = vectorOf(70_000, 32);
    for (const step of ['as it is', 'delete', 'optimize', 'rotateKey'] as const) {
      if (step === 'delete') await faces.delete('r7');
      else if (step !== 'as it is') await faces[step]();
      const { matches, coverage } = await faces.search(probe, { limit: count });
      assert.equal(coverage.searched, step === 'as it is' ? count : count - 1, step);
      for (const { id, score } of matches) {
        const right = scoreOf('cosine', probe, vectorOf(Number(id.slice(1)), 32));
        assert.ok(Math.abs(score - right) < 7 * noise.score, `${step}, ${id}`);
      }
      assert.equal((await faces.search(vectorOf(9, 32), { limit: 1, rerank: true })).matches[0].id, 'r9');
    }
    assert.deepEqual((await db.describe('faces')).editions, [{ edition: 2, blocks: 3 }]);
  });

  it('a newer one is refused in a sentence', async () => {
    const store = await emptyStore();
    const faces = await createFirstEdition(store, seed, 'faces', { dimension: DIMENSION });
    await faces.upsert(several(0, 30));
    await faces.optimize();
    const { id, descriptor } = await store.getCollection('faces');
    const { version, manifest: sealed } = await store.getManifest('faces');
    const sealer = await makeSealer(seed.deriveKey('manifest', id));
    const manifest = await openManifest(sealer, id, version, sealed, { handleOf: () => assert.fail('no partitions') });
    const blocks = manifest.blocks.map((block) => ({ ...block, edition: 3 as 2 }));
    const newer = await sealManifest(sealer, id, { ...manifest, blocks });
    const isNewer = { code: 'UNSUPPORTED_VERSION', message: /newer version/ };
    const showing = withMethods(store, { getManifest: async () => ({ version, manifest: newer }) });
    await assert.rejects(new Database(showing, { key: seed }).collection('faces'), isNewer);
    const { request } = openDescriptor(seed, 'faces', descriptor);
    const later = encodeDescriptor(seed, { id, request: { ...request, edition: 5 as 2 } });
    const described = withMethods(store, {
      getCollection: async (name) => ({ ...(await store.getCollection(name)), descriptor: later }),
    });
    await assert.rejects(new Database(described, { key: seed }).collection('faces'), isNewer);
  });
});

it('a key that has sealed as much as it may is rotated before it seals more', async () => {
  const store = await emptyStore();
  const faces = await new Database(store, { key: seed }).createCollection('faces', { dimension: DIMENSION });
  await faces.upsert(several(0, 3));
  const { id } = await store.getCollection('faces');
  const sealer = await makeSealer(seed.deriveKey('manifest', id));
  const { version, manifest: sealed } = await store.getManifest('faces');
  const manifest = await openManifest(sealer, id, version, sealed, { handleOf: () => assert.fail('no partitions') });
  const worn = { ...manifest, version: version + 1, seals: 2 ** 31 - 1 };
  await store.commit('faces', { expected: version, manifest: await sealManifest(sealer, id, worn) });
  const db = new Database(store, { key: seed });
  const again = await db.collection('faces');
  await assert.rejects(again.upsert(several(3, 5)), {
    code: 'INVALID_ARGUMENT',
    message: /sealed as much as it safely can; rotate the key/,
  });
  assert.equal(await again.count(), 3);
  await again.rotateKey();
  await again.upsert(several(3, 5));
  await found(again, [0, 1, 2, 3, 4], 0.02);
});
