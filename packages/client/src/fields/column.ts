// The values of one field in the slots of one block, in columns: every slot has a code, and a
// sorted dictionary says what a code stands for. Because dictionaries are sorted, a value, a prefix
// or a range is a range of codes, and a filter looks at codes alone.
//
//   code        0 is missing; 1 is the smallest value of the dictionary, 2 the next
//   texts       by UTF-16 code units, the order of < and of Array.prototype.sort
//   numbers     either all numbers from `base` on in steps of `step`, where that is smaller, or
//               those that there are. Base and step are integers, and count units of a power of
//               ten: prices are whole numbers of hundredths.
//   lists       the codes of all slots one after the other, ascending within a slot; ends[j] is
//               where those of slot j end. A missing list is a single 0, an empty one has no codes.

import { type Comparable, dateOf, type FieldType, type FieldValue, fieldValue } from './field.ts';

/** Slots of a block, at most. */
export const MAX_SLOTS = 65536;
/** Codes of a `Steps`: tables over codes stay small. */
export const MAX_STEPS = 65535;
export const MAX_DECIMALS = 6;
/** What a number of a dictionary takes, about, as it is stored. */
const NUMBER_BITS = 32;

/** The memory of a pointer, and that of a string besides its characters, as V8 has them. */
const POINTER_BYTES = 8;
const STRING_BYTES = 16;

/** What codes stand for: those from 1 to `size`, ascending. */
export interface Dictionary {
  readonly size: number;
  /** In memory, about. */
  readonly bytes: number;
  at(code: number): Comparable;
}

export class Texts implements Dictionary {
  readonly list: readonly string[];
  readonly size: number;
  readonly bytes: number;

  /** Interned if they are few beside the slots: then other blocks have them, too. */
  constructor(list: string[], slots: number, interned?: Interned) {
    const isShared = interned !== undefined && 2 * list.length <= slots;
    this.list = isShared ? list.map((text) => interned.of(text)) : list;
    this.size = list.length;
    const own = isShared ? 0 : list.reduce((sum, text) => sum + STRING_BYTES + text.length, 0);
    this.bytes = POINTER_BYTES * list.length + own;
  }

  at(code: number): string {
    return this.list[code - 1];
  }
}

export class Numbers implements Dictionary {
  readonly list: Float64Array;
  readonly size: number;

  constructor(list: Float64Array) {
    this.list = list;
    this.size = list.length;
  }

  get bytes(): number {
    return this.list.byteLength;
  }

  at(code: number): number {
    return this.list[code - 1];
  }
}

export class Steps implements Dictionary {
  readonly base: number;
  readonly step: number;
  readonly size: number;
  /** The unit is ten to the power of minus this. */
  readonly decimals: number;
  readonly bytes = 0;

  constructor(base: number, step: number, size: number, decimals: number) {
    this.base = base;
    this.step = step;
    this.size = size;
    this.decimals = decimals;
  }

  at(code: number): number {
    return inUnits(this.base + (code - 1) * this.step, this.decimals);
  }
}

export type Codes = Uint8Array | Uint16Array | Uint32Array;

/** Room for `length` numbers up to `max`, in the smallest type. */
export function codesFor(length: number, max: number): Codes {
  return max < 2 ** 8 ? new Uint8Array(length) : max < 2 ** 16 ? new Uint16Array(length) : new Uint32Array(length);
}

export class Column {
  readonly type: FieldType;
  /** Of slots. */
  readonly count: number;
  readonly dictionary: Dictionary;
  readonly codes: Codes;
  /** Of lists alone. */
  readonly ends: Codes | undefined;
  /** Slots without any value: missing, or an empty list. */
  readonly empty: number;

  constructor(type: FieldType, dictionary: Dictionary, codes: Codes, ends?: Codes) {
    this.type = type;
    this.count = ends ? ends.length : codes.length;
    this.dictionary = dictionary;
    this.codes = codes;
    this.ends = ends;
    let empty = 0;
    for (let j = 0; j < this.count; j++) {
      const start = ends ? startOf(ends, j) : j;
      if (start === (ends ? ends[j] : j + 1) || codes[start] === 0) empty++;
    }
    this.empty = empty;
  }

  /** Held in memory, about. */
  get bytes(): number {
    return this.codes.byteLength + (this.ends?.byteLength ?? 0) + this.dictionary.bytes;
  }

  /** Undefined where it is missing. */
  value(slot: number): FieldValue | undefined {
    if (!this.ends) {
      const code = this.codes[slot];
      return code === 0 ? undefined : fieldValue(this.type, this.dictionary.at(code));
    }
    const codes = this.codes.subarray(startOf(this.ends, slot), this.ends[slot]);
    return codes[0] === 0 ? undefined : Array.from(codes, (code) => this.dictionary.at(code) as string);
  }
}

function startOf(ends: Codes, slot: number): number {
  return slot === 0 ? 0 : ends[slot - 1];
}

/** A column of these values, one for every slot, as `valuesOf` (field.ts) gives them. */
export function columnOf(type: FieldType, values: readonly (FieldValue | undefined)[], interned?: Interned): Column {
  if (values.length > MAX_SLOTS) throw new RangeError(`a column has at most ${MAX_SLOTS} slots`);
  if (type === 'keyword[]') return listColumn(values as readonly (readonly string[] | undefined)[], interned);
  if (type === 'keyword') {
    const texts = sortedTexts(values as readonly (string | undefined)[]);
    return codedColumn(type, values, new Texts(texts, values.length, interned), codesOf(texts));
  }
  const numbers = values.map((value) => (value === undefined ? undefined : numberOf(value)));
  const list = Float64Array.from(new Set(numbers.filter((number) => number !== undefined))).sort();
  const steps = stepsOf(type, list, numbers.length);
  if (!steps) return codedColumn(type, numbers, new Numbers(list), codesOf(list));
  const codes = codesFor(numbers.length, steps.size);
  numbers.forEach((number, j) => {
    if (number !== undefined) codes[j] = (Math.round(number * 10 ** steps.decimals) - steps.base) / steps.step + 1;
  });
  return new Column(type, steps, codes);
}

function codedColumn(
  type: FieldType,
  values: readonly (FieldValue | undefined)[],
  dictionary: Dictionary,
  codeOf: ReadonlyMap<FieldValue, number>,
): Column {
  const codes = codesFor(values.length, dictionary.size);
  values.forEach((value, j) => {
    if (value !== undefined) codes[j] = codeOf.get(value)!;
  });
  return new Column(type, dictionary, codes);
}

function listColumn(values: readonly (readonly string[] | undefined)[], interned?: Interned): Column {
  const texts = sortedTexts(values.flat());
  const codeOf = codesOf(texts);
  const length = values.reduce((sum, list) => sum + (list ? list.length : 1), 0);
  const codes = codesFor(length, texts.length);
  const ends = codesFor(values.length, length);
  let end = 0;
  values.forEach((list, j) => {
    // A missing list leaves one 0.
    if (list)
      codes.set(
        list.map((text) => codeOf.get(text)!).sort((a, b) => a - b),
        end,
      );
    ends[j] = end += list ? list.length : 1;
  });
  return new Column('keyword[]', new Texts(texts, values.length, interned), codes, ends);
}

function sortedTexts(texts: readonly (string | undefined)[]): string[] {
  return [...new Set(texts.filter((text) => text !== undefined))].sort();
}

function codesOf<T extends Comparable>(sorted: ArrayLike<T> & Iterable<T>): Map<FieldValue, number> {
  return new Map(Array.from(sorted, (value, i) => [value, i + 1]));
}

function numberOf(value: FieldValue): number {
  return typeof value === 'string' ? dateOf(value)! : Number(value);
}

/** Equal steps over these ascending numbers, if that takes less room than naming them. */
function stepsOf(type: FieldType, list: Float64Array, slots: number): Steps | undefined {
  if (type === 'boolean') return new Steps(0, 1, 2, 0);
  if (list.length === 0) return new Steps(0, 1, 0, 0);
  const decimals = decimalsOf(list);
  if (decimals === undefined) return undefined;
  const units = list.map((number) => Math.round(number * 10 ** decimals));
  const step = units.reduce((common, number) => commonDivisor(common, number - units[0]), 0) || 1;
  const size = (units[units.length - 1] - units[0]) / step + 1;
  const isSmaller = slots * bitsFor(size) <= slots * bitsFor(list.length) + NUMBER_BITS * list.length;
  return size <= MAX_STEPS && isSmaller ? new Steps(units[0], step, size, decimals) : undefined;
}

/**
 * Digits after the point with which these ascending numbers, and their differences, are exact as
 * integers.
 */
export function decimalsOf(list: Float64Array): number | undefined {
  for (let decimals = 0; decimals <= MAX_DECIMALS; decimals++) {
    const units = (number: number) => Math.round(number * 10 ** decimals);
    const [first, last] = [units(list[0]), units(list[list.length - 1])];
    if (!areUnits(first, decimals) || !areUnits(last, decimals) || !areUnits(last - first, 0)) return undefined;
    if (list.every((number) => inUnits(units(number), decimals) === number)) return decimals;
  }
  return undefined;
}

/** Whether this is an integer, and different ones near it are different numbers in these units. */
export function areUnits(integer: number, decimals: number): boolean {
  return Number.isSafeInteger(integer) && (decimals === 0 || Math.abs(integer) <= 2 ** 50);
}

/** The double that is nearest to this many units: what JSON makes of the decimal fraction. */
export function inUnits(integer: number, decimals: number): number {
  return integer / 10 ** decimals;
}

export function bitsFor(max: number): number {
  return max < 2 ** 32 ? 32 - Math.clz32(max) : 64 - Math.clz32(max / 2 ** 32);
}

function commonDivisor(a: number, b: number): number {
  let [x, y] = [a, b];
  while (y !== 0) [x, y] = [y, x % y];
  return x;
}

/** How many strings are kept. Values that are worth it come back soon, so the first will do. */
const LIMIT = 65536;

/** Bounded: a field in which every record has a value of its own must not fill the memory. */
export class Interned {
  readonly #strings = new Map<string, string>();

  /** An equal string that was seen before, or this one. */
  of(text: string): string {
    const known = this.#strings.get(text);
    if (known !== undefined) return known;
    if (this.#strings.size < LIMIT) this.#strings.set(text, text);
    return text;
  }
}
