import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { checkFields, dateOf, dateText, type FieldType, valuesOf } from './field.ts';

const isRefused = (message: RegExp) => ({ name: 'HersError', code: 'INVALID_ARGUMENT', message });
const types: readonly FieldType[] = ['keyword', 'number', 'date', 'boolean', 'keyword[]'];

it('fields have names and types', () => {
  const fields = checkFields({ country: 'keyword', _a: 'number', 'a.b-c_9': 'date', constructor: 'boolean' });
  assert.deepEqual(Object.entries(fields), [
    ['country', 'keyword'],
    ['_a', 'number'],
    ['a.b-c_9', 'date'],
    ['constructor', 'boolean'],
  ]);
  assert.equal(fields.toString, undefined);
  assert.throws(() => {
    (fields as Record<string, string>).more = 'keyword';
  }, TypeError);
  for (const type of types) assert.equal(checkFields({ x: type }).x, type);
});

it('other names and types are refused, with what to do', () => {
  for (const name of ['', '9a', '.a', '-a', 'a b', 'é', 'a'.repeat(65), 'a\n'])
    assert.throws(() => checkFields({ [name]: 'keyword' }), isRefused(/cannot be the name of a field/));
  assert.throws(() => checkFields(JSON.parse('{"__proto__":"keyword"}')), isRefused(/__proto__/));
  for (const type of ['text', 'toString', '', null, undefined, 1, ['keyword']])
    assert.throws(() => checkFields({ a: type }), isRefused(/"a" has no such type: take one of keyword/));
  for (const given of [null, undefined, 'keyword', 1, ['keyword']])
    assert.throws(() => checkFields(given), isRefused(/an object/));
  const many = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`f${i}`, 'number']));
  assert.throws(() => checkFields(many), isRefused(/at most 64 fields, not 65/));
});

const fields = checkFields({ k: 'keyword', n: 'number', d: 'date', b: 'boolean', l: 'keyword[]' });
const valuesIn = (payload: unknown) => Object.fromEntries(valuesOf(payload, fields, 'ada'));

it('values are taken from the top of the payload, in normal form', () => {
  const d = '2026-11-16T11:00:00.1239+01:00';
  assert.deepEqual(
    valuesIn({ k: 'e\u0301', n: -0, d, b: false, l: ['b', 'e\u0301', 'a', 'é', '\ufffd', '😀'], x: 1 }),
    {
      k: 'é',
      n: 0,
      d: '2026-11-16T10:00:00.123Z',
      b: false,
      // U+FFFD is before U+1F600, and after the code units of it.
      l: ['a', 'b', 'é', '😀', '\ufffd'],
    },
  );
  assert.deepEqual(valuesIn({ k: '', l: [] }), { k: '', l: [] });
  assert.ok(Object.is(valuesIn({ n: -0 }).n, 0));
});

it('missing and null are the same, and what objects inherit is no value', () => {
  assert.deepEqual(valuesIn({ k: null, n: undefined }), {});
  for (const payload of [undefined, null, 1, 'k', [], {}]) assert.deepEqual(valuesIn(payload), {});
  assert.equal(valuesOf({}, checkFields({ constructor: 'keyword', toString: 'number' }), 'ada').size, 0);
});

it('a value of another type names the record, the field and what is expected', () => {
  const wrong: Record<string, unknown[]> = {
    k: [1, true, ['a'], {}, 'a'.repeat(257), 'é'.repeat(129), '\ud800', 'x'.repeat(10 ** 6)],
    n: ['1', true, NaN, Infinity, -Infinity, 2 ** 53, -(2 ** 53), 1e300, 10n, [1]],
    d: [
      0,
      1_800_000_000_000,
      new Date(),
      '',
      'now',
      '2026-11-16T10:00:00',
      '2026-11-16T10:00Z',
      '2026-02-29',
      '2026-13-01',
    ],
    b: [0, 1, 'true', []],
    l: ['a', [1], [null], [['a']], ['a'.repeat(257)], Array(257).fill('a'), {}],
  };
  for (const [name, values] of Object.entries(wrong))
    for (const value of values)
      assert.throws(
        () => valuesIn({ [name]: value }),
        isRefused(new RegExp(`the record "ada" .* field "${name}" that is not (a|true) `)),
        `${name}: ${typeof value}`,
      );
  assert.throws(() => valuesIn({ n: 2 ** 53 }), isRefused(/keep larger ones as keywords/));
  assert.deepEqual(valuesIn({ k: 'a'.repeat(256), n: 2 ** 53 - 1 }), { k: 'a'.repeat(256), n: 2 ** 53 - 1 });
  // 256 bytes in normal form, and more before.
  assert.equal(valuesIn({ k: 'e\u0301'.repeat(128) }).k, 'é'.repeat(128));
});

it('dates are those of the calendar, in any zone', () => {
  const [first, last] = [Date.parse('0000-01-01T00:00:00Z'), Date.parse('9999-12-31T23:59:59.999Z')];
  const time = fc.oneof(fc.integer({ min: first, max: last }), fc.constantFrom(first, last, 0, -1));
  fc.assert(
    fc.property(time, fc.integer({ min: -1439, max: 1439 }), (utc, minutes) => {
      assert.equal(dateOf(dateText(utc)), utc);
      assert.equal(dateText(utc), new Date(utc).toISOString());
      assert.equal(dateOf(dateText(utc).slice(0, 10)), Math.floor(utc / 86_400_000) * 86_400_000);
      const local = new Date(utc + 60_000 * minutes).toISOString().slice(0, -1);
      const size = Math.abs(minutes);
      const zone = [Math.floor(size / 60), size % 60].map((part) => String(part).padStart(2, '0')).join(':');
      if (/^\d{4}-/.test(local)) assert.equal(dateOf(`${local}${minutes < 0 ? '-' : '+'}${zone}`), utc);
    }),
  );
  // Every day that a month could have.
  for (const year of [0, 4, 100, 1900, 1970, 2000, 2023, 2024, 9999])
    for (let month = 0; month <= 13; month++)
      for (let day = 0; day <= 32; day++) {
        const text = [String(year).padStart(4, '0'), ...[month, day].map((part) => String(part).padStart(2, '0'))].join(
          '-',
        );
        const parsed = Date.parse(`${text}T00:00:00Z`);
        const isDay = !Number.isNaN(parsed) && new Date(parsed).toISOString().startsWith(text);
        assert.equal(dateOf(text), isDay ? parsed : undefined, text);
      }
});

it('dates have the forms of RFC 3339, and no others', () => {
  for (const text of [
    '2026-11-16t10:00:00z',
    '2026-11-16 10:00:00Z',
    '2026-11-16T10:00:00.000000999Z',
    '2026-11-16T10:00:00-00:00',
  ])
    assert.equal(dateOf(text), Date.UTC(2026, 10, 16, 10), text);
  const others = ['2026-11-16T24:00:00Z', '2026-11-16T10:60:00Z', '2016-12-31T23:59:60Z', '2026-11-16T10:00:00+24:00'];
  others.push(
    '2026-11-16T10:00:00+1:00',
    '2026-11-16T10:00:00.Z',
    '2026-11-16T10:00:00+0100',
    ' 2026-11-16',
    '2026-11-16\n',
  );
  others.push(
    '+02026-11-16',
    '26-11-16',
    '0000-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    `2026-11-16T10:00:00.${'0'.repeat(99)}Z`,
  );
  for (const text of others) assert.equal(dateOf(text), undefined, text);
});
