// A name keeps meaning the collection it meant, and a collection has one history: a store that
// shows another, an older one or a fork is caught, and a person can accept it.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { HersError, type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { counts, vectorOf } from '../../testing/client.ts';
import { HISTORY } from '../formats/manifest.ts';
import { Database, MasterSeed } from '../index.ts';
import { VersionFile } from './versions.node.ts';
import { InMemoryVersions } from './versions.ts';

const key = MasterSeed.generate();
const folders: string[] = [];
const open: Service[] = [];
after(async () => {
  for (const store of open) await store.close();
  await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
});

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-histories-'));
  folders.push(folder);
  return folder;
}

async function newStore(): Promise<Service> {
  const store = await openStore(await newFolder());
  open.push(store);
  return store;
}

/** A store that is one of several, and can become another between two calls. */
function changing(first: Service): { service: Service; show: (store: Service) => void } {
  let shown = first;
  const service = new Proxy(first, {
    get(_, method: keyof Service) {
      const value = shown[method];
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(shown) : value;
    },
  });
  return {
    service,
    show: (store) => {
      shown = store;
    },
  };
}

/** The same store under other names. */
function renamed(store: Service, names: Readonly<Record<string, string>>): Service {
  return new Proxy(store, {
    get(target, method: keyof Service) {
      const value = target[method];
      if (typeof value !== 'function') return value;
      return (first: unknown, ...rest: unknown[]) => {
        const name = typeof first === 'string' ? (names[first] ?? first) : first;
        const result = (value as (...args: unknown[]) => unknown).call(target, name, ...rest);
        return method === 'getCollection'
          ? (result as ReturnType<Service['getCollection']>).then((info) => ({ ...info, name: first }))
          : result;
      };
    },
  });
}

const client = (service: Service, versions = new InMemoryVersions()) =>
  new Database(service, { key, versions, threads: 1 });
const one = { id: 'x', vector: [1, 0, 0] };
const two = { id: 'y', vector: [0, 1, 0] };
const integrity = (what: RegExp) => (error: unknown) =>
  error instanceof HersError && error.code === 'INTEGRITY' && what.test(error.message);
const isAnother = integrity(/is not the one that was seen under this name.*database\.accept/);
const isKnownAs = (name: string) =>
  integrity(new RegExp(`"${name}": another client has restored a snapshot of it, or the store.*database\\.accept`));
const isThereAgain = integrity(/is there again after this client has deleted it.*database\.accept/);
const hasAnotherHistory = integrity(/has another history.*database\.accept/);

describe('a name is a collection', () => {
  it('another one in its place is refused, with its own description, manifest, lists and records', async () => {
    const store = await newStore();
    const versions = new InMemoryVersions();
    const honest = client(store, versions);
    await (await honest.createCollection('employees', { dimension: 3 })).upsert(one);
    await (await honest.createCollection('banned', { dimension: 3 })).upsert(two);
    const swapped = renamed(store, { employees: 'banned', banned: 'employees' });
    await assert.rejects(client(swapped, versions).collection('employees'), isAnother);
    await assert.rejects(client(swapped, versions).describe('employees'), isAnother);
    await assert.rejects(client(swapped, versions).listCollections(), integrity(/./));
    // Without a memory it is a first contact, which trusts.
    assert.equal(await (await client(swapped).collection('employees')).count(), 1);
    assert.equal(await (await client(store, versions).collection('employees')).count(), 1);
  });

  it('the description of another one under its id is refused, and so is one that is none', async () => {
    const store = await newStore();
    for (const name of ['faces', 'voices']) await client(store).createCollection(name, { dimension: 3 });
    const { descriptor } = await store.getCollection('voices');
    const showing = (shown: Uint8Array) =>
      client(
        withMethods(store, {
          getCollection: async (name) => ({ ...(await store.getCollection(name)), descriptor: shown }),
        }),
      ).collection('faces');
    const isOther = integrity(/shows the description of another collection under the name "faces"/);
    await assert.rejects(showing(descriptor), isOther);
    const { text, mac } = JSON.parse(Buffer.from(descriptor).toString());
    const short = JSON.stringify({ ...JSON.parse(text), id: 'abc' });
    for (const bytes of ['', 'nonsense', '{}', 'null', JSON.stringify({ text: short, mac })])
      await assert.rejects(showing(Buffer.from(bytes)), integrity(/the description of collection "faces" is damaged/));
  });

  it('a file keeps it, and galleries at other addresses have their own', async () => {
    const [store, other] = [await newStore(), await newStore()];
    const path = join(await newFolder(), 'seen.json');
    const at = (service: Service, gallery: string) =>
      new Database(service, { key, versions: new VersionFile(path), gallery, threads: 1 });
    await at(store, 'https://a').createCollection('faces', { dimension: 3 });
    await at(other, 'https://b').createCollection('faces', { dimension: 3 });
    await at(store, 'https://a').collection('faces');
    await at(other, 'https://b').collection('faces');
    await assert.rejects(at(other, 'https://a').collection('faces'), isAnother);
  });

  it('is accepted by a person after another client has made it again', async () => {
    const store = await newStore();
    const versions = new InMemoryVersions();
    await client(store, versions).createCollection('faces', { dimension: 3 });
    const other = client(store);
    await other.deleteCollection('faces');
    await assert.rejects(
      client(store, versions).collection('faces'),
      (error) => error instanceof HersError && error.code === 'NOT_FOUND' && /there was/.test(error.message),
    );
    // What is hidden is not made again without a word.
    await assert.rejects(
      client(store, versions).createCollection('faces', { dimension: 3 }),
      integrity(/another client has deleted it, or the store hides it/),
    );
    await (await other.createCollection('faces', { dimension: 3 })).upsert(one);
    const db = client(store, versions);
    await assert.rejects(db.collection('faces'), isAnother);
    assert.equal((await db.accept('faces'))?.version, 1);
    assert.equal(await (await db.collection('faces')).count(), 1);
    // Accepting that there is none makes room.
    await other.deleteCollection('faces');
    await db.accept('faces');
    await db.createCollection('faces', { dimension: 4 });
  });

  it('deleted by this client it stays deleted, until it is restored', async () => {
    const [store, copy] = [await newStore(), await newStore()];
    const versions = new InMemoryVersions();
    const { service, show } = changing(store);
    const db = client(service, versions);
    await (await db.createCollection('faces', { dimension: 3 })).upsert(one);
    await copy.restore('faces', store.snapshot('faces'));
    const snapshot = await Array.fromAsync(store.snapshot('faces'));
    await db.deleteCollection('faces');
    show(copy);
    await assert.rejects(db.collection('faces'), isThereAgain);
    show(store);
    assert.equal(await (await db.createCollection('faces', { dimension: 3 })).count(), 0);
    show(copy);
    await assert.rejects(client(service, versions).collection('faces'), isAnother);
    show(store);
    await db.deleteCollection('faces');
    assert.equal(await (await db.restore('faces', snapshot)).count(), 1);
    assert.equal(await (await client(service, versions).collection('faces')).count(), 1);
  });

  it('a collection that is known under one name is not shown under another, whether there was one or not', async () => {
    const store = await newStore();
    const path = join(await newFolder(), 'seen.json');
    const at = (service: Service, gallery = 'https://a') =>
      new Database(service, { key, versions: new VersionFile(path), gallery, threads: 1 });
    await at(store).createCollection('employees', { dimension: 3 });
    await (await at(store).createCollection('banned', { dimension: 3 })).upsert(one);
    await at(store).deleteCollection('employees');
    const cheating = renamed(store, { employees: 'banned', visitors: 'banned' });
    for (const name of ['employees', 'visitors']) {
      await assert.rejects(at(cheating).collection(name), isKnownAs('banned'));
      await assert.rejects(at(cheating).describe(name), isKnownAs('banned'));
      // Another gallery has names of its own.
      assert.equal(await (await at(cheating, `https://${name}`).collection(name)).count(), 1);
    }
    // One that another client made is a first contact, after a deletion too.
    await client(store).createCollection('employees', { dimension: 3 });
    assert.equal(await (await at(store).collection('employees')).count(), 0);
    // What was deleted under one name is not shown under another either.
    await client(store).restore('visitors', await Array.fromAsync(store.snapshot('banned')));
    await at(store).deleteCollection('banned');
    await assert.rejects(at(store).collection('visitors'), isKnownAs('banned'));
    await at(store).accept('visitors');
    assert.equal(await (await at(store).collection('visitors')).count(), 1);
  });

  it('a snapshot that this client restores beside its original is known under both names', async () => {
    const store = await newStore();
    const versions = new InMemoryVersions();
    const faces = await client(store, versions).createCollection('faces', { dimension: 3 });
    await client(store, versions).restore('twin', faces.snapshot());
    for (const name of ['faces', 'twin'])
      assert.equal(await (await client(store, versions).collection(name)).count(), 0);
  });

  it('every collection that this client has deleted stays deleted, until it is restored or accepted', async () => {
    const store = await newStore();
    const path = join(await newFolder(), 'seen.json');
    const db = () => new Database(store, { key, versions: new VersionFile(path), threads: 1 });
    const snapshots: Uint8Array[][] = [];
    for (let i = 0; i < 3; i++) {
      snapshots.push(await Array.fromAsync((await db().createCollection('faces', { dimension: 3 })).snapshot()));
      await db().deleteCollection('faces');
    }
    for (const snapshot of snapshots) {
      await store.restore('faces', snapshot);
      await assert.rejects(db().collection('faces'), isThereAgain);
      await store.deleteCollection('faces');
    }
    await db().restore('faces', snapshots[0]);
    await db().deleteCollection('faces');
    await store.restore('faces', snapshots[1]);
    await assert.rejects(db().collection('faces'), isThereAgain);
    await db().accept('faces');
    await db().collection('faces');
    // Accepted is that the name has another past: what was deleted before does not count any more.
    await db().deleteCollection('faces');
    await store.restore('faces', snapshots[2]);
    await db().collection('faces');
  });

  it('what is restored is what the snapshot holds, whatever the store shows', async () => {
    const store = await newStore();
    const versions = new InMemoryVersions();
    const db = client(store, versions);
    const faces = await db.createCollection('faces', { dimension: 3 });
    await faces.upsert(one);
    const older = await Array.fromAsync(faces.snapshot());
    await faces.upsert(two);
    const snapshot = await Array.fromAsync(faces.snapshot());
    await db.createCollection('banned', { dimension: 3 });
    const cheating = (shown: string) => {
      const other = renamed(store, { second: shown });
      return withMethods(other, {
        restore: store.restore.bind(store),
        deleteCollection: store.deleteCollection.bind(store),
      });
    };
    for (const memory of [versions, new InMemoryVersions()])
      await assert.rejects(
        client(cheating('banned'), memory).restore('second', snapshot),
        integrity(/shows another collection under the name "second" than the snapshot/),
      );
    // The same collection as it was before, or in another history.
    await store.restore('other', older);
    await assert.rejects(client(cheating('other')).restore('second', snapshot), integrity(/rolled back/));
    await (await client(store).collection('other')).upsert({ id: 'z', vector: [0, 0, 1] });
    await assert.rejects(client(cheating('other')).restore('second', snapshot), hasAnotherHistory);
    // A store that has not looked at it has restored something else.
    const idle = withMethods(cheating('faces'), { restore: async () => {} });
    await assert.rejects(client(idle).restore('second', snapshot), integrity(/than the snapshot/));
    assert.equal(await db.collection('second').catch((error) => error.code), 'NOT_FOUND');
    // Cut anywhere, it is the same snapshot.
    const bytes = Buffer.concat(snapshot);
    const crumbs = Array.from({ length: bytes.length }, (_, i) => bytes.subarray(i, i + 1));
    assert.equal(await (await db.restore('second', crumbs)).count(), 2);
  });

  it('another one is not deleted for it, and a name that nobody knows is not accepted', async () => {
    const store = await newStore();
    const versions = new InMemoryVersions();
    await client(store, versions).createCollection('faces', { dimension: 3 });
    const other = client(store);
    await other.deleteCollection('faces');
    await (await other.createCollection('faces', { dimension: 3 })).upsert(one);
    const db = client(store, versions);
    await assert.rejects(db.deleteCollection('faces'), integrity(/is not the one that was seen under this name/));
    assert.equal(await (await client(store).collection('faces')).count(), 1);
    await db.accept('faces');
    await db.deleteCollection('faces');
    await assert.rejects(db.accept('never'), (error) => error instanceof HersError && error.code === 'NOT_FOUND');
  });

  it('the id that was drawn is the id that is there', async () => {
    const store = await newStore();
    await (await client(store).createCollection('old', { dimension: 3 })).upsert(one);
    const lying = withMethods(store, {
      createCollection: async () => {},
      getCollection: async (name) => ({ ...(await store.getCollection('old')), name }),
      getManifest: () => store.getManifest('old'),
    });
    await assert.rejects(client(lying).createCollection('new', { dimension: 3 }), isAnother);
  });

  it('a snapshot older than what was seen under any name is restored only when that is meant', async () => {
    const store = await newStore();
    const db = client(store);
    const faces = await db.createCollection('faces', { dimension: 3 });
    await faces.upsert(one);
    const snapshot = await Array.fromAsync(faces.snapshot());
    await faces.upsert(two);
    await assert.rejects(db.restore('twin', snapshot), integrity(/acceptOlder/));
    assert.deepEqual((await db.listCollections()).length, 1);
    const twin = await db.restore('twin', snapshot, { acceptOlder: true });
    assert.equal(await twin.count(), 1);
    // From then on it has a history of its own, and neither passes for the other.
    await twin.upsert({ id: 'z', vector: [0, 0, 1] });
    await twin.upsert({ id: 'w', vector: [0, 1, 1] });
    const exchanged = renamed(store, { faces: 'twin', twin: 'faces' });
    const versions = new InMemoryVersions();
    await client(store, versions).collection('faces');
    // It was not this client that restored it.
    await assert.rejects(client(store, versions).collection('twin'), isKnownAs('faces'));
    await client(store, versions).accept('twin');
    await client(store, versions).collection('twin');
    await assert.rejects(client(exchanged, versions).collection('faces'), hasAnotherHistory);
    await assert.rejects(client(exchanged, versions).collection('twin'), integrity(/rolled back/));
  });
});

describe('history is a chain', () => {
  /** A store and its fork: both have x and y. */
  async function forked() {
    const [first, second] = [await newStore(), await newStore()];
    await (await client(first).createCollection('faces', { dimension: 3 })).upsert([one, two]);
    await second.restore('faces', first.snapshot('faces'));
    return { first, second, ...changing(second) };
  }

  it('another manifest of the same version is refused: what was deleted does not come back', async () => {
    const { first, service, show } = await forked();
    const versions = new InMemoryVersions();
    const b = await client(service, versions).collection('faces');
    await b.delete('x');
    const c = await client(service).collection('faces');
    const a = await client(first).collection('faces');
    await a.upsert({ id: 'z', vector: [0, 0, 1] });
    show(first);
    assert.equal((await service.getManifest('faces')).version, 3);
    await assert.rejects(b.count(), hasAnotherHistory);
    await assert.rejects(client(service, versions).collection('faces'), hasAnotherHistory);
    // Once it has noticed it neither searches nor writes on.
    await assert.rejects(b.search([1, 0, 0]), hasAnotherHistory);
    await assert.rejects(b.upsert({ id: 'w', vector: [0, 0, 1] }), hasAnotherHistory);
    // What is written by one that has not goes on from what that one has seen; whoever has seen the
    // other branch notices.
    await c.upsert({ id: 'w', vector: [0, 0, 1] });
    await assert.rejects(a.count(), hasAnotherHistory);
  });

  for (const ahead of [1, 2, HISTORY - 1, HISTORY])
    it(`a fork ${ahead} versions on is refused`, async () => {
      const { first, service, show } = await forked();
      const b = await client(service).collection('faces');
      await b.delete('x');
      const a = await client(first).collection('faces');
      for (let i = 0; i < ahead + 1; i++) await a.upsert({ id: 'z', vector: vectorOf(i, 3) });
      show(first);
      assert.equal((await service.getManifest('faces')).version, 3 + ahead);
      await assert.rejects(b.count(), hasAnotherHistory);
    });

  it(`beyond ${HISTORY} versions nothing can be told, and what is not a fork is fine`, async () => {
    const { first, second, service, show } = await forked();
    const versions = new InMemoryVersions();
    const b = await client(service, versions).collection('faces');
    const writer = await client(second).collection('faces');
    for (let i = 0; i < HISTORY; i++) await writer.upsert({ id: 'z', vector: vectorOf(i, 3) });
    assert.equal(await b.count(), 3);
    const a = await client(first).collection('faces');
    for (let i = 0; i < 2 * HISTORY + 1; i++) await a.upsert({ id: 'z', vector: vectorOf(i, 3) });
    show(first);
    // This is what SECURITY.md admits.
    assert.equal(await b.count(), 3);
  });

  it('a person accepts another history, and goes on from it', async () => {
    const { first, service, show } = await forked();
    const versions = new InMemoryVersions();
    const db = client(service, versions);
    await (await db.collection('faces')).delete('x');
    await (await client(first).collection('faces')).upsert({ id: 'z', vector: [0, 0, 1] });
    show(first);
    await assert.rejects((await db.collection('faces')).count(), hasAnotherHistory);
    await db.accept('faces');
    const faces = await db.collection('faces');
    assert.equal(await faces.count(), 3);
    await faces.upsert({ id: 'w', vector: [0, 0, 1] });
    assert.equal(await (await client(service, versions).collection('faces')).count(), 4);
  });

  it('a change that was made and whose acknowledgement was lost is not made twice, nor taken for a fork', async () => {
    const store = await newStore();
    let lose = false;
    const losing = withMethods(store, {
      async commit(name, change) {
        const version = await store.commit(name, change);
        if (!lose) return version;
        lose = false;
        throw new HersError('STALE', 'another change came first');
      },
    });
    const faces = await client(losing).createCollection('faces', { dimension: 3 });
    lose = true;
    assert.deepEqual(await faces.upsert([one, two]), counts({ inserted: 2 }));
    assert.equal(await faces.count(), 2);
    await faces.delete('x');
    assert.deepEqual(await Array.fromAsync(faces.list()), ['y']);
  });

  it('readers and writers of one process do not take each other for a roll-back', async () => {
    const store = await newStore();
    const slow = withMethods(store, {
      async getManifest(name) {
        const answer = await store.getManifest(name);
        await new Promise((resolve) => setTimeout(resolve, 3));
        return answer;
      },
    });
    const versions = new InMemoryVersions();
    const writer = await client(store, versions).createCollection('faces', { dimension: 3 });
    const reader = await client(slow, versions).collection('faces');
    let isWriting = true;
    const writing = (async () => {
      for (let i = 0; i < 60; i++) await writer.upsert({ id: `r${i % 7}`, vector: vectorOf(i, 3) });
      isWriting = false;
    })();
    while (isWriting) {
      await reader.count();
      await reader.search([1, 0, 0], { payload: true });
    }
    await writing;
    assert.equal(await reader.count(), 7);
  });

  it('a store that says that it moved on and shows nothing newer is not believed for ever', async () => {
    const store = await newStore();
    let commits = 0;
    const stubborn = withMethods(store, {
      async commit() {
        commits++;
        throw new HersError('STALE', 'another change came first');
      },
    });
    await client(store).createCollection('faces', { dimension: 3 });
    const faces = await client(stubborn).collection('faces');
    await assert.rejects(faces.upsert(one), integrity(/shows no newer manifest/));
    assert.ok(commits <= 5, `${commits} commits`);
    const gone = withMethods(store, {
      async commit() {
        commits++;
        throw new HersError('NOT_FOUND', 'no such stage');
      },
    });
    commits = 0;
    await assert.rejects((await client(gone).collection('faces')).upsert(one), HersError);
    assert.ok(commits <= 7, `${commits} commits`);
  });
});

describe('a view', () => {
  it('is not older than what others that share the memory have seen', async () => {
    const [store, frozen] = [await newStore(), await newStore()];
    const path = join(await newFolder(), 'seen.json');
    const at = (service: Service) => new Database(service, { key, versions: new VersionFile(path), threads: 1 });
    const { service, show } = changing(store);
    const b = await at(store).createCollection('faces', { dimension: 3 });
    await b.upsert([one, two]);
    await frozen.restore('faces', store.snapshot('faces'));
    const a = await at(service).collection('faces');
    const find = async () => (await a.search([1, 0, 0], { limit: 1 })).matches[0].id;
    assert.equal(await find(), 'x');
    show(frozen);
    await b.delete('x');
    for (let i = 0; i < 2; i++) await assert.rejects(find(), integrity(/rolled back/));
    // Neither is the old one put back after the error, for those that only write.
    await assert.rejects(a.upsert({ id: 'w', vector: [0, 0, 1] }), integrity(/rolled back/));
    show(store);
    assert.equal(await find(), 'y');
    await at(store).deleteCollection('faces');
    show(frozen);
    await assert.rejects(find(), isThereAgain);
  });

  it('is kept when a newer one cannot be fetched', async () => {
    const store = await newStore();
    const faces = await client(store).createCollection('faces', { dimension: 3 });
    await faces.upsert(one);
    let isAway = false;
    const flaky = withMethods(store, {
      getManifest: async (name) => {
        if (isAway) throw new HersError('UNAVAILABLE', 'not now');
        return store.getManifest(name);
      },
    });
    const reader = await client(flaky).collection('faces');
    isAway = true;
    const counts = [reader.count(), reader.count()];
    for (const count of counts) await assert.rejects(count, { code: 'UNAVAILABLE' });
    isAway = false;
    assert.equal((await reader.search([1, 0, 0])).matches[0].id, 'x');
  });

  const records = Array.from({ length: 8 }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, 3) }));

  it('is read while another client writes, and fetched again is what has changed', async () => {
    const store = await newStore();
    const writer = await client(store).createCollection('faces', { dimension: 3 });
    await writer.upsert(records);
    let changes = 0;
    const asked: number[] = [];
    const busy = withMethods(store, {
      async *getRecords(name, handles, options) {
        asked.push(handles.length);
        // The one that was asked for is another when it comes, and yet another is when the manifest
        // is read again.
        if (changes++ < 3) await writer.upsert({ id: 'r0', vector: vectorOf(100 + changes, 3) });
        yield* store.getRecords(name, handles, options);
        if (changes < 3) await writer.upsert({ id: `r${changes}`, vector: vectorOf(200 + changes, 3) });
      },
    });
    assert.equal(await (await client(busy).collection('faces')).count(), 8);
    assert.equal(asked[0], 8);
    assert.ok(asked.length > 1 && asked.slice(1).every((count) => count <= 2), `${asked}`);
  });

  it('is read between two changes, however soon the second comes', { timeout: 60_000 }, async () => {
    const store = await newStore();
    const writer = await client(store).createCollection('faces', { dimension: 3 });
    await writer.upsert(records);
    let number = 0;
    let writing: Promise<unknown> = Promise.resolve();
    // The time for a small reading, and not for a pause in between.
    const busy = withMethods(store, {
      async getManifest(name) {
        await writing;
        const answer = await store.getManifest(name);
        const wait = number === 0 ? 0 : 8;
        writing = new Promise((resolve) => setTimeout(resolve, wait)).then(() =>
          writer.upsert({ id: 'r0', vector: vectorOf(300 + number++, 3) }),
        );
        if (wait === 0) await writing;
        return answer;
      },
    });
    assert.equal(await (await client(busy).collection('faces')).count(), 8);
    await writing;
  });

  it('that changes faster than it can be read is STALE, which says to try again, and not INTEGRITY', async () => {
    const store = await newStore();
    const writer = await client(store).createCollection('faces', { dimension: 3 });
    let number = 0;
    const change = () => writer.upsert({ id: 'r0', vector: vectorOf(number++, 3) });
    await change();
    const busy = withMethods(store, {
      async getManifest(name) {
        await change();
        return store.getManifest(name);
      },
      async *getRecords(name, handles, options) {
        await change();
        yield* store.getRecords(name, handles, options);
      },
    });
    await assert.rejects(
      client(busy).collection('faces'),
      (error) => error instanceof HersError && error.code === 'STALE' && /try again/.test(error.message),
    );
    // Without a newer manifest nobody else is the reason.
    const withholding = withMethods(store, {
      getRecords: () => store.getRecords('faces', [new Uint8Array(16)]),
    });
    await assert.rejects(client(withholding).collection('faces'), (error) => (error as HersError).code !== 'STALE');
  });
});

describe('a write', () => {
  it('finds nothing to do only in what is there now', async () => {
    const store = await newStore();
    const a = await client(store).createCollection('faces', { dimension: 3 });
    await a.upsert({ id: 'r', vector: [1, 0, 0] });
    const b = await client(store).collection('faces');
    await b.upsert([
      { id: 'r', vector: [0, 1, 0] },
      { id: 's', vector: [0, 0, 1] },
    ]);
    // Its view is that of before: there r is so already, and there is no s.
    assert.deepEqual(await a.upsert({ id: 'r', vector: [1, 0, 0] }), counts({ replaced: 1 }));
    await b.upsert({ id: 't', vector: [0, 0, 1] });
    assert.equal(await a.delete(['s', 't']), 2);
    assert.deepEqual((await b.get('r'))[0].vector, Float32Array.of(1, 0, 0));
    assert.equal(await b.count(), 1);
  });

  for (const isOlder of [true, false])
    it(`finds nothing to do only in the history that was accepted, ${isOlder ? 'older than' : 'as new as'} its own`, async () => {
      const store = await newStore();
      let swallow = false;
      const liar = withMethods(store, {
        commit: async (name, change) => (swallow ? change.expected + 1 : store.commit(name, change)),
      });
      const versions = new InMemoryVersions();
      const a = await client(liar, versions).createCollection('faces', { dimension: 3 });
      await a.upsert(one);
      swallow = true;
      await a.upsert(two); // said to be done
      swallow = false;
      const db = client(liar, versions);
      await assert.rejects(db.collection('faces'), integrity(/rolled back/));
      await db.accept('faces');
      if (!isOlder) await (await db.collection('faces')).upsert({ id: 'z', vector: [0, 0, 1] });
      // In its own view, y is so already.
      assert.deepEqual(await a.upsert(two), counts({ inserted: 1 }));
      assert.equal((await (await client(store).collection('faces')).get('y')).length, 1);
    });

  it('is not made on top of a history that others of the same memory refused', async () => {
    const store = await newStore();
    let swallow = false;
    let commits = 0;
    const liar = withMethods(store, {
      async commit(name, change) {
        commits++;
        return swallow ? change.expected + 1 : store.commit(name, change);
      },
    });
    const versions = new InMemoryVersions();
    const a = await client(liar, versions).createCollection('faces', { dimension: 3 });
    await a.upsert(one);
    swallow = true;
    await a.upsert(two); // said to be done
    swallow = false;
    const db = client(liar, versions);
    await assert.rejects(db.collection('faces'), integrity(/rolled back/));
    await db.accept('faces');
    await (await db.collection('faces')).upsert({ id: 'z', vector: [0, 0, 1] });
    commits = 0;
    await assert.rejects(a.upsert({ id: 'w', vector: [0, 1, 1] }), HersError);
    assert.equal(commits, 0);
    assert.equal(await (await client(store).collection('faces')).count(), 2);
  });

  it('goes to the collection that was just made, not to one of its name from before', async () => {
    const store = await newStore();
    const db = client(store);
    await db.createCollection('faces', { dimension: 3 });
    await client(store).deleteCollection('faces');
    await db.accept('faces');
    const faces = await db.createCollection('faces', { dimension: 4 });
    assert.equal(faces.plan.dimension, 4);
    await faces.upsert({ id: 'x', vector: [1, 0, 0, 0] });
    assert.equal(await (await client(store).collection('faces')).count(), 1);
  });
});

it('a change that was made and cannot be remembered says both', async () => {
  const store = await newStore();
  let isFull = false;
  class Forgetful extends InMemoryVersions {
    override update(...args: Parameters<InMemoryVersions['update']>) {
      return isFull ? Promise.reject(new Error('ENOSPC, says the test')) : super.update(...args);
    }
  }
  const faces = await client(store, new Forgetful()).createCollection('faces', { dimension: 3 });
  await faces.upsert(one);
  isFull = true;
  await assert.rejects(faces.upsert(two), {
    code: 'STORAGE',
    message: /^the change was made, but what was seen of it cannot be written down \(ENOSPC/,
  });
  isFull = false;
  assert.equal(await (await client(store).collection('faces')).count(), 2);
  // It goes on from the change that it made.
  assert.deepEqual(await faces.upsert({ ...one, vector: [0, 0, 1] }), counts({ replaced: 1 }));
});

it('records that are cut off, or empty, are not believed', async () => {
  const store = await newStore();
  const faces = await client(store).createCollection('faces', { dimension: 3 });
  await faces.upsert(one);
  for (const length of [0, 3, 20, 40]) {
    const cutting = withMethods(store, {
      async *getRecords(...args) {
        for await (const { handle, sealed } of store.getRecords(...args))
          yield { handle, sealed: sealed.subarray(0, length) };
      },
    });
    await assert.rejects(async () => (await client(cutting).collection('faces')).get('x'), { code: 'INTEGRITY' });
  }
});
