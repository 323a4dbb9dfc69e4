// Records that cannot be written: they end an upsert, or are reported and left out.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type HersError, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { counts, vectorOf } from '../../testing/client.ts';
import { type Collection, Database, MasterSeed, type UpsertOptions, type VectorRecord } from '../index.ts';

const DIMENSION = 4;
const ends: (() => Promise<unknown>)[] = [];
/** How many calls have staged something. */
let staged = 0;
let db: Database;

before(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-upsert-'));
  const store = await openStore(folder);
  const watched = withMethods(store, {
    stageRecords: (...call: Parameters<typeof store.stageRecords>) => {
      staged++;
      return store.stageRecords(...call);
    },
  });
  db = new Database(watched, { key: MasterSeed.generate(), threads: 1 });
  ends.push(
    () => db.close(),
    () => rm(folder, { recursive: true }),
  );
});
after(async () => {
  for (const end of ends) await end();
});

let made = 0;
const newCollection = () => db.createCollection(`c${made++}`, { dimension: DIMENSION, fields: { age: 'number' } });

const good = (i: number): VectorRecord => ({ id: `r${i}`, vector: vectorOf(i, DIMENSION), payload: { age: i } });
const vector = vectorOf(1, DIMENSION);
const SECRET = 0.123456;

/** Everything that makes a record invalid, and what is said about it. */
const BAD: readonly (readonly [record: unknown, code: string, message: RegExp])[] = [
  [
    { id: 'x', vector: [SECRET, 2] },
    'INVALID_VECTOR',
    /^its vector has 2 coordinates, and the collection takes 4; use/,
  ],
  [{ id: 'x', vector: [0, 0, 0, 0] }, 'INVALID_VECTOR', /^its vector is zero/],
  [{ id: 'x', vector: Float32Array.of(SECRET, Number.NaN, 0, 0) }, 'INVALID_VECTOR', /^its vector holds NaN/],
  [{ id: 'x', vector: ['1', 2, 3, 4] }, 'INVALID_VECTOR', /^its vector holds something that is not a number/],
  [{ id: '', vector }, 'INVALID_ARGUMENT', /^a record id is a string that is not empty/],
  [{ id: 'half \ud800', vector }, 'INVALID_ARGUMENT', /surrogate/],
  [
    { id: 'x', vector, payload: { age: `${SECRET}` } },
    'INVALID_ARGUMENT',
    /^the record "x" has .* "age" .* not a finite/,
  ],
  [{ id: 'x', vector, payload: 1n }, 'INVALID_ARGUMENT', /^the payload of "x" cannot be written as JSON/],
  [{ id: 'x', vector, colour: SECRET }, 'INVALID_ARGUMENT', /colour/],
  [{ vector }, 'INVALID_ARGUMENT', /^a record is an object/],
  [null, 'INVALID_ARGUMENT', /^a record is an object/],
];

/** The same records in every way that an upsert takes them. */
const WAYS: Readonly<Record<string, (records: readonly VectorRecord[]) => Parameters<Collection['upsert']>[0]>> = {
  'an array': (records) => [...records],
  'an iterable': function* (records) {
    yield* records;
  },
  'a stream': async function* (records) {
    yield* records;
  },
};

for (const [way, given] of Object.entries(WAYS))
  describe(`an upsert of ${way}`, () => {
    it('names the first record that cannot be written, by its number and id', async () => {
      const faces = await newCollection();
      for (const [record, code, message] of BAD) {
        const all = [good(0), good(1), record as VectorRecord, good(2)];
        await assert.rejects(faces.upsert(given(all)), (error: HersError & { acknowledged: number }) => {
          const said = message.source.replace(/^\^/, '').replace(/^its vector/, 'the vector of "x"');
          assert.match(error.message, new RegExp(`^record 2: .*${said}`));
          assert.deepEqual([error.code, error.acknowledged], [code, 0]);
          assert.ok(!error.message.includes(`${SECRET}`), error.message);
          return true;
        });
      }
      assert.equal(await faces.count(), 0);
    });

    it('reports with onInvalid all that are left out, and writes the rest', async () => {
      const faces = await newCollection();
      const all = BAD.flatMap(([record], i) => [good(2 * i), record as VectorRecord, good(2 * i + 1)]);
      const heard: [VectorRecord, number, string][] = [];
      const progress: unknown[] = [];
      const result = await faces.upsert(given(all), {
        onInvalid: ({ record, number, error }) => {
          const [, , message] = BAD[(number - 1) / 3];
          assert.match(error.message, message);
          assert.ok(!error.message.includes(`${SECRET}`), error.message);
          heard.push([record, number, error.code]);
        },
        onProgress: (each) => progress.push(each),
      });
      assert.deepEqual(
        heard,
        BAD.map(([record, code], i) => [record, 3 * i + 1, code]),
      );
      const inserted = 2 * BAD.length;
      assert.deepEqual(result, counts({ inserted, invalid: BAD.length }));
      const total = way === 'an array' ? { total: inserted } : {};
      assert.deepEqual(progress, [{ acknowledged: inserted, ...total }]);
      const ids = Array.from({ length: inserted }, (_, i) => `r${i}`);
      assert.deepEqual(await Array.fromAsync(faces.list()), ids);
    });

    it('goes on counting from batch to batch', async () => {
      const faces = await newCollection();
      const count = 8 * faces.plan.capacity + 30;
      const places = [0, 7, count - 25, count - 1];
      const all = Array.from({ length: count }, (_, i) =>
        places.includes(i) ? { id: `r${i}`, vector: [1] } : { id: `r${i}`, vector: vectorOf(i, DIMENSION) },
      );
      const numbers: number[] = [];
      const onInvalid: UpsertOptions['onInvalid'] = ({ record, number }) => {
        assert.equal(record.id, `r${number}`);
        numbers.push(number);
      };
      const { inserted, invalid } = await faces.upsert(given(all), { onInvalid });
      assert.deepEqual([inserted, invalid, numbers], [count - 4, 4, places]);
      // The payloads of an array are made into JSON twice, and come back all the same.
      await faces.upsert(given([good(1)]));
      assert.deepEqual((await faces.get('r1'))[0].payload, { age: 1 });
    });

    it('ends with what onInvalid throws', async () => {
      const faces = await newCollection();
      const enough = new Error('enough');
      const onInvalid = () => {
        throw enough;
      };
      const all = [good(0), BAD[0][0] as VectorRecord, good(1)];
      await assert.rejects(faces.upsert(given(all), { onInvalid }), enough);
      assert.equal(await faces.count(), 0);
    });
  });

it('an array is checked to its end before anything of it is staged; a stream as it comes', async () => {
  const faces = await newCollection();
  const count = 16 * faces.plan.capacity + 2;
  const all: VectorRecord[] = Array.from({ length: count }, (_, i) => ({
    id: `r${i}`,
    vector: i === count - 1 ? [1] : vectorOf(i, DIMENSION),
  }));
  staged = 0;
  await assert.rejects(faces.upsert(all), { code: 'INVALID_VECTOR', message: new RegExp(`^record ${count - 1}: `) });
  assert.deepEqual([staged, await faces.count()], [0, 0]);
  await assert.rejects(faces.upsert(all.values()), { code: 'INVALID_VECTOR', acknowledged: count - 2 });
  assert.equal(await faces.count(), count - 2);
});

it('an array with a hole in it has no record there', async () => {
  const faces = await newCollection();
  const all = [good(0)];
  all.length = 2;
  await assert.rejects(faces.upsert(all), /^HersError: record 1: a record is an object/);
});

it('a stream is asked for the next record when the invalid one was reported', async () => {
  const faces = await newCollection();
  let last = -1;
  const records = async function* () {
    for (let i = 0; i < 20; i++) {
      last = i;
      yield i % 3 === 0 ? { id: `r${i}`, vector: [] } : good(i);
    }
  };
  const { invalid } = await faces.upsert(records(), { onInvalid: ({ number }) => assert.equal(number, last) });
  assert.equal(invalid, 7);
});
