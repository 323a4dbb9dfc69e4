// Clients with tokens that are limited to partitions, over HTTP: they search, enrol and verify in
// theirs, and others do not notice. What whoever crafts calls by hand can do with such a token is
// tested with every Service (service/testing/conformance.ts).

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { type Scope, startServer, type Token, TokenStore } from '@hers/server';
import { decodeSections, encodeSections, HersError, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { scoreOf, vectorOf } from '../testing/client.ts';
import { concat, hex, sha256 } from './bytes.ts';
import { historyAfter, manifestHash, openManifest, sealManifest } from './formats/manifest.ts';
import { type Collection, connect, Database, HttpService, MasterSeed, type VectorRecord } from './index.ts';
import { Keyring, openDescriptor } from './keys/keyring.ts';
import { repairGallery } from './repair/repair.node.ts';
import { seal } from './sealing/sealing.ts';
import { CollectionSession } from './session/session.ts';
import { InMemoryVersions } from './session/versions.ts';
import { updatePayloads } from './writing/fields.ts';

const folders: string[] = [];
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));
async function temporary(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-partitions-'));
  folders.push(folder);
  return folder;
}

const DIMENSION = 8;
const FIELDS = { site: 'keyword', person: 'keyword' } as const;
const OPTIONS = { dimension: DIMENSION, profile: 'exact', fields: FIELDS, partitionBy: 'site' } as const;
const SITES = ['s0', 's1', 's2', undefined];
const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

function recordOf(i: number, site = SITES[i % 4], more = {}): VectorRecord {
  const payload = { ...(site === undefined ? {} : { site }), person: `p${i % 10}`, ...more };
  return { id: `r${i}`, vector: vectorOf(i, DIMENSION), payload };
}
const siteOf = ({ payload }: VectorRecord) => (payload as { site?: string }).site;

async function start() {
  const folder = await temporary();
  const key = MasterSeed.generate();
  const tokens = new TokenStore(join(folder, 'tokens.json'));
  const admin = await tokens.create({ scope: 'admin' });
  const server = await startServer(await openStore(join(folder, 'gallery'), { quietMs: 5 }), {
    port: 0,
    tokens: tokens.path,
  });
  const whole = () => connect(server.url, { key, token: admin.secret, threads: 1 });
  const made: Pick<Token, 'collection'> = { collection: 'people' };
  const limited = async (of: Collection, partitions: readonly string[], scope: Scope = 'write') => {
    const { secret } = await tokens.create({
      ...made,
      scope,
      partitions: partitions.map((name) => of.partitionHandle(name)),
    });
    return { secret, open: () => connect(server.url, { key, token: secret, partitions, threads: 1 }) };
  };
  return { folder, key, server, whole, limited, [Symbol.asyncDispose]: () => server.close() };
}

/** What a search, a count and a list give are what there is in these sites. */
async function check(people: Collection, all: ReadonlyMap<string, VectorRecord>, isIn: (site?: string) => boolean) {
  const own = [...all.values()].filter((record) => isIn(siteOf(record)));
  assert.equal(await people.count(), own.length);
  assert.deepEqual((await Array.fromAsync(people.list())).toSorted(), own.map(({ id }) => id).toSorted());
  const probe = vectorOf(77, DIMENSION);
  const { matches, coverage } = await people.search(probe, { limit: 6, payload: true });
  assert.deepEqual(coverage, { searched: own.length, total: own.length });
  const best = own
    .map((record) => ({ record, score: scoreOf('cosine', record.vector, probe) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, 6);
  assert.equal(matches.length, best.length);
  for (const [i, { id, score, payload }] of matches.entries()) {
    assert.ok(Math.abs(score - best[i].score) < 0.005);
    assert.deepEqual(payload, all.get(id)!.payload);
  }
}

describe('a client whose token is limited to partitions', () => {
  it('searches, enrols, verifies and deletes there, beside others who do not notice', async () => {
    await using place = await start();
    await using db = await place.whole();
    const people = await db.createCollection('people', OPTIONS);
    const all = new Map<string, VectorRecord>();
    const put = async (to: Collection, ...records: VectorRecord[]) => {
      await to.upsert(records);
      for (const record of records) all.set(record.id, record);
    };
    await put(people, ...Array.from({ length: 120 }, (_, i) => recordOf(i)));
    await people.optimize();
    await put(people, ...Array.from({ length: 20 }, (_, i) => recordOf(120 + i)));

    const token = await place.limited(people, ['s1', 's9']);
    await using ours = await token.open();
    const mine = await ours.collection('people');
    const isMine = (site?: string) => site === 's1' || site === 's9';
    const both = async () => {
      await check(mine, all, isMine);
      await check(people, all, () => true);
    };
    await both();
    const described = await ours.describe('people');
    assert.deepEqual([described.records, described.blocks], [35, 1]);
    assert.deepEqual(
      (await people.partitions()).map(({ name, records, blocks }) => [name, records, blocks]),
      [...SITES.slice(0, 3), undefined].map((name) => [name, 35, 1]),
    );
    assert.deepEqual(
      (await mine.partitions()).map(({ name }) => name),
      ['s1'],
    );

    // New ones, replaced ones, payloads, deletions, blocks.
    await put(mine, recordOf(200, 's1'), recordOf(1, 's1', { note: 'again' }), recordOf(201, 's9'));
    await both();
    await mine.updatePayload({ id: 'r5', payload: { site: 's1', person: 'somebody' } });
    all.set('r5', { ...all.get('r5')!, payload: { site: 's1', person: 'somebody' } });
    assert.equal(await mine.delete(['r9', 'r2', 'nobody']), 1, 'what is of others is not there');
    all.delete('r9');
    await both();
    await mine.optimize();
    await both();
    await put(people, recordOf(202, 's1'), recordOf(203, 's2'));
    await put(mine, recordOf(204, 's1'));
    await both();

    // Comparing.
    assert.ok((await mine.verify('r13', vectorOf(13, DIMENSION), { threshold: 0.99 })).match);
    assert.ok((await mine.verify('r200', vectorOf(200, DIMENSION), { threshold: 0.99 })).match);
    const group = await mine.verify({ field: 'person', value: 'p3' }, vectorOf(13, DIMENSION));
    assert.ok(group.score > 0.99);
    await assert.rejects(mine.verify('r2', vectorOf(2, DIMENSION)), fails('NOT_FOUND'));
    assert.deepEqual(await mine.get(['r2', 'r13']).then((found) => found.map(({ id }) => id)), ['r13']);

    // What is of others.
    await assert.rejects(mine.upsert(recordOf(300, 's2')), fails('FORBIDDEN'));
    await assert.rejects(mine.upsert({ id: 'new', vector: vectorOf(1, DIMENSION) }), fails('FORBIDDEN'));
    await assert.rejects(mine.upsert(recordOf(2, 's1')), fails('FORBIDDEN'), 'an id that is in another partition');
    await assert.rejects(mine.updatePayload({ id: 'r13', payload: { site: 's2' } }), {
      code: /FORBIDDEN|INVALID_ARGUMENT/,
    });
    await assert.rejects(mine.search(vectorOf(1, DIMENSION), { partitions: ['s2'] }), fails('FORBIDDEN'));
    await assert.rejects(mine.count({ partitions: ['s0'] }), fails('FORBIDDEN'));
    for (const call of [
      () => mine.rotateKey(),
      () => mine.reindex(null),
      () => mine.addFields({ age: 'number' }),
      () => mine.dropFields('person'),
      async () => mine.snapshot(),
      () => ours.deleteCollection('people'),
      () => ours.createCollection('other', OPTIONS),
    ])
      await assert.rejects(call, fails('FORBIDDEN'));
    await both();

    // A key that was rotated, and a snapshot.
    await people.rotateKey();
    await both();
    const copy = await db.restore('copy', await Array.fromAsync(people.snapshot()));
    await check(copy, all, () => true);
    await put(mine, recordOf(205, 's1'));
    await both();

    // Two writers at once.
    await Promise.all(
      Array.from({ length: 6 }, (_, i) => put(i % 2 ? people : mine, recordOf(400 + i, i % 2 ? 's0' : 's1'))),
    );
    await both();
  });

  it('must say so: a store that hides partitions is caught', async () => {
    await using place = await start();
    await using db = await place.whole();
    const people = await db.createCollection('people', OPTIONS);
    await people.upsert([recordOf(0), recordOf(1)]);
    const { secret, open } = await place.limited(people, ['s1'], 'search');
    const { key } = place;
    await using other = await connect(place.server.url, { key, token: secret, threads: 1 });
    await assert.rejects(other.collection('people'), fails('INTEGRITY'));
    await using ours = await open();
    const mine = await ours.collection('people');
    assert.equal(await mine.count(), 1);
    await assert.rejects(mine.upsert(recordOf(5, 's1')), fails('FORBIDDEN'), 'a token of scope search');

    // A server that leaves a section out of the whole, or swaps one for an older.
    const store = new HttpService(place.server.url, { token: (await place.limited(people, ['s0'])).secret });
    const cheating = withMethods(store, {
      async getManifest(name) {
        const { version, manifest } = await store.getManifest(name);
        const { sections, rest } = decodeSections(manifest)!;
        return { version, manifest: encodeSections({ sections: sections.filter(({ sealed }) => sealed), rest }) };
      },
    });
    await using fooled = new Database(cheating, { key, threads: 1 });
    await assert.rejects(fooled.collection('people'), fails('INTEGRITY'));
    const before = decodeSections((await store.getManifest('people')).manifest)!.sections;
    await people.upsert(recordOf(8, 's0'));
    const swapping = withMethods(store, {
      async getManifest(name) {
        const { version, manifest } = await store.getManifest(name);
        const { sections, rest } = decodeSections(manifest)!;
        const swapped = sections.map((section, i) =>
          section.sealed ? { ...section, sealed: before[i].sealed } : section,
        );
        return { version, manifest: encodeSections({ sections: swapped, rest }) };
      },
    });
    await using misled = new Database(swapping, { key, partitions: ['s0'], threads: 1 });
    await assert.rejects(misled.collection('people'), {
      code: 'INTEGRITY',
      message: 'the store gave another section of the manifest than it names',
    });
    await using right = new Database(store, { key, partitions: ['s0'], threads: 1 });
    assert.equal(await (await right.collection('people')).count(), 2);
    // A partition that the token is not for.
    await using wrong = await connect(place.server.url, { key, token: secret, partitions: ['s0'], threads: 1 });
    await assert.rejects(wrong.collection('people'), fails('INTEGRITY'));
    const plain = await db.createCollection('plain', { dimension: 4 });
    assert.deepEqual(await plain.partitions(), []);
    await assert.rejects(connect(place.server.url, { key, partitions: [] }), fails('INVALID_ARGUMENT'));
  });

  it('has the key, and is caught when what it seals as its own is of others', async () => {
    const key = MasterSeed.generate();
    const store = await openStore(await temporary());
    await using db = new Database(store, { key, threads: 1 });
    const people = await db.createCollection('people', OPTIONS);
    await people.upsert(Array.from({ length: 40 }, (_, i) => recordOf(i)));
    await people.optimize();
    await people.upsert([recordOf(40), recordOf(41)]);
    const { id, descriptor } = await store.getCollection('people');
    const keyring = await Keyring.make(key, openDescriptor(key, 'people', descriptor), 1);
    const sealer = await keyring.manifestSealer();
    const handleOf = (name: string | undefined) => keyring.partitionHandle(name);
    const { version, manifest: sealed } = await store.getManifest('people');
    const before = await openManifest(sealer, id, version, sealed, { handleOf });
    const contentOf = async (name: string) => {
      const section = before.sections!.find(({ handle }) => handle === people.partitionHandle(name))!;
      const about = concat(new TextEncoder().encode('section'), id, handleOf(name));
      return { about, content: JSON.parse(new TextDecoder().decode(await sealer.open(section.sealed!, about))) };
    };
    const { content: theirs } = await contentOf('s1');
    const history = historyAfter(await manifestHash(sealed), before.history);
    /** The next manifest, with another section of s0. */
    const forged = async (forge: (content: typeof theirs) => void) => {
      const { about, content } = await contentOf('s0');
      forge(content);
      const bytes = await seal(sealer, new TextEncoder().encode(JSON.stringify(content)), about);
      const own = { handle: people.partitionHandle('s0'), hash: hex(await sha256(bytes)), sealed: bytes };
      const sections = before.sections!.map((each) => (each.handle === own.handle ? own : each));
      return sealManifest(sealer, id, { ...before, version: version + 1, history, sections });
    };
    const countIn = async (manifest: Uint8Array) => {
      const getManifest = async () => ({ version: version + 1, manifest });
      await using whole = new Database(withMethods(store, { getManifest, close: async () => {} }), { key, threads: 1 });
      return await (await whole.collection('people')).count();
    };
    assert.equal(await countIn(await forged(() => {})), 42);
    const forgeries: Record<string, (content: typeof theirs) => void> = {
      'the name': (content) => (content.partition = 's1'),
      'the name of blocks alone': (content) => Object.assign(content, { partition: 's1', pending: [] }),
      'a block': (content) => (content.blocks[0] = theirs.blocks[0]),
      'a pending record': (content) => content.pending.push(theirs.pending[0]),
      'the field': (content) => (content.parts.partitionBy.value = 'person'),
    };
    for (const [what, forge] of Object.entries(forgeries)) {
      const manifest = await forged(forge);
      await assert.rejects(countIn(manifest), { code: 'INTEGRITY', message: /what is of another partition/ }, what);
    }

    // What no client writes is refused as well, and never ends in an error of JavaScript.
    const shapes: Record<string, (content: typeof theirs) => void> = {
      'no blocks': (content) => delete content.blocks,
      'blocks that are none': (content) => (content.blocks = { length: 1 }),
      'a block without a list': (content) => content.blocks[0].splice(4),
      'a list that is a number': (content) => (content.blocks[0][4] = 7),
      'a list that is no hexadecimal number': (content) => (content.blocks[0][4] = 'zz'),
      'a count below zero': (content) => (content.blocks[0][3] = -1),
      'a dead slot beyond the last': (content) => content.blocks[0][5].push(content.blocks[0][3]),
      'a dead slot twice': (content) => (content.blocks[0][5] = [0, 0]),
      'dead slots that descend': (content) => (content.blocks[0][5] = [2, 1]),
      'a pending record without a version': (content) => (content.pending[0] = [content.pending[0][0]]),
      'a part of nothing': (content) => (content.parts.columns = null),
      'a part without a value': (content) => delete content.parts.columns.value,
      'columns that are no lists': (content) => (content.parts.columns.value = [{ length: 1 }]),
      'parts that are a list': (content) => (content.parts = []),
      'a history that is a list': (content) => (content.history = []),
      'a version that is a text': (content) => (content.version = 'one'),
      'no format': (content) => delete content.format,
    };
    for (const [what, shape] of Object.entries(shapes)) {
      const manifest = await forged(shape);
      await assert.rejects(countIn(manifest), { code: 'INTEGRITY', message: /form that clients give it/ }, what);
    }
    const newer: Record<string, (content: typeof theirs) => void> = {
      'a later format': (content) => Object.assign(content, { format: 99, blocks: 'elsewhere' }),
      'a part of a later version': (content) => Object.assign(content, { blocks: 0, parts: { x: { must: true } } }),
      'a type of a later version': (content) => (content.parts.fields = { must: true, value: [['at', 'place']] }),
    };
    for (const [what, change] of Object.entries(newer))
      await assert.rejects(countIn(await forged(change)), fails('UNSUPPORTED_VERSION'), what);

    // A section of nothing loses its own records; others see theirs, and write to it again.
    const empty = await forged((content) => {
      Object.assign(content, { blocks: [], pending: [] });
      content.parts = { partitionBy: { must: true, value: 'site' } };
    });
    await store.commit('people', { expected: version, manifest: empty });
    await people.upsert(recordOf(44));
    await people.optimize();
    assert.deepEqual([await people.count({ partitions: ['s0'] }), await people.count()], [1, 32]);
    await keyring.close();
    sealer.wipe();
    await assert.rejects(openManifest(sealer, id, version, sealed, { handleOf }), fails('WIPED'));
  });
});

it('count, list and verify take partitions', async () => {
  await using db = await connect(`file:${await temporary()}`, { key: MasterSeed.generate(), threads: 1 });
  const people = await db.createCollection('people', OPTIONS);
  const all = Array.from({ length: 80 }, (_, i) => recordOf(i));
  await people.upsert(all.slice(0, 60));
  await people.optimize();
  await people.upsert(all.slice(60));
  for (const partitions of [['s1'], ['s0', 's2'], ['nowhere']]) {
    const own = all.filter((record) => partitions.includes(siteOf(record)!));
    assert.equal(await people.count({ partitions }), own.length);
    const filter = { must: { field: 'person', match: { any: ['p1', 'p2'] } } } as const;
    const passing = own.filter(({ payload }) => ['p1', 'p2'].includes((payload as { person: string }).person));
    assert.equal(await people.count({ partitions, filter }), passing.length);
    const ids = await Array.fromAsync(people.list({ partitions }));
    assert.deepEqual(ids.toSorted(), own.map(({ id }) => id).toSorted());
    const pages: string[] = [];
    for (let after: string | undefined; pages.length < own.length; after = pages.at(-1)) {
      const page = people.list({ partitions, limit: 7, ...(after === undefined ? {} : { after }) });
      pages.push(...(await Array.fromAsync(page)));
    }
    assert.deepEqual(pages, ids);
  }
  await assert.rejects(Array.fromAsync(people.list({ partitions: ['s1'], after: 'r2' })), fails('NOT_FOUND'));
  const probe = vectorOf(13, DIMENSION);
  assert.ok((await people.verify('r13', probe, { partitions: ['s1', 's2'] })).score > 0.99);
  await assert.rejects(people.verify('r13', probe, { partitions: ['s2'] }), fails('NOT_FOUND'));
  const person = { field: 'person', value: 'p3' };
  assert.ok((await people.verify(person, probe, { partitions: ['s1'] })).score > 0.99);
  const elsewhere = all.filter((each) => siteOf(each) === 's0' && (each.payload as { person: string }).person === 'p2');
  const best = Math.max(...elsewhere.map(({ vector }) => scoreOf('cosine', vector, probe)));
  const { score } = await people.verify({ field: 'person', value: 'p2' }, probe, { partitions: ['s0'] });
  assert.ok(Math.abs(score - best) < 0.005);
  await assert.rejects(people.verify(person, probe, { partitions: ['s0'] }), fails('NOT_FOUND'));
  const plain = await db.createCollection('plain', { dimension: 4 });
  await assert.rejects(plain.count({ partitions: ['s0'] }), fails('INVALID_ARGUMENT'));
});

it('a gallery with partitions is repaired from its files', async () => {
  const folder = await temporary();
  const key = MasterSeed.generate();
  const all = new Map(Array.from({ length: 40 }, (_, i) => [`r${i}`, recordOf(i)]));
  {
    await using db = await connect(`file:${join(folder, 'gallery')}`, { key, threads: 1 });
    const people = await db.createCollection('people', OPTIONS);
    await people.upsert([...all.values()].slice(0, 30));
    await people.optimize();
    await people.upsert([...all.values()].slice(30));
  }
  await rm(join(folder, 'gallery', 'catalogue.db'));
  const report = await repairGallery({ folder: join(folder, 'gallery'), into: join(folder, 'new'), key, threads: 1 });
  assert.equal(report.complete, true);
  await using db = await connect(`file:${join(folder, 'new')}`, { key, threads: 1 });
  const people = await db.collection('people');
  await check(people, all, () => true);
  await people.upsert(recordOf(50));
  assert.equal(await people.count(), 41);
  await using part = await connect(`file:${join(folder, 'new')}`, {
    key,
    partitions: ['s1'],
    mode: 'read',
    threads: 1,
  });
  assert.equal(await (await part.collection('people')).count(), 10);
});

it('payloads in many blocks change in several steps, none of which drops too many lists', async () => {
  const key = MasterSeed.generate();
  const store = await openStore(await temporary());
  const dropped: number[] = [];
  const service = withMethods(store, {
    commit(name, change) {
      dropped.push(change.droppedLists?.length ?? 0);
      return store.commit(name, change);
    },
  });
  await using db = new Database(service, { key, threads: 1 });
  const people = await db.createCollection('people', OPTIONS);
  await people.upsert(Array.from({ length: 40 }, (_, i) => recordOf(i)));
  await people.optimize();
  const { descriptor } = await store.getCollection('people');
  const keyring = await Keyring.make(key, openDescriptor(key, 'people', descriptor), 1);
  const place = { gallery: '', name: 'people' };
  const session = new CollectionSession({ service, place, keyring, memory: new InMemoryVersions() });
  const update = (i: number, person: string) => {
    const site = SITES[i % 4];
    return { id: `r${i}`, payload: { ...(site === undefined ? {} : { site }), person } };
  };
  const updates = Array.from({ length: 30 }, (_, i) => update(i, 'new'));
  for (const [most, steps] of [
    [2 ** 16, [12]],
    [6, [6, 6]],
    [1, [3, 3, 3, 3]],
  ] as const) {
    dropped.length = 0;
    const byBlock = updates
      .map(({ id }) => Number(id.slice(1)))
      .sort((a, b) => (a % 4) - (b % 4))
      .map((i) => update(i, `new ${most}`));
    assert.equal(await updatePayloads(session, byBlock, undefined, most), 30);
    assert.deepEqual(dropped, steps);
    const filter = { must: { field: 'person', match: `new ${most}` } } as const;
    assert.equal(await people.count({ filter }), 30);
  }
  await keyring.close();
});
