// Fields and filters in a collection, as an application uses them: against the obvious evaluator
// over plain records.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Metric, Profile } from '@hers/scheme';
import { HersError, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { type Call, scoreOf, vectorOf, watched } from '../testing/client.ts';
import { passesObviously } from '../testing/filters.ts';
import {
  type Collection,
  connect,
  Database,
  type ExpiryError,
  type Fields,
  type Filter,
  InMemoryVersions,
  MasterSeed,
  type Payload,
  type SearchOptions,
  type VectorRecord,
} from './index.ts';
import { type Choice, Choices } from './search/choice.ts';

const folders: string[] = [];
const temporary = async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-filters-'));
  folders.push(folder);
  return folder;
};
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

const DIMENSION = 8;
const FIELDS = {
  country: 'keyword',
  age: 'number',
  enrolled: 'date',
  tags: 'keyword[]',
  active: 'boolean',
} as const satisfies Fields;
const COUNTRIES = ['NL', 'NLX', 'DE', 'FR', 'BE'];
const TAGS = ['vip', 'staff', 'guest'];

/** Some values are missing, some null, some lists empty. */
function payloadOf(i: number): Payload {
  return {
    ...(i % 11 === 0 ? {} : { country: COUNTRIES[i % 5] }),
    age: i % 13 === 0 ? null : i % 90,
    enrolled: new Date(Date.UTC(2020, i % 60, 1 + (i % 28))).toISOString(),
    ...(i % 7 === 0 ? {} : { tags: TAGS.filter((_, t) => (i >> t) & 1) }),
    active: i % 2 === 0,
    name: `person ${i}`,
  };
}

const recordOf = (i: number, payload = payloadOf(i)): VectorRecord => ({
  id: `r${i}`,
  vector: vectorOf(i, DIMENSION),
  payload,
});
const recordsOf = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => recordOf(from + i));

const FILTERS: Filter[] = [
  {},
  { must: { field: 'country', match: 'NL' } },
  {
    must: [
      { field: 'country', match: { prefix: 'NL' } },
      { field: 'age', range: { gte: 18, lt: 30 } },
    ],
  },
  {
    should: [
      { field: 'tags', match: 'vip' },
      { field: 'age', match: { any: [1, 2, 3] } },
    ],
  },
  { must_not: { field: 'tags', match: { any: ['vip', 'staff'] } } },
  { must: { field: 'country', empty: true }, must_not: { field: 'active', match: false } },
  { must: { field: 'enrolled', range: { gt: '2022-03-01', lte: '2023-01-01T00:00:00+01:00' } } },
  { must: { hasId: ['r3', 'r2050', 'r99999'] } },
  { must: { field: 'country', match: 'nowhere' } },
];

describe('a filter is evaluated while the store works', () => {
  const count = 2600; // two blocks
  const probe = vectorOf(4711, DIMENSION);
  for (const [when, waitMs] of Object.entries({ 'at once': 0, late: 15 }))
    it(`and is exact where answers come ${when}`, async () => {
      const store = await openStore(await temporary());
      const choosing: number[] = [];
      let answered = 0;
      const waiting = withMethods(store, {
        async *search(...args) {
          for await (const response of store.search(...args)) {
            if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
            answered++;
            yield response;
          }
        },
      });
      await using db = new Database(waiting, { key: MasterSeed.generate(), threads: 1 });
      const people = await db.createCollection('people', { dimension: DIMENSION, fields: FIELDS });
      const plain = new Plain();
      plain.put(recordsOf(0, count));
      await people.upsert(recordsOf(0, count));
      await people.optimize();
      const { of } = Choices.prototype;
      Choices.prototype.of = function (...args) {
        const choice = of.apply(this, args)!;
        const slots: Choice['slots'] = (block) => {
          choosing.push(answered);
          return choice.slots(block);
        };
        return { ...choice, slots };
      };
      try {
        for (const filter of FILTERS.slice(1)) {
          choosing.length = answered = 0;
          const { matches } = await people.search(probe, { filter, limit: 5 });
          const expected = plain
            .passing(filter)
            .map(({ id, vector }) => ({ id, score: scoreOf('cosine', probe, vector) }))
            .sort((a, b) => b.score - a.score)
            .slice(0, 5);
          assert.equal(matches.length, expected.length);
          for (const [i, { score }] of matches.entries()) assert.ok(Math.abs(score - expected[i].score) < 0.02);
          const ids = new Set(plain.passing(filter).map(({ id }) => id));
          for (const { id } of matches) assert.ok(ids.has(id), `${id} does not pass ${JSON.stringify(filter)}`);
          // Each block once: before the first answer where that takes long, or with its own.
          assert.equal(choosing.length, 2);
          if (waitMs > 0) assert.equal(choosing[0], 0);
        }
      } finally {
        Choices.prototype.of = of;
      }
    });

  it('and an error of it is that of the search', async () => {
    await using db = await connect(`file:${await temporary()}`, { key: MasterSeed.generate(), threads: 1 });
    const people = await db.createCollection('people', { dimension: DIMENSION, fields: FIELDS });
    await people.upsert(recordsOf(0, 50));
    await people.optimize();
    const { of } = Choices.prototype;
    Choices.prototype.of = () => ({
      slots: () => {
        throw new HersError('INTEGRITY', 'the column does not fit');
      },
      isPending: () => true,
    });
    try {
      await assert.rejects(people.search(probe, { filter: FILTERS[1] }), { message: 'the column does not fit' });
    } finally {
      Choices.prototype.of = of;
    }
  });
});

class Plain {
  readonly records = new Map<string, VectorRecord>();
  fields: Fields = FIELDS;

  put(records: readonly VectorRecord[]) {
    for (const record of records) this.records.set(record.id, record);
  }

  passing(filter: Filter): VectorRecord[] {
    return [...this.records.values()].filter((each) => passesObviously(filter, this.fields, each.payload!, each.id));
  }

  async check(collection: Collection, metric: Metric = 'cosine', tolerance = 0.02): Promise<void> {
    const probe = vectorOf(31337, DIMENSION);
    for (const filter of FILTERS) {
      const text = JSON.stringify(filter);
      const passing = this.passing(filter);
      const ids = new Set(passing.map(({ id }) => id));
      assert.equal(await collection.count({ filter }), ids.size, text);
      const listed = await Array.fromAsync(collection.list({ filter }));
      assert.deepEqual(new Set(listed), ids, text);
      assert.equal(listed.length, ids.size);
      const { matches, coverage } = await collection.search(probe, { filter, limit: 7, select: ['country', 'tags'] });
      assert.deepEqual(coverage, { searched: this.records.size, total: this.records.size });
      const sign = metric === 'euclidean' ? 1 : -1;
      const best = passing
        .map(({ vector }) => scoreOf(metric, vector as Float32Array, probe))
        .sort((a, b) => sign * (a - b))
        .slice(0, 7);
      assert.equal(matches.length, best.length, text);
      for (const [i, { id, score, fields }] of matches.entries()) {
        assert.ok(ids.has(id), `${id} ${text}`);
        assert.ok(Math.abs(score - best[i]) < tolerance, `${score} ${best[i]} ${text}`);
        const { country, tags } = this.records.get(id)!.payload as { country?: string; tags?: string[] };
        assert.deepEqual(fields, {
          ...(country === undefined || country === null ? {} : { country }),
          ...(tags === undefined ? {} : { tags: tags.toSorted() }),
        });
      }
    }
  }
}

const cases: [Profile, Metric][] = [
  ['compact', 'cosine'],
  ['exact', 'euclidean'],
  ['small', 'dot'],
];
for (const [profile, metric] of cases)
  it(`filters are exact under ${profile}, ${metric}, over blocks and pending records`, async () => {
    const key = MasterSeed.generate();
    const dimension = DIMENSION;
    const bound = metric === 'cosine' ? {} : { normBound: 1.01 };
    await using db = await connect(`file:${await temporary()}`, { key, threads: 1 });
    // `small` is refused where it is no smaller, so it has more dimensions than it needs.
    const wide = profile === 'small' ? 64 : dimension;
    const people = await db.createCollection('people', { dimension: wide, profile, metric, fields: FIELDS, ...bound });
    const plain = new Plain();
    const widened = (records: VectorRecord[]) =>
      records.map((record) => ({
        ...record,
        vector: Float32Array.from({ length: wide }, (_, i) => (record.vector as Float32Array)[i] ?? 0),
      }));
    const written = recordsOf(0, 300);
    await people.upsert(widened(written));
    plain.put(written);
    await people.optimize();
    const more = recordsOf(250, 400).map((_, i) => recordOf(250 + i, payloadOf(i)));
    await people.upsert(widened(more));
    plain.put(more);
    await people.delete(['r7', 'r301']);
    plain.records.delete('r7');
    plain.records.delete('r301');
    if (wide === dimension) await plain.check(people, metric, profile === 'exact' ? 0.005 : 0.02);
    else
      for (const filter of FILTERS)
        assert.deepEqual(
          new Set(await Array.fromAsync(people.list({ filter }))),
          new Set(plain.passing(filter).map(({ id }) => id)),
        );
  });

describe('a collection with fields', () => {
  const key = MasterSeed.generate();
  const made = async (folder: string, fields: Fields = FIELDS) => {
    const db = await connect(`file:${folder}`, { key, threads: 1 });
    return { db, people: await db.createCollection('people', { dimension: DIMENSION, fields }) };
  };

  it('is read again from its folder, and goes through key rotation, with full blocks', async () => {
    const folder = await temporary();
    const { db, people } = await made(folder);
    const plain = new Plain();
    const all = recordsOf(0, 2100);
    await people.upsert(all);
    plain.put(all);
    await plain.check(people);
    await db.close();
    await using again = await connect(`file:${folder}`, { key, threads: 1 });
    const reopened = await again.collection('people');
    assert.deepEqual(await reopened.fields(), FIELDS);
    assert.deepEqual((await again.describe('people')).fields, FIELDS);
    await plain.check(reopened);
    await reopened.rotateKey();
    await plain.check(reopened);
    assert.deepEqual((await reopened.get('r5'))[0].payload, payloadOf(5));
  });

  it('gets fields later, drops them, and has them again', async () => {
    const { db, people } = await made(await temporary(), {});
    const plain = new Plain();
    plain.put(recordsOf(0, 120));
    await people.upsert(recordsOf(0, 100));
    await people.optimize();
    await people.upsert(recordsOf(100, 120));
    await assert.rejects(people.count({ filter: FILTERS[1] }), /no field|has no fields|none/);
    const progress: unknown[] = [];
    await people.addFields(FIELDS, { onProgress: (each) => progress.push(each) });
    assert.deepEqual(progress, [{ done: 1, total: 1 }]);
    await plain.check(people);
    await people.addFields({ country: 'keyword' });
    await assert.rejects(people.addFields({ country: 'number' }), {
      code: 'INVALID_ARGUMENT',
      message: /keyword already/,
    });
    await people.dropFields('country');
    await assert.rejects(people.count({ filter: FILTERS[1] }), { code: 'INVALID_ARGUMENT', message: /country/ });
    assert.deepEqual(Object.keys(await people.fields()), Object.keys(FIELDS).slice(1));
    await people.addFields({ country: 'keyword' });
    await plain.check(people);
    await db.close();
  });

  it('that could not be completed says so, and is completed by the same call or by optimize', async () => {
    const ending = new AbortController();
    let isStopping = false;
    const store = await openStore(await temporary());
    const service = withMethods(store, {
      async commit(...args) {
        const answer = await store.commit(...args);
        if (isStopping) ending.abort(new Error('enough'));
        return answer;
      },
    });
    await using db = new Database(service, { key, threads: 1 });
    const people = await db.createCollection('people', { dimension: DIMENSION });
    await people.upsert(recordsOf(0, 50));
    await people.optimize();
    isStopping = true;
    await assert.rejects(people.addFields(FIELDS, { signal: ending.signal }), /enough/);
    isStopping = false;
    await assert.rejects(people.search(vectorOf(1, DIMENSION), { filter: FILTERS[1] }), {
      code: 'INVALID_ARGUMENT',
      message: /1 of 1 blocks do not have it yet/,
    });
    await people.optimize();
    const plain = new Plain();
    plain.put(recordsOf(0, 50));
    await plain.check(people);
  });

  it('refuses a value of another type, and the field with it, and writes nothing', async () => {
    const { db, people } = await made(await temporary());
    const wrong = recordOf(1, { country: 7 });
    await assert.rejects(people.upsert([recordOf(0), wrong]), { code: 'INVALID_ARGUMENT', message: /"r1".*"country"/ });
    assert.equal(await people.count(), 0);
    await people.upsert(recordOf(2, { year: 'x' }));
    await assert.rejects(people.addFields({ year: 'number' }), { code: 'INVALID_ARGUMENT', message: /"r2".*"year"/ });
    assert.deepEqual(await people.fields(), FIELDS);
    await db.close();
  });

  it('changes payloads without encrypting vectors again', async () => {
    const folder = await temporary();
    const calls: Call[] = [];
    const service = watched(await openStore(folder), calls);
    await using db = new Database(service, { key, threads: 1 });
    const people = await db.createCollection('people', { dimension: DIMENSION, fields: FIELDS });
    const plain = new Plain();
    plain.put(recordsOf(0, 60));
    await people.upsert(recordsOf(0, 40));
    await people.optimize();
    await people.upsert(recordsOf(40, 60));
    calls.length = 0;
    const changes = [3, 8, 45].map((i) => ({ id: `r${i}`, payload: { country: 'NL', age: i, name: 'new' } }));
    assert.equal(await people.updatePayload(changes), 3);
    assert.equal(await people.updatePayload(changes), 0);
    assert.ok(!calls.some(({ method }) => method === 'stageBlock'));
    for (const { id, payload } of changes) plain.put([{ ...plain.records.get(id)!, payload }]);
    await plain.check(people);
    await using other = new Database(service, { key, threads: 1 });
    const read = await other.collection('people');
    await plain.check(read);
    assert.deepEqual((await read.get('r8'))[0].payload, changes[1].payload);
    await people.updatePayload({ id: 'r3' });
    plain.put([{ ...plain.records.get('r3')!, payload: {} }]);
    await plain.check(people);
    await assert.rejects(people.updatePayload({ id: 'nobody', payload: {} }), { code: 'NOT_FOUND' });
    await assert.rejects(people.updatePayload({ id: 'r8', payload: { age: 'old' } }), { code: 'INVALID_ARGUMENT' });
    await people.optimize();
    await plain.check(people);
  });

  it('deletes by a filter, and lists in pages', async () => {
    const { db, people } = await made(await temporary());
    const plain = new Plain();
    plain.put(recordsOf(0, 90));
    await people.upsert(recordsOf(0, 70));
    await people.optimize();
    await people.upsert(recordsOf(70, 90));
    for (const filter of [undefined, FILTERS[3]]) {
      const whole = await Array.fromAsync(people.list(filter ? { filter } : {}));
      const paged: string[] = [];
      for (let last: string | undefined; ; last = paged.at(-1)) {
        const page = await Array.fromAsync(
          people.list({ limit: 7, ...(last === undefined ? {} : { after: last }), ...(filter ? { filter } : {}) }),
        );
        paged.push(...page);
        if (page.length < 7) break;
      }
      assert.deepEqual(paged, whole);
    }
    await assert.rejects(Array.fromAsync(people.list({ after: 'nobody' })), { code: 'NOT_FOUND' });
    const filter: Filter = { must: { field: 'country', match: 'DE' } };
    const gone = plain.passing(filter);
    assert.equal(await people.delete({ filter }), gone.length);
    for (const { id } of gone) plain.records.delete(id);
    await plain.check(people);
    await assert.rejects(people.delete({} as { filter: Filter }), { code: 'INVALID_ARGUMENT' });
    assert.equal(await people.delete({ filter: {} }), plain.records.size);
    assert.equal(await people.count(), 0);
    await db.close();
  });

  it('keeps two writers and a change of fields apart', async () => {
    const folder = await temporary();
    const service = await openStore(folder);
    await using one = new Database(service, { key, threads: 1 });
    await using two = new Database(service, { key, threads: 1 });
    const a = await one.createCollection('people', { dimension: DIMENSION, fields: { country: 'keyword' } });
    const b = await two.collection('people');
    await a.upsert(recordsOf(0, 40));
    await Promise.all([a.addFields(FIELDS), b.upsert(recordsOf(40, 80)), b.delete('r5')]);
    const plain = new Plain();
    plain.put(recordsOf(0, 80));
    plain.records.delete('r5');
    await plain.check(a);
    await plain.check(b);
    await b.optimize();
    await plain.check(b);
    await plain.check(a);
  });

  it('refuses a value that does not fit a field that another client has added meanwhile', async () => {
    const service = await openStore(await temporary());
    await using one = new Database(service, { key, threads: 1 });
    await using two = new Database(service, { key, threads: 1 });
    const a = await one.createCollection('people', { dimension: DIMENSION });
    const b = await two.collection('people');
    await b.count();
    await a.addFields({ age: 'number' });
    await assert.rejects(b.upsert(recordOf(1, { age: 'old' })), { code: 'INVALID_ARGUMENT', message: /"r1".*"age"/ });
    // Nobody could open the collection if it had been written.
    await using three = new Database(service, { key, threads: 1 });
    assert.equal(await (await three.collection('people')).count(), 0);
    await b.upsert(recordOf(1, { age: 36 }));
    assert.equal(await a.count({ filter: { must: { field: 'age', match: 36 } } }), 1);
  });

  it('lists by ids what there was when it began, whatever is replaced meanwhile', async () => {
    const { db, people } = await made(await temporary(), {});
    await people.upsert(recordsOf(0, 2 * people.plan.capacity));
    // In two blocks, of which either may be the first.
    const all = await Array.fromAsync(people.list());
    const ids = [all[0], all.at(-1)!];
    const filter: Filter = { must: { hasId: ids } };
    const listed: string[] = [];
    for await (const id of people.list({ filter })) {
      if (listed.push(id) > 1) continue;
      await people.upsert(recordOf(Number(ids[1].slice(1)), { changed: true }));
      await people.count({ filter });
    }
    assert.deepEqual(listed, ids);
    await db.close();
  });
});

describe('groups', () => {
  const key = MasterSeed.generate();

  it('give the best match of each, wherever its records are', async () => {
    await using db = await connect(`file:${await temporary()}`, { key });
    const people = await db.createCollection('people', {
      ...{ dimension: DIMENSION, profile: 'exact' },
      fields: { person: 'keyword', country: 'keyword' },
    });
    const all = Array.from({ length: 400 }, (_, i) =>
      recordOf(i, { ...(i % 10 === 0 ? {} : { person: `p${(i * 7) % 23}` }), country: COUNTRIES[i % 5] }),
    );
    for (let at = 0; at < 400; at += 100) {
      await people.upsert(all.slice(at, at + 100));
      // Blocks of their own, so that groups are spread over several.
      if (at < 300) await people.rotateKey();
    }
    for (const limit of [1, 5, 30, 100])
      for (const filter of [undefined, { must: { field: 'country', match: 'NL' } } satisfies Filter]) {
        const probe = vectorOf(77 + limit, DIMENSION);
        const passing = all.filter((_, i) => !filter || COUNTRIES[i % 5] === 'NL');
        const best = new Map<string, number>();
        for (const { id, vector, payload } of passing) {
          const group = (payload as { person?: string }).person ?? `alone ${id}`;
          best.set(group, Math.max(best.get(group) ?? -2, scoreOf('cosine', vector as Float32Array, probe)));
        }
        const expected = [...best.values()].sort((a, b) => b - a).slice(0, limit);
        const { matches } = await people.search(probe, {
          ...{ limit, groupBy: 'person', select: ['person'] },
          ...(filter ? { filter } : {}),
        });
        const groups = matches.map(({ id, fields }) => fields!.person ?? id);
        assert.equal(new Set(groups).size, groups.length);
        assert.equal(matches.length, expected.length);
        for (const [i, { score }] of matches.entries()) assert.ok(Math.abs(score - expected[i]) < 0.005);
      }
    const probe = vectorOf(5, DIMENSION);
    const scores = all
      .filter(({ payload }) => (payload as { person?: string }).person === 'p3')
      .map(({ vector }) => scoreOf('cosine', vector as Float32Array, probe));
    const group = { field: 'person', value: 'p3' };
    for (const showBlocks of [false, true]) {
      const best = await people.verify(group, probe, { threshold: 0.1, showBlocks });
      assert.ok(Math.abs(best.score - Math.max(...scores)) < 0.005);
      assert.equal(best.match, Math.max(...scores) >= 0.1);
      const { score } = await people.verify(group, probe, { combine: 'mean', showBlocks });
      assert.ok(Math.abs(score - scores.reduce((a, b) => a + b) / scores.length) < 0.005);
    }
    await assert.rejects(people.verify({ field: 'person', value: 'nobody' }, probe), { code: 'NOT_FOUND' });
    await assert.rejects(people.search(probe, { groupBy: 'nothing' }), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(people.search(probe, { groupBy: 'person', rerank: true }), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(people.search(probe, { select: ['nothing'] }), { code: 'INVALID_ARGUMENT' });
  });
});

describe('partitions', () => {
  const key = MasterSeed.generate();
  const fields = { site: 'keyword', age: 'number' } as const;
  const sited = (i: number) => recordOf(i, { ...(i % 4 === 3 ? {} : { site: `s${i % 4}` }), age: i });

  it('have blocks of their own, and a search of some scans only those', async () => {
    const calls: Call[] = [];
    const service = watched(await openStore(await temporary()), calls);
    await using db = new Database(service, { key, threads: 1 });
    const options = { dimension: DIMENSION, profile: 'exact', fields, partitionBy: 'site' } as const;
    const people = await db.createCollection('people', options);
    assert.equal((await db.describe('people')).partitionBy, 'site');
    const all = Array.from({ length: 200 }, (_, i) => sited(i));
    await people.upsert(all.slice(0, 160));
    const blocks = async () => (await db.describe('people')).blocks;
    assert.equal(await blocks(), 0);
    await people.optimize();
    assert.equal(await blocks(), 4, 'three sites, and those without');
    await people.optimize();
    assert.equal(await blocks(), 4);
    await people.upsert(all.slice(160));
    const check = async () => {
      for (const partitions of [['s1'], ['s0', 's2'], ['nowhere']])
        for (const filter of [undefined, { must: { field: 'age', range: { lt: 170 } } } satisfies Filter]) {
          const probe = vectorOf(99, DIMENSION);
          calls.length = 0;
          const found = await people.search(probe, { partitions, limit: 5, ...(filter ? { filter } : {}) });
          const asked = calls.find(({ method }) => method === 'search')!.args[1] as { blocks: Uint8Array[] };
          assert.equal(asked.blocks.length, partitions.filter((name) => name !== 'nowhere').length);
          const inThem = all.filter(({ payload }) => partitions.includes((payload as { site: string }).site));
          assert.deepEqual(found.coverage, { searched: inThem.length, total: inThem.length });
          const best = inThem
            .filter(({ payload }) => !filter || (payload as { age: number }).age < 170)
            .map(({ vector }) => scoreOf('cosine', vector as Float32Array, probe))
            .sort((a, b) => b - a)
            .slice(0, 5);
          assert.equal(found.matches.length, best.length);
          for (const [i, { score }] of found.matches.entries()) assert.ok(Math.abs(score - best[i]) < 0.005);
        }
      assert.equal((await people.search(vectorOf(3, DIMENSION), { limit: 1 })).matches[0].id, 'r3');
    };
    await check();
    await people.optimize();
    assert.equal(await blocks(), 4);
    await check();
    await people.rotateKey();
    await check();
    await using other = new Database(service, { key, threads: 1 });
    assert.equal(await (await other.collection('people')).count(), 200);
    await assert.rejects(people.updatePayload({ id: 'r1', payload: { site: 's2' } }), {
      code: 'INVALID_ARGUMENT',
      message: /another partition/,
    });
    await people.updatePayload({ id: 'r1', payload: { site: 's1', age: 500 } });
    await people.upsert({ ...sited(2), payload: { site: 's1' } });
    const { matches } = await people.search(vectorOf(2, DIMENSION), { partitions: ['s1'], limit: 1 });
    assert.equal(matches[0].id, 'r2');
    await assert.rejects(people.dropFields(['age', 'site']), { code: 'INVALID_ARGUMENT' });
    assert.deepEqual(await people.fields(), fields, 'all or none');
    await assert.rejects(people.search(vectorOf(2, DIMENSION), { partitions: [] }), { code: 'INVALID_ARGUMENT' });
  });

  it('are named by a keyword field, when the collection is made', async () => {
    await using db = await connect(`file:${await temporary()}`, { key, threads: 1 });
    const make = (partitionBy: string) => db.createCollection('x', { dimension: 4, fields, partitionBy });
    await assert.rejects(make('age'), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(make('other'), { code: 'INVALID_ARGUMENT' });
    const plain = await db.createCollection('x', { dimension: 4, fields });
    await assert.rejects(plain.search([1, 0, 0, 0], { partitions: ['s1'] }), {
      code: 'INVALID_ARGUMENT',
      message: /no partitions/,
    });
  });
});

describe('expiry', () => {
  it('says in its error what was deleted all the same, so that there is a receipt of it', async () => {
    let isFull = false;
    class Forgetful extends InMemoryVersions {
      override update(...args: Parameters<InMemoryVersions['update']>) {
        return isFull ? Promise.reject(new Error('ENOSPC, says the test')) : super.update(...args);
      }
    }
    const store = await openStore(await temporary());
    await using db = new Database(store, { key: MasterSeed.generate(), versions: new Forgetful(), threads: 1 });
    const people = await db.createCollection('people', { dimension: DIMENSION, fields: { expires: 'date' } });
    const past = new Date(Date.now() - 60_000).toISOString();
    await people.upsert([recordOf(0, { expires: past }), recordOf(1, {}), recordOf(2, { expires: past })]);
    const { version } = await store.getCollection('people');
    isFull = true;
    const error: ExpiryError = await people.expire({ withIds: true }).then(
      () => assert.fail('it must fail'),
      (reason) => reason,
    );
    assert.match(error.message, /^the change was made, but/);
    assert.deepEqual([error.receipt?.count, error.receipt?.ids?.toSorted()], [2, ['r0', 'r2']]);
    assert.equal(error.receipt?.version, version + 1);
    isFull = false;
    assert.deepEqual(await Array.fromAsync(people.list()), ['r1']);
  });

  it('hides records from their moment on, in blocks and pending, and deletes them with a receipt', async () => {
    const key = MasterSeed.generate();
    await using db = await connect(`file:${await temporary()}`, { key, threads: 1 });
    const people = await db.createCollection('people', {
      ...{ dimension: DIMENSION, profile: 'exact' },
      fields: { expires: 'date', country: 'keyword' },
    });
    const [past, future] = [-60_000, 3_600_000].map((ms) => new Date(Date.now() + ms).toISOString());
    const expiring = (i: number) =>
      recordOf(i, { country: 'NL', ...(i % 3 === 0 ? { expires: past } : i % 3 === 1 ? { expires: future } : {}) });
    const all = Array.from({ length: 60 }, (_, i) => expiring(i));
    await people.upsert(all.slice(0, 30));
    await people.optimize();
    await people.upsert(all.slice(30));
    const live = all.filter((_, i) => i % 3 !== 0).map(({ id }) => id);
    const check = async () => {
      assert.deepEqual((await Array.fromAsync(people.list())).toSorted(), live.toSorted());
      assert.equal(await people.count(), live.length);
      assert.equal(await people.count({ filter: { must: { field: 'country', match: 'NL' } } }), live.length);
      for (const i of [3, 33]) {
        const { matches } = await people.search(vectorOf(i, DIMENSION), { limit: 100 });
        assert.deepEqual(new Set(matches.map(({ id }) => id)), new Set(live));
        await assert.rejects(people.verify(`r${i}`, vectorOf(i, DIMENSION)), { code: 'NOT_FOUND' });
        assert.deepEqual(await people.get(`r${i}`), []);
      }
    };
    await check();
    const dry = await people.expire({ isDryRun: true, withIds: true });
    assert.deepEqual(
      dry.ids?.toSorted(),
      all
        .filter((_, i) => i % 3 === 0)
        .map(({ id }) => id)
        .toSorted(),
    );
    await check();
    const receipt = await people.expire();
    assert.equal(receipt.count, 20);
    assert.equal(receipt.handles?.length, 20);
    assert.equal(receipt.version, dry.version + 1);
    assert.notEqual(receipt.manifestHash, dry.manifestHash);
    assert.equal((await people.expire()).count, 0);
    await people.upsert(recordOf(90, { expires: past }));
    await assert.rejects(people.dropFields('expires'), { code: 'INVALID_ARGUMENT', message: /expire them first/ });
    await people.expire();
    await check();
    await people.upsert(recordOf(3, { expires: future }));
    assert.equal((await people.verify('r3', vectorOf(3, DIMENSION))).score > 0.99, true);
    await assert.rejects(db.createCollection('other', { dimension: 4, fields: { expires: 'number' } }), {
      code: 'INVALID_ARGUMENT',
    });
    const none = await db.createCollection('none', { dimension: 4 });
    await assert.rejects(none.expire(), { code: 'INVALID_ARGUMENT', message: /nothing expires/ });
  });
});

describe('what the store sees', () => {
  const shape = (calls: readonly Call[]) =>
    calls.map(({ method, args, out }) => [
      method,
      JSON.stringify(args, (_, value) => (value instanceof Uint8Array ? value.length : value)),
      out.map(({ length }) => length),
    ]);

  it('is the same with and without a filter, a selection or groups', async () => {
    const key = MasterSeed.generate();
    const calls: Call[] = [];
    await using db = new Database(watched(await openStore(await temporary()), calls), { key, threads: 1 });
    const people = await db.createCollection('people', { dimension: DIMENSION, fields: FIELDS });
    await people.upsert(recordsOf(0, 100));
    await people.optimize();
    await people.upsert(recordsOf(100, 120));
    const probe = vectorOf(1, DIMENSION);
    const traffic = async (options: SearchOptions) => {
      calls.length = 0;
      await people.search(probe, { limit: 5, ...options });
      return shape(calls);
    };
    const without = await traffic({});
    assert.ok(without.some(([method]) => method === 'search'));
    for (const filter of FILTERS) assert.deepEqual(await traffic({ filter }), without);
    assert.deepEqual(await traffic({ select: ['country', 'tags'] }), without);
    assert.deepEqual(await traffic({ groupBy: 'country' }), without);
    const counting = async (filter?: Filter) => {
      calls.length = 0;
      await people.count(filter ? { filter } : {});
      await Array.fromAsync(people.list(filter ? { filter } : {}));
      return shape(calls);
    };
    const counted = await counting();
    for (const filter of FILTERS) assert.deepEqual(await counting(filter), counted);
  });

  it('holds no value of a field in the clear', async () => {
    const key = MasterSeed.generate();
    const calls: Call[] = [];
    await using db = new Database(watched(await openStore(await temporary()), calls), { key, threads: 1 });
    const people = await db.createCollection('people', { dimension: DIMENSION, fields: { secret: 'keyword' } });
    await people.upsert(Array.from({ length: 50 }, (_, i) => recordOf(i, { secret: `Wassenaar-${i % 5}` })));
    await people.optimize();
    await people.search(vectorOf(1, DIMENSION), { filter: { must: { field: 'secret', match: 'Wassenaar-1' } } });
    const bytes = calls.flatMap(({ args, out }) => [
      Buffer.from(
        JSON.stringify(args, (_, value) =>
          value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value,
        ),
      ),
      ...out.map((each) => Buffer.from(each)),
    ]);
    for (const each of bytes) {
      assert.ok(!each.includes('Wassenaar'));
      assert.ok(!each.includes('secret"'));
    }
  });
});
