// A store that loses, repeats, swaps, alters or rolls back anything is caught: an integrity error,
// never a smaller or a wrong result.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { decodeResponse, encodeResponse, type ScanResponse } from '@hers/scheme';
import { HersError, type SealedRecord, type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { fit } from '@hers/training';
import { forgedResponse, movedResponse, vectorOf } from '../testing/client.ts';
import { type Collection, Database, MasterSeed } from './index.ts';
import { InMemoryVersions } from './session/versions.ts';

const DIMENSION = 8;
const key = MasterSeed.generate();
const caught = (error: unknown) =>
  error instanceof HersError && ['INTEGRITY', 'DAMAGED', 'WRONG_KEY'].includes(error.code);
const records = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => ({ id: `r${from + i}`, vector: vectorOf(from + i, DIMENSION) }));

let folder: string;
let store: Service;
let old: { version: number; manifest: Uint8Array };
const memory = new InMemoryVersions();

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-cheating-'));
  store = await openStore(folder);
  const db = new Database(store, { key, versions: memory });
  const faces = await db.createCollection('faces', { dimension: DIMENSION });
  await faces.upsert(records(0, 4096 + 100));
  old = await store.getManifest('faces');
  await faces.upsert({ id: 'r0', vector: vectorOf(77_000, DIMENSION) });
  const other = await db.createCollection('other', { dimension: DIMENSION });
  await other.upsert(records(0, 2048 + 100));
});
after(async () => {
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

/** A fresh client of a store that cheats in the given way. */
const through = async (changes: Partial<Service>): Promise<Collection> =>
  new Database(withMethods(store, changes), { key, versions: memory }).collection('faces');
const search = async (changes: Partial<Service>) => (await through(changes)).search(vectorOf(5, DIMENSION));

async function* flipped<T extends Uint8Array>(pieces: AsyncIterable<T>, at: number): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    const copy = new Uint8Array(piece);
    copy[at < 0 ? copy.length + at : at] ^= 1;
    yield copy;
  }
}

describe('a cheating store', () => {
  it('an honest one passes', async () => {
    assert.equal((await search({})).matches[0].id, 'r5');
  });

  const responses = (change: (all: Uint8Array[]) => Uint8Array[]): Partial<Service> => ({
    async *search(name, request, options) {
      yield* change(await Array.fromAsync(store.search(name, request, { ...options, views: false })));
    },
  });
  const cheats: [string, Partial<Service>][] = [
    ['leaves out a block', responses((all) => all.slice(1))],
    ['answers nothing', responses(() => [])],
    ['answers a block twice', responses((all) => [...all, all[0]])],
    ['answers one block for another', responses((all) => [all[0], all[0], ...all.slice(2)])],
    [
      'flips a bit of an answer',
      responses((all) => all.map((bytes, i) => (i === 0 ? bytes.map((x, k) => (k === 200 ? x ^ 1 : x)) : bytes))),
    ],
    ['answers with rubbish', responses(() => [new Uint8Array(7000)])],
    [
      'says a block is smaller',
      responses((all) =>
        all.map((bytes, i) => {
          if (i > 0) return bytes;
          const copy = bytes.slice();
          new DataView(copy.buffer).setUint32(68, 1, true);
          return copy;
        }),
      ),
    ],
    [
      'repeats an answer to an earlier query',
      (() => {
        let first: Uint8Array[] | undefined;
        return {
          async *search(name, request, options) {
            first ??= await Array.fromAsync(store.search(name, request, { ...options, views: false }));
            yield* first;
          },
        } satisfies Partial<Service>;
      })(),
    ],
    ['shows an older manifest under its own version', { getManifest: async () => old }],
    [
      'shows an older manifest as the current one',
      { getManifest: async (name) => ({ ...(await store.getManifest(name)), manifest: old.manifest }) },
    ],
    [
      'alters the manifest',
      {
        getManifest: async (name) => ({
          ...(await store.getManifest(name)),
          manifest: (await store.getManifest(name)).manifest.map((x, i) => (i === 40 ? x ^ 1 : x)),
        }),
      },
    ],
    ['shows the manifest of another collection', { getManifest: () => store.getManifest('other') }],
    [
      'shows another collection under this name',
      {
        getCollection: async () => ({ ...(await store.getCollection('other')), name: 'faces' }),
        getManifest: () => store.getManifest('faces'),
      },
    ],
    [
      'alters the description',
      {
        getCollection: async (name) => ({
          ...(await store.getCollection(name)),
          descriptor: (await store.getCollection(name)).descriptor.map((x, i) => (i === 60 ? x ^ 1 : x)),
        }),
      },
    ],
    [
      'shows another collection under this name, with everything that belongs to it',
      {
        getCollection: async () => ({ ...(await store.getCollection('other')), name: 'faces' }),
        getManifest: () => store.getManifest('other'),
        getLists: (_, ids) => store.getLists('other', ids),
        getRecords: (_, handles) => store.getRecords('other', handles),
        search: (_, request) => store.search('other', request),
      },
    ],
    [
      'gives records that claim another key',
      {
        async *getRecords(name, handles) {
          for await (const record of store.getRecords(name, handles)) {
            const sealed = record.sealed.slice();
            new DataView(sealed.buffer).setUint32(4, 7, true);
            yield { ...record, sealed };
          }
        },
      },
    ],
    ['alters a list', { getLists: (name, ids) => flipped(store.getLists(name, ids), 30) }],
    ['swaps lists', { getLists: (name, ids) => store.getLists(name, [...ids].reverse()) }],
    ['loses a list', { getLists: (name, ids) => store.getLists(name, ids.slice(1)) }],
    [
      'alters a sealed record',
      {
        async *getRecords(name, handles) {
          for await (const record of store.getRecords(name, handles))
            yield { ...record, sealed: record.sealed.map((x, i) => (i === 50 ? x ^ 1 : x)) };
        },
      },
    ],
    [
      'swaps sealed records',
      {
        async *getRecords(name, handles) {
          const all: SealedRecord[] = await Array.fromAsync(store.getRecords(name, handles));
          yield* all.map((record, i) => ({ handle: record.handle, sealed: all[(i + 1) % all.length].sealed }));
        },
      },
    ],
    [
      'gives records in another order',
      { getRecords: (name, handles) => store.getRecords(name, [...handles].reverse()) },
    ],
    ['loses a pending record', { getRecords: (name, handles) => store.getRecords(name, handles.slice(1)) }],
  ];
  for (const [what, changes] of cheats) {
    it(what, async () => {
      if (what.startsWith('repeats')) {
        const collection = await through(changes);
        await collection.search(vectorOf(5, DIMENSION));
        await assert.rejects(collection.search(vectorOf(6, DIMENSION)), caught);
      } else {
        await assert.rejects(search(changes), caught);
      }
    });
  }

  it('rolls the whole store back, remembered beside the key', async () => {
    const remembered = new InMemoryVersions();
    const { id } = await store.getCollection('faces');
    const seen = { id: Buffer.from(id).toString('hex'), version: old.version + 5 };
    await remembered.update({ gallery: '', name: 'faces' }, () => seen);
    await assert.rejects(new Database(store, { key, versions: remembered }).collection('faces'), caught);
  });

  it('a fetched record whose score is not the decrypted one stops everything, from either side', async () => {
    // The answer is changed: blocks are swapped under their names, so that the ids of one meet the
    // scores of the other.
    const mixed = withMethods(store, {
      async *search(name, request, options) {
        const all = await Array.fromAsync(store.search(name, request, { ...options, views: false }));
        const [a, b] = all.map((bytes) => bytes.slice());
        const idA = a.slice(48, 64);
        a.set(b.subarray(48, 64), 48);
        b.set(idA, 48);
        const { checksum } = await import('@hers/ring');
        for (const bytes of [a, b])
          new DataView(bytes.buffer).setBigUint64(bytes.length - 8, checksum(bytes.subarray(0, -8)), true);
        yield* [a, b, ...all.slice(2)];
      },
    });
    const collection = await new Database(mixed, { key, versions: memory }).collection('faces');
    const probe = vectorOf(5, DIMENSION);
    for (const options of [{}, { rerank: true }, { payload: true }])
      await assert.rejects(collection.search(probe, options), caught);
    // The record is changed: an older copy, sealed by ourselves, for the same id.
    const db = new Database(store, { key, versions: memory });
    const faces = await db.collection('faces');
    const before = await Array.fromAsync(store.getRecords('faces', await handlesOf(faces, store, 'r9')));
    await faces.upsert({ id: 'r9', vector: vectorOf(99_999, DIMENSION) });
    const stale = withMethods(store, {
      async *getRecords(name, handles) {
        for await (const record of store.getRecords(name, handles))
          yield Buffer.compare(record.handle, before[0].handle) === 0 ? before[0] : record;
      },
    });
    await assert.rejects(
      new Database(stale, { key, versions: memory }).collection('faces').then((c) => c.get('r9')),
      caught,
    );
  });
});

/** The handle of an id, seen from what the client asks for. */
async function handlesOf(_: Collection, service: Service, id: string): Promise<Uint8Array[]> {
  const asked: Uint8Array[] = [];
  const spy = withMethods(service, {
    getRecords(name, handles, options) {
      asked.splice(0, asked.length, ...handles);
      return service.getRecords(name, handles, options);
    },
  });
  const collection = await new Database(spy, { key, versions: memory }).collection('faces');
  await collection.get(id);
  return asked;
}

describe('canaries: a response that was not computed for this query and this block', () => {
  /** A response under the name of another block or query, with a checksum that fits. */
  const renamed = (response: Uint8Array, changes: Partial<ScanResponse>) =>
    encodeResponse({ ...decodeResponse(response), ...changes });

  const blockOf = (response: Uint8Array) => Buffer.from(decodeResponse(response).blockId).toString('hex');

  for (const profile of ['compact', 'small', 'exact'] as const)
    it(`${profile}: is refused, and nothing is fetched`, async () => {
      const name = `canaries-${profile}`;
      const db = new Database(store, { key });
      const dimension = profile === 'small' ? 32 : DIMENSION;
      const records = (from: number, to: number) =>
        Array.from({ length: to - from }, (_, i) => ({ id: `r${from + i}`, vector: vectorOf(from + i, dimension) }));
      const collection = await db.createCollection(name, { dimension, profile });
      const { capacity, parameters } = collection.plan;
      await collection.upsert(records(0, 2 * capacity));
      const before = `${name}-before`;
      await new Database(store, { key, versions: new InMemoryVersions() }).restore(before, collection.snapshot());
      const older = await store.getCollection(before);
      // The first block is rewritten, with the same number of records.
      await collection.delete(['r0']);
      await collection.upsert(records(2 * capacity, 2 * capacity + 1));
      await collection.optimize();

      const earlier: Uint8Array[] = [];
      const cheats: Readonly<Record<string, Service['search']>> = {
        'from another block': async function* (where, request, options) {
          const all = await Array.fromAsync(store.search(where, request, { ...options, views: false }));
          const ids = all.map((response) => decodeResponse(response).blockId);
          yield* all.map((response, i) => renamed(response, { blockId: ids[(i + 1) % all.length] }));
        },
        'for an earlier query': async function* (where, request, options) {
          const all = await Array.fromAsync(store.search(where, request, { ...options, views: false }));
          const queryId = decodeResponse(all[0]).queryId;
          const given = earlier.length > 0 ? earlier.map((response) => renamed(response, { queryId })) : all;
          if (earlier.length === 0) earlier.push(...all);
          yield* given;
        },
        'from an older state': async function* (where, request, options) {
          const all = await Array.fromAsync(store.search(where, request, { ...options, views: false }));
          const then = await Array.fromAsync(
            store.search(before, { ...request, version: older.version }, { ...options, views: false }),
          );
          const ids = [then, all].map((responses) => new Set(responses.map(blockOf)));
          const old = then.find((response) => !ids[1].has(blockOf(response)))!;
          yield* all.map((response) => {
            const { blockId, count } = decodeResponse(response);
            return ids[0].has(blockOf(response)) ? response : renamed(old, { blockId, count });
          });
        },
        'moved by one slot': async function* (where, request, options) {
          for await (const response of store.search(where, request, options)) yield movedResponse(response, 1);
        },
        'moved by half a block': async function* (where, request, options) {
          for await (const response of store.search(where, request, options))
            yield movedResponse(response, parameters.n / 2);
        },
        'of nothing': async function* (where, request, options) {
          for await (const response of store.search(where, request, options)) {
            const { blockId, count } = decodeResponse(response);
            yield forgedResponse(request.queries[0], blockId, count, () => 0);
          }
        },
      };
      for (const [what, search] of Object.entries(cheats)) {
        let fetched = 0;
        let searches = 0;
        const cheating = withMethods(store, {
          search(...given) {
            searches++;
            return search(...given);
          },
          getRecords(...given) {
            fetched++;
            return store.getRecords(...given);
          },
        });
        const victim = await new Database(cheating, { key, threads: 1 }).collection(name);
        const probe = vectorOf(60_000, dimension);
        if (what.includes('earlier')) await victim.search(probe);
        fetched = searches = 0;
        // Where a store needs more than one block for it, a comparison with one shows nothing.
        const isOfOne = !what.startsWith('from');
        const ways = [
          () => victim.search(probe),
          () => victim.searchBatch([probe]),
          ...(isOfOne ? [() => victim.verify(`r${capacity + 7}`, probe)] : []),
          () => victim.search(probe, { payload: true, rerank: true }),
        ];
        for (const ask of ways) await assert.rejects(ask(), { code: 'INTEGRITY' }, what);
        assert.equal(fetched, 0, what);
        assert.equal(searches, ways.length, what); // and nothing is tried again
        await victim.close();
      }
    });
});

describe('the version of a record', () => {
  it('is not told: writing the same content again after another looks like any other change', async () => {
    const staged: Uint8Array[] = [];
    const watching = withMethods(store, {
      async stageRecords(name, all, options) {
        const sealed = await Array.fromAsync(all as AsyncIterable<SealedRecord>);
        staged.push(...sealed.map((each) => each.sealed.slice()));
        return store.stageRecords(name, sealed, options);
      },
    });
    const things = await new Database(watching, { key }).createCollection('again', { dimension: DIMENSION });
    for (const seed of [1, 2, 1]) await things.upsert({ id: 'a', vector: vectorOf(seed, DIMENSION) });
    assert.equal(staged.length, 3);
    // Edition and epoch are alike in all; of the rest no eight bytes in a row occur twice.
    const HEAD = 8;
    for (const [i, one] of staged.entries()) {
      assert.equal(Buffer.compare(one.subarray(0, HEAD), staged[0].subarray(0, HEAD)), 0);
      for (const other of staged.slice(i + 1))
        for (let at = HEAD; at + 8 <= one.length; at++)
          assert.equal(Buffer.from(other).indexOf(one.subarray(at, at + 8), HEAD), -1);
    }
  });
});

describe('exact, with a compressor', () => {
  const COUNT = 4096;
  const WIDE = 16;
  const all = Array.from({ length: COUNT }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, WIDE) }));
  const vectors = new Float32Array(COUNT * WIDE);
  all.forEach(({ vector }, i) => {
    vectors.set(vector, i * WIDE);
  });
  const labels = all.map((_, i) => `p${i >> 3}`);

  for (const method of ['pca', 'deepmds'] as const)
    it(`${method}: a score that is one step off is caught, and one that is right is believed on any machine`, async () => {
      const settings = method === 'deepmds' ? { settings: { steps: 50 } } : {};
      const options = { inputDimension: WIDE, dimension: 8, ...settings };
      const compressor = await fit(method, vectors, labels, options as { dimension: number });
      assert.equal(compressor.reproducible, method === 'pca');
      const db = new Database(store, { key });
      const name = `exact-${method}`;
      const collection = await db.createCollection(name, {
        dimension: WIDE,
        profile: 'exact',
        compressor: compressor.save(),
      });
      await collection.upsert(all);
      const probe = vectorOf(50_000, WIDE);
      assert.equal((await collection.search(probe, { limit: 9, rerank: 600 })).matches.length, 9);
      // Every score one step larger: a constant is added to what the store computed.
      const { bits, step } = await stepOf(collection);
      const cheating = withMethods(store, {
        async *search(where, request, given) {
          for await (const response of store.search(where, request, given)) yield addedToScores(response, bits, step);
        },
      });
      for (const threads of [1, 2]) {
        const victim = await new Database(cheating, { key, threads }).collection(name);
        for (const given of [{}, { rerank: true }, { payload: true }])
          await assert.rejects(victim.search(probe, { limit: 5, ...given }), caught, JSON.stringify(given));
        await assert.rejects(victim.verify('r3', probe), caught);
      }
      // Moving all scores by nothing is no alteration: the change above is what was noticed.
      const still = withMethods(store, {
        async *search(where, request, given) {
          for await (const response of store.search(where, request, given)) yield addedToScores(response, bits, 0);
        },
      });
      const client = await new Database(still, { key, threads: 1 }).collection(name);
      assert.equal((await client.search(probe, { limit: 5, rerank: true })).matches.length, 5);
    });

  /** What one step of a score is in the words of a response. */
  async function stepOf(collection: Collection) {
    const { plan } = await collection.index();
    const modulus = plan.parameters.primes.reduce((product, p) => product * p, 1);
    return { bits: plan.responseBits.c0, step: (plan.unit / modulus) * 2 ** plan.responseBits.c0 };
  }

  function addedToScores(response: Uint8Array, bits: number, step: number): Uint8Array {
    const decoded = decodeResponse(response);
    const packed = decoded.packed0.slice();
    const n = (8 * packed.length) / bits;
    const add = Math.round(step);
    for (let j = 0; j < n; j++) {
      let word = 0;
      for (let b = 0; b < bits; b++) word += ((packed[(j * bits + b) >> 3] >> ((j * bits + b) & 7)) & 1) * 2 ** b;
      word = (word + add) % 2 ** bits;
      for (let b = 0; b < bits; b++) {
        const at = j * bits + b;
        packed[at >> 3] = (packed[at >> 3] & ~(1 << (at & 7))) | ((Math.floor(word / 2 ** b) % 2) << (at & 7));
      }
    }
    return encodeResponse({ ...decoded, packed0: packed });
  }
});

describe('exact: every score of every block', () => {
  for (const metric of ['cosine', 'euclidean', 'dot'] as const)
    it(`${metric}: one that is changed in one slot is caught without fetching anything`, async () => {
      const name = `all-${metric}`;
      const options = { dimension: DIMENSION, profile: 'exact', metric, normBound: 1 } as const;
      const { normBound: _, ...cosine } = options;
      const collection = await new Database(store, { key }).createCollection(
        name,
        metric === 'cosine' ? cosine : options,
      );
      for (const from of [0, 40, 80]) await collection.upsert(records(from, from + 40));
      await collection.optimize();
      await collection.delete('r7');
      const probe = vectorOf(50_000, DIMENSION);
      const { plan } = collection;
      const modulus = plan.parameters.primes.reduce((product, p) => product * p, 1);
      const step = (plan.unit / modulus) * 2 ** plan.responseBits.c0;
      for (const [slot, steps] of [
        [0, 1],
        [119, -1],
        [60, -30_000],
      ]) {
        const cheating = withMethods(store, {
          async *search(where, request, given) {
            for await (const response of store.search(where, request, given))
              yield changedWord(response, plan.responseBits.c0, slot, Math.round(steps * step));
          },
        });
        const victim = await new Database(cheating, { key, threads: 1 }).collection(name);
        await assert.rejects(victim.search(probe), caught, `slot ${slot} by ${steps}`);
      }
      // Slots that hold nobody are nobody's business.
      const harmless = withMethods(store, {
        async *search(where, request, given) {
          for await (const response of store.search(where, request, given))
            yield changedWord(response, plan.responseBits.c0, 3000, Math.round(step));
        },
      });
      const client = await new Database(harmless, { key, threads: 1 }).collection(name);
      assert.equal((await client.search(probe, { limit: 200 })).matches.length, 119);
      // Through another key, and with blocks of both.
      await collection.rotateKey();
      assert.equal((await collection.search(probe, { limit: 200 })).matches.length, 119);
    });

  function changedWord(response: Uint8Array, bits: number, slot: number, by: number): Uint8Array {
    const decoded = decodeResponse(response);
    const packed0 = decoded.packed0.slice();
    let word = 0;
    for (let b = 0; b < bits; b++) word += ((packed0[(slot * bits + b) >> 3] >> ((slot * bits + b) & 7)) & 1) * 2 ** b;
    word = (((word + by) % 2 ** bits) + 2 ** bits) % 2 ** bits;
    for (let b = 0; b < bits; b++) {
      const at = slot * bits + b;
      packed0[at >> 3] = (packed0[at >> 3] & ~(1 << (at & 7))) | ((Math.floor(word / 2 ** b) % 2) << (at & 7));
    }
    return encodeResponse({ ...decoded, packed0 });
  }
});
