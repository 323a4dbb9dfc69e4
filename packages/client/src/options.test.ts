// A misspelt option is an error wherever options are taken: nothing is searched, written or opened
// as if it had not been given.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { type Change, HersError } from '@hers/service';
import { openStore } from '@hers/store';
import { vectorOf } from '../testing/client.ts';
import {
  type Collection,
  type ConnectOptions,
  connect,
  Database,
  HttpService,
  MasterSeed,
  type UpsertError,
  type VectorRecord,
} from './index.ts';
import { repairGallery } from './repair/repair.node.ts';

const key = MasterSeed.generate();
const vector = vectorOf(1, 4);
let folder: string;
let db: Database;
let faces: Collection;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-options-'));
  db = await connect(`file:${join(folder, 'gallery')}`, { key, threads: 1 });
  faces = await db.createCollection('faces', { dimension: 4 });
  await faces.upsert({ id: 'a', vector });
});
after(async () => {
  await db.close();
  await rm(folder, { recursive: true, force: true });
});

/** Options that the compiler would refuse, as a caller in JavaScript may give them. */
const misspelt = <T>(options: object) => options as T;

const refuses = (name: string, meant: string) => (error: unknown) =>
  error instanceof HersError &&
  error.code === 'INVALID_ARGUMENT' &&
  error.message.includes(`has no option "${name}"; did you mean ${meant}?`);

it('a search, a verification', async () => {
  const threshold = refuses('treshold', 'threshold');
  const options = misspelt<object>({ treshold: 0.9 });
  await assert.rejects(faces.search(vector, options), threshold);
  await assert.rejects(faces.searchBatch([vector], options), threshold);
  await assert.rejects(faces.searchBatch([], options), threshold);
  await assert.rejects(faces.verify('a', vector, options), threshold);
});

it('writing and maintenance', async () => {
  const progress = refuses('onprogress', 'onProgress');
  const options = misspelt<object>({ onprogress: () => {} });
  await assert.rejects(faces.upsert({ id: 'b', vector }, options), progress);
  await assert.rejects(faces.optimize(options), progress);
  await assert.rejects(faces.rotateKey(options), progress);
  await assert.rejects(faces.reindex(null, options), progress);
  assert.throws(() => faces.snapshot(misspelt({ singal: undefined })), refuses('singal', 'signal'));
  await assert.rejects(db.restore('other', [], misspelt({ acceptolder: true })), refuses('acceptolder', 'acceptOlder'));
  assert.deepEqual([await faces.count(), (await db.listCollections()).length], [1, 1]);
});

it('a field of a record: what would be lost is refused', async () => {
  const refused = (number: number) => ({
    code: 'INVALID_ARGUMENT',
    message: `record ${number}: a record has no field "paylod"; did you mean payload?`,
  });
  const record = misspelt<VectorRecord>({ id: 'b', vector, paylod: { city: 'Delft' } });
  await assert.rejects(faces.upsert(record), refused(0));
  await assert.rejects(faces.upsert([{ id: 'c', vector }, record]), refused(1));
  const stream = async function* () {
    yield record;
  };
  await assert.rejects(faces.upsert(stream()), refused(0));
  assert.equal(await faces.count(), 1);
});

it('a collection, a database, a connection, a repair', async () => {
  const threads = refuses('thread', 'threads');
  const options = misspelt<ConnectOptions>({ key, thread: 1 });
  await assert.rejects(connect(`file:${join(folder, 'other')}`, options), threads);
  await assert.rejects(connect('https://127.0.0.1:1', options), threads);
  assert.throws(() => new Database({} as never, options), threads);
  assert.throws(() => new HttpService('https://127.0.0.1:1', misspelt({ tokens: 'x' })), refuses('tokens', 'token'));
  await assert.rejects(db.createCollection('x', misspelt({ dimensions: 4 })), refuses('dimensions', 'dimension'));
  await assert.rejects(repairGallery(misspelt({ folder, key, versoins: undefined })), refuses('versoins', 'versions'));
});

it('a change of a store', async () => {
  const store = await openStore(join(folder, 'store'));
  const bytes = new Uint8Array(16);
  await store.createCollection('faces', { id: bytes, descriptor: bytes, manifest: bytes });
  const change = misspelt<Change>({ expected: 1, manifest: new Uint8Array(3), recods: [] });
  await assert.rejects(store.commit('faces', change), {
    code: 'INVALID_ARGUMENT',
    message: 'a change has no field "recods"; did you mean records?',
  });
  await store.close();
});

it('an upsert that fails says how many records are safe', async () => {
  const records = async function* () {
    yield { id: 'b', vector };
    throw new RangeError('the source is broken');
  };
  const error: UpsertError = await faces.upsert(records()).then(
    () => assert.fail('it must fail'),
    (reason) => reason,
  );
  assert.ok(error instanceof RangeError);
  assert.equal(error.acknowledged, 0);
});

it('a key that is none is refused before anything is opened, and the folder stays free', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-key-'));
  t.after(() => rm(folder, { recursive: true }));
  for (const options of [{}, { key: undefined }, { key: 'abc' }, { key: new Uint8Array(5) }])
    await assert.rejects(connect(`file:${folder}`, options as ConnectOptions), { name: 'HersError' });
  await assert.rejects(connect(3 as unknown as string, { key: MasterSeed.generate() }), { code: 'INVALID_ARGUMENT' });
  const db = await connect(`file:${folder}`, { key: MasterSeed.generate() });
  const faces = await db.createCollection('faces', { dimension: 3 });
  await assert.rejects(faces.get(undefined as unknown as string), { code: 'INVALID_ARGUMENT' });
  await assert.rejects(faces.reindex(undefined as unknown as null), {
    code: 'INVALID_ARGUMENT',
    message: 'a compressor is the bytes of its file, or null for none',
  });
  await assert.rejects(faces.delete({ id: 'ada' } as unknown as string), { code: 'INVALID_ARGUMENT' });
  await db.close();
});

it('values that make no sense are refused, with what to give instead', async () => {
  const refused = (message: RegExp) => ({ code: 'INVALID_ARGUMENT', message });
  const people = await db.createCollection('people', {
    dimension: 4,
    fields: { team: 'keyword', age: 'number' },
  });
  await people.upsert({ id: 'a', vector, payload: { team: 'red', age: 30 } });
  const search = (options: object) => people.search(vector, options);
  for (const rerank of [0, 1.5, -3]) await assert.rejects(search({ rerank }), refused(/rerank is true, or how many/));
  await assert.rejects(search({ rerank: true, enough: 0.5 }), refused(/enough needs the profile exact/));
  await assert.rejects(search({ enough: 0.5 }), refused(/enough is about full vectors: it needs rerank/));
  for (const threshold of [Number.NaN, '0.5', Number.POSITIVE_INFINITY])
    await assert.rejects(search({ threshold }), refused(/threshold must be a number/));
  for (const select of ['team', [1]]) await assert.rejects(search({ select }), refused(/select is a list of fields/));
  await assert.rejects(
    search({ groupBy: 'age' }),
    refused(/needs a field of type keyword, and "age" is of type number/),
  );
  const group = { field: 'team', value: 'red' };
  const verify = (who: unknown, options: object) => people.verify(who as string, vector, options);
  await assert.rejects(verify('a', { combine: 'best' }), refused(/combine and showBlocks are for a group/));
  await assert.rejects(verify(group, { combine: 'worst' }), refused(/combine is best, the default, or mean/));
  await assert.rejects(verify(group, { rerank: true }), refused(/rerank compares with one record/));
  const payload = { text: 'x'.repeat(2 ** 24) };
  await assert.rejects(people.upsert({ id: 'b', vector, payload }), refused(/payload of "b" is larger than \d+ bytes/));
  const cache = {} as NonNullable<ConnectOptions['cache']>;
  assert.throws(() => new Database({} as never, { key, cache }), refused(/cache is a cache of lists/));
  assert.equal(await people.count(), 1);
});
