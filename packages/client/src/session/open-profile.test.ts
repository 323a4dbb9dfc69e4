// Collections of the profile `open`: they are written, kept and searched like others, in a folder
// and over HTTP; nothing that the store sees depends on a score; and a store that cheats gets one
// try.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { peekAnyResponse, peekQuery } from '@hers/scheme';
import { startServer, TokenStore } from '@hers/server';
import { HersError, type SearchRequest, type Service, withMethods } from '@hers/service';
import { type FolderStore, openStore } from '@hers/store';
import { fit } from '@hers/training';
import { type Call, scoreOf, vectorOf, watched, withChecksum } from '../../testing/client.ts';
import { openView } from '../../testing/view.ts';
import { type Collection, type CollectionOptions, Database, HttpService, MasterSeed } from '../index.ts';
import { repairGallery } from '../repair/repair.node.ts';
import { InMemoryVersions } from './versions.ts';

const DIMENSION = 16;
const OPEN: CollectionOptions = { dimension: DIMENSION, profile: 'open' };
const seed = MasterSeed.generate();
let folder: string;
let store: FolderStore;
let db: Database;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-open-'));
  store = await openStore(join(folder, 'gallery'), { quietMs: 60_000 });
  db = new Database(store, { key: seed });
});
after(async () => {
  await db.close();
  await rm(folder, { recursive: true, force: true });
});

const several = (from: number, to: number, dimension = DIMENSION) =>
  Array.from({ length: to - from }, (_, i) => ({
    id: `r${from + i}`,
    vector: vectorOf(from + i, dimension),
    payload: { group: `g${(from + i) % 3}` },
  }));
const probe = vectorOf(70_000, DIMENSION);

/** Every score of every record, as it should be. */
async function checkScores(collection: Collection, ids: readonly number[], what: string): Promise<void> {
  const { metric, dimension, noise } = collection.plan;
  const asked = vectorOf(70_000, dimension);
  const { matches, coverage, fetched } = await collection.search(asked, { limit: 10_000 });
  assert.deepEqual(coverage, { searched: ids.length, total: ids.length }, what);
  assert.equal(fetched, 0);
  assert.deepEqual(matches.map(({ id }) => id).sort(), ids.map((i) => `r${i}`).sort(), what);
  for (const { id, score } of matches) {
    const right = scoreOf(metric, asked, vectorOf(Number(id.slice(1)), dimension));
    const wrong = metric === 'euclidean' ? Math.abs(score ** 2 - right ** 2) : Math.abs(score - right);
    assert.ok(wrong < 8 * noise.score, `${what}: ${id} has ${score} and not ${right}`);
  }
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

/** The evaluation keys that a manifest names. */
async function evaluationOf(service: Service, name: string) {
  return (await openView(service, seed, name)).view.manifest.evaluation;
}

async function wholeLife(database: Database, service: Service, name: string): Promise<void> {
  const faces = await database.createCollection(name, { ...OPEN, fields: { group: 'keyword' } });
  const { capacity } = faces.plan;
  const count = capacity + 300;
  await faces.upsert(several(0, count));
  await checkScores(faces, range(0, count), 'pending and a block');
  await faces.optimize();
  await checkScores(faces, range(0, count), 'optimized');
  await faces.delete(['r0', 'r4200']);
  const left = range(0, count).filter((i) => i !== 0 && i !== 4200);
  await checkScores(faces, left, 'deleted');
  const several3 = [5, 6, 7].map((i) => vectorOf(i, DIMENSION));
  const found = await faces.searchBatch(several3, { limit: 1, select: ['group'] });
  assert.deepEqual(
    found.map(({ matches: [{ id, fields }] }) => [id, fields]),
    [
      ['r5', { group: 'g2' }],
      ['r6', { group: 'g0' }],
      ['r7', { group: 'g1' }],
    ],
  );
  const { matches } = await faces.search(probe, {
    filter: { must: { field: 'group', match: 'g1' } },
    select: ['group'],
  });
  assert.ok(matches.length === 10 && matches.every(({ fields }) => fields?.group === 'g1'));
  assert.equal((await faces.search(probe, { groupBy: 'group' })).matches.length, 3);
  assert.equal((await faces.verify('r9', vectorOf(9, DIMENSION), { threshold: 0.9 })).match, true);
  assert.equal((await faces.verify({ field: 'group', value: 'g0' }, vectorOf(9, DIMENSION))).score > 0.9, true);
  assert.deepEqual((await faces.get('r9'))[0].payload, { group: 'g0' });

  const copy = `${name}-copy`;
  await new Database(service, { key: seed, versions: new InMemoryVersions() }).restore(copy, faces.snapshot());
  const elsewhere = new Database(service, { key: seed, versions: new InMemoryVersions() });
  await checkScores(await elsewhere.collection(copy), left, 'restored');

  const before = await evaluationOf(service, name);
  assert.equal(await faces.rotateKey(), 1);
  await checkScores(faces, left, 'rotated');
  const now = await evaluationOf(service, name);
  assert.deepEqual([before.length, now.length, now[0].epoch], [1, 1, 1]);
  assert.ok(now[0].lists.every((list) => !before[0].lists.includes(list)));
  // Those of the key before are gone from the store.
  for (const list of before[0].lists)
    await assert.rejects(Array.fromAsync(service.getLists(name, [Buffer.from(list, 'hex')])), { code: 'NOT_FOUND' });
  const { plan, profile, blocks } = await database.describe(name);
  assert.deepEqual([profile, plan.profile, blocks], ['open', 'open', 2]);
}

it('in a folder: is written, searched, optimized, copied, rotated and described', () => wholeLife(db, store, 'faces'));

it('over HTTP: the same', async () => {
  const tokens = new TokenStore(join(folder, 'tokens.json'));
  const { secret } = await tokens.create({ scope: 'admin' });
  const served = await openStore(join(folder, 'served'));
  const server = await startServer(served, { port: 0, tokens: tokens.path });
  const service = new HttpService(server.url, { token: secret });
  const database = new Database(service, { key: seed, versions: new InMemoryVersions() });
  await wholeLife(database, service, 'faces');
  await database.close();
  await server.close();
});

it('other metrics, widths with several masks, and compressors', async () => {
  const dot = await db.createCollection('dot', { dimension: 8, profile: 'open', metric: 'dot', normBound: 1 });
  const far = await db.createCollection('far', { dimension: 9, profile: 'open', metric: 'euclidean', normBound: 1 });
  const wide = await db.createCollection('wide', { dimension: 130, profile: 'open' });
  for (const each of [dot, far, wide]) {
    await each.upsert(several(0, 50, each.plan.dimension).map(({ id, vector }) => ({ id, vector })));
    await each.optimize();
    await checkScores(each, range(0, 50), each.name);
  }
  assert.ok(wide.plan.rows > 130 + wide.plan.parameters.digits);
  const vectors = Float32Array.from(several(0, 200).flatMap(({ vector }) => [...vector]));
  const compressor = await fit('pca', vectors, undefined, { dimension: 8, inputDimension: DIMENSION });
  const small = await db.createCollection('small', { ...OPEN, compressor: compressor.save() });
  await small.upsert(several(0, 200));
  await small.optimize();
  assert.equal((await evaluationOf(store, 'small')).length, 1);
  assert.equal((await small.search(vectorOf(7, DIMENSION), { limit: 1 })).matches[0].id, 'r7');
  await small.reindex(null);
  assert.equal((await small.search(vectorOf(7, DIMENSION), { limit: 1 })).matches[0].id, 'r7');
  assert.equal((await evaluationOf(store, 'small')).length, 1);
});

it('partitions: those who are limited to some search with the same evaluation keys', async () => {
  const faces = await db.createCollection('parts', {
    ...OPEN,
    fields: { group: 'keyword' },
    partitionBy: 'group',
  });
  await faces.upsert(several(0, 30));
  await faces.optimize();
  const { matches } = await faces.search(probe, { partitions: ['g1'], select: ['group'] });
  assert.ok(matches.length === 10 && matches.every(({ fields }) => fields?.group === 'g1'));
  const tokens = new TokenStore(join(folder, 'part-tokens.json'));
  const [section] = [Buffer.from((await openView(store, seed, 'parts')).view.manifest.sections![0].handle, 'hex')];
  const { secret } = await tokens.create({
    scope: 'write',
    collection: 'parts',
    partitions: [section.toString('hex')],
  });
  const server = await startServer(withMethods(store, { close: async () => {} }), { port: 0, tokens: tokens.path });
  const service = new HttpService(server.url, { token: secret });
  const options = { key: seed, versions: new InMemoryVersions(), partitions: ['g0'] };
  const limited = new Database(service, options);
  const part = await limited.collection('parts');
  assert.equal((await part.search(probe, { limit: 30 })).matches.length, 10);
  await part.upsert({ id: 'r90', vector: vectorOf(90, DIMENSION), payload: { group: 'g0' } });
  await part.optimize();
  assert.equal((await part.search(vectorOf(90, DIMENSION), { limit: 1 })).matches[0].id, 'r90');
  await limited.close();
  await server.close();
});

it('what would fetch because of a score is refused with the reason', async () => {
  const faces = await db.createCollection('refuses', OPEN);
  await faces.upsert(several(0, 5));
  const reason = (option: string) => ({
    code: 'INVALID_ARGUMENT',
    message: new RegExp(`^${option} would fetch records because of their scores.*select`),
  });
  for (const rerank of [true, 4]) await assert.rejects(faces.search(probe, { rerank }), reason('rerank'));
  await assert.rejects(faces.search(probe, { payload: true }), reason('payload'));
  await assert.rejects(faces.searchBatch([probe], { payload: true }), reason('payload'));
  await assert.rejects(faces.verify('r1', probe, { rerank: true }), reason('rerank'));
  const refused = (options: object, message: RegExp) =>
    assert.rejects(db.createCollection('x', { ...OPEN, ...options }), { message });
  await refused({ integrity: 'strong' }, /no checksum canaries under open/);
  await refused({ dimension: 4097 }, /dimension must be/);
});

it('the whole traffic is the same for probes that match and for those that do not', async () => {
  const faces = await db.createCollection('traffic', { ...OPEN, fields: { group: 'keyword' } });
  await faces.upsert(several(0, 9000));
  await faces.optimize();
  const calls: Call[] = [];
  const client = await new Database(watched(store, calls), { key: seed }).collection('traffic');
  await client.search(probe);
  const [passing, nobody] = [vectorOf(7, DIMENSION), vectorOf(70_000, DIMENSION)];
  const shapes: unknown[] = [];
  const options = [{}, { threshold: 0.99 }, { filter: { must: { field: 'group', match: 'g1' } } }, { limit: 1 }];
  for (const rest of options)
    for (const asked of [passing, vectorOf(8_000, DIMENSION), nobody]) {
      calls.length = 0;
      const { matches } = await client.search(asked, { select: ['group'], ...rest });
      // Both of them are of group g1 or g2, so that a filter leaves one and not the other.
      const isOne = matches.length > 0 && matches[0].score > 0.99;
      assert.equal(isOne, asked !== nobody && !('filter' in rest && asked !== passing));
      shapes.push(
        calls.map(({ method, args, out }) => {
          const [name, request] = args as [string, SearchRequest];
          const { queries, ...others } = request;
          return [method, name, others, queries.map(({ length }) => length), out.map(({ length }) => length).sort()];
        }),
      );
    }
  for (const shape of shapes) assert.deepEqual(shape, shapes[0]);
  assert.ok((shapes[0] as unknown[]).length === 1, 'a search is one call');
});

describe('a store that cheats', () => {
  let faces: Collection;
  let earlier: Uint8Array[];
  before(async () => {
    faces = await db.createCollection('cheated', OPEN);
    await faces.upsert(several(0, 9000));
    await faces.optimize();
  });
  type Answer = (request: SearchRequest, honest: () => Promise<Uint8Array[]>) => Promise<Uint8Array[]>;
  const through = async (answer: Answer, versions = new InMemoryVersions()) => {
    const service = withMethods(store, {
      async *search(name, request, options) {
        yield* await answer(request, () => Array.fromAsync(store.search(name, request, options)));
      },
    });
    return new Database(service, { key: seed, versions, threads: 1 }).collection('cheated');
  };
  const resealed = (bytes: Uint8Array, change: (copy: Uint8Array) => void) => {
    const copy = bytes.slice();
    change(copy);
    return withChecksum(copy);
  };

  const cheats: [string, Answer, RegExp][] = [
    ['leaves out a block', async (_, honest) => (await honest()).slice(1), /left out/],
    ['answers nothing', async () => [], /left out/],
    ['answers twice', async (_, honest) => [...(await honest()), ...(await honest())], /twice/],
    ['answers with rubbish', async () => [new Uint8Array(7000)], /./],
    [
      'answers for an earlier query under the id of this one',
      async ({ queries }, honest) => {
        await honest();
        return earlier.map((bytes) => resealed(bytes, (copy) => copy.set(peekQuery(queries[0]).queryId, 32)));
      },
      /canaries|no score can have/,
    ],
    [
      'swaps two blocks',
      async (_, honest) =>
        (await honest()).map((bytes) =>
          resealed(bytes, (copy) => {
            const [one, two] = peekAnyResponse(bytes).blocks.map(({ blockId }) => blockId);
            if (!two) return;
            copy.set(two.slice(), 56);
            copy.set(one.slice(), 80);
          }),
        ),
      /canaries|another number/,
    ],
    [
      'alters scores',
      async (_, honest) => (await honest()).map((bytes) => resealed(bytes, (copy) => copy.fill(0, -5000, -8))),
      /canaries|no score can have/,
    ],
  ];
  it('an honest one passes', async () => {
    const collection = await through(async (_, honest) => {
      earlier = await honest();
      return earlier;
    });
    assert.equal((await collection.search(vectorOf(5, DIMENSION))).matches[0].id, 'r5');
  });
  for (const [name, answer, message] of cheats)
    it(`is caught when it ${name}`, async () => {
      const collection = await through(answer);
      await assert.rejects(
        collection.search(vectorOf(6, DIMENSION)),
        (error: unknown) =>
          error instanceof HersError &&
          ['INTEGRITY', 'MALFORMED', 'DAMAGED'].includes(error.code) &&
          message.test(error.message),
      );
    });
  it('has one try: after a canary disagrees nothing is asked any more, until a person goes on', async () => {
    const versions = new InMemoryVersions();
    let asked = 0;
    const alter = cheats.find(([name]) => name === 'alters scores')![1];
    const cheated = await through(async (request, honest) => {
      asked++;
      return asked === 1 ? alter(request, honest) : honest();
    }, versions);
    await assert.rejects(cheated.search(probe), { code: 'INTEGRITY' });
    await assert.rejects(cheated.search(probe), { code: 'INTEGRITY', message: /is not searched.*resume/ });
    await assert.rejects(cheated.verify('r1', probe), { code: 'INTEGRITY', message: /is not searched/ });
    assert.equal(asked, 1);
    // Others that share what was seen do not ask either.
    const other = await through(async (_, honest) => honest(), versions);
    await assert.rejects(other.search(probe), { code: 'INTEGRITY', message: /is not searched/ });
    await other.resume();
    assert.equal((await cheated.search(vectorOf(6, DIMENSION))).matches[0].id, 'r6');
  });
  it('never has a block decrypted twice: what comes again with another is left out', async () => {
    const one = await through(async (request, honest) => {
      const all = await honest();
      const { blocks } = peekAnyResponse(all[0]);
      // All of them again, and spoilt where the first answer counts.
      const [first, ...rest] = blocks.map(({ blockId }) => blockId.slice());
      const only = await Array.fromAsync(store.search('cheated', { ...request, blocks: [first] }));
      const again = await Array.fromAsync(store.search('cheated', { ...request, blocks: [first, ...rest] }));
      const spoilt = again.map((bytes) => {
        const at = peekAnyResponse(bytes).blocks.findIndex(({ blockId }) => Buffer.compare(blockId, first) === 0);
        const size = (4096 * 11) / 8;
        const bodiesAt = bytes.length - 8 - size * peekAnyResponse(bytes).blocks.length;
        return resealed(bytes, (copy) => copy.fill(0xa5, bodiesAt + at * size, bodiesAt + (at + 1) * size));
      });
      return [...only, ...spoilt];
    });
    assert.equal((await one.search(vectorOf(6, DIMENSION))).matches[0].id, 'r6');
  });
});

it('evaluation keys leave memory when nobody searches, and come back', async () => {
  const own = await openStore(join(folder, 'idle'), { evaluationMs: 1000 });
  const changes: number[] = [];
  own.onEvaluationKeys((bytes) => changes.push(bytes));
  const database = new Database(own, { key: seed, versions: new InMemoryVersions() });
  const faces = await database.createCollection('faces', OPEN);
  await faces.upsert(several(0, 20));
  await faces.optimize();
  assert.deepEqual(own.evaluationKeys, { sets: 0, bytes: 0 });
  for (let i = 0; i < 2; i++) {
    assert.equal((await faces.search(vectorOf(3, DIMENSION), { limit: 1 })).matches[0].id, 'r3');
    assert.equal(changes.length, 2 * i + 1);
    assert.ok(changes[2 * i] > 1e6 && changes[2 * i] < 83e6);
    for (let waited = 0; own.evaluationKeys.sets > 0 && waited < 20_000; waited += 20) await pause(20);
    assert.deepEqual(own.evaluationKeys, { sets: 0, bytes: 0 });
  }
  assert.deepEqual(changes, [changes[0], -changes[0], changes[0], -changes[0]]);
  await database.close();
});

it('is repaired, evaluation keys included', async () => {
  const gallery = join(folder, 'damaged');
  const versions = new InMemoryVersions();
  const damaged = await openStore(gallery);
  const database = new Database(damaged, { key: seed, versions });
  const faces = await database.createCollection('faces', OPEN);
  await faces.upsert(several(0, 40));
  await faces.optimize();
  const [{ lists }] = await evaluationOf(damaged, 'faces');
  await database.close();
  const files = readdirSync(gallery, { recursive: true, withFileTypes: true })
    .filter(({ name }) => name.startsWith('catalogue.db'))
    .map(({ parentPath, name }) => join(parentPath, name));
  assert.ok(files.length > 0);
  for (const file of files) await rm(file);
  const report = await repairGallery({ folder: gallery, key: seed, versions });
  assert.equal(report.complete, true);
  const repaired = await openStore(gallery);
  const after = await new Database(repaired, { key: seed, versions: new InMemoryVersions() }).collection('faces');
  assert.deepEqual((await evaluationOf(repaired, 'faces'))[0].lists, lists);
  assert.equal((await after.search(vectorOf(9, DIMENSION), { limit: 1 })).matches[0].id, 'r9');
  await repaired.close();
});
