// The cache of lists: what is in it is not fetched again, and whatever happens to its file is
// noticed and costs no more than fetching.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { vectorOf } from '../../testing/client.ts';
import { Database, InMemoryVersions, type ListCache, MasterSeed, openListCache } from '../index.ts';
import { Keyring, openDescriptor } from '../keys/keyring.ts';
import type { CachedList } from './list-cache.ts';
import { CollectionReader } from './reader.ts';

const folders: string[] = [];
async function temporary(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-lists-'));
  folders.push(folder);
  return folder;
}
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** A list that follows from a number; some are longer than what is read at once. */
function listOf(number: number, length = 100 + ((number * 7919) % 3000)): CachedList {
  const sealed = new Uint8Array(length).fill(number);
  new DataView(sealed.buffer).setUint32(0, number);
  return { name: hashOf(sealed), sealed };
}

const ID = 'ab'.repeat(16);
const namesOf = (lists: readonly CachedList[]) => new Set(lists.map(({ name }) => name));

/** As the reader of collections does it: what is there and good, and the rest is put. */
async function use(cache: ListCache, lists: readonly CachedList[], collection = ID): Promise<number> {
  const open = await cache.open(collection, namesOf(lists));
  const good = new Set<string>();
  for await (const { name, sealed } of open.read()) {
    if (hashOf(sealed) !== name) continue;
    assert.ok(namesOf(lists).has(name));
    good.add(name);
  }
  for (const list of lists) if (!good.has(list.name)) await open.put(list);
  await open.close();
  return good.size;
}

const many = Array.from({ length: 60 }, (_, i) => listOf(i, i === 30 ? 5_000_000 : undefined));

describe('a file of lists', () => {
  it('gives back what was put, and is for its owner alone', async () => {
    const folder = join(await temporary(), 'in', 'lists');
    const cache = await openListCache(folder);
    assert.equal(await use(cache, many), 0);
    assert.equal(await use(cache, many), many.length);
    assert.equal(await use(await openListCache(folder), many.slice(0, 40)), 40);
    assert.deepEqual(await readdir(folder), [`${ID}.lists`]);
    assert.equal((await stat(folder)).mode & 0o777, 0o700);
    assert.equal((await stat(join(folder, `${ID}.lists`))).mode & 0o777, 0o600);
    await cache.forget(ID);
    await cache.forget(ID);
    assert.deepEqual(await readdir(folder), []);
    assert.equal(await use(cache, many), 0);
  });

  it('that is far larger than all may be is deleted, and not read', async () => {
    const folder = await temporary();
    const path = join(folder, `${ID}.lists`);
    const cache = await openListCache(folder, { maxBytes: 25_000 });
    const few = [listOf(1), listOf(2)];
    await use(cache, few);
    const { size } = await stat(path);
    await truncate(path, 2 * 25_000); // a hole behind the entries
    assert.equal(await use(cache, few), 2);
    assert.equal((await stat(path)).size, size);
    await truncate(path, 2 ** 40);
    const began = performance.now();
    assert.equal(await use(cache, few), 0);
    assert.ok(performance.now() - began < 5000);
    assert.equal((await stat(path)).size, size);
    assert.equal(await use(cache, few), 2);
  });

  it('that ends anywhere is used up to there, and is whole again', async () => {
    const folder = await temporary();
    const path = join(folder, `${ID}.lists`);
    const cache = await openListCache(folder);
    const some = many.slice(0, 10);
    await use(cache, some);
    const { size } = await stat(path);
    for (const length of [0, 1, 39, 40, 41, 139, 140, 141, size >> 1, size - 1]) {
      await truncate(path, length);
      const found = await use(cache, some);
      assert.ok(found < some.length);
      assert.ok(length < size >> 1 || found > 2, `${found}`);
      assert.equal(await use(cache, some), some.length, `${length}`);
      assert.equal((await stat(path)).size, size);
    }
  });

  it('with wrong bytes anywhere gives nothing wrong, and is whole again', async () => {
    const folder = await temporary();
    const path = join(folder, `${ID}.lists`);
    const cache = await openListCache(folder);
    const some = many.slice(0, 6);
    await use(cache, some);
    const whole = await readFile(path);
    for (const at of [0, 3, 4, 20, 36, 39, 40, 100, 139, 140, 1000, whole.length - 1]) {
      const altered = Buffer.from(whole);
      altered[at] ^= 0x40;
      await writeFile(path, altered);
      assert.ok((await use(cache, some)) < some.length, `${at}`);
      assert.equal(await use(cache, some), some.length, `${at}`);
    }
    for (const garbage of [Buffer.alloc(5000), Buffer.from('not a file of lists'.repeat(20))]) {
      await writeFile(path, garbage);
      assert.equal(await use(cache, some), 0);
      assert.equal(await use(cache, some), some.length);
    }
    await writeFile(path, Buffer.concat([whole, Buffer.alloc(4096)]));
    assert.equal(await use(cache, some), some.length);
    assert.equal((await stat(path)).size, whole.length);
  });

  it('is written again when more than half of it is not current', async () => {
    const folder = await temporary();
    const path = join(folder, `${ID}.lists`);
    const cache = await openListCache(folder);
    const lists = Array.from({ length: 40 }, (_, i) => listOf(i, 1000));
    await use(cache, lists);
    const { size, ino } = await stat(path);
    assert.equal(await use(cache, lists.slice(0, 21)), 21);
    assert.equal((await stat(path)).ino, ino);
    assert.equal(await use(cache, lists.slice(0, 10)), 10);
    assert.equal((await stat(path)).size, size / 4);
    assert.equal(await use(cache, lists), 10);
    assert.equal(await use(cache, lists), 40);
  });

  it('takes no more room than it may: what was not opened for longest goes first', async () => {
    const folder = await temporary();
    const cache = await openListCache(folder, { maxBytes: 25_000 });
    const lists = Array.from({ length: 10 }, (_, i) => listOf(i, 1000));
    const ids = ['aa', 'bb', 'cc'].map((text) => text.repeat(16));
    for (const [i, id] of ids.slice(0, 2).entries()) {
      await use(cache, lists, id);
      await utimes(join(folder, `${id}.lists`), 1000 + i, 1000 + i);
    }
    assert.equal(await use(cache, lists, ids[0]), 10); // the other is the older one now
    await use(cache, lists, ids[2]);
    assert.deepEqual((await readdir(folder)).sort(), [`${ids[0]}.lists`, `${ids[2]}.lists`]);
    // More than fits leaves everything as it is, and is not kept.
    const large = Array.from({ length: 30 }, (_, i) => listOf(100 + i, 1000));
    assert.equal(await use(cache, large, ids[1]), 0);
    assert.equal(await use(cache, large, ids[1]), 0);
    assert.equal(await use(cache, lists, ids[2]), 10);
    // What a process left behind in the middle of writing goes as well.
    const left = join(folder, `${ID}.lists.0123.tmp`);
    await writeFile(left, 'x');
    await utimes(left, 1, 1);
    await use(cache, lists.slice(0, 2), ID);
    assert.ok(!(await readdir(folder)).some((name) => name.endsWith('.tmp')));
    const none = await openListCache(folder, { maxBytes: 0 });
    assert.equal(await use(none, lists, 'dd'.repeat(16)), 0);
    assert.equal(await use(none, lists, 'dd'.repeat(16)), 0);
  });

  it('may be written by several processes at a time', { timeout: 120_000 }, async () => {
    const folder = await temporary();
    const script = `
      import { createHash } from 'node:crypto';
      import { openListCache } from ${JSON.stringify(import.meta.resolve('./list-cache.ts'))};
      const [folder, first] = process.argv.slice(1);
      const cache = await openListCache(folder);
      for (let round = 0; round < 30; round++) {
        // Each has others, so that all of them also rewrite the file under the others' hands.
        const lists = new Map();
        for (let i = 0; i < 40; i++) {
          const sealed = new Uint8Array(2000 + i).fill((Number(first) + round * 3 + i) % 97);
          lists.set(createHash('sha256').update(sealed).digest('hex'), sealed);
        }
        const open = await cache.open(${JSON.stringify(ID)}, new Set(lists.keys()));
        const missing = new Map(lists);
        for await (const { name, sealed } of open.read())
          if (createHash('sha256').update(sealed).digest('hex') === name) missing.delete(name);
        for (const [name, sealed] of missing) await open.put({ name, sealed });
        await open.close();
      }`;
    const children = [0, 10, 20].map((first) =>
      spawn(process.execPath, ['--input-type=module', '-e', script, folder, String(first)], { stdio: 'inherit' }),
    );
    for (const [code] of await Promise.all(children.map((child) => once(child, 'exit')))) assert.equal(code, 0);
    const cache = await openListCache(folder);
    await use(cache, many);
    assert.equal(await use(cache, many), many.length);
    assert.deepEqual(await readdir(folder), [`${ID}.lists`]);
  });

  it('that cannot be read or written is as good as none', async () => {
    const folder = join(await temporary(), 'file');
    await writeFile(folder, '');
    const blocked = await openListCache(folder);
    for (let i = 0; i < 2; i++) assert.equal(await use(blocked, many), 0);
    await blocked.forget(ID);
  });

  it('is as good as none where a pipe is in its place, and does not mind a link to nothing beside it', async () => {
    const folder = await temporary();
    execFileSync('mkfifo', [join(folder, `${ID}.lists`)]);
    const piped = await openListCache(folder);
    for (let i = 0; i < 2; i++) assert.equal(await use(piped, many), 0);
    await piped.forget(ID);
    await symlink(join(folder, 'nothing'), join(folder, `${'0'.repeat(32)}.lists`));
    const cache = await openListCache(folder);
    await use(cache, many);
    assert.equal(await use(cache, many), many.length);
  });

  it('refuses what it does not know', async () => {
    const refused = { code: 'INVALID_ARGUMENT' };
    await assert.rejects(openListCache('x', { size: 1 } as object), refused);
    await assert.rejects(openListCache('x', { maxBytes: -1 }), refused);
    await assert.rejects(openListCache(''), refused);
    const store = await openStore(await temporary());
    const cache = './lists' as unknown as ListCache;
    assert.throws(() => new Database(store, { key: MasterSeed.generate(), cache }), refused);
    await store.close();
  });
});

describe('a collection that is opened with a cache', () => {
  const key = MasterSeed.generate();
  const DIMENSION = 8;
  const record = (i: number) => ({ id: `r${i}`, vector: vectorOf(i, DIMENSION), payload: { age: i % 90 } });
  const recordsOf = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => record(from + i));

  /** A store, and how many lists it was asked for since the last time. */
  async function counting(): Promise<{ store: Service; fetched: () => { calls: number; lists: number } }> {
    const store = await openStore(await temporary());
    let [calls, lists] = [0, 0];
    const service = withMethods(store, {
      close: async () => {},
      getLists(name, ids, options) {
        calls++;
        lists += ids.length;
        return store.getLists(name, ids, options);
      },
    });
    after(() => store.close());
    const fetched = () => {
      const counted = { calls, lists };
      [calls, lists] = [0, 0];
      return counted;
    };
    return { store: service, fetched };
  }

  async function check(store: Service, cache: ListCache, count: number): Promise<void> {
    await using db = new Database(store, { key, threads: 1, cache });
    const people = await db.collection('people');
    assert.equal(await people.count(), count);
    assert.equal(await people.count({ filter: { must: { field: 'age', range: { lt: 45 } } } }), count / 2);
    assert.equal((await people.search(vectorOf(77, DIMENSION), { limit: 1 })).matches[0].id, 'r77');
  }

  it('fetches only what is new, in one call, and whatever is damaged', async () => {
    const { store, fetched } = await counting();
    const folder = await temporary();
    const cache = await openListCache(folder);
    await using db = new Database(store, { key, threads: 1 });
    const people = await db.createCollection('people', { dimension: DIMENSION, fields: { age: 'number' } });
    await people.upsert(recordsOf(0, 5400));
    await people.optimize();
    fetched();
    await check(store, cache, 5400);
    assert.deepEqual(fetched(), { calls: 1, lists: 6 });
    await check(store, cache, 5400);
    assert.deepEqual(fetched(), { calls: 0, lists: 0 });

    // Another block, with its list and its column.
    await people.upsert(recordsOf(5400, 7740));
    fetched();
    await check(store, cache, 7740);
    assert.deepEqual(fetched(), { calls: 1, lists: 2 });
    await check(store, cache, 7740);
    assert.deepEqual(fetched(), { calls: 0, lists: 0 });

    const [name] = await readdir(folder);
    const whole = await readFile(join(folder, name));
    for (const at of [50, whole.length >> 1]) {
      const altered = Buffer.from(whole);
      altered[at] ^= 1;
      await writeFile(join(folder, name), altered);
      await check(store, cache, 7740);
      assert.deepEqual(fetched(), { calls: 1, lists: 1 });
      await check(store, cache, 7740);
      assert.deepEqual(fetched(), { calls: 0, lists: 0 });
    }
    assert.equal(await readdir(folder).then((names) => names.length), 1);
  });

  it('says so when a list is not what its block says, wherever it came from', async () => {
    const { store, fetched } = await counting();
    await using db = new Database(store, { key, threads: 1 });
    const people = await db.createCollection('people', { dimension: DIMENSION, fields: { age: 'number' } });
    await people.upsert(recordsOf(0, 4140));
    await people.optimize();
    const keyring = await Keyring.make(
      key,
      openDescriptor(key, 'people', (await store.getCollection('people')).descriptor),
    );
    const cache = await openListCache(await temporary());
    const place = { gallery: '', name: 'people' };
    const make = () => new CollectionReader({ service: store, place, keyring, memory: new InMemoryVersions(), cache });
    const wrong = async () => {
      const reader = make();
      const shown = await reader.manifest();
      const blocks = shown.manifest.blocks.map((block) => ({ ...block, count: block.count - 1 }));
      reader.manifest = async () => ({ ...shown, manifest: { ...shown.manifest, blocks } });
      await assert.rejects(reader.view(), { code: 'INTEGRITY' });
    };
    fetched();
    await wrong();
    assert.equal(fetched().calls, 1);
    assert.equal((await make().view()).entries.size, 3);
    assert.equal(fetched().calls, 1);
    await wrong();
    assert.equal(fetched().calls, 0);
    await keyring.close();
  });

  it('leaves nothing of it in the cache when it is deleted', async () => {
    const { store } = await counting();
    const folder = await temporary();
    const cache = await openListCache(folder);
    await using db = new Database(store, { key, threads: 1, cache });
    const people = await db.createCollection('people', { dimension: DIMENSION });
    await people.upsert(recordsOf(0, 10));
    await people.optimize();
    await using other = new Database(store, { key, threads: 1, cache });
    await other.collection('people');
    assert.equal((await readdir(folder)).length, 1);
    await db.deleteCollection('people');
    assert.deepEqual(await readdir(folder), []);
  });

  it('is not believed more than the store: a list of another name in its place is fetched', async () => {
    const { store, fetched } = await counting();
    await using db = new Database(store, { key, threads: 1 });
    const people = await db.createCollection('people', { dimension: DIMENSION, fields: { age: 'number' } });
    await people.upsert(recordsOf(0, 4140));
    await people.optimize();
    const kept: CachedList[] = [];
    /** Gives every list under the name of another, and keeps what it is given. */
    const liar: ListCache = {
      open: async () => ({
        async *read() {
          for (const [i, { sealed }] of kept.entries()) yield { name: kept[(i + 1) % kept.length].name, sealed };
          yield { name: 'zz', sealed: new Uint8Array(0) };
        },
        put: async (list) => void kept.push(list),
        close: async () => {},
      }),
      forget: async () => {},
    };
    fetched();
    await check(store, liar, 4140);
    const { lists } = fetched();
    assert.equal(kept.length, lists);
    await check(store, liar, 4140);
    assert.deepEqual(fetched(), { calls: 1, lists });
  });
});
