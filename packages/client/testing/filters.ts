// Fields, records and filters for tests, and the obvious way to say which records pass: the oracle
// of the evaluator over columns.

import fc from 'fast-check';
import type { Fields, FieldType } from '../src/fields/field.ts';
import type { Condition, Filter } from '../src/filter/filter.ts';
import type { Payload } from '../src/formats/records.ts';

type Plain = Readonly<Record<string, unknown>>;

/** Read off the rules on top of filter.ts, from the payload itself, and as slow as may be. */
export function passesObviously(filter: unknown, fields: Fields, payload: Payload, id: string): boolean {
  const { must, should, must_not: mustNot } = filter as Plain;
  const passes = (condition: unknown) => holdsObviously(condition as Plain, fields, payload, id);
  const listed = (clause: unknown) => (Array.isArray(clause) ? clause : [clause]);
  if (must !== undefined && !listed(must).every(passes)) return false;
  if (should !== undefined && !listed(should).some(passes)) return false;
  return mustNot === undefined || !listed(mustNot).some(passes);
}

function holdsObviously(condition: Plain, fields: Fields, payload: Payload, id: string): boolean {
  if (condition.hasId) return (condition.hasId as string[]).includes(id);
  if (condition.field === undefined) return passesObviously(condition, fields, payload, id);
  const type = fields[condition.field as string];
  // Not what objects inherit, such as `constructor`.
  const own = new Map(Object.entries(payload as Plain));
  const given = own.get(condition.field as string) ?? [];
  const values = (Array.isArray(given) ? given : [given]).map((value) => plainly(type, value));
  if (condition.empty !== undefined) return condition.empty === (values.length === 0);
  const same = (value: unknown, other: unknown) => value === plainly(type, other);
  return values.some((value) => {
    if (condition.range) {
      const { gt, gte, lt, lte } = condition.range as Plain;
      if (gt !== undefined && !(value > plainly(type, gt))) return false;
      if (gte !== undefined && !(value >= plainly(type, gte))) return false;
      if (lt !== undefined && !(value < plainly(type, lt))) return false;
      return lte === undefined || value <= plainly(type, lte);
    }
    const { match } = condition;
    if (typeof match !== 'object') return same(value, match);
    const { any, except, prefix, value: only } = match as Record<string, unknown>;
    if (any) return (any as unknown[]).some((each) => same(value, each));
    if (except) return !(except as unknown[]).some((each) => same(value, each));
    return prefix === undefined ? same(value, only) : String(value).startsWith(String(prefix).normalize('NFC'));
  });
}

function plainly(type: FieldType, value: unknown): string | number {
  if (type === 'date') return Date.parse(String(value));
  return typeof value === 'string' ? value.normalize('NFC') : Number(value);
}

const NAMES = ['country', 'age', 'tags', 'a.b', 'in', 'id', 'not', 'And', '_x-1', 'constructor', 'toString'];
const TYPES: readonly FieldType[] = ['keyword', 'number', 'date', 'boolean', 'keyword[]'];

/** Few, so that conditions hit; some differ in normal form, in case, in the order of units. */
const KEYWORDS = [
  '',
  'NL',
  'NLD',
  'nl',
  'N',
  'vip',
  'staff',
  'é',
  'e\u0301',
  'e',
  '\ufffd',
  '😀',
  '😀x',
  'a "b" \\c\n',
  'or',
];
const NUMBERS = [0, -0, 1, 2, 17, 18, 65, 100, -5, 0.1, 0.25, -1e-7, 300, 70_000, 2 ** 40, -(2 ** 53 - 1), 2 ** 53 - 1];
const TIMES = [0, 1, -1, 86_400_000, 1_800_000_000_000, 1_800_000_000_001, 1_800_086_400_000, -62_167_132_800_000];

const keyword = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(...KEYWORDS) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 8 }) },
);
const number = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...NUMBERS) },
  { weight: 1, arbitrary: fc.integer({ min: -300, max: 300 }) },
  { weight: 1, arbitrary: fc.double({ noNaN: true, min: -1e6, max: 1e6 }) },
);
const date = fc
  .tuple(
    fc.oneof(fc.constantFrom(...TIMES), fc.integer({ min: -2e12, max: 4e12 })),
    fc.integer({ min: -1439, max: 1439 }),
    fc.constantFrom('utc', 'zone', 'day'),
  )
  .map(([time, minutes, form]) => {
    const utc = new Date(time).toISOString();
    if (form === 'utc') return utc;
    if (form === 'day') return utc.slice(0, 10);
    const local = new Date(time + 60_000 * minutes).toISOString().slice(0, -1);
    const two = (n: number) => String(n).padStart(2, '0');
    const size = Math.abs(minutes);
    return `${local}${minutes < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`;
  })
  .filter((text) => /^\d{4}-/.test(text));

function operand(type: FieldType): fc.Arbitrary<string | number | boolean> {
  if (type === 'number') return number;
  if (type === 'date') return date;
  return type === 'boolean' ? fc.boolean() : keyword;
}

function valueArbitrary(type: FieldType): fc.Arbitrary<Payload> {
  return type === 'keyword[]' ? fc.array(keyword, { maxLength: 5 }) : (operand(type) as fc.Arbitrary<Payload>);
}

export const fieldsArbitrary: fc.Arbitrary<Fields> = fc.dictionary(
  fc.constantFrom(...NAMES),
  fc.constantFrom(...TYPES),
  { minKeys: 1, maxKeys: 5 },
);

/** Payloads in which fields may be missing or null. */
export function payloadsArbitrary(fields: Fields, maxLength: number): fc.Arbitrary<Payload[]> {
  const properties = Object.entries(fields).map(([name, type]): [string, fc.Arbitrary<Payload>] => [
    name,
    fc.oneof({ weight: 4, arbitrary: valueArbitrary(type) }, { weight: 1, arbitrary: fc.constant(null) }),
  ]);
  const payload = fc.record(Object.fromEntries([...properties, ['other', fc.constant({ x: 1 })]]), {
    requiredKeys: [],
  });
  return fc.array(payload as fc.Arbitrary<Payload>, { maxLength, size: 'max' });
}

/** Ids as tests name records: by number. */
export const idOf = (i: number): string => `record ${i}`;

export function filterArbitrary(fields: Fields, depth = 3): fc.Arbitrary<Filter> {
  const clause = fc.oneof(
    conditionArbitrary(fields, depth),
    fc.array(conditionArbitrary(fields, depth), { minLength: 1, maxLength: 3 }),
  );
  return fc
    .record({ must: clause, should: clause, must_not: clause }, { requiredKeys: [] })
    .filter((filter) => Object.keys(filter).length > 0);
}

function conditionArbitrary(fields: Fields, depth: number): fc.Arbitrary<Condition> {
  const simple = fc.oneof(
    ...Object.entries(fields).map(([field, type]) => conditionOn(field, type)),
    fc.array(fc.nat(150).map(idOf), { minLength: 1, maxLength: 40 }).map((hasId) => ({ hasId })),
  );
  if (depth === 0) return simple;
  return fc.oneof({ weight: 4, arbitrary: simple }, { weight: 1, arbitrary: filterArbitrary(fields, depth - 1) });
}

function conditionOn(field: string, type: FieldType): fc.Arbitrary<Condition> {
  const value = operand(type);
  const values = fc.array(value, { minLength: 1, maxLength: 12 });
  const bounds = fc
    .tuple(fc.constantFrom('gt', 'gte', 'none'), fc.constantFrom('lt', 'lte', 'none'), value, value)
    .filter(([from, to]) => from !== 'none' || to !== 'none')
    .map(([from, to, least, most]) => ({
      ...(from === 'none' ? {} : { [from]: least }),
      ...(to === 'none' ? {} : { [to]: most }),
    }));
  const matches: fc.Arbitrary<unknown>[] = [
    value,
    value.map((only) => ({ value: only })),
    values.map((any) => ({ any })),
    values.map((except) => ({ except })),
  ];
  if (type.startsWith('keyword')) matches.push(keyword.map((prefix) => ({ prefix })));
  const conditions: fc.Arbitrary<unknown>[] = [
    fc.oneof(...matches).map((match) => ({ field, match })),
    fc.boolean().map((empty) => ({ field, empty })),
  ];
  if (type === 'number' || type === 'date') conditions.push(bounds.map((range) => ({ field, range })));
  return fc.oneof(...conditions) as fc.Arbitrary<Condition>;
}
