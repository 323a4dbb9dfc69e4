// The database in a folder, as an application uses it.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { MAX_REMOVED, type Service } from '@hers/service';
import { openStore } from '@hers/store';
import { type Call, counts, scoreOf, vectorOf, watched } from '../testing/client.ts';
import { openManifest, sealManifest } from './formats/manifest.ts';
import { RecordKeys } from './formats/records.ts';
import { type Collection, connect, Database, HersError, MasterSeed, type VectorRecord } from './index.ts';
import { makeSealer } from './sealing/sealing.ts';

const folders: string[] = [];
const temporary = async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-client-'));
  folders.push(folder);
  return folder;
};
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

const refused = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;
const open = async (folder: string, key: MasterSeed) => connect(`file:${folder}`, { key });

const DIMENSION = 16;
const records = (from: number, to: number, tag = ''): VectorRecord[] =>
  Array.from({ length: to - from }, (_, i) => ({
    id: `r${from + i}${tag}`,
    vector: vectorOf(from + i, DIMENSION),
    payload: { number: from + i },
  }));

/** The best ids in plain arithmetic. */
function expected(
  all: readonly VectorRecord[],
  probe: Float32Array,
  limit: number,
  metric: 'cosine' | 'dot' | 'euclidean' = 'cosine',
) {
  const sign = metric === 'euclidean' ? 1 : -1;
  return all
    .map((record) => ({ id: record.id, score: scoreOf(metric, record.vector as Float32Array, probe) }))
    .sort((a, b) => sign * (a.score - b.score))
    .slice(0, limit);
}

async function assertFinds(
  collection: Collection,
  all: readonly VectorRecord[],
  probe: Float32Array,
  metric: 'cosine' | 'dot' | 'euclidean' = 'cosine',
) {
  const { matches, coverage } = await collection.search(probe, { limit: 5 });
  assert.deepEqual(coverage, { searched: all.length, total: all.length });
  const best = expected(all, probe, 5, metric);
  assert.equal(matches.length, Math.min(5, all.length));
  assert.equal(matches[0].id, best[0].id);
  matches.forEach((match, i) =>
    assert.ok(
      Math.abs(match.score - best[i].score) < (metric === 'euclidean' ? 0.06 : 0.02),
      `${match.score} for ${best[i].score}`,
    ),
  );
}

describe('a collection in a folder', () => {
  it('keeps, finds, replaces and deletes records, pending or in blocks', async () => {
    const folder = await temporary();
    const key = MasterSeed.generate();
    const db = await open(folder, key);
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    assert.equal(await faces.count(), 0);
    assert.deepEqual((await faces.search(vectorOf(0, DIMENSION))).matches, []);

    // 5000 records: two blocks of 2040 and their canaries, and 920 pending.
    const all = records(0, 5000);
    const progress: number[] = [];
    const first = await faces.upsert(all, { onProgress: ({ acknowledged }) => progress.push(acknowledged) });
    assert.deepEqual(first, counts({ inserted: 5000 }));
    assert.deepEqual(progress, [5000]);
    assert.equal(await faces.count(), 5000);
    for (const number of [0, 2039, 2040, 4999]) await assertFinds(faces, all, vectorOf(number, DIMENSION));

    assert.deepEqual(await faces.upsert(all), counts({ unchanged: 5000 }));
    const moved = { id: 'r17', vector: vectorOf(99_017, DIMENSION) };
    await faces.upsert(moved);
    all[17] = moved;
    assert.equal(await faces.count(), 5000);
    await assertFinds(faces, all, vectorOf(17, DIMENSION));
    await assertFinds(faces, all, moved.vector);

    assert.equal(await faces.delete(['r18', 'r4998', 'nobody', 'r18']), 2);
    const left = all.filter(({ id }) => id !== 'r18' && id !== 'r4998');
    assert.equal(await faces.count(), 4998);
    await assertFinds(faces, left, vectorOf(18, DIMENSION));
    assert.deepEqual(await faces.get(['r18', 'r17', 'r4999', 'x']), [
      { id: 'r17', vector: moved.vector },
      { id: 'r4999', vector: all[4999].vector, payload: { number: 4999 } },
    ]);
    // Each as often as it is asked for, though the store is asked once.
    assert.deepEqual(
      (await faces.get(['r20', 'r21', 'r20'])).map(({ id }) => id),
      ['r20', 'r21', 'r20'],
    );
    assert.deepEqual(new Set(await Array.fromAsync(faces.list())), new Set(left.map(({ id }) => id)));

    await db.close();
    const again = await open(folder, key);
    await assertFinds(await again.collection('faces'), left, vectorOf(4321, DIMENSION));
    await again.close();
  });

  for (const metric of ['cosine', 'dot', 'euclidean'] as const) {
    for (const profile of ['compact', 'exact'] as const) {
      it(`${profile} ${metric}: thresholds, limits, batches, verification`, async () => {
        const db = await open(await temporary(), MasterSeed.generate());
        const bounds = metric === 'cosine' ? {} : { normBound: 2 };
        const things = await db.createCollection('things', { dimension: DIMENSION, metric, profile, ...bounds });
        const n = things.plan.parameters.n;
        const all = Array.from({ length: n + 300 }, (_, i) => ({
          id: String(i),
          vector: vectorOf(i, DIMENSION, 0.5 + (i % 100) / 100),
        }));
        await things.upsert(all);
        const probes = [5, n + 7].map((i) => all[i].vector);
        const results = await things.searchBatch(probes, { limit: 3 });
        results.forEach(({ matches }, i) => {
          const best = expected(all, probes[i], 3, metric);
          assert.equal(matches[0].id, best[0].id);
          for (const { id, score, scoreOrigin } of matches) {
            assert.ok(Number.isFinite(score));
            // The first n are in a block, the others pending.
            const origin = Number(id) < n ? 'noisy' : 'recomputed';
            assert.equal(scoreOrigin, profile === 'exact' ? 'exact' : origin);
          }
        });
        const third = results[0].matches[2].score;
        const within = await things.search(probes[0], { threshold: third, limit: 100 });
        assert.ok(within.matches.length >= 1 && within.matches.length <= 12, `${within.matches.length}`);
        for (const id of ['5', String(n + 7)]) {
          const { score, match } = await things.verify(id, probes[0], { threshold: third });
          const plain = scoreOf(metric, all[Number(id)].vector, probes[0]);
          // Noise is added to the square of a distance.
          const power = metric === 'euclidean' ? 2 : 1;
          assert.ok(Math.abs(score ** power - plain ** power) < 0.1, `${score} for ${plain}`);
          assert.equal(match, metric === 'euclidean' ? score <= third : score >= third);
          if (metric !== 'dot') assert.equal(match, id === '5');
        }
        await assert.rejects(things.verify('none', probes[0]), refused('NOT_FOUND'));
        await db.close();
      });
    }
  }

  it('deletes more ids than fit one change', async () => {
    const calls: Call[] = [];
    const db = new Database(watched(await openStore(await temporary(), { quietMs: 5 }), calls), {
      key: MasterSeed.generate(),
    });
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    const ids = Array.from({ length: MAX_REMOVED + 4000 }, (_, i) => `id ${i}`);
    const there = [0, MAX_REMOVED - 1, MAX_REMOVED, ids.length - 1].map((i) => ids[i]);
    await faces.upsert(there.map((id, i) => ({ id, vector: vectorOf(i, DIMENSION) })));
    calls.length = 0;
    assert.equal(await faces.delete(ids), there.length);
    assert.equal(calls.filter(({ method }) => method === 'commit').length, 2);
    assert.equal(await faces.count(), 0);
    await db.close();
  });

  it('re-ranks and fetches payloads when asked', async () => {
    const db = await open(await temporary(), MasterSeed.generate());
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    const all = records(0, 2500);
    await faces.upsert(all);
    const probe = vectorOf(7, DIMENSION);
    const best = expected(all, probe, 5);
    const { matches } = await faces.search(probe, { limit: 5, rerank: true, payload: true });
    assert.deepEqual(
      matches.map(({ id }) => id),
      best.map(({ id }) => id),
    );
    matches.forEach((match, i) => {
      assert.ok(Math.abs(match.score - best[i].score) < 1e-6);
      assert.equal(match.scoreOrigin, 'recomputed');
      assert.deepEqual(match.payload, { number: Number(match.id.slice(1)) });
    });
    await assert.rejects(faces.search(probe, { limit: 129, payload: true }), refused('INVALID_ARGUMENT'));
    const noisy = await faces.search(probe, { limit: 1, payload: true });
    assert.equal(noisy.matches[0].scoreOrigin, 'noisy');
    await db.close();
  });

  it('gets ready for a search without asking for more than what it consists of', async () => {
    const calls: Call[] = [];
    const key = MasterSeed.generate();
    const store = await openStore(await temporary());
    const db = new Database(watched(store, calls), { key });
    for (const profile of ['compact', 'open'] as const) {
      const faces = await db.createCollection(profile, { dimension: DIMENSION, profile });
      await faces.prepare(); // there is nothing yet
      const all = records(0, 30);
      await faces.upsert(all);
      await faces.optimize();
      calls.length = 0;
      await faces.prepare();
      assert.deepEqual(
        calls.filter(({ method }) => method === 'search' || method === 'getRecords'),
        [],
      );
      await assertFinds(faces, all, vectorOf(7, DIMENSION));
    }
    await db.deleteCollection('open');
    const faces = await db.collection('compact');
    await db.close();
    await assert.rejects(faces.prepare(), refused('WIPED'));
  });

  it('lists records with the fields that they have, in blocks and pending, and fetches none', async () => {
    const calls: Call[] = [];
    const db = new Database(watched(await openStore(await temporary()), calls), { key: MasterSeed.generate() });
    const faces = await db.createCollection('faces', {
      dimension: DIMENSION,
      fields: { number: 'number', city: 'keyword' },
    });
    const all = records(0, 30);
    await faces.upsert(all);
    await faces.optimize();
    const late = { id: 'late', vector: vectorOf(31, DIMENSION), payload: { city: 'Delft' } };
    await faces.upsert(late);
    calls.length = 0;
    const listed = await Array.fromAsync(faces.listFields(['number', 'city']));
    assert.deepEqual(
      new Map(listed.map(({ id, fields }) => [id, fields])),
      new Map([...all, late].map(({ id, payload }) => [id, payload])),
    );
    const from = await Array.fromAsync(faces.listFields(['city'], { after: listed[28]!.id }));
    assert.deepEqual(from, [
      { id: listed[29]!.id, fields: {} },
      { id: 'late', fields: { city: 'Delft' } },
    ]);
    assert.ok(calls.every(({ method }) => method !== 'getRecords'));
    await db.close();
  });

  it('refuses what it cannot take, before anything is written', async () => {
    const db = await open(await temporary(), MasterSeed.generate());
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    const good = records(0, 3);
    for (const bad of [
      { id: 'x', vector: [1, 2] },
      { id: 'x', vector: new Float32Array(DIMENSION) },
      { id: 'x', vector: new Float32Array(DIMENSION).fill(Number.NaN) },
      { id: '', vector: vectorOf(1, DIMENSION) },
      { id: 7, vector: vectorOf(1, DIMENSION) },
      { id: 'x'.repeat(2000), vector: vectorOf(1, DIMENSION) },
      { id: '名'.repeat(342), vector: vectorOf(1, DIMENSION) },
      { id: 'half a pair \ud800', vector: vectorOf(1, DIMENSION) },
      { id: 'x', vector: vectorOf(1, DIMENSION), payload: { n: 1n } },
      { vector: vectorOf(1, DIMENSION) },
      null,
    ]) {
      await assert.rejects(
        faces.upsert([...good, bad as VectorRecord]),
        (error) => error instanceof HersError && ['INVALID_VECTOR', 'INVALID_ARGUMENT'].includes(error.code),
      );
      assert.equal(await faces.count(), 0);
    }
    for (const limit of [0, -1, 1.5, 20_000])
      await assert.rejects(faces.search(good[0].vector, { limit }), refused('INVALID_ARGUMENT'));
    await assert.rejects(faces.search([1]), refused('INVALID_VECTOR'));
    for (const name of ['', '../x', 'a b', 'x'.repeat(65)])
      await assert.rejects(db.createCollection(name, { dimension: 4 }), refused('INVALID_ARGUMENT'));
    await assert.rejects(db.createCollection('faces', { dimension: 4 }), refused('ALREADY_EXISTS'));
    await assert.rejects(db.createCollection('f', { dimension: 1 }), refused('UNSUPPORTED_PLAN'));
    await assert.rejects(
      db.createCollection('f', { dimension: 4, colour: 'red' } as never),
      refused('INVALID_ARGUMENT'),
    );
    await assert.rejects(db.collection('none'), refused('NOT_FOUND'));
    await assert.rejects(connect('ftp://x', { key: MasterSeed.generate() }), refused('INVALID_ARGUMENT'));
    await db.close();
  });

  it('streams, reports what is safe when a stream fails, and stops when told', async () => {
    const db = await open(await temporary(), MasterSeed.generate());
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    const size = 8 * faces.plan.capacity;
    const failing = async function* () {
      yield* records(0, size + 10);
      yield { id: 'bad', vector: [1] };
    };
    await assert.rejects(faces.upsert(failing()), (error) => (error as { acknowledged: number }).acknowledged === size);
    assert.equal(await faces.count(), size);
    const controller = new AbortController();
    const endless = function* () {
      for (let i = 0; ; i++) {
        if (i === size + 5) controller.abort();
        yield { id: `e${i}`, vector: vectorOf(i, DIMENSION) };
      }
    };
    // What is being written when the signal comes is written as a whole or not at all, and the
    // error says which.
    let safe = -1;
    await assert.rejects(faces.upsert(endless(), { signal: controller.signal }), (error) => {
      safe = (error as { acknowledged: number }).acknowledged;
      return (error as Error).name === 'AbortError';
    });
    assert.ok(safe === 0 || safe === size, `${safe}`);
    assert.equal(await faces.count(), size + safe);
    await assert.rejects(faces.search(vectorOf(1, DIMENSION), { signal: AbortSignal.abort() }), { name: 'AbortError' });
    await db.close();
  });

  it('optimize indexes pending records and forgets what was deleted; rotation re-encrypts, in steps', async () => {
    const folder = await temporary();
    const key = MasterSeed.generate();
    const db = await open(folder, key);
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    const all = records(0, 5000);
    await faces.upsert(all);
    await faces.delete(all.slice(0, 1000).map(({ id }) => id));
    const left = all.slice(1000);
    await faces.optimize();
    const { blocks, records: count } = await db.describe('faces');
    assert.deepEqual([blocks, count], [2, 4000]);
    for (const number of [1000, 3047, 4999]) await assertFinds(faces, left, vectorOf(number, DIMENSION));
    await faces.optimize();
    assert.equal((await db.describe('faces')).blocks, 2);

    const controller = new AbortController();
    const interrupted = faces.rotateKey({ signal: controller.signal, onProgress: () => controller.abort() });
    await interrupted.catch((error) => assert.equal(error.name, 'AbortError'));
    await assertFinds(faces, left, vectorOf(2000, DIMENSION));
    await faces.upsert(records(6000, 6010));
    const now = [...left, ...records(6000, 6010)];
    assert.ok((await faces.rotateKey()) >= 1);
    await assertFinds(faces, now, vectorOf(6005, DIMENSION));
    assert.deepEqual((await faces.get('r2000'))[0].vector, all[2000].vector);
    await db.close();
    const again = await open(folder, key);
    await assertFinds(await again.collection('faces'), now, vectorOf(3000, DIMENSION));
    await again.close();
  });

  it('snapshot and restore, to another folder under another name', async () => {
    const key = MasterSeed.generate();
    const db = await open(await temporary(), key);
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    const all = records(0, 2300);
    await faces.upsert(all);
    const pieces = await Array.fromAsync(faces.snapshot());
    await db.close();
    const other = await open(await temporary(), key);
    const copy = await other.restore('people', pieces);
    await assertFinds(copy, all, vectorOf(2299, DIMENSION));
    await copy.upsert(records(3000, 3001));
    assert.equal(await copy.count(), 2301);
    await other.close();
  });

  it('collections are listed and described without what is in them', async () => {
    const calls: Call[] = [];
    const service = watched(await openStore(await temporary()), calls);
    const key = MasterSeed.generate();
    const db = new Database(service, { key });
    const faces = await db.createCollection('faces', { dimension: DIMENSION, metric: 'dot', normBound: 2 });
    await faces.upsert(records(0, 2100));
    await faces.delete('r5');
    await new Database(service, { key: MasterSeed.generate() }).createCollection('foreign', { dimension: 4 });
    const again = new Database(service, { key });
    calls.length = 0;
    const [summary, ...others] = await again.listCollections();
    assert.deepEqual(others, []);
    const { bytes, ...rest } = summary;
    assert.ok(bytes > 10_000);
    const shape = {
      dimension: DIMENSION,
      metric: 'dot',
      profile: 'compact',
      integrity: 'standard',
      fields: {},
    };
    assert.deepEqual(rest, { name: 'faces', ...shape, records: 2099, blocks: 1, version: 3 });
    assert.deepEqual(await again.describe('faces'), {
      ...summary,
      plan: faces.plan,
      // A block holds 2,040 of the 2,100.
      pending: 60,
      unfinishedFields: {},
    });
    assert.deepEqual(
      new Set(calls.map(({ method }) => method)),
      new Set(['listCollections', 'getManifest', 'getCollection']),
    );
    await assert.rejects(again.describe('foreign'), refused('WRONG_KEY'));
    await db.close();
  });

  it('a wrong key, a second process, a collection of another key: clear errors', async () => {
    const folder = await temporary();
    const db = await open(folder, MasterSeed.generate());
    await db.createCollection('faces', { dimension: DIMENSION });
    await assert.rejects(open(folder, MasterSeed.generate()), refused('LOCKED'));
    await db.close();
    const stranger = await open(folder, MasterSeed.generate());
    await assert.rejects(stranger.collection('faces'), refused('WRONG_KEY'));
    assert.deepEqual(await stranger.listCollections(), []);
    await stranger.close();
  });
});

async function handlesOf(key: MasterSeed, service: Service, all: readonly VectorRecord[]): Promise<Uint8Array[]> {
  const keys = await RecordKeys.of(key, (await service.getCollection('faces')).id);
  return all.map(({ id }) => keys.handleOf(id).slice());
}

describe('two writers', () => {
  it('lose nothing and duplicate nothing', async () => {
    const service = await openStore(await temporary());
    const key = MasterSeed.generate();
    const [one, two] = [new Database(service, { key }), new Database(service, { key })];
    const a = await one.createCollection('faces', { dimension: DIMENSION });
    const b = await two.collection('faces');
    const jobs: Promise<unknown>[] = [];
    for (let k = 0; k < 6; k++) {
      jobs.push(a.upsert(records(1000 * k, 1000 * k + 600)));
      jobs.push(b.upsert(records(1000 * k + 400, 1000 * k + 1000)));
    }
    await Promise.all(jobs);
    for (const collection of [a, b]) {
      assert.equal(await collection.count(), 6000);
      const ids = await Array.fromAsync(collection.list());
      assert.equal(new Set(ids).size, 6000);
      await assertFinds(collection, records(0, 6000), vectorOf(1500, DIMENSION));
    }
    await Promise.all([a.delete(records(0, 3000).map(({ id }) => id)), b.upsert(records(7000, 7500)), a.optimize()]);
    assert.equal(await b.count(), 3500);
    await assertFinds(b, [...records(3000, 6000), ...records(7000, 7500)], vectorOf(7100, DIMENSION));
    await one.close();
  });

  it('one changes the key while the other has sealed already: nothing is left under the old one', async () => {
    const service = await openStore(await temporary());
    const key = MasterSeed.generate();
    const [one, two] = [new Database(service, { key }), new Database(service, { key })];
    const a = await one.createCollection('faces', { dimension: DIMENSION });
    const b = await two.collection('faces');
    await b.upsert(records(0, 10));
    const all = records(0, 2200);
    const stream = async function* () {
      yield* all;
      await b.rotateKey();
    };
    assert.deepEqual(await a.upsert(stream()), counts({ inserted: 2190, unchanged: 10 }));
    const again = await a.upsert([all[5], ...all.slice(2100), all[5]]);
    assert.deepEqual(again, counts({ unchanged: 101, repeated: 1 }));
    for (const collection of [a, b]) {
      await assertFinds(collection, all, vectorOf(2150, DIMENSION));
      assert.deepEqual(await collection.get(['r3', 'r2199']), [all[3], all[2199]]);
    }
    const third = new Database(service, { key });
    assert.equal((await (await third.collection('faces')).get('r2199'))[0].id, 'r2199');
    // Every record says in the open which epoch sealed it, and nothing else.
    const seen = await Array.fromAsync(service.getRecords('faces', await handlesOf(key, service, all)));
    for (const { sealed } of seen) assert.equal(new DataView(sealed.buffer, sealed.byteOffset).getUint32(4, true), 1);
    await one.close();
  });

  it('of several records with one id the last counts, new or not', async () => {
    const db = await open(await temporary(), MasterSeed.generate());
    const faces = await db.createCollection('faces', { dimension: DIMENSION });
    const twice = [...records(0, 100), { id: 'r7', vector: vectorOf(1007, DIMENSION) }, ...records(200, 210)];
    assert.deepEqual(await faces.upsert(twice), counts({ inserted: 110, repeated: 1 }));
    assert.deepEqual((await faces.get('r7'))[0].vector, vectorOf(1007, DIMENSION));
    assert.deepEqual(await faces.upsert(twice), counts({ unchanged: 110, repeated: 1 }));
    await db.close();
  });
});

it('a key that has sealed as much as it may is rotated before it seals more', async () => {
  const store = await openStore(await temporary());
  const seed = MasterSeed.generate();
  const faces = await new Database(store, { key: seed }).createCollection('faces', { dimension: DIMENSION });
  await faces.upsert(records(0, 3));
  const { id } = await store.getCollection('faces');
  const sealer = await makeSealer(seed.deriveKey('manifest', id));
  const { version, manifest: sealed } = await store.getManifest('faces');
  const manifest = await openManifest(sealer, id, version, sealed, { handleOf: () => assert.fail('no partitions') });
  const worn = { ...manifest, version: version + 1, seals: 2 ** 31 - 1 };
  await store.commit('faces', { expected: version, manifest: await sealManifest(sealer, id, worn) });
  const db = new Database(store, { key: seed });
  const again = await db.collection('faces');
  await assert.rejects(again.upsert(records(3, 5)), {
    code: 'INVALID_ARGUMENT',
    message: /sealed as much as it safely can; rotate the key/,
  });
  assert.equal(await again.count(), 3);
  await again.rotateKey();
  await again.upsert(records(3, 5));
  await assertFinds(again, records(0, 5), vectorOf(2, DIMENSION));
  await store.close();
});
