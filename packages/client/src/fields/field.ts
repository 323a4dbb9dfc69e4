// Fields: properties of a record's payload that a collection keeps in columns, so that a client can
// filter by them and return them without fetching records. These are the rules for their values.
//
//   name        1 to 64 characters of A-Z a-z 0-9 _ . - and begins with a letter or _
//   where       a property of that name at the top of the payload. A field `a.b` is the property
//               "a.b", not b in a.
//   missing     no such property, or null. Both are the same.
//   keyword     a text of at most 256 bytes in UTF-8. It is kept in Unicode's normal form C; upper
//               and lower case differ. "" is a value.
//   number      from -(2^53 - 1) to 2^53 - 1, whole or not. NaN and infinities are refused. So are
//               larger numbers, because a program that reads JSON has lost their last digits: keep
//               such an id as a keyword. -0 is 0.
//   date        a text of RFC 3339 with a zone, 2026-11-16T10:00:00Z or 2026-11-16T11:00:00+01:00,
//               or a date alone, which is its midnight in UTC. It is kept in UTC to the
//               millisecond; further digits are cut off. It comes back as
//               2026-11-16T10:00:00.000Z. Leap seconds and numbers are refused: of a number nobody
//               can tell whether it counts seconds or milliseconds.
//   boolean     true or false
//   keyword[]   a list of at most 256 keywords, of 4096 bytes together. It is a set: what is
//               repeated counts once, and it comes back sorted by UTF-16 code units. [] is not
//               missing, but it is empty.
//
// A value of another type is an error that names the record and the field. Nothing is converted.

import { HersError } from '@hers/service';

/** What a field holds. */
export type FieldType = 'keyword' | 'number' | 'date' | 'boolean' | 'keyword[]';

/** The fields of a collection: for every name, what it holds. */
export type Fields = { readonly [name: string]: FieldType };

/** A value of a field. Dates are texts of RFC 3339 in UTC. */
export type FieldValue = string | number | boolean | readonly string[];

/** A record's values; what is missing is not in it. */
export type FieldValues = ReadonlyMap<string, FieldValue>;

/**
 * Compared by columns and filters: dates in milliseconds, false and true as 0 and 1; of a list, an
 * element.
 */
export type Comparable = string | number;

const MAX_FIELDS = 64;
/** Of a keyword, in UTF-8. */
export const MAX_KEYWORD_BYTES = 256;
/** Of a list. */
export const MAX_KEYWORDS = 256;
/** Of all keywords of a list, in UTF-8: a column has to fit into an answer (transport/http.ts). */
const MAX_LIST_BYTES = 4096;
const NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/;

/** What a value has to be, as messages say it. */
export const EXPECTED: { readonly [T in FieldType]: string } = {
  keyword: `a text of at most ${MAX_KEYWORD_BYTES} bytes in UTF-8, without half a surrogate pair`,
  number: 'a finite number below 2^53 (keep larger ones as keywords)',
  date: 'a date as in RFC 3339, with a zone: "2026-11-16T10:00:00Z", or "2026-11-16" for midnight in UTC',
  boolean: 'true or false',
  'keyword[]': `a list of at most ${MAX_KEYWORDS} texts, each of at most ${MAX_KEYWORD_BYTES} bytes in UTF-8, and of ${MAX_LIST_BYTES} together`,
};

/**
 * The fields as a caller gave them, checked, and without a prototype.
 *
 * @param given - Names and types, as somebody wrote them.
 * @throws {HersError} INVALID_ARGUMENT: for what is no object of names and types, more than 64
 *   fields, a name or a type that cannot be.
 * @example
 * const fields = checkFields({ country: 'keyword', age: 'number' });
 */
export function checkFields(given: unknown): Fields {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw invalid("fields are an object of names and types, such as { country: 'keyword' }");
  const names = Object.keys(given);
  if (names.length > MAX_FIELDS)
    throw invalid(
      `a collection has at most ${MAX_FIELDS} fields, not ${names.length}; leave some in the payload alone`,
    );
  const fields: { [name: string]: FieldType } = Object.create(null);
  for (const name of names) {
    // On an object of somebody else's program that name would set the prototype.
    if (!NAME.test(name) || name === '__proto__')
      throw invalid(
        `${quoted(name)} cannot be the name of a field: 1 to 64 letters, digits, _ . or -, a letter or _ first`,
      );
    const type: unknown = (given as Record<string, unknown>)[name];
    if (typeof type !== 'string' || !Object.hasOwn(EXPECTED, type))
      throw invalid(`the field ${quoted(name)} has no such type: take one of ${Object.keys(EXPECTED).join(', ')}`);
    fields[name] = type as FieldType;
  }
  return Object.freeze(fields);
}

/**
 * The values that a record has in these fields. What is missing or null is not among them.
 *
 * @param payload - The payload of a record.
 * @param fields - The fields of the collection.
 * @param recordId - For the message, where a value does not fit.
 * @throws {HersError} INVALID_ARGUMENT: for a value that is not of the type of its field; the
 *   message names both.
 * @example
 * valuesOf({ country: 'NL' }, { country: 'keyword' }, 'ada').get('country'); // 'NL'
 */
export function valuesOf(payload: unknown, fields: Fields, recordId: string): FieldValues {
  const values = new Map<string, FieldValue>();
  if (typeof payload !== 'object' || payload === null) return values;
  for (const name of Object.keys(fields)) {
    if (!Object.hasOwn(payload, name)) continue;
    const given: unknown = (payload as Record<string, unknown>)[name];
    if (given === null || given === undefined) continue;
    const type = fields[name];
    const value = type === 'keyword[]' ? keywordsOf(given) : scalarOf(type, given);
    if (value === undefined)
      throw invalid(
        `the record ${quoted(recordId)} has a value in the field ${quoted(name)} that is not ${EXPECTED[type]}`,
      );
    values.set(name, value);
  }
  return values;
}

/** A value that somebody gave, ready to compare; undefined if it is not of this type. */
export function comparableOf(type: FieldType, given: unknown): Comparable | undefined {
  switch (type) {
    case 'number':
      // Adding 0 makes 0 of -0.
      return typeof given === 'number' && Math.abs(given) <= Number.MAX_SAFE_INTEGER ? given + 0 : undefined;
    case 'boolean':
      return typeof given === 'boolean' ? Number(given) : undefined;
    case 'date':
      return typeof given === 'string' ? dateOf(given) : undefined;
    default:
      return typeof given === 'string' ? keywordOf(given) : undefined;
  }
}

/** The reverse, for everything but lists. */
export function fieldValue(type: FieldType, comparable: Comparable): string | number | boolean {
  if (type === 'date') return dateText(comparable as number);
  return type === 'boolean' ? comparable === 1 : comparable;
}

function scalarOf(type: FieldType, given: unknown): FieldValue | undefined {
  const comparable = comparableOf(type, given);
  return comparable === undefined ? undefined : fieldValue(type, comparable);
}

function keywordsOf(given: unknown): readonly string[] | undefined {
  if (!Array.isArray(given) || given.length > MAX_KEYWORDS) return undefined;
  const keywords = new Set<string>();
  for (const each of given) {
    const keyword = typeof each === 'string' ? keywordOf(each) : undefined;
    if (keyword === undefined) return undefined;
    keywords.add(keyword);
  }
  const texts = [...keywords].sort();
  if (encoder.encode(texts.join('')).length > MAX_LIST_BYTES) return undefined;
  return Object.freeze(texts);
}

const encoder = new TextEncoder();

function keywordOf(text: string): string | undefined {
  // Nothing much longer can be short enough in normal form.
  if (text.length > 8 * MAX_KEYWORD_BYTES || !text.isWellFormed()) return undefined;
  const normal = text.normalize('NFC');
  const isLong = normal.length > MAX_KEYWORD_BYTES / 3 && encoder.encode(normal).length > MAX_KEYWORD_BYTES;
  return isLong ? undefined : normal;
}

/** A name as messages show it, cut where it is long. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
}

export function invalid(message: string): HersError {
  return new HersError('INVALID_ARGUMENT', message);
}

/** Year, month, day; hour, minute, second, fraction; zone. Every part has one way to match. */
const FORM = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d)))?$/;
const MAX_LENGTH = 64;
const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const DAY_SECONDS = 86_400;
/** The years 0000 to 9999, which is all that four digits can say. */
const FIRST = -62_167_219_200_000;
const LAST = 253_402_300_799_999;

/** Milliseconds since 1970 in UTC; undefined if this is no date with a zone, and no date alone. */
export function dateOf(text: string): number | undefined {
  const form = text.length <= MAX_LENGTH ? FORM.exec(text) : null;
  if (!form) return undefined;
  const days = daysOf(Number(form[1]), Number(form[2]), Number(form[3]));
  if (days === undefined) return undefined;
  const [hour, minute, second] = [Number(form[4] ?? 0), Number(form[5] ?? 0), Number(form[6] ?? 0)];
  const [zoneHour, zoneMinute] = [Number(form[9] ?? 0), Number(form[10] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59 || zoneHour > 23 || zoneMinute > 59) return undefined;
  const zone = (form[8] === '-' ? -1 : 1) * (60 * zoneHour + zoneMinute);
  const fraction = form[7] === undefined ? 0 : Number(form[7].slice(0, 3).padEnd(3, '0'));
  const time = 1000 * (DAY_SECONDS * days + 60 * (60 * hour + minute - zone) + second) + fraction;
  return isDate(time) ? time : undefined;
}

/** Days since 1970 in the Gregorian calendar, undefined if there is no such day. */
function daysOf(year: number, month: number, day: number): number | undefined {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const length = month === 2 && isLeap ? 29 : (MONTH_DAYS[month - 1] ?? 0);
  if (day < 1 || day > length) return undefined;
  // Years that begin in March end with the leap day. Then months have 30.6 days on average, rounded
  // down (the calendar's own pattern of 153 days in five months).
  const shifted = month > 2 ? year : year - 1;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const leapDays = Math.floor(shifted / 4) - Math.floor(shifted / 100) + Math.floor(shifted / 400);
  return 365 * shifted + leapDays + dayOfYear - 719_468;
}

/** Whether these milliseconds are in the years that a date can say. */
export function isDate(milliseconds: number): boolean {
  return Number.isInteger(milliseconds) && milliseconds >= FIRST && milliseconds <= LAST;
}

/** In UTC, with three digits of the second: `2026-11-16T10:00:00.000Z`. */
export function dateText(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
