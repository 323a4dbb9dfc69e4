import assert from 'node:assert/strict';
import { it } from 'node:test';
import { HersError } from '@hers/service';
import fc from 'fast-check';
import { fieldsArbitrary, filterArbitrary } from '../../testing/filters.ts';
import { compileFilter } from './evaluate.ts';
import type { Filter } from './filter.ts';

const fields = { country: 'keyword', age: 'number', enrolled: 'date', tags: 'keyword[]', active: 'boolean' } as const;
type People = typeof fields;

const refused = (filter: unknown, message: RegExp) =>
  assert.throws(() => compileFilter(filter as Filter, fields), {
    name: 'HersError',
    code: 'INVALID_ARGUMENT',
    message,
  });
const refusedCondition = (condition: unknown, message: RegExp) => {
  refused({ must: condition }, message);
  refused({ should: [{ field: 'age', match: 1 }, condition] }, message);
  refused({ must_not: { must: [condition] } }, message);
};

it('the compiler knows the names and types of fields', () => {
  const good: Filter<People>[] = [
    {},
    { must: { field: 'country', match: 'NL' } },
    {
      must: [
        { field: 'country', match: { any: ['NL', 'BE'] } },
        { field: 'age', range: { gte: 18, lt: 65 } },
      ],
    },
    {
      should: [
        { field: 'enrolled', range: { gt: '2026-01-01' } },
        { field: 'active', match: true },
      ],
    },
    { must_not: { field: 'tags', match: { except: ['vip'] } }, must: { field: 'tags', match: { prefix: 'v' } } },
    { must: { should: [{ must_not: { field: 'age', empty: true } }, { hasId: ['ada'] }] } },
  ];
  // What is typed is a plain filter, too.
  const plain: readonly Filter[] = good;
  for (const filter of plain) compileFilter(filter, fields);
  const bad: Filter<People>[] = [
    // @ts-expect-error no such field
    { must: { field: 'contry', match: 'NL' } },
    // @ts-expect-error no such field, deep down
    { must: [{ should: [{ must_not: [{ field: 'Age', match: 1 }] }] }] },
    // @ts-expect-error a number is not a keyword
    { must: { field: 'country', match: 1 } },
    // @ts-expect-error nor the other way round
    { must: { field: 'age', match: { any: ['1'] } } },
    // @ts-expect-error
    { must: { field: 'active', match: 'true' } },
    // @ts-expect-error keywords have no range
    { must: { field: 'country', range: { gte: 'A' } } },
    // @ts-expect-error dates are texts
    { must: { field: 'enrolled', range: { gte: 1_800_000_000_000 } } },
    // @ts-expect-error numbers have no prefix
    { must: { field: 'age', match: { prefix: '1' } } },
    // @ts-expect-error
    { must: { field: 'age', range: { from: 1 } } },
    // @ts-expect-error
    { must: { field: 'age', empty: 'yes' } },
    // @ts-expect-error
    { must: { hasId: 'ada' } },
    // @ts-expect-error
    { most: { field: 'age', match: 1 } },
    // @ts-expect-error a condition that says nothing
    { must: { field: 'age' } },
  ];
  for (const filter of bad as Filter[]) refused(filter, /./);
});

it('what a typo would turn into an empty result is an error', () => {
  refusedCondition({ field: 'contry', match: 'NL' }, /no field "contry": it has country, age, enrolled, tags, active/);
  refusedCondition({ field: 'toString', match: 'NL' }, /no field "toString"/);
  refusedCondition({ field: '__proto__', match: 'NL' }, /no field "__proto__"/);
  refusedCondition({ field: 1, match: 'NL' }, /name of a field/);
  refusedCondition({ field: 'age', mach: 1 }, /no option "mach"; did you mean match\?/);
  refusedCondition({ field: 'age' }, /one of `match`, `range` and `empty`/);
  refusedCondition({ field: 'age', match: 1, range: { gt: 1 } }, /one of `match`, `range` and `empty`/);
  refusedCondition({ field: 'age', match: 1, hasId: ['a'] }, /no option "hasId"/);
  refusedCondition({ match: 1 }, /a condition has `field`, `hasId`, `must`.*, not "match"/);
  refused({ musst: [] }, /a filter has no option "musst"; did you mean must\?/);
  assert.throws(() => compileFilter({ must: { field: 'a', match: 1 } }, {}), /no field "a": it has none; add it/);
});

it('values have the type of their field', () => {
  const wrong = {
    country: [1, true, 'a'.repeat(257), '\ud800'],
    age: ['1', true, NaN, Infinity, 2 ** 53, 1n],
    enrolled: [0, 'yesterday', '2026-11-16T10:00:00', new Date()],
    tags: [1],
    active: [1, 'true'],
  };
  for (const [field, values] of Object.entries(wrong))
    for (const value of values) {
      if (typeof value !== 'object') refusedCondition({ field, match: value }, /is compared with what is not/);
      refusedCondition({ field, match: { value } }, /is compared with what is not/);
      refusedCondition({ field, match: { any: [value] } }, /is compared with what is not/);
      refusedCondition({ field, match: { except: [value] } }, /is compared with what is not/);
    }
  refusedCondition({ field: 'age', match: { any: [1, '2'] } }, /"age" is compared with what is not a finite number/);
  refusedCondition({ field: 'country', match: null }, /say \{ field: "country", empty: true \}/);
  refusedCondition({ field: 'age', range: { gt: '1' } }, /is compared with what is not/);
  refusedCondition({ field: 'enrolled', range: { gt: 1 } }, /is compared with what is not a date/);
  refusedCondition({ field: 'country', range: { gt: 'A' } }, /only numbers and dates have a range/);
  refusedCondition({ field: 'tags', range: { gt: 'A' } }, /only numbers and dates have a range/);
  refusedCondition({ field: 'age', match: { prefix: '1' } }, /only texts have a prefix/);
  refusedCondition({ field: 'country', match: { prefix: 1 } }, /is compared with what is not/);
  refusedCondition({ field: 'age', empty: 1 }, /is true or false/);
});

it('what says nothing is an error, but for the empty filter', () => {
  for (const filter of [{}, { must: [] }, { must_not: [] }, { must: [], must_not: [] }])
    assert.deepEqual([...compileFilter(filter, fields).passing(new Map(), { count: 3, id: String }, 3)], [7]);
  refused({ should: [] }, /`should` has no condition/);
  refused({ must: {} }, /empty filter/);
  refused({ must: [{ must: [] }] }, /empty filter/);
  refusedCondition({ field: 'age', match: {} }, /one of value, any, except and prefix/);
  refusedCondition({ field: 'age', match: { value: 1, any: [1] } }, /one of value, any, except and prefix/);
  refusedCondition({ field: 'age', match: { any: [] } }, /`any` of "age" has no values/);
  refusedCondition({ field: 'age', match: { except: [] } }, /`except` of "age" has no values/);
  refusedCondition({ field: 'age', match: { any: 1 } }, /is a list of values/);
  refusedCondition({ field: 'age', match: [1] }, /`match` of "age" is a value/);
  refusedCondition({ field: 'age', range: {} }, /has no bound/);
  refusedCondition({ field: 'age', range: { gt: 1, gte: 1 } }, /has both gte and gt/);
  refusedCondition({ field: 'age', range: [1] }, /is an object of gt/);
  refusedCondition({ hasId: [] }, /`hasId` has no ids/);
  for (const id of ['', 1, null, '\ud800', 'a'.repeat(1025)]) refusedCondition({ hasId: [id] }, /names ids of records/);
  for (const condition of [null, 1, 'a', [], true])
    refusedCondition([condition], /a condition of `\w+` is an object|filter is an object/);
  for (const filter of [null, undefined, 1, 'age = 1', []]) refused(filter, /a filter is an object/);
  // biome-ignore lint/suspicious/noSparseArray: what a caller may give
  refused({ must: [, { field: 'age', match: 1 }] }, /a condition of `must` is an object/);
});

it('undefined is an error, not as if it were left out', () => {
  refused({ must: undefined }, /must of a filter is undefined; leave it out/);
  refused({ should: { field: 'age', match: 1 }, must_not: undefined }, /must_not of a filter is undefined/);
  refusedCondition({ field: 'age', match: undefined }, /match of a condition on a field is undefined/);
  refusedCondition({ field: 'age', range: { gte: undefined } }, /gte of .* is undefined/);
});

it('depth, conditions and values are limited', () => {
  const nested = (depth: number) => {
    let filter: Filter = { must_not: { field: 'age', match: 1 } };
    for (let i = 1; i < depth; i++) filter = { must_not: filter };
    return filter;
  };
  compileFilter(nested(64), fields);
  refused(nested(65), /at most 64 deep/);
  const many = (length: number) => ({ should: Array.from({ length }, (_, i) => ({ field: 'age', match: i })) });
  compileFilter(many(4096) as Filter, fields);
  refused(many(4097), /at most 4096 conditions/);
  const values = (length: number) => ({ must: { field: 'age', match: { any: Array.from({ length }, (_, i) => i) } } });
  compileFilter(values(65_536) as Filter, fields);
  refused(values(65_537), /at most 65536 values/);
  refused({ must: { hasId: Array(65_537).fill('a') } }, /at most 65536 ids/);
  const circular: { must: unknown[] } = { must: [] };
  circular.must.push(circular, circular);
  refused(circular, /at most/);
});

it('nothing that is given brings anything but a filter or a typed error', () => {
  const leaf = fc.oneof(
    fc.anything({ maxDepth: 1, maxKeys: 2 }),
    fc.constantFrom('age', 'country', 'tags', 1, 'NL', true, '2026-11-16'),
  );
  const names = fc.constantFrom(
    'must',
    'should',
    'must_not',
    'field',
    'match',
    'range',
    'empty',
    'hasId',
    'any',
    'except',
    'gt',
  );
  const { filter } = fc.letrec((tie) => ({
    filter: fc.oneof(
      { depthSize: 'medium' },
      leaf,
      fc.array(tie('filter'), { maxLength: 2 }),
      fc.dictionary(names, tie('filter')),
    ),
  }));
  fc.assert(
    fc.property(filter, (given) => {
      try {
        compileFilter(given as Filter, fields);
      } catch (error) {
        assert.ok(error instanceof HersError && error.code === 'INVALID_ARGUMENT', String(error));
      }
    }),
    { numRuns: 1000 },
  );
});

it('a filter is not changed, and is the same after a way through JSON', () => {
  fc.assert(
    fc.property(
      fieldsArbitrary.chain((of) => fc.tuple(fc.constant(of), filterArbitrary(of))),
      ([of, filter]) => {
        const before = JSON.stringify(filter);
        const { canonical } = compileFilter(filter, of);
        assert.equal(JSON.stringify(filter), before);
        assert.equal(compileFilter(JSON.parse(before), of).canonical, canonical);
      },
    ),
    { numRuns: 50 },
  );
});
