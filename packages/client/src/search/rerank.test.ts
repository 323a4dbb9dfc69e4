// Fetching candidates and ranking them again: what the store gets to see of it, where it stops, and
// which scores count.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { checksum } from '@hers/ring';
import { peekResponse } from '@hers/scheme';
import { type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { fit } from '@hers/training';
import { type Call, luckySearch, scoreOf, vectorOf, watched } from '../../testing/client.ts';
import { type Collection, Database, HersError, MasterSeed } from '../index.ts';

const DIMENSION = 16;
const KEPT = 8;
const COUNT = 2 * 4096;
const all = Array.from({ length: COUNT }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, DIMENSION) }));
const refused = (what: RegExp) => (error: unknown) =>
  error instanceof HersError && error.code === 'INVALID_ARGUMENT' && what.test(error.message);

/** By the full vectors, best first. */
const ranked = (probe: Float32Array) =>
  all.map(({ id, vector }) => ({ id, score: scoreOf('cosine', vector, probe) })).sort((a, b) => b.score - a.score);

const probe = vectorOf(123_456, DIMENSION);
const folders: string[] = [];
const calls: Call[] = [];
let store: Service;
let key: MasterSeed;
let compact: Collection;
let exact: Collection;
/** First stage of half the dimensions: its order and the true one differ. */
let short: Collection;

before(async () => {
  folders.push(await mkdtemp(join(tmpdir(), 'hers-rerank-')));
  store = await openStore(folders[0]);
  key = MasterSeed.generate();
  const database = new Database(watched(store, calls), { key });
  const vectors = new Float32Array(COUNT * DIMENSION);
  for (const [i, { vector }] of all.entries()) vectors.set(vector, i * DIMENSION);
  const compressor = (await fit('pca', vectors, undefined, { inputDimension: DIMENSION, dimension: KEPT })).save();
  compact = await database.createCollection('compact', { dimension: DIMENSION });
  exact = await database.createCollection('exact', { dimension: DIMENSION, profile: 'exact' });
  short = await database.createCollection('short', { dimension: DIMENSION, profile: 'exact', compressor });
  for (const collection of [compact, exact, short]) {
    await collection.upsert(all);
    await collection.optimize();
  }
});
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

/** The handles that the store was asked for during a call, one list for each time. */
async function askedDuring(work: () => Promise<unknown>): Promise<string[][]> {
  calls.length = 0;
  await work();
  return calls
    .filter(({ method }) => method === 'getRecords')
    .map(({ args }) => (args[1] as Uint8Array[]).map((handle) => Buffer.from(handle).toString('hex')));
}

describe('re-ranking', () => {
  it('asks for records in the order of their handles, all together, and gives them back by score', async () => {
    for (const [collection, options] of [
      [compact, { limit: 100, payload: true }],
      [compact, { limit: 100, rerank: true }],
      [exact, { limit: 100, rerank: 600 }],
    ] as const) {
      let ids: string[] = [];
      const asked = await askedDuring(async () => {
        const { matches } = await collection.search(probe, options);
        ids = matches.map(({ id }) => id);
        const scores = matches.map(({ score }) => score);
        assert.deepEqual(
          scores,
          scores.toSorted((a, b) => b - a),
        );
      });
      const handles = asked.flat();
      assert.ok(handles.length >= 100);
      assert.deepEqual(handles, handles.toSorted());
      assert.equal(ids[0], ranked(probe)[0].id);
      assert.equal(ids.length, 100);
    }
  });

  it('fetches as many as it is told to, a step at a time, and says how many', async () => {
    let told = -1;
    const asked = await askedDuring(async () => {
      told = (await exact.search(probe, { limit: 1, rerank: 600 })).fetched;
    });
    assert.deepEqual(
      asked.map((handles) => handles.length),
      [256, 256, 88],
    );
    assert.equal(told, 600);
    assert.equal((await exact.search(probe)).fetched, 0);
    assert.equal((await compact.search(probe, { limit: 3, payload: true })).fetched, 3);
    assert.equal((await compact.search(probe, { limit: 3, rerank: true })).fetched, 12);
    // Four times the limit would be more than is fetched under compact.
    assert.equal((await compact.search(probe, { limit: 100, rerank: true })).fetched, 128);
  });

  it('stops when enough records are good enough', async () => {
    const truth = ranked(probe);
    // As good as the third best: the first two steps of sixteen and 32 hold three such records, or
    // a later one does.
    const enough = truth[2].score - 1e-6;
    const found = await short.search(probe, { limit: 3, rerank: COUNT, enough });
    assert.deepEqual(
      found.matches.map(({ id }) => id),
      truth.slice(0, 3).map(({ id }) => id),
    );
    assert.ok(found.fetched >= 3 && found.fetched < COUNT, `${found.fetched} were fetched`);
    // The sum of the first steps, as long as they double.
    const sums = [16, 48, 112, 240, 496];
    assert.ok(sums.includes(found.fetched) || (found.fetched - 496) % 256 === 0, `${found.fetched} were fetched`);
    // What nothing reaches ends nothing: all candidates are fetched.
    assert.equal((await short.search(probe, { limit: 3, rerank: 100, enough: 1.5 })).fetched, 100);
    // What everything reaches ends it at once.
    assert.equal((await short.search(probe, { limit: 3, rerank: 100, enough: -1 })).fetched, 16);
    // Within a step the order says nothing.
    for (const handles of await askedDuring(() => short.search(probe, { limit: 3, rerank: 100, enough: 1.5 })))
      assert.deepEqual(handles, handles.toSorted());
  });

  it('a threshold is about full vectors, not about the short ones they were found by', async () => {
    const truth = ranked(probe);
    // Everything whose full score is at least that of the tenth, though short scores are larger and
    // smaller.
    const threshold = truth[9].score - 1e-6;
    const { matches } = await short.search(probe, { limit: 50, rerank: COUNT, threshold });
    assert.deepEqual(
      matches.map(({ id }) => id),
      truth.slice(0, 10).map(({ id }) => id),
    );
    const shortScores = new Map((await short.search(probe, { limit: COUNT })).matches.map((m) => [m.id, m.score]));
    assert.ok(
      truth.slice(0, 10).some(({ id }) => shortScores.get(id)! < threshold),
      'this would not tell the two apart',
    );
  });

  it('refuses more than it fetches, and what makes no sense, before anything is asked', async () => {
    const asked = await askedDuring(async () => {
      await assert.rejects(
        compact.search(probe, { limit: 1, rerank: 129 }),
        refused(/at most 128 records.*lower rerank.*exact, where it is 10000/),
      );
      await assert.rejects(compact.search(probe, { limit: 129, payload: true }), refused(/lower the limit/));
      await assert.rejects(exact.search(probe, { limit: 1, rerank: 10_001 }), refused(/at most 10000 records/));
      await assert.rejects(exact.search(probe, { enough: 0.5 }), refused(/needs rerank/));
      await assert.rejects(compact.search(probe, { rerank: true, enough: 0.5 }), refused(/needs the profile exact/));
      await assert.rejects(exact.search(probe, { rerank: true, enough: Number.NaN }), refused(/must be a number/));
      await assert.rejects(exact.search(probe, { rerank: 0 }), refused(/how many candidates/));
      await assert.rejects(exact.search(probe, { rerank: 1.5 }), refused(/how many candidates/));
    });
    assert.deepEqual(asked, []);
    assert.ok(!calls.some(({ method }) => method === 'search'));
  });

  it('does not fetch pending records, whose vectors are here already, unless payloads are asked for', async () => {
    const pending = await new Database(watched(store, calls), { key }).createCollection('pending', {
      dimension: DIMENSION,
    });
    await pending.upsert(all.slice(0, 50).map((record) => ({ ...record, payload: record.id })));
    const best = all
      .slice(0, 50)
      .map(({ id, vector }) => ({ id, score: scoreOf('cosine', vector, probe) }))
      .sort((a, b) => b.score - a.score);
    const asked = await askedDuring(async () => {
      const { matches, fetched } = await pending.search(probe, { limit: 5, rerank: 20 });
      assert.deepEqual(
        matches.map(({ id }) => id),
        best.slice(0, 5).map(({ id }) => id),
      );
      assert.equal(fetched, 0);
    });
    assert.deepEqual(asked, []);
    const { matches, fetched } = await pending.search(probe, { limit: 5, payload: true });
    assert.equal(fetched, 5);
    for (const { id, payload } of matches) assert.equal(payload, id);
    assert.deepEqual((await pending.search(probe, { limit: 100, rerank: true })).matches.length, 50);
  });

  for (const metric of ['dot', 'euclidean'] as const)
    it(`stops, ranks and leaves out by ${metric}`, async () => {
      const collection = await new Database(store, { key }).createCollection(metric, {
        dimension: DIMENSION,
        profile: 'exact',
        metric,
      });
      const some = all.slice(0, 4096 + 100);
      await collection.upsert(some);
      const sign = metric === 'euclidean' ? 1 : -1;
      const truth = some
        .map(({ id, vector }) => ({ id, score: scoreOf(metric, vector, probe) }))
        .sort((a, b) => sign * (a.score - b.score));
      const third = truth[2].score + sign * 1e-6;
      const ids = (result: { matches: readonly { id: string }[] }) => result.matches.map(({ id }) => id);
      const best = truth.slice(0, 3).map(({ id }) => id);
      const stopped = await collection.search(probe, { limit: 3, rerank: 300, enough: third });
      assert.deepEqual(ids(stopped), best);
      assert.ok(stopped.fetched <= 48, `${stopped.fetched} were fetched`);
      assert.deepEqual(ids(await collection.search(probe, { limit: 9, rerank: 300, threshold: third })), best);
    });

  it('an empty collection has nothing to fetch', async () => {
    const database = new Database(store, { key });
    const empty = await database.createCollection('empty', { dimension: DIMENSION, profile: 'exact' });
    assert.deepEqual(await empty.search(probe, { rerank: 50, enough: 0.5 }), {
      matches: [],
      coverage: { searched: 0, total: 0 },
      pending: 0,
      fetched: 0,
    });
  });

  it('a score that does not agree ends the search at that step', async () => {
    // Blocks answer under each other's names.
    const swapping: Service['search'] = async function* (name, request, options) {
      const responses = await Array.fromAsync(store.search(name, request, { ...options, views: false }));
      // Of two full blocks: another number of records would show it at once.
      const [a, b, ...others] = responses
        .map((bytes) => bytes.slice())
        .sort((x, y) => peekResponse(y).count - peekResponse(x).count);
      const idA = a.slice(48, 64);
      a.set(b.subarray(48, 64), 48);
      b.set(idA, 48);
      for (const bytes of [a, b])
        new DataView(bytes.buffer).setBigUint64(bytes.length - 8, checksum(bytes.subarray(0, -8)), true);
      yield* [a, b, ...others];
    };
    let steps = 0;
    for (const [name, search, options, fetches] of [
      // Where no canary is changed, only a fetched record can show it.
      ['compact', await luckySearch(store, key, 'compact', 0.02), { rerank: 100 }, 1],
      ['compact', swapping, { rerank: 100 }, 0],
      // Under exact all scores of a block are checked before anything is fetched.
      ['exact', await luckySearch(store, key, 'exact', 0.02), { rerank: 600 }, 0],
      ['exact', swapping, { rerank: 600 }, 0],
      ['exact', swapping, { rerank: 600, enough: 2 }, 0],
      ['exact', swapping, {}, 0],
    ] as const) {
      const cheating = withMethods(store, {
        search,
        getRecords(...given) {
          steps++;
          return store.getRecords(...given);
        },
      });
      const collection = await new Database(cheating, { key }).collection(name);
      steps = 0;
      await assert.rejects(
        collection.search(probe, { limit: 1, ...options }),
        (error) => error instanceof HersError && error.code === 'INTEGRITY' && /score/.test(error.message),
      );
      assert.equal(steps, fetches);
    }
  });
});
