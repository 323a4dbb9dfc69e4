import assert from 'node:assert/strict';
import { it } from 'node:test';
import { HersError } from '@hers/service';
import fc from 'fast-check';
import { printFilter } from '../../testing/filter-print.ts';
import { fieldsArbitrary, filterArbitrary, idOf, passesObviously, payloadsArbitrary } from '../../testing/filters.ts';
import { compileFilter } from './evaluate.ts';
import { parseFilter } from './filter-text.ts';

const fields = {
  country: 'keyword',
  zip: 'keyword',
  age: 'number',
  enrolled: 'date',
  tags: 'keyword[]',
  active: 'boolean',
  id: 'keyword',
  not: 'number',
  in: 'number',
} as const;

it('says the filter that it reads as', () => {
  const readings: [string, unknown][] = [
    [
      'country = NL and age >= 18 and not tags in (vip, staff)',
      {
        must: [
          { field: 'country', match: 'NL' },
          { field: 'age', range: { gte: 18 } },
        ],
        must_not: [{ field: 'tags', match: { any: ['vip', 'staff'] } }],
      },
    ],
    ['age=18', { must: [{ field: 'age', match: 18 }] }],
    ['  (age<1.5e1)  ', { must: [{ field: 'age', range: { lt: 15 } }] }],
    [
      'age <= -3 or age > +.5',
      {
        should: [
          { field: 'age', range: { lte: -3 } },
          { field: 'age', range: { gt: 0.5 } },
        ],
      },
    ],
    ['zip = 01234', { must: [{ field: 'zip', match: '01234' }] }],
    ['zip != 01234', { must: [{ field: 'zip', match: { except: ['01234'] } }] }],
    ['not zip = true', { must_not: [{ field: 'zip', match: 'true' }] }],
    ['zip not in (1, "2")', { must: [{ field: 'zip', match: { except: ['1', '2'] } }] }],
    ['tags not only in (vip)', { must: [{ field: 'tags', match: { except: ['vip'] } }] }],
    ['tags = vip', { must: [{ field: 'tags', match: 'vip' }] }],
    ['country starts with N', { must: [{ field: 'country', match: { prefix: 'N' } }] }],
    ['country is empty', { must: [{ field: 'country', empty: true }] }],
    ['COUNTRY IS NOT EMPTY'.replace('COUNTRY', 'country'), { must: [{ field: 'country', empty: false }] }],
    ['active = false', { must: [{ field: 'active', match: false }] }],
    ['enrolled >= 2026-11-16', { must: [{ field: 'enrolled', range: { gte: '2026-11-16' } }] }],
    [
      'enrolled < 2026-11-16T10:00:00+01:00',
      { must: [{ field: 'enrolled', range: { lt: '2026-11-16T10:00:00+01:00' } }] },
    ],
    ["enrolled < '2026-11-16 10:00:00Z'", { must: [{ field: 'enrolled', range: { lt: '2026-11-16 10:00:00Z' } }] }],
    // After an operator every word is a value.
    ['country = OR', { must: [{ field: 'country', match: 'OR' }] }],
    ['country in (IN, OR, not)', { must: [{ field: 'country', match: { any: ['IN', 'OR', 'not'] } }] }],
    // and binds more strongly than or, not more strongly than both
    [
      'age = 1 or age = 2 AND not age = 3',
      {
        should: [
          { field: 'age', match: 1 },
          { must: [{ field: 'age', match: 2 }], must_not: [{ field: 'age', match: 3 }] },
        ],
      },
    ],
    [
      '(age = 1 or age = 2) and country = NL',
      {
        must: [{ field: 'country', match: 'NL' }],
        should: [
          { field: 'age', match: 1 },
          { field: 'age', match: 2 },
        ],
      },
    ],
    [
      'not (age = 1 or age = 2)',
      {
        must_not: [
          {
            should: [
              { field: 'age', match: 1 },
              { field: 'age', match: 2 },
            ],
          },
        ],
      },
    ],
    ['not not age = 1', { must_not: [{ must_not: [{ field: 'age', match: 1 }] }] }],
    ['id in (ada, "grace h")', { must: [{ hasId: ['ada', 'grace h'] }] }],
    ['ID = ada', { must: [{ hasId: ['ada'] }] }],
    ['id not in (ada) and id != x', { must_not: [{ hasId: ['ada'] }, { hasId: ['x'] }] }],
    // Quoted, words of the grammar are fields.
    ['"id" = ada', { must: [{ field: 'id', match: 'ada' }] }],
    [
      "'not' = 1 and in in (1)",
      {
        must: [
          { field: 'not', match: 1 },
          { field: 'in', match: { any: [1] } },
        ],
      },
    ],
    ['country = "a \\"b\\" \\\\ \\u00e9\\n\'"', { must: [{ field: 'country', match: 'a "b" \\ é\n\'' }] }],
    ["country = 'it\\'s'", { must: [{ field: 'country', match: "it's" }] }],
    ['country = ""', { must: [{ field: 'country', match: '' }] }],
    ['country = Zürich/🚲', { must: [{ field: 'country', match: 'Zürich/🚲' }] }],
  ];
  for (const [text, filter] of readings) assert.deepEqual(parseFilter(text, fields), filter, text);
});

it('shows the place of an error', () => {
  const shows = (text: string, column: number, message: RegExp) =>
    assert.throws(
      () => parseFilter(text, fields),
      (error: unknown) => {
        assert.ok(error instanceof HersError && error.code === 'INVALID_ARGUMENT');
        const [first, shown, caret] = error.message.split('\n');
        assert.match(first, message, text);
        assert.equal(shown, `  ${text}`);
        assert.equal(caret, `  ${' '.repeat(column)}^`, text);
        return true;
      },
      text,
    );
  shows('contry = NL', 0, /no field "contry": it has country, zip, age/);
  shows('age = 1 and toString = 1', 12, /no field "toString"/);
  shows('age >= eighteen', 7, /expected a finite number/);
  shows('age = "18"', 6, /expected a finite number/);
  shows('age = 1e999', 6, /expected a finite number/);
  shows('age = 9007199254740993', 6, /as keywords/);
  shows('active = yes', 9, /expected true or false/);
  shows('enrolled > 2026-02-30', 11, /expected a date/);
  shows('enrolled > 2026-11-16T10:00:00', 11, /expected a date as in RFC 3339, with a zone/);
  shows('country > A', 8, /country is a keyword, and > compares numbers and dates/);
  shows('age starts with 1', 4, /only texts/);
  shows('tags != vip', 5, /write `not tags in \(…\)` .* or `tags not only in \(…\)`/);
  shows('tags not in (vip)', 5, /tags is a list/);
  shows('country = ', 10, /expected a value/);
  shows('country', 7, /expected one of = != </);
  shows('country like N', 8, /expected one of/);
  shows('country == NL', 9, /expected a value/);
  shows('country is NL', 8, /expected one of/);
  shows('country starts N', 8, /expected one of/);
  shows('country in NL', 11, /expected \( before the values/);
  shows('country in ()', 12, /expected a value/);
  shows('country in (NL BE)', 15, /expected \) after the values/);
  shows('country in (NL', 14, /expected \) after the values/);
  shows('(country = NL', 13, /expected \) to close/);
  shows('country = NL)', 12, /expected `and` or `or`/);
  shows('country = NL age = 1', 13, /expected `and` or `or` before "age"/);
  shows('and age = 1', 0, /expected a condition before `and`/);
  shows('age = 1 and', 11, /expected the name of a field/);
  shows('age = 1 && age = 2', 8, /write `and`/);
  shows('age = 1 || age = 2', 8, /write `or`/);
  shows('!active = true', 0, /write `not`/);
  shows('country = “NL”', 10, /quotes are straight/);
  shows('country = "NL', 10, /no closing "/);
  shows('country = "\\x"', 11, /no such escape/);
  shows('country = "\\u12"', 11, /no such escape/);
  shows('country = "\\', 11, /no such escape/);
  shows('id < a', 3, /the id of a record/);
  shows('', 0, /the filter is empty; leave it out/);
  shows('   ', 0, /the filter is empty/);
  shows('country = 🚲 age', 12 + 0, /expected `and`/);
});

it('long and deep texts are errors of the same kind, and soon', () => {
  const refused = (text: string, message: RegExp) =>
    assert.throws(() => parseFilter(text, fields), { name: 'HersError', code: 'INVALID_ARGUMENT', message });
  refused('('.repeat(100_000), /levels/);
  refused('not '.repeat(100_000), /levels/);
  refused(
    `${'not ('.repeat(64)}age = 1${')'.repeat(64)}`.replace('age = 1', 'not (age = 1 or age = 2)'),
    /levels|deep/,
  );
  refused('x'.repeat(2 ** 20 + 1), /at most 1048576 characters/);
  refused('x'.repeat(2 ** 20), /no field "x{80}…"/);
  refused(`country = "${'\\n'.repeat(400_000)}"`, /at most 256 bytes/);
  refused(`age = 1${' or age = 1'.repeat(5000)}`, /at most 4096 conditions/);
  refused(`age = 1${' '.repeat(900_000)}x`, /\n {2} {50}x\n {2} {50}\^$/);
  const deep = `${'not ('.repeat(63)}age = 1${')'.repeat(63)}`;
  assert.equal(compileFilter(parseFilter(deep, fields), fields).canonical, 'not(age:number in[1])');
});

it('a filter that is printed and read again is the same filter', () => {
  fc.assert(
    fc.property(
      fieldsArbitrary.chain((of) =>
        fc.record({ of: fc.constant(of), payloads: payloadsArbitrary(of, 20), filter: filterArbitrary(of) }),
      ),
      ({ of, payloads, filter }) => {
        const text = printFilter(filter, of);
        const again = parseFilter(text, of);
        const { canonical } = compileFilter(filter, of);
        assert.equal(compileFilter(again, of).canonical, canonical, text);
        assert.equal(compileFilter(parseFilter(printFilter(again, of), of), of).canonical, canonical, text);
        payloads.forEach((payload, i) => {
          assert.equal(
            passesObviously(again, of, payload, idOf(i)),
            passesObviously(filter, of, payload, idOf(i)),
            text,
          );
        });
      },
    ),
    { numRuns: 400 },
  );
  assert.equal(printFilter({}, fields), '');
  const text = 'country in ("NL", "BE") and (age >= 18 or active = true) and not tags = "vip"';
  assert.equal(printFilter(parseFilter(text, fields), fields), text);
});

it('no text brings anything but a filter or a typed error', () => {
  const words = ['country', 'age', 'tags', 'id', 'and', 'or', 'not', 'in', 'only', 'starts', 'with', 'is', 'empty'];
  const pieces = fc.constantFrom(
    ...words,
    '=',
    '!=',
    '<',
    '>=',
    '(',
    ')',
    ',',
    '"',
    "'",
    '\\',
    '1',
    'NL',
    '2026-11-16',
    '\u0000',
  );
  const text = fc.oneof(
    fc.array(pieces, { maxLength: 12 }).map((list) => list.join(' ')),
    // Few of those are filters, and by chance none.
    fc.tuple(fc.constant('age >= 18'), pieces, pieces).map((list) => list.join(' ')),
    fc.constantFrom('age >= 18', 'country = "NL" and active = true'),
    fc.string({ unit: 'binary' }),
  );
  let read = 0;
  fc.assert(
    fc.property(text, (given) => {
      try {
        compileFilter(parseFilter(given, fields), fields);
        read++;
      } catch (error) {
        assert.ok(error instanceof HersError && error.code === 'INVALID_ARGUMENT', String(error));
      }
    }),
    { numRuns: 10_000 },
  );
  assert.ok(read > 0);
});

it('is refused by name without a text, or without the fields that it is read by', () => {
  for (const given of [['age = 1'], ['age = 1', null], [7, fields], [undefined, fields]])
    assert.throws(() => Reflect.apply(parseFilter, undefined, given), {
      name: 'HersError',
      code: 'INVALID_ARGUMENT',
    });
});
