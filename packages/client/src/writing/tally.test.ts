// What an upsert says it did, beside a Map that was written to as well.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { startServer } from '@hers/server';
import { HersError, type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { counts, vectorOf } from '../../testing/client.ts';
import { type Collection, Database, HttpService, MasterSeed, type UpsertResult, type VectorRecord } from '../index.ts';

const DIMENSION = 3;
const key = MasterSeed.generate();
const ends: (() => Promise<unknown>)[] = [];
after(async () => {
  for (const end of ends.reverse()) await end();
});

async function newStore(): Promise<Service> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-tally-'));
  ends.push(() => rm(folder, { recursive: true }));
  const store = await openStore(folder);
  ends.push(() => store.close());
  return store;
}

const client = (service: Service) => new Database(service, { key, threads: 1 });

/** The obvious version: two Maps, and a look at both. */
class Truth {
  readonly #content = new Map<string, string>();

  upsert(records: readonly VectorRecord[]): UpsertResult {
    const before = new Map(this.#content);
    for (const { id, vector } of records) this.#content.set(id, Array.from(vector).join());
    const ids = [...new Set(records.map(({ id }) => id))];
    const isSame = (id: string) => before.get(id) === this.#content.get(id);
    return counts({
      inserted: ids.filter((id) => !before.has(id)).length,
      replaced: ids.filter((id) => before.has(id) && !isSame(id)).length,
      unchanged: ids.filter((id) => before.has(id) && isSame(id)).length,
      repeated: records.length - ids.length,
    });
  }

  delete(ids: readonly string[]): void {
    for (const id of ids) this.#content.delete(id);
  }

  get size(): number {
    return this.#content.size;
  }
}

const record = (person: number, revision = 0): VectorRecord => ({
  id: `r${person}`,
  vector: vectorOf(10 * person + revision, DIMENSION),
});
const range = (from: number, to: number, revision = 0) =>
  Array.from({ length: to - from }, (_, i) => record(from + i, revision));

/** Numbers that follow from a seed (mulberry32). */
function dice(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % limit;
  };
}

/** A service whose next commit runs `before` or `after` it, once. */
function interrupted(service: Service) {
  const once: { before?: () => Promise<unknown>; after?: () => Promise<unknown> } = {};
  const take = async (moment: 'before' | 'after') => {
    const act = once[moment];
    delete once[moment];
    await act?.();
  };
  const commit: Service['commit'] = async (name, change) => {
    await take('before');
    const version = await service.commit(name, change);
    await take('after');
    return version;
  };
  return { service: withMethods(service, { commit }), once };
}

async function overHttp(): Promise<Service> {
  const server = await startServer(await newStore(), { port: 0, log: { level: 'silent' } });
  ends.push(() => server.close());
  return new HttpService(server.url);
}

const options = { dimension: DIMENSION };

describe('what an upsert did', () => {
  for (const [where, open] of [
    ['in a folder', newStore],
    ['over HTTP', overHttp],
  ] as const)
    it(`agrees with a Map, whatever is written, deleted and compacted by two clients ${where}`, async () => {
      const service = await open();
      const truth = new Truth();
      const first = await client(service).createCollection('faces', options);
      const clients: Collection[] = [first, await client(service).collection('faces')];
      const below = dice(5);
      for (let round = 0; round < 40; round++) {
        const faces = clients[below(2)]; // whose view is that of before whenever the other one wrote
        const records = Array.from({ length: 1 + below(12) }, () => record(below(16), below(3)));
        assert.deepEqual(await faces.upsert(records), truth.upsert(records), `round ${round}`);
        if (below(3) === 0) {
          const ids = [record(below(16)).id, record(below(16)).id];
          await clients[below(2)].delete(ids);
          truth.delete(ids);
        }
        if (below(10) === 0) await clients[below(2)].optimize();
        assert.equal(await faces.count(), truth.size);
      }
    });

  it('is about what there was before it, however many commits it took', async () => {
    const store = await newStore();
    let commits = 0;
    const commit: Service['commit'] = (name, change) => {
      commits++;
      return store.commit(name, change);
    };
    const faces = await client(withMethods(store, { commit })).createCollection('faces', options);
    const truth = new Truth();
    const known = range(0, 40);
    assert.deepEqual(await faces.upsert(known), truth.upsert(known));
    // More than one commit takes, and ids that come again in a later one: back as they were,
    // otherwise than they were, and new.
    const many = [...range(0, 10, 1), ...range(100, 17_000), ...range(0, 5), ...range(5, 20, 2), ...range(100, 110, 1)];
    commits = 0;
    const written = await faces.upsert(many);
    assert.ok(commits > 1);
    assert.deepEqual(written, truth.upsert(many));
    assert.deepEqual(written, counts({ inserted: 16_900, replaced: 15, unchanged: 5, repeated: 20 }));
    assert.equal(await faces.count(), truth.size);
  });

  it('a record that was deleted is new again', async () => {
    const faces = await client(await newStore()).createCollection('faces', options);
    await faces.upsert(range(0, 4));
    await faces.delete(['r1', 'r2']);
    assert.deepEqual(await faces.upsert(range(0, 4)), counts({ inserted: 2, unchanged: 2 }));
  });

  it('another writer comes first: what counts is what was there when it was written', async () => {
    const { service, once } = interrupted(await newStore());
    const faces = await client(service).createCollection('faces', options);
    await faces.upsert(range(0, 6));
    const other = await client(service).collection('faces');
    once.before = async () => {
      await other.upsert([record(0, 1), record(6, 1), record(7)]);
      await other.delete(['r1']);
    };
    // r0 was changed, r1 is gone, r6 and r7 have come.
    assert.deepEqual(await faces.upsert(range(0, 9)), counts({ inserted: 2, replaced: 2, unchanged: 5 }));
  });

  it('the answer to its commit is lost, and another writer goes on: it was written nonetheless', async () => {
    const { service, once } = interrupted(await newStore());
    const faces = await client(service).createCollection('faces', options);
    await faces.upsert(range(0, 2));
    const other = await client(service).collection('faces');
    once.after = async () => {
      await other.upsert(record(9));
      throw new HersError('STALE', 'the collection has moved on');
    };
    assert.deepEqual(
      await faces.upsert([record(0), record(1, 1), record(2)]),
      counts({ inserted: 1, replaced: 1, unchanged: 1 }),
    );
    assert.equal(await faces.count(), 4);
  });
});
