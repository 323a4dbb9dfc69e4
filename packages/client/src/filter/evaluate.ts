// Which records of a block pass a filter: over codes, a word of 32 slots at a time.
//
// For every block a condition becomes a table over the codes of its column: dictionaries are
// sorted, so values, prefixes and ranges are found by binary search, and the table says at once
// where a block has no such value, or no other. The table is then looked up for every slot,
// without branches, because which slots pass is not predictable.
//
// Every step is told which slots still matter (`care`), and answers for those alone: what `must`
// has refused is not looked at again, nor what `should` has let through.

import { HersError } from '@hers/service';
import { type Codes, type Column, type Dictionary, MAX_SLOTS } from '../fields/column.ts';
import { type Comparable, comparableOf, type Fields, type FieldValues, MAX_KEYWORDS } from '../fields/field.ts';
import type { Filter } from './filter.ts';
import { canonicalText, type Test, type Tree, treeOf } from './tree.ts';

export interface IdColumn {
  readonly count: number;
  id(slot: number): string;
  /** The slot of a record, if it is in this block. Without it, `hasId` reads every id. */
  find?(id: string): number | undefined;
}

/** A filter, ready for the blocks of a collection. */
export interface CompiledFilter {
  /** The fields it looks at, sorted: those columns have to be there. */
  readonly fields: readonly string[];
  /** The same text for filters that differ in order, repetition and nesting alone. */
  readonly canonical: string;
  /**
   * Bit j & 31 of word j >> 5 says whether slot j passes; bits beyond the slots are 0. Written to
   * `out`, if it is given, which has as many words as it takes.
   */
  passing(columns: ReadonlyMap<string, Column>, ids: IdColumn, count: number, out?: Uint32Array): Uint32Array;
  /** The same for a record that is in no block. */
  passesOne(values: FieldValues, id: string): boolean;
}

/** INVALID_ARGUMENT, with what to do, where the filter is none over these fields. */
export function compileFilter(filter: Filter, fields: Fields): CompiledFilter {
  const tree = treeOf(filter, fields);
  const used = new Set<string>();
  collectFields(tree, used);
  return {
    fields: [...used].sort(),
    canonical: canonicalText(tree),
    passing: (columns, ids, count, out) => new Evaluation(columns, ids, count).passing(tree, out),
    passesOne: (values, id) => passesOne(tree, values, id),
  };
}

function collectFields(tree: Tree, into: Set<string>): void {
  if (tree.kind === 'field') into.add(tree.field);
  else if (tree.kind === 'not') collectFields(tree.part, into);
  else if (tree.kind !== 'ids') for (const part of tree.parts) collectFields(part, into);
}

function passesOne(tree: Tree, values: FieldValues, id: string): boolean {
  switch (tree.kind) {
    case 'and':
      return tree.parts.every((part) => passesOne(part, values, id));
    case 'or':
      return tree.parts.some((part) => passesOne(part, values, id));
    case 'not':
      return !passesOne(tree.part, values, id);
    case 'ids':
      return tree.ids.has(id);
    case 'field': {
      const value = values.get(tree.field);
      if (value === undefined) return false;
      const all = typeof value === 'object' ? value : [value];
      return all.some((each) => holds(tree.test, comparableOf(tree.type, each)!));
    }
  }
}

function holds(test: Test, value: Comparable): boolean {
  switch (test.kind) {
    case 'any':
      return true;
    case 'in':
      return test.values.has(value);
    case 'except':
      return !test.values.has(value);
    case 'prefix':
      return (value as string).startsWith(test.prefix);
    case 'range': {
      const { from, to } = test;
      if (from && (from.isInclusive ? value < from.value : value <= from.value)) return false;
      return !to || (to.isInclusive ? value <= to.value : value < to.value);
    }
  }
}

/** By code; kept between blocks. Only lists have more values than a block has slots. */
let table = new Uint8Array(MAX_SLOTS + 1);

/**
 * Bitsets of steps under way, by depth, for blocks of as many words as the last: making them takes
 * longer than using them.
 */
let scratch: { readonly words: number; readonly at: Uint32Array[] } = { words: 0, at: [] };

export const wordsFor = (count: number): number => Math.ceil(count / 32);

class Evaluation {
  readonly #columns: ReadonlyMap<string, Column>;
  readonly #ids: IdColumn;
  readonly #count: number;
  readonly #words: number;

  constructor(columns: ReadonlyMap<string, Column>, ids: IdColumn, count: number) {
    this.#columns = columns;
    this.#ids = ids;
    this.#count = count;
    this.#words = wordsFor(count);
    if (scratch.words !== this.#words) scratch = { words: this.#words, at: [] };
  }

  passing(tree: Tree, out: Uint32Array = new Uint32Array(this.#words)): Uint32Array {
    const passing = out.fill(0xffffffff);
    if (this.#count % 32 !== 0) passing[this.#words - 1] = 2 ** (this.#count % 32) - 1;
    this.#pass(tree, passing, passing, 0);
    return passing;
  }

  /**
   * Puts the slots of `care` that pass into `out`, perhaps the same array; says if there are any.
   */
  #pass(tree: Tree, care: Uint32Array, out: Uint32Array, depth: number): boolean {
    switch (tree.kind) {
      case 'and':
        return this.#all(tree.parts, care, out, depth);
      case 'or':
        return this.#some(tree.parts, care, out, depth);
      case 'not': {
        const held = this.#scratchAt(depth);
        this.#pass(tree.part, care, held, depth + 1);
        let any = 0;
        for (let w = 0; w < out.length; w++) any |= out[w] = care[w] & ~held[w];
        return any !== 0;
      }
      case 'ids':
        return this.#withIds(tree.ids, care, out);
      case 'field':
        return this.#onField(tree.field, tree.test, care, out);
    }
  }

  #all(parts: readonly Tree[], care: Uint32Array, out: Uint32Array, depth: number): boolean {
    out.set(care);
    return parts.every((part) => this.#pass(part, out, out, depth));
  }

  #some(parts: readonly Tree[], care: Uint32Array, out: Uint32Array, depth: number): boolean {
    const rest = this.#scratchAt(depth);
    const held = this.#scratchAt(depth + 1);
    rest.set(care);
    out.fill(0);
    let found = false;
    for (const part of parts) {
      if (!this.#pass(part, rest, held, depth + 2)) continue;
      found = true;
      let left = 0;
      for (let w = 0; w < out.length; w++) {
        out[w] |= held[w];
        left |= rest[w] &= ~held[w];
      }
      if (left === 0) break;
    }
    return found;
  }

  #withIds(ids: ReadonlySet<string>, care: Uint32Array, out: Uint32Array): boolean {
    const column = this.#ids;
    const found: number[] = [];
    const cares = (slot: number) => ((care[slot >> 5] >>> (slot & 31)) & 1) === 1;
    if (column.find && ids.size <= this.#count) {
      for (const id of ids) {
        const slot = column.find(id);
        if (slot !== undefined && cares(slot)) found.push(slot);
      }
    } else {
      for (let slot = 0; slot < this.#count; slot++) if (cares(slot) && ids.has(column.id(slot))) found.push(slot);
    }
    out.fill(0);
    for (const slot of found) out[slot >> 5] |= 1 << (slot & 31);
    return found.length > 0;
  }

  #onField(field: string, test: Test, care: Uint32Array, out: Uint32Array): boolean {
    const column = this.#columns.get(field);
    if (column?.count !== this.#count)
      throw new HersError('INTEGRITY', `the column of the field ${JSON.stringify(field)} does not fit its block`);
    const { dictionary, codes, ends } = column;
    const marked = mark(test, dictionary);
    if (marked === 0) {
      out.fill(0);
      return false;
    }
    if (marked === dictionary.size && column.empty === 0) {
      out.set(care);
      return true;
    }
    if (ends) return passLists(codes, ends, care, out);
    return codes instanceof Uint8Array ? passBytes(codes, care, out) : passCodes(codes, care, out);
  }

  #scratchAt(depth: number): Uint32Array {
    return (scratch.at[depth] ??= new Uint32Array(this.#words));
  }
}

/** Writes into the table which codes stand for values that pass; returns how many these are. */
function mark(test: Test, dictionary: Dictionary): number {
  const { size } = dictionary;
  if (size >= table.length) table = new Uint8Array(2 * size);
  table.fill(0, 0, size + 1);
  switch (test.kind) {
    case 'any':
      return markRange(1, size);
    case 'prefix': {
      const { prefix } = test;
      const from = firstCode(dictionary, (text) => text >= prefix);
      const beyond = firstCode(dictionary, (text) => text >= prefix && !(text as string).startsWith(prefix));
      return markRange(from, beyond - 1);
    }
    case 'range': {
      const { from, to } = test;
      const first = from
        ? firstCode(dictionary, (value) => (from.isInclusive ? value >= from.value : value > from.value))
        : 1;
      const beyond = to
        ? firstCode(dictionary, (value) => (to.isInclusive ? value > to.value : value >= to.value))
        : size + 1;
      return markRange(first, beyond - 1);
    }
    case 'in':
      return markValues(test, dictionary);
    case 'except': {
      const others = markValues(test, dictionary);
      for (let code = 1; code <= size; code++) table[code] ^= 1;
      return size - others;
    }
  }
}

function markRange(from: number, to: number): number {
  if (to < from) return 0;
  table.fill(1, from, to + 1);
  return to - from + 1;
}

function markValues({ values, sorted }: Extract<Test, { kind: 'in' | 'except' }>, dictionary: Dictionary): number {
  const { size } = dictionary;
  let marked = 0;
  // A search takes about as long as looking up as many values.
  if (sorted.length * SEARCH_STEPS > size) {
    for (let code = 1; code <= size; code++) marked += table[code] = values.has(dictionary.at(code)) ? 1 : 0;
    return marked;
  }
  for (const value of sorted) {
    const code = firstCode(dictionary, (each) => each >= value);
    if (code <= size && dictionary.at(code) === value) marked += table[code] = 1;
  }
  return marked;
}

const SEARCH_STEPS = 8;

/** The first code whose value is so, where all later ones are, too; `size + 1` if none is. */
function firstCode(dictionary: Dictionary, isSo: (value: Comparable) => boolean): number {
  let [low, high] = [1, dictionary.size + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isSo(dictionary.at(middle))) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The next two are the same for two types of array: one function for both would be compiled for
// both, and takes more than twice as long. Eight slots at a time are as many as it takes to keep
// them from being compiled into their callers, where they are slower.

function passBytes(codes: Uint8Array, care: Uint32Array, out: Uint32Array): boolean {
  const full = codes.length >> 5;
  let any = 0;
  for (let w = 0; w < full; w++) {
    let word = 0;
    if (care[w] !== 0)
      for (let i = 0, j = 32 * w; i < 32; i += 8, j += 8) {
        const low = table[codes[j]] | (table[codes[j + 1]] << 1) | (table[codes[j + 2]] << 2);
        const middle = (table[codes[j + 3]] << 3) | (table[codes[j + 4]] << 4) | (table[codes[j + 5]] << 5);
        word |= (low | middle | (table[codes[j + 6]] << 6) | (table[codes[j + 7]] << 7)) << i;
      }
    any |= out[w] = word & care[w];
  }
  return passRest(codes, care, out) || any !== 0;
}

function passCodes(codes: Uint16Array | Uint32Array, care: Uint32Array, out: Uint32Array): boolean {
  const full = codes.length >> 5;
  let any = 0;
  for (let w = 0; w < full; w++) {
    let word = 0;
    if (care[w] !== 0)
      for (let i = 0, j = 32 * w; i < 32; i += 8, j += 8) {
        const low = table[codes[j]] | (table[codes[j + 1]] << 1) | (table[codes[j + 2]] << 2);
        const middle = (table[codes[j + 3]] << 3) | (table[codes[j + 4]] << 4) | (table[codes[j + 5]] << 5);
        word |= (low | middle | (table[codes[j + 6]] << 6) | (table[codes[j + 7]] << 7)) << i;
      }
    any |= out[w] = word & care[w];
  }
  return passRest(codes, care, out) || any !== 0;
}

/** The last word, where it is not full. */
function passRest(codes: Codes, care: Uint32Array, out: Uint32Array): boolean {
  const full = codes.length >> 5;
  if (full === out.length) return false;
  let word = 0;
  for (let j = 32 * full; j < codes.length; j++) word |= table[codes[j]] << (j & 31);
  return (out[full] = word & care[full]) !== 0;
}

/** How many codes pass up to each of those of 32 slots. */
const sums = new Uint32Array(32 * MAX_KEYWORDS + 1);
/** Slots of a word up to which each is looked at by itself. */
const FEW = 8;

function passLists(codes: Codes, ends: Codes, care: Uint32Array, out: Uint32Array): boolean {
  let any = 0;
  for (let w = 0; w < out.length; w++) {
    const word = bitCount(care[w]) <= FEW ? someOf(codes, ends, 32 * w, care[w]) : allOf(codes, ends, 32 * w);
    any |= out[w] = word & care[w];
  }
  return any !== 0;
}

function someOf(codes: Codes, ends: Codes, first: number, care: number): number {
  let word = 0;
  for (let left = care; left !== 0; left &= left - 1) {
    const slot = first + 31 - Math.clz32(left & -left);
    const end = ends[slot];
    let hit = 0;
    for (let k = slot === 0 ? 0 : ends[slot - 1]; k < end; k++) hit |= table[codes[k]];
    word |= hit << (slot & 31);
  }
  return word;
}

function allOf(codes: Codes, ends: Codes, first: number): number {
  const slots = Math.min(32, ends.length - first);
  const start = first === 0 ? 0 : ends[first - 1];
  const length = ends[first + slots - 1] - start;
  let sum = 0;
  for (let k = 0; k < length; k++) sums[k + 1] = sum += table[codes[start + k]];
  let word = 0;
  let before = 0;
  for (let i = 0; i < slots; i++) {
    const until = sums[ends[first + i] - start];
    // The sign is set if there are more than before.
    word |= ((before - until) >>> 31) << i;
    before = until;
  }
  return word;
}

function bitCount(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555);
  const nibbles = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
