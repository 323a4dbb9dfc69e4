// Fetching records because of their scores is never an oracle: whatever a store answers, it is
// shown one set of candidates for a probe, and a few that it never proves right.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { HersError, type SealedRecord, type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { forgedResponse, luckySearch, scoreOf, vectorOf } from '../../testing/client.ts';
import { type Collection, Database, MasterSeed, type SearchOptions } from '../index.ts';
import { VersionFile } from '../session/versions.node.ts';
import { InMemoryVersions, type VersionMemory } from '../session/versions.ts';
import { MAX_UNVERIFIED } from './candidates.ts';

const DIMENSION = 8;
const key = MasterSeed.generate();
/** As many as fill a block, beside its canaries. */
const COUNT = 2040;
/** Of the modulus: many deviations of a score. */
const LITTLE = 0.02;
const record = (i: number) => ({ id: `r${i}`, vector: vectorOf(i, DIMENSION), payload: { number: i } });
const probe = vectorOf(77_777, DIMENSION);
const refused = (error: unknown) =>
  error instanceof HersError && error.code === 'INTEGRITY' && /hers collections resume/.test(error.message);
const withCode = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

let folder: string;
let store: Service;
/**
 * What a store sees of a client: how often it is asked to scan, and the handles it is asked for
 * because of a score.
 */
const seen = { scans: 0, sets: [] as string[] };
const distinct = () => new Set(seen.sets).size;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-candidates-'));
  store = await openStore(join(folder, 'gallery'));
  const database = new Database(store, { key });
  for (const [name, count] of [
    ['compact', COUNT],
    ['exact', 4088],
  ] as const) {
    const collection = await database.createCollection(name, { dimension: DIMENSION, profile: name });
    await collection.upsert(Array.from({ length: count }, (_, i) => record(i)));
  }
  // Where all score alike, a store that adds to a few scores decides which are the best.
  const alike = await database.createCollection('alike', { dimension: DIMENSION });
  await alike.upsert(Array.from({ length: COUNT }, (_, i) => ({ ...record(i), vector: vectorOf(1, DIMENSION) })));
});
after(async () => {
  await store.close();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(() => {
  seen.scans = 0;
  seen.sets = [];
});

type GetRecords = Service['getRecords'];

/**
 * A client of a store that gives records as `give` does, and may answer searches as it likes.
 * Fetching before the client is ready does not count.
 */
async function through(
  give: GetRecords,
  options: { name?: string; versions?: VersionMemory; search?: Service['search'] } = {},
): Promise<Collection> {
  const { name = 'compact', versions = new InMemoryVersions(), search } = options;
  let ready = false;
  const service = withMethods(store, {
    search(...args) {
      seen.scans++;
      return (search ?? store.search.bind(store))(...args);
    },
    getRecords(...args) {
      if (ready) seen.sets.push(args[1].map((handle) => Buffer.from(handle).toString('hex')).join());
      return ready ? give(...args) : store.getRecords(...args);
    },
  });
  const collection = await new Database(service, { key, versions, threads: 1 }).collection(name);
  ready = true;
  return collection;
}

const failing = (code: HersError['code'], after = 0): GetRecords =>
  async function* (name, handles) {
    let given = 0;
    for await (const each of store.getRecords(name, handles)) {
      if (given++ === after) break;
      yield each;
    }
    throw new HersError(code, 'says the store');
  };

const ways: [string, GetRecords][] = [
  ...(['STALE', 'NOT_FOUND', 'UNAVAILABLE', 'OVERLOADED', 'TIMED_OUT', 'INTERNAL', 'DAMAGED', 'LOCKED'] as const).map(
    (code): [string, GetRecords] => [`answers ${code}`, failing(code)],
  ),
  ['answers STALE in the middle', failing('STALE', 3)],
  [
    'gives no records',
    async function* () {
      // nothing
    },
  ],
  [
    'gives all but the last',
    async function* (name, handles) {
      yield* store.getRecords(name, handles.slice(0, -1));
    },
  ],
  [
    'gives rubbish',
    async function* (_, handles) {
      for (const handle of handles) yield { handle, sealed: new Uint8Array(300) };
    },
  ],
  [
    'gives others',
    async function* (name, handles) {
      const all: SealedRecord[] = await Array.fromAsync(store.getRecords(name, handles));
      yield* all.map(({ handle }, i) => ({ handle, sealed: all[(i + 1) % all.length].sealed }));
    },
  ],
  [
    'throws what is no error of ours',
    () => {
      throw new TypeError('x is not a function');
    },
  ],
];
const kinds: [string, (collection: Collection) => Promise<unknown>][] = [
  ['search with payload', (collection) => collection.search(probe, { payload: true })],
  ['search with rerank', (collection) => collection.search(probe, { rerank: true })],
  ['searchBatch', (collection) => collection.searchBatch([probe, vectorOf(5, DIMENSION)], { payload: true })],
  ['verify with rerank', (collection) => collection.verify('r9', probe, { rerank: true })],
];

describe('a store that is asked for candidates and', () => {
  for (const [way, give] of ways)
    it(`${way} sees one scan and one set of them in a call`, async () => {
      for (const [what, call] of kinds) {
        const collection = await through(give);
        // One record cannot be given in another's place, or all but the last.
        if (what === 'verify with rerank' && way === 'gives others') continue;
        seen.scans = 0;
        seen.sets = [];
        await assert.rejects(call(collection), Error, what);
        assert.equal(seen.scans, 1, what);
        assert.equal(distinct(), 1, what);
        assert.ok(seen.sets.length <= 5, `${what}: asked ${seen.sets.length} times`);
      }
    });

  it('forges every answer is shown one set, and its scores are never believed', async () => {
    const forging: Service['search'] = async function* (name, request) {
      for await (const response of store.search(name, request))
        yield forgedResponse(request.queries[0], response.slice(48, 64), 2048, (slot) => (slot < 20 ? 0.3 : 0));
    };
    // Canaries show it at once.
    const alarmed = await through(failing('STALE'), { search: forging });
    await assert.rejects(alarmed.search(probe, { payload: true }), /canaries/);
    assert.deepEqual([seen.scans, distinct()], [1, 0]);
    seen.scans = 0;
    // Where it changes no canary, by chance, what it would like to know is which slots these
    // handles are in; then, what it put into them.
    const name = 'alike';
    const search = await luckySearch(store, key, name, LITTLE, 20);
    const collection = await through(failing('STALE'), { name, search });
    await assert.rejects(collection.search(probe, { payload: true }), withCode('INTEGRITY'));
    assert.deepEqual([seen.scans, distinct()], [1, 1]);
    // Were it to give the records, that would be the end of it.
    const honest = await through(store.getRecords.bind(store), { name, search });
    await assert.rejects(honest.search(probe, { payload: true }), /does not have the score that was decrypted/);
    seen.sets = [];
    await assert.rejects(honest.search(vectorOf(3, DIMENSION), { payload: true }), refused);
    assert.deepEqual(seen.sets, []);
  });

  it('follows the steps of enough sees only steps that were checked before', async () => {
    let calls = 0;
    const collection = await through(
      (name, handles) => (calls++ === 0 ? store.getRecords(name, handles) : failing('STALE')(name, handles)),
      { name: 'exact' },
    );
    await assert.rejects(collection.search(probe, { rerank: 200, enough: 2 }), withCode('INTEGRITY'));
    assert.deepEqual([seen.scans, distinct()], [1, 2]);
  });

  it('says STALE to scans shows a newer manifest, or is believed no longer', async () => {
    let scans = 0;
    const service = withMethods(store, {
      // biome-ignore lint/correctness/useYield: it only fails
      async *search() {
        scans++;
        throw new HersError('STALE', 'read it again');
      },
    });
    const collection = await new Database(service, { key, threads: 1 }).collection('compact');
    await assert.rejects(collection.search(probe), withCode('INTEGRITY'));
    assert.ok(scans <= 5, `${scans} scans`);
  });
});

describe('sets that were shown and never verified', () => {
  const many = async (collection: Collection, options: SearchOptions = { payload: true }) => {
    const errors: unknown[] = [];
    for (let i = 0; i < 20; i++)
      await collection.search(vectorOf(1000 + i, DIMENSION), options).catch((error) => errors.push(error));
    return errors;
  };

  it(`are at most ${MAX_UNVERIFIED}, whatever the caller repeats; then a person resumes`, async () => {
    let isHonest = false;
    const collection = await through((name, handles) =>
      isHonest ? store.getRecords(name, handles) : failing('UNAVAILABLE')(name, handles),
    );
    const errors = await many(collection);
    assert.equal(errors.length, 20);
    assert.equal(distinct(), MAX_UNVERIFIED);
    assert.equal(errors.filter(refused).length, 20 - MAX_UNVERIFIED);
    // Without fetching everything goes on as before, and so does what the caller names.
    assert.equal((await collection.search(vectorOf(5, DIMENSION))).matches[0].id, 'r5');
    isHonest = true;
    assert.equal((await collection.get('r5'))[0].id, 'r5');
    // The records of these sets come now, and verify: then there is nothing to resume.
    seen.sets = [];
    assert.equal((await collection.search(vectorOf(5, DIMENSION), { payload: true })).matches[0].id, 'r5');
    assert.equal(distinct(), MAX_UNVERIFIED + 1);
  });

  it('are remembered by a file across processes, until they verify or are resumed', async () => {
    const path = join(folder, 'seen.json');
    const open = (give: GetRecords) => through(give, { versions: new VersionFile(path) });
    const failOften = async () => {
      for (let i = 0; i < MAX_UNVERIFIED; i++) {
        const client = await open(failing('UNAVAILABLE'));
        await assert.rejects(client.search(vectorOf(i, DIMENSION), { payload: true }), withCode('UNAVAILABLE'));
      }
      seen.sets = [];
      const client = await open(failing('UNAVAILABLE'));
      await assert.rejects(client.search(vectorOf(100, DIMENSION), { payload: true }), refused);
      await assert.rejects(client.search(vectorOf(100, DIMENSION), { rerank: true }), refused);
      await assert.rejects(client.verify('r3', probe, { rerank: true }), refused);
      assert.equal(distinct(), MAX_UNVERIFIED, 'those that were shown before are asked for again, and no other');
    };
    const left = async () => (await new VersionFile(path).read({ gallery: '', name: 'compact' }))?.unverified;
    await failOften();
    await (await open(failing('UNAVAILABLE'))).resume();
    assert.deepEqual(await left(), []);
    await failOften();
    // The records come, to a process that did not ask for them first.
    const honest = await open(store.getRecords.bind(store));
    assert.equal((await honest.search(vectorOf(100, DIMENSION), { payload: true })).matches[0].id, 'r100');
    assert.deepEqual(await left(), []);
  });

  it('are counted by scans, not by what they hold: the same set again is another answer', async () => {
    const path = join(folder, 'same.json');
    // Whatever the probe, the answer is one of two sets; which one, the store would like to know.
    const collection = await through(failing('UNAVAILABLE'), {
      name: 'alike',
      versions: new VersionFile(path),
      search: await luckySearch(store, key, 'alike', LITTLE, 10),
    });
    const errors = await many(collection);
    assert.equal(errors.filter(refused).length, 20 - MAX_UNVERIFIED);
    assert.equal(distinct(), 1);
  });

  it('of records that were replaced or deleted since stay: nothing shows that they were right', async () => {
    const writer = await new Database(store, { key }).createCollection('nightly', { dimension: DIMENSION });
    const all = Array.from({ length: COUNT }, (_, i) => record(i));
    await writer.upsert(all);
    const versions = new InMemoryVersions();
    let isDay = true;
    const client = await through(
      (name, handles) => (isDay ? failing('UNAVAILABLE')(name, handles) : store.getRecords(name, handles)),
      { name: 'nightly', versions },
    );
    await assert.rejects(client.search(probe, { payload: true }), withCode('UNAVAILABLE'));
    await writer.upsert(all.map((each) => ({ ...each, payload: 'seen again' })));
    isDay = false;
    assert.equal((await client.search(probe, { payload: true })).matches[0].payload, 'seen again');
    assert.equal((await versions.read({ gallery: '', name: 'nightly' }))?.unverified?.length, 1);
  });

  it('are counted over all clients that share a memory', async () => {
    const versions = new VersionFile(join(folder, 'many.json'));
    const hanging: GetRecords = async function* () {
      await new Promise(() => {});
    };
    const clients = await Promise.all(Array.from({ length: 4 }, () => through(hanging, { versions })));
    const stop = new AbortController();
    const calls = clients.flatMap((client, i) =>
      [0, 1, 2].map((k) => client.search(vectorOf(3 * i + k, DIMENSION), { payload: true, signal: stop.signal })),
    );
    for (const call of calls) call.catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 700));
    assert.equal(distinct(), MAX_UNVERIFIED);
    stop.abort(new Error('enough'));
    await Promise.allSettled(calls);
  });

  it('are given back when the same handles verify later: a flaky network is not an attack', async () => {
    const path = join(folder, 'flaky.json');
    let calls = 0;
    const versions = new VersionFile(path);
    const collection = await through(
      (name, handles) => (calls++ % 3 === 0 ? failing('UNAVAILABLE')(name, handles) : store.getRecords(name, handles)),
      { versions },
    );
    let worked = 0;
    for (let i = 0; i < 30; i++) {
      const search = collection.search(vectorOf(i, DIMENSION), { payload: true });
      worked += await search.then(
        ({ matches }) => Number(matches[0].id === `r${i}`),
        (error) => Number(!withCode('UNAVAILABLE')(error) && assert.fail(error)),
      );
    }
    assert.ok(worked >= 10, `${worked} of 30 worked`);
    const { unverified = [] } = (await versions.read({ gallery: '', name: 'compact' }))!;
    assert.ok(unverified.length <= 1, `${unverified.length} are left`);
  });

  it('are counted while they are under way: of many searches at once three are shown, and all work out', async () => {
    let under = 0;
    let most = 0;
    const slow: GetRecords = async function* (name, handles) {
      most = Math.max(most, ++under);
      await new Promise((resolve) => setTimeout(resolve, 20));
      yield* store.getRecords(name, handles);
      under--;
    };
    const collection = await through(slow);
    const found = await Promise.all(
      Array.from({ length: 20 }, (_, i) => collection.search(vectorOf(i, DIMENSION), { payload: true })),
    );
    found.forEach(({ matches }, i) => {
      assert.equal(matches[0].id, `r${i}`);
    });
    assert.ok(most <= MAX_UNVERIFIED, `${most} at once`);
  });

  it('are written down when the store says nothing at all', async () => {
    const path = join(folder, 'silent.json');
    const versions = new VersionFile(path);
    const collection = await through(
      async function* () {
        await new Promise(() => {});
      },
      { versions },
    );
    const stop = new AbortController();
    const calls = Array.from({ length: 10 }, (_, i) =>
      assert.rejects(collection.search(vectorOf(i, DIMENSION), { payload: true, signal: stop.signal }), /enough/),
    );
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.equal(distinct(), MAX_UNVERIFIED);
    assert.equal((await versions.read({ gallery: '', name: 'compact' }))?.unverified?.length, MAX_UNVERIFIED);
    stop.abort(new Error('enough'));
    await Promise.all(calls);
    // Another process of the same key does not begin again.
    const other = await through(failing('UNAVAILABLE'), { versions: new VersionFile(path) });
    await assert.rejects(other.search(probe, { payload: true }), refused);
    // Unless the records come to it: three that were interrupted are not locked out for ever.
    const honest = await through(store.getRecords.bind(store), { versions: new VersionFile(path) });
    assert.equal((await honest.search(vectorOf(5, DIMENSION), { payload: true })).matches[0].id, 'r5');
    assert.deepEqual((await versions.read({ gallery: '', name: 'compact' }))?.unverified, []);
  });

  it('of a call that was aborted are verified all the same', async () => {
    const versions = new InMemoryVersions();
    const slow: GetRecords = async function* (name, handles) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      yield* store.getRecords(name, handles);
    };
    const collection = await through(slow, { versions });
    for (let i = 0; i < 2 * MAX_UNVERIFIED; i++) {
      const stop = new AbortController();
      const call = collection.search(vectorOf(i, DIMENSION), { payload: true, signal: stop.signal });
      setTimeout(() => stop.abort(new Error('changed my mind')), 60);
      await assert.rejects(call, /changed my mind/);
    }
    await collection.search(probe, { payload: true });
    await new Promise((resolve) => setTimeout(resolve, 400));
    assert.deepEqual((await versions.read({ gallery: '', name: 'compact' }))?.unverified ?? [], []);
  });

  it('are waited for when the collection is closed', async () => {
    const versions = new InMemoryVersions();
    const { promise: asked, resolve: isAsked } = Promise.withResolvers<void>();
    const { promise: allowed, resolve: allow } = Promise.withResolvers<void>();
    const held: GetRecords = async function* (name, handles) {
      isAsked();
      await allowed;
      yield* store.getRecords(name, handles);
    };
    const collection = await through(held, { versions });
    const stop = new AbortController();
    const call = collection.search(probe, { payload: true, signal: stop.signal });
    await asked;
    stop.abort(new Error('changed my mind'));
    await assert.rejects(call, /changed my mind/);
    const unverified = async () => (await versions.read({ gallery: '', name: 'compact' }))?.unverified?.length ?? 0;
    assert.equal(await unverified(), 1);
    let isClosed = false;
    const closing = collection.close().then(() => {
      isClosed = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.ok(!isClosed);
    allow();
    await closing;
    assert.equal(await unverified(), 0);
  });

  it('count when there was nothing to show because an answer could not be decrypted', async () => {
    const versions = new InMemoryVersions();
    const collection = await through(store.getRecords.bind(store), {
      versions,
      async *search(name, request) {
        for await (const response of store.search(name, request))
          yield forgedResponse(request.queries[0], response.slice(48, 64), 2048, () => 0.5);
      },
    });
    assert.equal((await many(collection)).length, 20);
    assert.equal(distinct(), 0);
    const honest = await through(store.getRecords.bind(store), { versions });
    await assert.rejects(honest.search(vectorOf(5, DIMENSION), { payload: true }), refused);
    assert.equal(distinct(), 0);
    await honest.resume();
    // A store that leaves something out is caught at once, whatever was decrypted: that is no
    // answer.
    const leaving = await through(store.getRecords.bind(store), {
      versions,
      async *search() {
        // nothing
      },
    });
    assert.equal((await many(leaving)).length, 20);
    assert.equal((await honest.search(vectorOf(5, DIMENSION), { payload: true })).matches[0].id, 'r5');
  });
});

describe('another writer between scan and fetch', () => {
  /** A collection of its own, a searcher, and what happens when it first asks for candidates. */
  async function scene(name: string, meanwhile: (writer: Collection) => Promise<unknown>) {
    const writer = await new Database(store, { key }).createCollection(name, { dimension: DIMENSION });
    await writer.upsert(Array.from({ length: COUNT }, (_, i) => record(i)));
    let first = true;
    const reader = await through(
      async function* (where, handles) {
        if (first) {
          first = false;
          await meanwhile(writer);
        }
        yield* store.getRecords(where, handles);
      },
      { name },
    );
    return reader;
  }
  const best = Array.from({ length: COUNT }, (_, i) => record(i))
    .map(({ id, vector }) => ({ id, vector, score: scoreOf('cosine', vector, probe) }))
    .sort((a, b) => b.score - a.score);

  it('replaces a candidate: its new content is what is returned, and nothing is scanned again', async () => {
    const reader = await scene('replaced', (writer) =>
      writer.upsert({ id: best[1].id, vector: best[0].vector, payload: 'new' }),
    );
    const { matches } = await reader.search(probe, { limit: 5, payload: true });
    assert.deepEqual([seen.scans, matches.length], [1, 5]);
    const found = matches.find(({ id }) => id === best[1].id)!;
    assert.equal(found.payload, 'new');
    assert.equal(found.scoreOrigin, 'recomputed');
    assert.ok(Math.abs(found.score - best[0].score) < 1e-6);
  });

  it('deletes a candidate: it is not found', async () => {
    const reader = await scene('deleted', (writer) => writer.delete(best[0].id));
    const { matches } = await reader.search(probe, { limit: 5, payload: true });
    assert.deepEqual([seen.scans, matches.length, matches[0].id], [1, 4, best[1].id]);
    await assert.rejects(reader.verify(best[0].id, probe, { rerank: true }), withCode('NOT_FOUND'));
  });

  it('rotates the key: the same records, under other seals', async () => {
    const reader = await scene('rotated', (writer) => writer.rotateKey());
    const { matches } = await reader.search(probe, { limit: 5, rerank: true });
    assert.deepEqual([seen.scans, matches[0].id], [1, best[0].id]);
  });
});

it('a store does not learn which record is in which slot', async () => {
  // It sees records staged, and asked for when blocks are rewritten; and it knows the order of
  // blocks.
  const asked: string[][] = [];
  const staged: string[] = [];
  const service = withMethods(store, {
    async stageRecords(name, records, options) {
      const all = await Array.fromAsync(records as AsyncIterable<SealedRecord>);
      staged.push(...all.map(({ handle }) => Buffer.from(handle).toString('hex')));
      return store.stageRecords(name, all, options);
    },
    getRecords(name, handles, options) {
      asked.push(handles.map((handle) => Buffer.from(handle).toString('hex')));
      return store.getRecords(name, handles, options);
    },
  });
  const collection = await new Database(service, { key, threads: 1 }).createCollection('slots', {
    dimension: DIMENSION,
  });
  const alike = Array.from({ length: COUNT }, (_, i) => ({ ...record(i), vector: vectorOf(1, DIMENSION) }));
  await collection.upsert(alike);
  // Which slots the best are in, only the client knows; it is not the order of staging.
  const slots = new Set<number>();
  const search = await luckySearch(store, key, 'slots', LITTLE, 64);
  let shown: string[] = [];
  const victim = await new Database(
    withMethods(store, {
      search,
      getRecords(name, handles, options) {
        shown = handles.map((handle) => Buffer.from(handle).toString('hex'));
        return store.getRecords(name, handles, options);
      },
    }),
    { key, threads: 1 },
  ).collection('slots');
  await assert.rejects(victim.search(probe, { limit: 64, payload: true }), withCode('INTEGRITY'));
  for (const handle of shown) slots.add(staged.indexOf(handle));
  assert.equal(slots.size, 64);
  const early = [...slots].filter((place) => place < 64).length;
  assert.ok(early < 16, `${early} of the records in the first 64 slots were among the first 64 staged`);
  await collection.delete('r1');
  asked.length = 0;
  await collection.optimize();
  for (const handles of asked) assert.deepEqual(handles, handles.toSorted());
  // People see records in the order they wrote them in.
  const ids = await Array.fromAsync(collection.list());
  assert.deepEqual(
    ids,
    Array.from({ length: COUNT }, (_, i) => `r${i}`).filter((id) => id !== 'r1'),
  );
});
