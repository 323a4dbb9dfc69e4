import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { fieldsArbitrary, filterArbitrary, idOf, passesObviously, payloadsArbitrary } from '../../testing/filters.ts';
import { type Column, columnOf, Interned } from '../fields/column.ts';
import { decodeColumn, encodeColumn } from '../fields/column-format.ts';
import { type Fields, valuesOf } from '../fields/field.ts';
import type { Payload } from '../formats/records.ts';
import { compileFilter, type IdColumn } from './evaluate.ts';
import type { Filter } from './filter.ts';

/** Columns as a client has them that fetched them. */
function columnsOf(fields: Fields, payloads: readonly Payload[]): Map<string, Column> {
  const interned = new Interned();
  const records = payloads.map((payload, i) => valuesOf(payload, fields, idOf(i)));
  return new Map(
    Object.entries(fields).map(([name, type]) => {
      const column = columnOf(
        type,
        records.map((values) => values.get(name)),
        interned,
      );
      return [name, decodeColumn(encodeColumn(column), type, payloads.length, interned)];
    }),
  );
}

function idsOf(count: number, canFind: boolean): IdColumn {
  const ids = Array.from({ length: count }, (_, i) => idOf(i));
  const find = (id: string) => (ids.includes(id) ? ids.indexOf(id) : undefined);
  return { count, id: (slot) => ids[slot], ...(canFind ? { find } : {}) };
}

/** The fast way, on blocks and on single records, against the obvious one. */
function assertAgrees(filter: Filter, fields: Fields, payloads: readonly Payload[], canFind = true): number {
  const compiled = compileFilter(filter, fields);
  const columns = columnsOf(fields, payloads);
  const needed = new Map(compiled.fields.map((name) => [name, columns.get(name)!]));
  const passing = compiled.passing(needed, idsOf(payloads.length, canFind), payloads.length);
  const expected = payloads.map((payload, i) => passesObviously(filter, fields, payload, idOf(i)));
  assert.equal(passing.length, Math.ceil(payloads.length / 32));
  const bits = Array.from({ length: 32 * passing.length }, (_, j) => ((passing[j >> 5] >>> (j & 31)) & 1) === 1);
  assert.deepEqual(bits.slice(0, payloads.length), expected);
  assert.ok(!bits.slice(payloads.length).includes(true), 'bits beyond the slots');
  const alone = payloads.map((payload, i) => compiled.passesOne(valuesOf(payload, fields, idOf(i)), idOf(i)));
  assert.deepEqual(alone, expected);
  return expected.filter(Boolean).length;
}

it('over columns, the same records pass as by the rules read out one by one', () => {
  let [some, all] = [0, 0];
  fc.assert(
    fc.property(
      fieldsArbitrary.chain((fields) =>
        fc.record({
          fields: fc.constant(fields),
          payloads: payloadsArbitrary(fields, 150),
          filter: filterArbitrary(fields),
          canFind: fc.boolean(),
        }),
      ),
      ({ fields, payloads, filter, canFind }) => {
        const passed = assertAgrees(filter, fields, payloads, canFind);
        if (passed > 0 && passed < payloads.length) some++;
        all++;
      },
    ),
    { numRuns: 500 },
  );
  assert.ok(some > all / 5, `only ${some} of ${all} filters tell records apart`);
});

it('the same in a whole block, with dictionaries of few and of many values', () => {
  const fields = {
    few: 'keyword',
    many: 'keyword',
    whole: 'number',
    any: 'number',
    price: 'number',
    date: 'date',
    tags: 'keyword[]',
  } as const;
  let state = 1;
  const random = (below: number) => (state = (Math.imul(state, 48271) >>> 0) % 2147483647) % below;
  const payloads: Payload[] = Array.from({ length: 2040 }, (_, i) => ({
    few: random(10) === 0 ? null : `c${random(7)}`,
    many: `name ${random(1e6)}`,
    whole: random(9) === 0 ? null : 20 + random(300),
    any: random(1e6) / 7,
    price: random(20_000) / 100,
    date: new Date(1.7e12 + random(1e9) * 300 + i).toISOString(),
    tags: Array.from({ length: random(6) }, () => `t${random(i % 2 === 0 ? 30 : 900)}`),
  }));
  const conditions: Filter['must'][] = [
    { field: 'few', match: 'c3' },
    { field: 'few', match: { except: ['c1', 'c2', 'nowhere'] } },
    { field: 'many', match: { prefix: 'name 1' } },
    { field: 'many', match: { any: payloads.slice(0, 600).map((payload) => (payload as { many: string }).many) } },
    { field: 'whole', range: { gt: 60, lte: 290 } },
    { field: 'whole', range: { gte: -1e9, lt: 1e9 } },
    { field: 'any', range: { gte: 10_000, lt: 100_000.5 } },
    { field: 'price', range: { gte: 0.07, lte: 100.01 } },
    { field: 'price', match: { any: payloads.slice(0, 9).map((payload) => (payload as { price: number }).price) } },
    { field: 'date', range: { gte: '2023-12-01', lt: '2026-01-01T00:00:00+02:00' } },
    { field: 'tags', match: { any: ['t1', 't2', 't500'] } },
    { field: 'tags', match: { except: ['t1', 't2', 't500'] } },
    { field: 'tags', match: { prefix: 't1' } },
    { field: 'tags', empty: true },
    { hasId: [idOf(0), idOf(31), idOf(32), idOf(2039), idOf(2040)] },
  ];
  for (const [i, a] of conditions.entries())
    for (const b of conditions.slice(i)) {
      assertAgrees({ must: [a, b] as never }, fields, payloads.slice(0, 150));
      assertAgrees(
        { should: [a, b] as never, must_not: { field: 'few', match: 'c1' } },
        fields,
        payloads.slice(0, 150),
      );
    }
  for (const must of conditions) assert.ok(assertAgrees({ must: must! }, fields, payloads) > 0);
});

it('the same where lists have more values than a block has slots', () => {
  const tag = (i: number) => `t${String(i).padStart(6, '0')}`;
  // More than a function can have arguments, too.
  const payloads = Array.from({ length: 600 }, (_, i) => ({
    tags: Array.from({ length: 256 }, (_, k) => tag(256 * i + k)),
  }));
  const fields: Fields = { tags: 'keyword[]' };
  for (const [filter, count] of [
    [{ must: { field: 'tags', match: tag(256 * 600 - 1) } }, 1],
    [{ must: { field: 'tags', match: { any: [tag(5), tag(100_000)] } } }, 2],
    [{ must: { field: 'tags', match: { prefix: 't1' } } }, 210],
    [{ must: { field: 'tags', match: { except: [tag(0)] } } }, 600],
    [{ must: { field: 'tags', empty: false } }, 600],
  ] as const satisfies [Filter, number][])
    assert.equal(assertAgrees(filter, fields, payloads), count);
});

it('says what it needs, and has one text for what means the same', () => {
  const fields = { country: 'keyword', age: 'number' } as const;
  const country = { field: 'country', match: 'NL' } as const;
  const compiled = compileFilter({ must: [country, { hasId: ['a'] }] }, fields);
  assert.deepEqual(compiled.fields, ['country']);
  assert.deepEqual(compileFilter({}, fields).fields, []);
  const same: Filter[] = [
    { must: [country, { field: 'age', range: { gte: 18, lt: 65 } }] },
    { must: [{ field: 'age', range: { lt: 65 } }, { should: country }, { field: 'age', range: { gte: 18 } }] },
    { must: { must: [country, country] }, should: [{ field: 'age', range: { gte: 18, lt: 65 } }] },
    {
      must: [{ field: 'country', match: { any: ['NL', 'NL'] } }],
      must_not: { must_not: { field: 'age', range: { gte: 18, lt: 65 } } },
    },
  ];
  assert.equal(new Set(same.map((filter) => compileFilter(filter, fields).canonical)).size, 1);
  const others: Filter[] = [
    {},
    { must: country },
    { must_not: country },
    { must: { field: 'country', match: 'nl' } },
    { must: { field: 'country', match: { prefix: 'NL' } } },
    { must: { field: 'country', empty: false } },
    { must: { hasId: ['NL'] } },
    { should: [country, { field: 'age', match: 18 }] },
    { must: [country, { field: 'age', match: 18 }] },
    { must: { field: 'age', range: { gt: 18 } } },
    { must: { field: 'age', range: { gte: 18 } } },
  ];
  assert.equal(new Set(others.map((filter) => compileFilter(filter, fields).canonical)).size, others.length);
});

it('refuses columns that are not those of the block', () => {
  const { passing } = compileFilter({ must: { field: 'age', match: 1 } }, { age: 'number' });
  const isRefused = { name: 'HersError', code: 'INTEGRITY' };
  assert.throws(() => passing(new Map(), idsOf(3, true), 3), isRefused);
  assert.throws(() => passing(new Map([['age', columnOf('number', [1, 2])]]), idsOf(3, true), 3), isRefused);
});
