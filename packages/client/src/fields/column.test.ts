import assert from 'node:assert/strict';
import { it } from 'node:test';
import { HersError } from '@hers/service';
import fc from 'fast-check';
import { fieldsArbitrary, idOf, payloadsArbitrary } from '../../testing/filters.ts';
import { hex, padme } from '../bytes.ts';
import { type Column, columnOf, Interned, Numbers, Steps, Texts } from './column.ts';
import { decodeColumn, encodeColumn } from './column-format.ts';
import { type FieldType, type FieldValue, valuesOf } from './field.ts';

type Values = readonly (FieldValue | undefined)[];

const valuesIn = (column: Column) => Array.from({ length: column.count }, (_, slot) => column.value(slot));

/** What goes in comes out, of the column and of its bytes. */
function assertKeeps(type: FieldType, values: Values): Column {
  const column = columnOf(type, values);
  assert.deepEqual(valuesIn(column), values);
  const bytes = encodeColumn(column);
  assert.equal(padme(bytes.length), bytes.length);
  const decoded = decodeColumn(bytes, type, values.length, new Interned());
  assert.deepEqual(valuesIn(decoded), values);
  assert.deepEqual(decoded.codes, column.codes);
  const isEmpty = (value: FieldValue | undefined) =>
    value === undefined || (Array.isArray(value) && value.length === 0);
  assert.equal(decoded.empty, values.filter(isEmpty).length);
  assert.deepEqual(encodeColumn(decoded), bytes);
  return decoded;
}

it('a column gives back the values it was made of, from memory and from bytes', () => {
  fc.assert(
    fc.property(
      fieldsArbitrary.chain((fields) => fc.tuple(fc.constant(fields), payloadsArbitrary(fields, 80))),
      ([fields, payloads]) => {
        const records = payloads.map((payload, i) => valuesOf(payload, fields, idOf(i)));
        for (const [name, type] of Object.entries(fields))
          assertKeeps(
            type,
            records.map((values) => values.get(name)),
          );
      },
    ),
    { numRuns: 300 },
  );
});

it('integers of any size and spread', () => {
  const base = fc.constantFrom(0, 1, 255, 2 ** 31, 2 ** 40, 2 ** 53 - 1, -(2 ** 53 - 1));
  const spread = fc.constantFrom(1, 2, 255, 256, 65_536, 2 ** 24, 2 ** 25, 2 ** 32, 2 ** 48, 2 ** 53);
  const number = fc.tuple(base, spread, fc.double({ noNaN: true, min: -1, max: 1 })).map(([at, size, part]) => {
    const sum = at + Math.round(size * part);
    return Number.isSafeInteger(sum) ? sum + 0 : at;
  });
  fc.assert(
    fc.property(fc.array(fc.option(number, { nil: undefined })), (values) => void assertKeeps('number', values)),
  );
});

it('decimal fractions, which are kept as integers where that is exact', () => {
  const decimal = fc.tuple(fc.maxSafeInteger(), fc.nat(9), fc.nat(9)).map(([units, small, digits]) => {
    return Math.trunc(units / 10 ** small) / 10 ** digits + 0;
  });
  fc.assert(
    fc.property(fc.array(decimal), (values) => void assertKeeps('number', values)),
    { numRuns: 1000 },
  );
  // Their step is twice as large as an integer may be.
  assertKeeps('number', [-3164023413419.4, 8094975655006.85]);
  const prices = Array.from({ length: 2000 }, (_, i) =>
    Number(`${(i * 7919) % 1000}.${String(i % 100).padStart(2, '0')}`),
  );
  assert.ok(encodeColumn(assertKeeps('number', prices)).length < 3 * 2000);
});

it('takes the smallest array, and the smaller kind of dictionary', () => {
  const kinds = (type: FieldType, values: Values) => {
    const { codes, dictionary } = assertKeeps(type, values);
    return [codes.constructor, dictionary.constructor];
  };
  const range = (length: number, of: (i: number) => FieldValue) => Array.from({ length }, (_, i) => of(i));
  assert.deepEqual(
    kinds(
      'number',
      range(2040, (i) => i % 101),
    ),
    [Uint8Array, Steps],
  );
  assert.deepEqual(
    kinds(
      'number',
      range(2040, (i) => 7_000_000 + 50 * (i % 255)),
    ),
    [Uint8Array, Steps],
  );
  assert.deepEqual(
    kinds(
      'number',
      range(2040, (i) => i),
    ),
    [Uint16Array, Steps],
  );
  assert.deepEqual(
    kinds(
      'number',
      range(2040, (i) => (i % 2 === 0 ? 0 : 60_000 + (i % 3))),
    ),
    [Uint8Array, Numbers],
  );
  assert.deepEqual(
    kinds(
      'number',
      range(100, (i) => i / 3),
    ),
    [Uint8Array, Numbers],
  );
  assert.deepEqual(
    kinds(
      'boolean',
      range(40, (i) => i % 3 === 0),
    ),
    [Uint8Array, Steps],
  );
  const day = (i: number) => new Date(86_400_000 * ((i * 977) % 3650)).toISOString();
  assert.deepEqual(kinds('date', range(2040, day)), [Uint16Array, Steps]);
  assert.deepEqual(
    kinds(
      'date',
      range(2040, (i) => new Date(i ** 3).toISOString()),
    ),
    [Uint16Array, Numbers],
  );
  assert.deepEqual(kinds('keyword', range(255, String)), [Uint8Array, Texts]);
  assert.deepEqual(kinds('keyword', range(256, String)), [Uint16Array, Texts]);
  assert.deepEqual(kinds('keyword', range(65_536, String)), [Uint32Array, Texts]);
  assert.deepEqual(
    kinds(
      'keyword[]',
      range(300, (i) => [String(i)]),
    ),
    [Uint16Array, Texts],
  );
  for (const type of ['keyword', 'number', 'date', 'boolean', 'keyword[]'] as const) {
    assert.equal(kinds(type, [])[0], Uint8Array);
    assert.equal(kinds(type, [undefined, undefined])[0], Uint8Array);
  }
  assert.throws(() => columnOf('number', Array(65_537)), RangeError);
});

it('says how much memory it takes; equal texts of many blocks are one string', () => {
  const interned = new Interned();
  const bytes = encodeColumn(columnOf('keyword', Array(2000).fill('a country of some length')));
  const columns = Array.from({ length: 3 }, () => decodeColumn(bytes, 'keyword', 2000, interned));
  assert.deepEqual(
    columns.map((column) => column.bytes),
    [2008, 2008, 2008],
  );
  assert.equal(columnOf('keyword', ['ab', 'c']).bytes, 2 + 2 * (8 + 16) + 3);
  assert.equal(columnOf('number', [1 / 3, 2 / 3]).bytes, 2 + 16);
});

it('known answers', () => {
  // Head (format, type, dictionary, least; slots; size), dictionary, lengths, codes, padding.
  const answers: [FieldType, Values, string][] = [
    ['keyword', ['NL', 'BE', undefined, 'NL'], '01000000 04000000 02000000  02 0a 4245 4e4c  02 86'],
    [
      'number',
      [18, 65, undefined, 19],
      '01010100 04000000 30000000  00 0000000000003240 000000000000f03f  06 010c08  000000',
    ],
    ['number', [2 ** -20, undefined], '01010300 02000000 01000000  000000000000b03e  02 01'],
    ['number', [0.3, 0.1], '01010101 02000000 02000000  01 000000000000f03f 0000000000000040  02 01  00'],
    [
      'number',
      [0, 2 ** 40 + 1, 3],
      '01010201 03000000 03000000  00 0000000000000000 28 0200000000 fdffffffff  02 18  0000',
    ],
    [
      'date',
      ['2026-11-16T10:00:00.000Z', '2026-11-16T10:00:01.500Z'],
      '01020101 02000000 02000000  00 0000d0c93c1e7a42 0000000000709740  02 04  00',
    ],
    [
      'boolean',
      [true, false, true, true, false, false, false, true, true],
      '01030101 09000000 02000000  00 0000000000000000 000000000000f03f  02 514001  000000',
    ],
    [
      'keyword[]',
      [['staff', 'vip'], undefined, [], ['vip']],
      '01040000 04000000 02000000  03 1d 7374616666 766970  02 46  02 89',
    ],
  ];
  for (const [type, values, answer] of answers)
    assert.equal(hex(encodeColumn(columnOf(type, values))), answer.replaceAll(' ', ''), type);
});

it('does not tell by its length whether anybody has a value, or which a boolean is', () => {
  const lengths = (type: FieldType, ...cases: Values[]) =>
    new Set(cases.map((values) => encodeColumn(columnOf(type, values)).length)).size;
  for (const count of [1, 5, 2040]) {
    const all = (value: FieldValue | undefined) => Array.from({ length: count }, () => value);
    const one = (value: FieldValue) => [value, ...all(undefined).slice(1)];
    assert.equal(lengths('boolean', all(true), all(false), all(undefined), one(true), one(false)), 1);
    const date = '2026-11-16T10:00:00.000Z';
    assert.equal(lengths('date', all(undefined), one(date), all(date)), 1);
    assert.equal(lengths('number', all(undefined), one(7), all(7)), 1);
  }
});

it('Padmé pads by at most 12 %, and to few lengths', () => {
  // From the definition: the last E - S bits are zero.
  for (let length = 2; length < 5000; length++) {
    const e = Math.floor(Math.log2(length));
    const bits = e - (Math.floor(Math.log2(e)) + 1);
    const mask = bits <= 0 ? 0 : 2 ** bits - 1;
    assert.equal(padme(length), (length + mask) & ~mask);
    assert.ok(padme(length) < 1.12 * length);
  }
  assert.deepEqual([0, 1, 2, 9, 100, 1000, 1025, 2 ** 20, 2 ** 20 + 1].map(padme), [
    0,
    1,
    2,
    10,
    104,
    1024,
    1088,
    2 ** 20,
    2 ** 20 + 2 ** 15,
  ]);
});

const isDamage = (error: unknown) =>
  error instanceof HersError && (error.code === 'INTEGRITY' || error.code === 'UNSUPPORTED_VERSION');

function decodesOrRefuses(bytes: Uint8Array, type: FieldType, count: number): Column | undefined {
  try {
    return decodeColumn(bytes, type, count);
  } catch (error) {
    assert.ok(isDamage(error), String(error));
    return undefined;
  }
}

it('bytes that are no column are an error, never a value of another type', () => {
  const edits = fc.array(fc.tuple(fc.nat(60), fc.oneof(fc.nat(3), fc.nat(255))), { minLength: 1, maxLength: 3 });
  const columns = fieldsArbitrary.chain((fields) => fc.tuple(fc.constant(fields), payloadsArbitrary(fields, 4)));
  let [accepted, refused] = [0, 0];
  fc.assert(
    fc.property(columns, edits, ([fields, payloads], changes) => {
      const records = payloads.map((payload, i) => valuesOf(payload, fields, idOf(i)));
      for (const [name, type] of Object.entries(fields)) {
        const bytes = encodeColumn(
          columnOf(
            type,
            records.map((values) => values.get(name)),
          ),
        );
        for (const [at, byte] of changes) if (at < bytes.length) bytes[at] = byte;
        const column = decodesOrRefuses(bytes, type, records.length);
        if (column) accepted++;
        else refused++;
        for (const x of column ? valuesIn(column) : []) {
          // Texts need not be in normal form: who holds the key writes none of these.
          if (type === 'keyword[]' && x) assert.deepEqual(x, [...new Set(x as string[])].map(String).sort());
          else if (type !== 'keyword') assert.deepEqual(valuesOf({ x }, { x: type }, 'a').get('x'), x);
        }
      }
    }),
    { numRuns: 3000 },
  );
  assert.ok(accepted > 100 && refused > 100, `${accepted} accepted, ${refused} refused`);
  const types = fc.constantFrom<FieldType>('keyword', 'number', 'date', 'boolean', 'keyword[]');
  const anything = fc.uint8Array({ maxLength: 100 });
  fc.assert(
    fc.property(anything, types, fc.nat(10), (bytes, type, count) => void decodesOrRefuses(bytes, type, count)),
  );
});

it('a column of which a bit is wrong, or that is cut, is an error or another column', () => {
  const samples: [FieldType, Values][] = [
    ['keyword', ['NL', 'BE', undefined, 'é', 'NL']],
    ['number', [1, 2, undefined, 700]],
    ['number', [0.5, 1e-9]],
    ['number', [0, 2 ** 40 + 1, 3]],
    ['date', ['2026-11-16T10:00:00.000Z', '2026-11-16T10:00:01.501Z', '1970-01-01T00:00:00.000Z']],
    ['boolean', [true, undefined, false]],
    ['keyword[]', [['a', 'b'], undefined, [], ['c']]],
  ];
  for (const [type, values] of samples) {
    const bytes = encodeColumn(columnOf(type, values));
    for (let bit = 0; bit < 8 * bytes.length; bit++) {
      const changed = bytes.slice();
      changed[bit >> 3] ^= 1 << (bit & 7);
      const column = decodesOrRefuses(changed, type, values.length);
      if (column)
        assert.notDeepEqual([valuesIn(column), column.dictionary], [values, columnOf(type, values).dictionary]);
    }
    for (let length = 0; length < bytes.length; length++)
      assert.equal(decodesOrRefuses(bytes.slice(0, length), type, values.length), undefined);
    assert.throws(() => decodeColumn(Uint8Array.of(...bytes, 0), type, values.length), isDamage);
    assert.throws(() => decodeColumn(bytes, type, values.length + 1), isDamage);
    assert.throws(() => decodeColumn(bytes, type === 'date' ? 'number' : 'date', values.length), isDamage);
  }
});

it('lists have each value once, in order, and are missing or not', () => {
  const list = (codes: number) => {
    // One slot with two codes of two bits, over a dictionary of two texts.
    const content = [1, 4, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 3, 65, 66, 2, 2, 2, codes];
    return Uint8Array.from(content);
  };
  assert.deepEqual(decodeColumn(list(0b1001), 'keyword[]', 1).value(0), ['A', 'B']);
  for (const codes of [0b0110, 0b1010, 0b1000, 0b0010, 0b1011])
    assert.throws(() => decodeColumn(list(codes), 'keyword[]', 1), isDamage, String(codes));
});

it('a few bytes do not ask for much memory', () => {
  const head = (type: number, kind: number, size: number) => [
    1,
    type,
    kind,
    0,
    0,
    0,
    1,
    0,
    size & 255,
    size >> 8,
    0,
    0,
  ];
  // 65536 slots; 65535 texts, numbers or steps; lists of 256 each.
  const claims: [FieldType, number[]][] = [
    ['keyword', [...head(0, 0, 65535), 0, 0]],
    ['number', [...head(1, 3, 65535), 0, 0]],
    ['keyword[]', [...head(4, 0, 1), 1, 1, 65, 9, 255]],
  ];
  for (const [type, content] of claims) {
    const bytes = new Uint8Array(padme(content.length));
    bytes.set(content);
    assert.equal(decodesOrRefuses(bytes, type, 65536), undefined);
  }
});
