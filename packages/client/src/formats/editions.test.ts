// Galleries as every edition of the program wrote them: they open, answer, and move on when they
// are next changed. `fixtures/edition-N` is one of each.
//
// Edition 1: manifests of formats 1 and 2, versions of records in the open, lists of entries alone.
// Edition 2: manifests of format 3, with history and named parts; records and lists with parts. A
// new edition is written by HERS_WRITE_FIXTURE=<folder> and this test.

import assert from 'node:assert/strict';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { HersError, type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { fit } from '@hers/training';
import { scoreOf, vectorOf } from '../../testing/client.ts';
import { concat, u32 } from '../bytes.ts';
import { Database, MasterSeed } from '../index.ts';
import { makeSealer, seal } from '../keys/sealing.ts';
import { InMemoryVersions } from '../session/versions.ts';
import { openManifest } from './manifest.ts';
import { decodeParts, encodePart } from './parts.ts';

const fixtures = new URL('../../fixtures/', import.meta.url).pathname;
const folders: string[] = [];
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

const record = (i: number, dimension: number) => ({
  id: `r${i}`,
  vector: vectorOf(i, dimension),
  payload: { number: i },
});
const several = (from: number, to: number, dimension: number) =>
  Array.from({ length: to - from }, (_, i) => record(from + i, dimension));

/**
 * Everything that the editions differ in: blocks and pending records, deleted and replaced ones, a
 * network, sums.
 */
async function writeGallery(folder: string): Promise<void> {
  const seed = new Uint8Array(32).map((_, i) => i * 7 + 1);
  const db = new Database(await openStore(join(folder, 'gallery')), { key: seed, threads: 1 });
  const compact = await db.createCollection('compact', { dimension: 4 });
  await compact.upsert(several(0, 30, 4));
  await compact.optimize();
  await compact.upsert(several(30, 40, 4));
  await compact.delete(['r3', 'r35']);
  await compact.upsert({ id: 'r4', vector: vectorOf(404, 4), payload: { number: 4 } });
  const network = await db.createCollection('network', {
    dimension: 8,
    profile: 'exact',
    compressor: await smallNetwork(),
  });
  await network.upsert(several(0, 20, 8));
  await network.optimize();
  await network.upsert(several(20, 25, 8));
  const options = { dimension: 2, profile: 'exact', enrolment: 'homomorphic', maxAdditions: 16 } as const;
  const sums = await db.createCollection('sums', options);
  for (let i = 0; i < 3; i++) await sums.upsert({ id: `r${i}`, vector: vectorOf(i, 2) });
  await sums.delete('r1');
  await db.close();
  await writeFile(join(folder, 'key.hex'), `${Buffer.from(seed).toString('hex')}\n`);
}

async function smallNetwork(): Promise<Uint8Array> {
  const count = 480;
  const vectors = new Float32Array(count * 8);
  for (let i = 0; i < count; i++)
    vectors.set(
      vectorOf(i >> 3, 8).map((x, k) => x + 0.3 * vectorOf(i, 8)[k]),
      i * 8,
    );
  const labels = Array.from({ length: count }, (_, i) => `p${i >> 3}`);
  return (await fit('deepmds', vectors, labels, { inputDimension: 8, dimension: 4, settings: { steps: 50 } })).save();
}

const { HERS_WRITE_FIXTURE } = process.env;
if (HERS_WRITE_FIXTURE) {
  await mkdir(HERS_WRITE_FIXTURE, { recursive: true });
  await writeGallery(HERS_WRITE_FIXTURE);
}

async function opened(edition: string): Promise<{ store: Service; key: Uint8Array }> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-editions-'));
  folders.push(folder);
  await cp(join(fixtures, edition), folder, { recursive: true });
  await mkdir(join(folder, 'gallery/segments'), { recursive: true });
  const key = Buffer.from((await readFile(join(folder, 'key.hex'), 'utf8')).trim(), 'hex');
  return { store: await openStore(join(folder, 'gallery')), key };
}

const sealedMark = (sealed: Uint8Array) => new DataView(sealed.buffer, sealed.byteOffset).getUint32(0, true);

async function recordsOf(store: Service, name: string, ask: (service: Service) => Promise<unknown>) {
  const given: Uint8Array[] = [];
  await ask(
    withMethods(store, {
      async *getRecords(where, handles, options) {
        for await (const each of store.getRecords(where, handles, options)) {
          if (where === name) given.push(each.sealed);
          yield each;
        }
      },
    }),
  );
  return given;
}

const WITHOUT_PARTITIONS = { handleOf: () => assert.fail('there are no partitions') };

async function manifestOf(store: Service, key: Uint8Array, name: string) {
  const { id } = await store.getCollection(name);
  const { version, manifest } = await store.getManifest(name);
  const sealer = await makeSealer(MasterSeed.from(key).deriveKey('manifest', id));
  return openManifest(sealer, id, version, manifest, WITHOUT_PARTITIONS);
}

for (const edition of ['edition-1', 'edition-2'])
  describe(edition, () => {
    it('opens, answers, and changes nothing by being read', async () => {
      const { store, key } = await opened(edition);
      const before = await Promise.all(['compact', 'network', 'sums'].map((name) => store.getManifest(name)));
      const db = new Database(store, { key });
      const compact = await db.collection('compact');
      const ids = several(0, 40, 4)
        .map(({ id }) => id)
        .filter((id) => id !== 'r3' && id !== 'r35');
      assert.deepEqual((await Array.fromAsync(compact.list())).sort(), ids.toSorted());
      for (const i of [7, 33]) {
        for (const options of [{}, { payload: true }, { rerank: true }]) {
          const { matches } = await compact.search(vectorOf(i, 4), { limit: 3, ...options });
          assert.equal(matches[0].id, `r${i}`);
          if ('payload' in options) assert.deepEqual(matches[0].payload, { number: i });
        }
        assert.deepEqual((await compact.get(`r${i}`))[0], record(i, 4));
      }
      assert.equal((await compact.search(vectorOf(404, 4), { limit: 1 })).matches[0].id, 'r4');
      const network = await db.collection('network');
      const probe = vectorOf(12, 8);
      const { matches } = await network.search(probe, { limit: 25, rerank: true, payload: true });
      assert.equal(matches.length, 25);
      assert.equal(matches[0].id, 'r12');
      for (const { id, score } of matches)
        assert.ok(Math.abs(score - scoreOf('cosine', probe, vectorOf(Number(id.slice(1)), 8))) < 1e-6);
      const sums = await db.collection('sums');
      assert.deepEqual(
        (await sums.search(vectorOf(2, 2), { limit: 9 })).matches.map(({ id }) => id),
        ['r2', 'r0'],
      );
      const now = await Promise.all(['compact', 'network', 'sums'].map((name) => store.getManifest(name)));
      assert.deepEqual(now, before);
      await db.close();
    });

    it('moves on when it is changed', async () => {
      const { store, key } = await opened(edition);
      const versions = new InMemoryVersions();
      const db = new Database(store, { key, versions });
      for (const name of ['compact', 'network', 'sums']) {
        const dimension = { compact: 4, network: 8, sums: 2 }[name]!;
        const collection = await db.collection(name);
        const sealed = await store.getManifest(name);
        const new50 = { id: 'r50', vector: vectorOf(50, dimension) };
        await collection.upsert(new50);
        const { history, version } = await manifestOf(store, key, name);
        assert.equal(version, sealed.version + 1);
        assert.equal(history!.length, edition === 'edition-1' ? 1 : version - 1);
        assert.equal((await versions.read({ gallery: '', name }))?.linked, true);
        assert.equal((await collection.search(new50.vector, { limit: 1 })).matches[0].id, 'r50');
        // And in full: every record under a new key, every block made again.
        const before = (await collection.search(vectorOf(8, dimension), { limit: 100 })).matches;
        await collection.rotateKey();
        const after = (await collection.search(vectorOf(8, dimension), { limit: 100 })).matches;
        assert.deepEqual(after.map(({ id }) => id).sort(), before.map(({ id }) => id).sort());
        if (name === 'sums') {
          assert.deepEqual(after, before);
          assert.ok((await manifestOf(store, key, name)).blocks.every(({ tag }) => tag !== undefined));
          continue;
        }
        const given = await recordsOf(store, name, async (service) =>
          (await new Database(service, { key, threads: 1 }).collection(name)).get(before.map(({ id }) => id)),
        );
        assert.ok(given.length >= before.length);
        for (const bytes of given) assert.equal(sealedMark(bytes), 0xffff_0002);
        const { matches } = await collection.search(vectorOf(8, dimension), { limit: 5, rerank: true });
        assert.equal(matches[0].id, 'r8');
      }
      await db.close();
    });
  });

it('a sum that an older program began is not added to, and is authenticated once it was rewritten', async () => {
  const { store, key } = await opened('edition-1');
  const sums = await new Database(store, { key }).collection('sums');
  await sums.upsert([{ id: 'new', vector: vectorOf(9, 2) }]);
  const { blocks } = await manifestOf(store, key, 'sums');
  assert.deepEqual(
    blocks.map(({ tag }) => tag !== undefined),
    [false, true],
  );
  await sums.optimize();
  const after = await manifestOf(store, key, 'sums');
  assert.deepEqual(
    after.blocks.map(({ tag, count }) => [tag !== undefined, count]),
    [[true, 3]],
  );
});

describe('parts', () => {
  const [a, b, c] = [
    { name: 'known', must: true, content: Uint8Array.of(1, 2, 3) },
    { name: 'later', must: false, content: new Uint8Array(0) },
    { name: 'needed', must: true, content: Uint8Array.of(9) },
  ];
  const known = new Set(['known']);

  it('that may be ignored are, and others are not', () => {
    assert.deepEqual([...decodeParts(concat(encodePart(a), encodePart(b)), known)], [['known', a.content]]);
    assert.throws(() => decodeParts(concat(encodePart(a), encodePart(c)), known), { code: 'UNSUPPORTED_VERSION' });
    const whole = encodePart(a);
    for (let length = 1; length < whole.length; length++)
      assert.throws(() => decodeParts(whole.subarray(0, length), known), { code: 'INTEGRITY' }, `${length}`);
  });

  it('of a manifest are the same', async () => {
    const id = new Uint8Array(16).fill(4);
    const sealer = await makeSealer(new Uint8Array(32).fill(5));
    const open = async (parts: object, format = 3) => {
      const content = { format, version: 7, epoch: 0, seals: 0, history: '', blocks: [], pending: [], parts };
      const associatedData = concat(new TextEncoder().encode('manifest'), id, u32(7), u32(0));
      return openManifest(
        sealer,
        id,
        7,
        await seal(sealer, new TextEncoder().encode(JSON.stringify(content)), associatedData),
        WITHOUT_PARTITIONS,
      );
    };
    assert.equal((await open({ later: { must: false, value: 3 } })).version, 7);
    const refused = (error: unknown) => error instanceof HersError && error.code === 'UNSUPPORTED_VERSION';
    await assert.rejects(open({ later: { must: true, value: 3 } }), refused);
    await assert.rejects(open({}, 4), refused);
  });
});
