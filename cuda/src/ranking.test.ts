// Decryption on a device beside that on the host: on a GPU where there is one, otherwise with the
// device's own code compiled for the host.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Database } from '@hers/client';
import {
  type Candidate,
  type DecryptTask,
  type DeviceBlocks,
  encrypted,
  GroupedRanking,
  hex,
  type ManifestBlock,
  type Order,
  rankResponses,
  registerRanking,
} from '@hers/client/ranking';
import { Ring } from '@hers/ring';
import { segmentBytes } from '@hers/scan';
import {
  type BlockMatrix,
  blockMatrix,
  decodeBlock,
  decodeQuery,
  HersError,
  type Integrity,
  type Metric,
  type PlanRequest,
  type Profile,
  plan,
  polyWords,
  slotsFor,
} from '@hers/scheme';
import { type CollectionKey, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import { type KeptResponses, type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { part } from '../../tools/parts.ts';
import { CudaKernel } from './kernel.ts';
import { CudaRanking, type DeviceAddon } from './ranking.ts';
import { openRankingAddon } from './ranking-addon.ts';
import { deviceRows, fillDeviceRow } from './ranking-data.ts';

const compiler = part('compiler');

/** Vectors that have many equal scores among them. */
function vectorsOf(count: number, dimension: number, seed: number): Float32Array {
  let state = seed >>> 0;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
  const out = Float32Array.from({ length: count * dimension }, next);
  for (let j = 0; j < count; j++) {
    const own = out.subarray(j * dimension, (j + 1) * dimension);
    const norm = Math.hypot(...own);
    for (let i = 0; i < dimension; i++) own[i] *= 0.9 / norm;
  }
  return out;
}

interface World {
  readonly key: CollectionKey;
  readonly of: DeviceBlocks;
  readonly encoded: readonly Uint8Array[];
}

type Request = Pick<PlanRequest, 'metric' | 'profile' | 'dimension' | 'integrity' | 'parameters' | 'allowInsecure'>;

function worldOf(request: Request, counts: readonly number[]): World {
  const key = MasterSeed.from(new Uint8Array(32).fill(7)).collectionKey(plan(request), new Uint8Array(16));
  const made = counts.map((count, i) => encrypted(key, vectorsOf(count, request.dimension, 100 + i)));
  const encoded = made.map(({ block }) => block);
  const blocks = encoded.map((bytes, i): ManifestBlock => {
    const id = hex(decodeBlock(bytes).blockId);
    const dead = i === 1 ? [0, 3, 17].filter((slot) => slot < counts[i]) : [];
    return { id, hash: '', epoch: 0, count: counts[i], list: '', dead };
  });
  const canariesOf = ({ id, count }: ManifestBlock) => ({ id, slots: slotsFor(key.plan, count) });
  const sums = new Map(blocks.map(({ id }, i) => [id, made[i].sums]));
  const sumsOf = ({ id }: ManifestBlock) => sums.get(id);
  return { key, encoded, of: { blocks, numbers: blocks.map((_, i) => 10 * i), canariesOf, sumsOf } };
}

/** What the host decrypts, one task a block. */
const tasksOf = ({ of }: World, responses: ReadonlyMap<string, Uint8Array>): DecryptTask[] =>
  of.blocks.map((block, i) => ({
    response: responses.get(block.id)!,
    block: of.numbers[i],
    canaries: of.canariesOf(block),
    dead: block.dead,
    sums: of.sumsOf(block),
  }));

describe('ranking on a device, or on its emulation', { skip: compiler.skip }, () => {
  let kernel: CudaKernel;
  let addon: string | undefined;
  let decrypting: DeviceAddon;
  before(async () => {
    let ranker: string | undefined;
    try {
      kernel = CudaKernel.open();
    } catch {
      const { emulatedCuda, emulatedDecrypt } = await import('../testing/emulation.ts');
      addon = await emulatedCuda();
      kernel = CudaKernel.open({ addon });
      ranker = await emulatedDecrypt();
    }
    decrypting = openRankingAddon(ranker)!;
    registerRanking((key) => new CudaRanking(decrypting, key()));
  });
  after(() => kernel.close());

  /** The responses of a scan of all blocks, kept and as bytes. */
  async function answers({ key, encoded }: World, vector: Float32Array, order?: readonly number[]) {
    const numbers = order ?? encoded.map((_, i) => i);
    return answersOf(
      key,
      numbers.map((i) => blockMatrix(decodeBlock(encoded[i]))),
      vector,
    );
  }

  async function answersOf(key: CollectionKey, blocks: readonly BlockMatrix[], vector: Float32Array) {
    const { query, secret } = encryptQuery(key, vector);
    const half = Math.ceil(blocks.length / 2);
    const handles = await Promise.all(
      [blocks.slice(0, half), blocks.slice(half)]
        .filter(({ length }) => length > 0)
        .map((some, i) => kernel.load({ bytes: segmentBytes(some), name: `segment ${i}` }, { inTurns: i === 1 })),
    );
    const decoded = decodeQuery(query);
    const responses = new Map<string, Uint8Array>();
    for await (const { handle, block, response } of kernel.scan(handles, [decoded]))
      responses.set(hex(handle.header.blocks[block].blockId), Uint8Array.from(response));
    const scan = (await kernel.keep!(handles, [decoded]))!;
    const kept: KeptResponses = { ...scan, queries: [0], only: undefined };
    const release = async () => {
      scan.forget();
      for (const handle of handles) await kernel.unload(handle);
    };
    return { kept, secret, responses, release };
  }

  const CASES: [Metric, Profile, number, number[], Integrity?][] = [
    ['cosine', 'compact', 16, [2040, 5, 1200]],
    ['dot', 'compact', 33, [40, 2040]],
    ['euclidean', 'compact', 7, [300, 100]],
    ['cosine', 'small', 8, [2032, 64]],
    ['euclidean', 'small', 5, [900]],
    // Full blocks, one whole group, one more record than that, and a single record.
    ['cosine', 'compact', 16, [2008, 64, 65, 1], 'strong'],
    ['euclidean', 'compact', 5, [700], 'strong'],
    ['dot', 'small', 7, [1912, 17], 'strong'],
    ['cosine', 'exact', 12, [4088, 3, 900]],
    ['euclidean', 'exact', 9, [400, 4088]],
    ['dot', 'exact', 5, [1000, 4000]],
  ];
  for (const [metric, profile, dimension, counts, integrity = 'standard'] of CASES)
    it(`${profile}, ${metric}, ${integrity}: the candidates of the host, to the last bit`, async () => {
      const world = worldOf({ metric, profile, dimension, integrity }, counts);
      const { key, of } = world;
      const ranking = new CudaRanking(decrypting, key);
      const vector = vectorsOf(1, dimension, 5);
      const order: Order = metric === 'euclidean' ? 'ascending' : 'descending';
      const { kept, secret, responses, release } = await answers(world, vector, counts.map((_, i) => i).reverse());
      const filter = of.blocks.map(({ count }, i) =>
        i === 0 ? Uint32Array.from({ length: Math.ceil(count / 32) }, (_, w) => 0x5a5a1234 ^ w) : undefined,
      );
      for (const slots of [undefined, filter])
        for (const [limit, threshold] of [
          [1],
          [10],
          [3000],
          [100, metric === 'euclidean' ? 1 : 0.1],
          [5, metric === 'euclidean' ? -1 : 9],
        ]) {
          const options = { limit, order, query: vector, ...(threshold === undefined ? {} : { threshold }) };
          const tasks = tasksOf(world, responses).map((task, i) => ({ ...task, slots: slots?.[i] }));
          const expected = rankResponses(key, secret, tasks, options);
          const found = await ranking.rank(kept, 0, secret, of, slots, options);
          assert.deepEqual(found, expected, `limit ${limit}, threshold ${threshold}`);
          if (limit > 1 && limit < 3000 && threshold === undefined) assert.equal(found.length, limit);
        }
      await ranking.close();
      await release();
    });

  const GROUPED: [Metric, Profile, number, number[], Integrity?][] = [
    ['cosine', 'compact', 6, [1000, 30]],
    ['dot', 'compact', 6, [600, 64], 'strong'],
    ['euclidean', 'exact', 3, [300, 200]],
  ];
  for (const [metric, profile, dimension, counts, integrity = 'standard'] of GROUPED)
    it(`${profile}, ${metric}, ${integrity}, by groups: what the host finds`, async () => {
      const world = worldOf({ metric, profile, dimension, integrity }, counts);
      const { key, of } = world;
      const ranking = new CudaRanking(decrypting, key);
      const vector = vectorsOf(1, dimension, 5);
      const order: Order = metric === 'euclidean' ? 'ascending' : 'descending';
      const { kept, secret, responses, release } = await answers(world, vector);
      const filter = of.blocks.map(({ count }) => new Uint32Array(Math.ceil(count / 32)).fill(0x0f0f1234));
      // One group in all blocks, two, many, groups of one among them, and codes above any slot.
      const values: [string, (record: number, block: number) => number][] = [
        ['one', () => 1],
        ['two', (record) => 1 + (record % 2)],
        ['many', (record, block) => 1 + ((7 * record + block) % 97)],
        ['some', (record) => (record % 3 === 0 ? 0 : 1 + (record % 11))],
        ['large', (record) => 60_000 + (record % 500)],
        ['none', () => 0],
      ];
      for (const [field, codeOf] of values) {
        const codes = of.blocks.map(({ count }, i) => Uint32Array.from({ length: count }, (_, j) => codeOf(j, i)));
        const codesOf = (number: number) => codes[of.numbers.indexOf(number)];
        const groupOf = ({ block, slot }: Candidate) => codesOf(block)[slot] || undefined;
        const grouping = { field, source: codes, codesOf, groupOf };
        for (const slots of [undefined, filter])
          for (const [limit, threshold] of slots ? [[5]] : [[1], [200], [4, metric === 'euclidean' ? 1 : 0.1]]) {
            const options = { limit, order, query: vector, ...(threshold === undefined ? {} : { threshold }) };
            const best = (candidates: readonly Candidate[]) => {
              const groups = new GroupedRanking(limit, order);
              for (const each of candidates) groups.offer(each, groupOf(each));
              return groups.best();
            };
            const tasks = tasksOf(world, responses).map((task, i) => ({
              ...task,
              slots: slots?.[i],
              groups: codes[i],
            }));
            const expected = best(rankResponses(key, secret, tasks, options));
            const found = best(await ranking.rank(kept, 0, secret, of, slots, options, grouping));
            assert.deepEqual(found, expected, `${field}, limit ${limit}, threshold ${threshold}`);
          }
      }
      // Searches by different fields, and of another view, at the same time.
      const options = { limit: 6, order, query: vector };
      const tasks = tasksOf(world, responses);
      const views = [of, { ...of }];
      await Promise.all(
        values.map(async ([field, codeOf], v) => {
          const codes = of.blocks.map(({ count }, i) => Uint32Array.from({ length: count }, (_, j) => codeOf(j, i)));
          const groupOf = ({ block, slot }: Candidate) => codes[of.numbers.indexOf(block)][slot] || undefined;
          const grouping = { field, source: codes, codesOf: (n: number) => codes[of.numbers.indexOf(n)], groupOf };
          const best = (candidates: readonly Candidate[]) => {
            const groups = new GroupedRanking(6, order);
            for (const each of candidates) groups.offer(each, groupOf(each));
            return groups.best();
          };
          const expected = best(
            rankResponses(
              key,
              secret,
              tasks.map((task, i) => ({ ...task, groups: codes[i] })),
              options,
            ),
          );
          const found = await ranking.rank(kept, 0, secret, views[v % 2], undefined, options, grouping);
          assert.deepEqual(best(found), expected, field);
        }),
      );
      await ranking.close();
      await release();
    });

  /** A block in which a store has changed one coordinate of one record, as it can without a key. */
  function altered({ key }: World, encoded: Uint8Array, slot: number, by: number): BlockMatrix {
    const { parameters, galleryScale } = key.plan;
    const block = decodeBlock(encoded);
    const rows = block.rows.slice();
    const ring = Ring.of(parameters.n, parameters.primes);
    const [row, change] = ring.polys;
    const words = polyWords(parameters);
    change.residues.fill(0);
    for (const [i, p] of parameters.primes.entries())
      change.residues[i * parameters.n + slot] = Number(
        BigInt(Math.round((by * galleryScale) / 2 ** parameters.wideBits)) % BigInt(p),
      );
    ring.ntt(change);
    row.residues.set(rows.subarray(0, words));
    ring.add(row, row, change);
    rows.set(row.residues, 0);
    return blockMatrix({ ...block, rows });
  }

  for (const [metric, profile, by, integrity] of [
    ['cosine', 'compact', 0.5, 'strong'],
    ['dot', 'small', 0.9, 'strong'],
    ['cosine', 'exact', 3, 'standard'],
    ['euclidean', 'exact', 3, 'standard'],
  ] as const)
    it(`${profile}, ${metric}: refuses a response in which one score was changed, as the host does`, async () => {
      const world = worldOf({ metric, profile, dimension: 4, integrity }, [150, 40]);
      const { key, of, encoded } = world;
      const vector = vectorsOf(1, 4, 5);
      vector.set([0.7, 0.1, 0.1, 0.1]);
      const order: Order = metric === 'euclidean' ? 'ascending' : 'descending';
      const options = { limit: 3, order, query: vector };
      const own = deviceRows(key, 1);
      fillDeviceRow(key, own, 0, of.canariesOf(of.blocks[0]), undefined);
      const slot = [7, 8, 9, 10, 11, 12, 13, 14, 15].find((each) => !own.slots.includes(each))!;
      for (const isChanged of [false, true]) {
        const blocks = encoded.map((bytes, i) =>
          isChanged && i === 0 ? altered(world, bytes, slot, by) : blockMatrix(decodeBlock(bytes)),
        );
        const { kept, secret, responses, release } = await answersOf(key, blocks, vector);
        const ranking = new CudaRanking(decrypting, key);
        const found = ranking.rank(kept, 0, secret, of, undefined, options);
        const host = () => rankResponses(key, secret, tasksOf(world, responses), options);
        if (isChanged) {
          const message = profile === 'exact' ? /do not add up/ : /canaries of a block have other scores/;
          await rejects(found, message);
          assert.throws(host, { code: 'INTEGRITY', message });
        } else assert.deepEqual(await found, host());
        await ranking.close();
        await release();
      }
    });

  const rejects = (promise: Promise<unknown>, message: RegExp) =>
    assert.rejects(
      promise,
      (error) => error instanceof HersError && error.code === 'INTEGRITY' && message.test(error.message),
    );

  it('refuses what does not fit, as the host does', async () => {
    const world = worldOf({ metric: 'cosine', profile: 'compact', dimension: 8 }, [20, 30]);
    const { key, of } = world;
    const vector = vectorsOf(1, 8, 5);
    const options = { limit: 3, order: 'descending' as const, query: vector };
    const { kept, secret, release } = await answers(world, vector);
    const other = await answers(world, vector);
    const rank = async (changed: Partial<DeviceBlocks>, keptNow = kept, secretNow = secret, query = vector) => {
      const ranking = new CudaRanking(decrypting, key);
      try {
        return await ranking.rank(keptNow, 0, secretNow, { ...of, ...changed }, undefined, { ...options, query });
      } finally {
        await ranking.close();
      }
    };
    assert.equal((await rank({})).length, 3);
    const [first, second] = of.blocks;
    await rejects(rank({}, other.kept), /another query/);
    await rejects(rank({ blocks: [first, { ...second, count: 31 }] }), /another query, key or number of records/);
    await rejects(rank({ blocks: [first] }), /not part of this search/);
    const third = { ...second, id: '00'.repeat(16) };
    await rejects(rank({ blocks: [first, second, third], numbers: [0, 1, 2] }), /left out 1 of 3 blocks/);
    await rejects(rank({}, { ...kept, only: Uint32Array.of(0) }), /left out 1 of 2 blocks/);
    await rejects(rank({}, { ...kept, only: Uint32Array.of(0, 1, 0) }), /answered twice/);
    // Canaries of another block, another query vector, and another secret.
    await rejects(rank({ canariesOf: (block) => of.canariesOf({ ...block, id: '11'.repeat(16) }) }), /canaries/);
    await rejects(rank({}, kept, secret, vectorsOf(1, 8, 6)), /canaries/);
    await rejects(
      rank(
        {},
        kept,
        Object.assign(Object.create(other.secret), { queryId: secret.queryId, expose: () => other.secret.expose() }),
      ),
      /canaries|no score can have/,
    );
    await release();
    await assert.rejects(rank({}), /these are no responses/);
    await other.release();
  });

  const FOLLOWED: [Profile, Integrity][] = [
    ['compact', 'standard'],
    ['small', 'strong'],
    ['exact', 'standard'],
  ];
  for (const [profile, integrity] of FOLLOWED)
    it(`${profile}, ${integrity}: follows a gallery that grows, shrinks and loses records`, async () => {
      const world = worldOf({ metric: 'cosine', profile, dimension: 8, integrity }, [20, 30, 40]);
      const { key, of } = world;
      const ranking = new CudaRanking(decrypting, key);
      const vector = vectorsOf(1, 8, 5);
      const options = { limit: 200, order: 'descending' as const, query: vector };
      for (const numbers of [[0], [0, 1, 2], [2, 0], [1, 2]]) {
        const some = {
          ...of,
          blocks: numbers.map((i) => ({ ...of.blocks[i], dead: i === 2 ? [numbers.length] : [] })),
          numbers,
        };
        const { kept, secret, responses, release } = await answers(world, vector, numbers);
        const tasks = tasksOf({ ...world, of: some }, responses);
        const expected = rankResponses(key, secret, tasks, options);
        assert.deepEqual(await ranking.rank(kept, 0, secret, some, undefined, options), expected);
        await release();
      }
      await ranking.close();
    });

  it('a search in one process uses it, and finds what it must', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hers-device-'));
    let [yielded, keeps] = [0, 0];
    try {
      const store = await openStore(folder, { kernel: async () => CudaKernel.open({ addon }) });
      const search: Service['search'] = async function* (name, request, options) {
        const keep =
          options?.keep &&
          (async (kept: KeptResponses) => {
            keeps++;
            await options.keep!(kept);
          });
        for await (const response of store.search(name, request, { ...options, ...(keep ? { keep } : {}) })) {
          yielded++;
          yield response;
        }
      };
      const db = new Database(withMethods(store, { search }), { key: MasterSeed.generate() });
      const collection = await db.createCollection('faces', { dimension: 8, fields: { country: 'keyword' } });
      const vectors = vectorsOf(90, 8, 3);
      const vectorOf = (i: number) => vectors.slice(i * 8, (i + 1) * 8);
      const recordOf = (i: number) => ({ id: `r${i}`, vector: vectorOf(i), payload: { country: i % 2 ? 'fr' : 'de' } });
      await collection.upsert(Array.from({ length: 80 }, (_, i) => recordOf(i)));
      await collection.optimize();
      await collection.delete(['r7']);
      await collection.upsert([recordOf(85)]); // stays pending
      const best = async (i: number, options = {}) =>
        (await collection.search(vectorOf(i), { limit: 3, ...options })).matches.map(({ id }) => id);
      assert.equal((await best(5))[0], 'r5');
      assert.equal((await best(85))[0], 'r85');
      assert.ok(!(await best(7)).includes('r7'));
      const german = await best(5, { filter: { must: { field: 'country', match: 'de' } } });
      assert.ok(german.length === 3 && german.every((id) => Number(id.slice(1)) % 2 === 0), german.join());
      const { coverage } = await collection.search(vectorOf(1));
      assert.deepEqual(coverage, { searched: 80, total: 80 });
      const grouped = await collection.search(vectorOf(1), { groupBy: 'country', limit: 5 });
      const german2 = await best(1, { filter: { must: { field: 'country', match: 'de' } } });
      assert.deepEqual(
        grouped.matches.map(({ id }) => id),
        ['r1', german2[0]],
      );
      // A record that changes its group is found in the other one.
      await collection.updatePayload({ id: german2[0], payload: { country: 'fr' } });
      const regrouped = await collection.search(vectorOf(1), { groupBy: 'country', limit: 5 });
      const german3 = await best(1, { filter: { must: { field: 'country', match: 'de' } } });
      assert.notEqual(german3[0], german2[0]);
      assert.deepEqual(
        regrouped.matches.map(({ id }) => id),
        ['r1', german3[0]],
      );
      const several = await collection.searchBatch([vectorOf(1), vectorOf(2)], { limit: 1 });
      assert.deepEqual(
        several.map(({ matches }) => matches[0].id),
        ['r1', 'r2'],
      );
      for (const options of [{ profile: 'exact' }, { integrity: 'strong' }] as const) {
        const other = await db.createCollection(Object.values(options)[0], { dimension: 8, ...options });
        await other.upsert(Array.from({ length: 80 }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i) })));
        await other.optimize();
        const { matches } = await other.search(vectorOf(9), { limit: 2 });
        assert.deepEqual([matches[0].id, matches.length], ['r9', 2]);
      }
      assert.deepEqual({ yielded, isKept: keeps >= 10 }, { yielded: 0, isKept: true });
      await db.close();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
