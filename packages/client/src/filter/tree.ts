// A filter that has been checked, as a tree in which every condition is of one kind: which values
// of a field pass, or which ids.

import { type OptionNames, refuseUnknown } from '@hers/service';
import {
  type Comparable,
  comparableOf,
  EXPECTED,
  type Fields,
  type FieldType,
  invalid,
  quoted,
} from '../fields/field.ts';

export const MAX_DEPTH = 64;
/** Conditions of a filter, those of nested ones included. */
const MAX_CONDITIONS = 4096;
/** Values of `any` and `except`, ids of `hasId`. */
const MAX_VALUES = 65536;
const MAX_ID_BYTES = 1024;

export interface Bound {
  readonly value: Comparable;
  readonly isInclusive: boolean;
}

/** Which values pass: some, all but some, those that begin so, those in a range, or all. */
export type Test =
  | { readonly kind: 'in' | 'except'; readonly values: ReadonlySet<Comparable>; readonly sorted: readonly Comparable[] }
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'range'; readonly from: Bound | undefined; readonly to: Bound | undefined }
  | { readonly kind: 'any' };

export type Tree =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Tree[] }
  | { readonly kind: 'not'; readonly part: Tree }
  /** Whether one of the field's values passes. */
  | { readonly kind: 'field'; readonly field: string; readonly type: FieldType; readonly test: Test }
  | { readonly kind: 'ids'; readonly ids: ReadonlySet<string> };

/** INVALID_ARGUMENT, with what to do, unless this is a filter over these fields. */
export function treeOf(filter: unknown, fields: Fields): Tree {
  return new Reading(fields).filter(filter, 0);
}

/** Flat: no `and` in an `and`, and none of a single part. What is decided fast comes first. */
function joined(kind: 'and' | 'or', parts: readonly Tree[]): Tree {
  const flat = parts.flatMap((part) => (part.kind === kind ? part.parts : [part]));
  return flat.length === 1 ? flat[0] : { kind, parts: flat.sort((a, b) => effortOf(a) - effortOf(b)) };
}

function effortOf(tree: Tree): number {
  if (tree.kind === 'field') return tree.type === 'keyword[]' ? 1 : 0;
  return tree.kind === 'not' ? effortOf(tree.part) : 2;
}

function negated(part: Tree): Tree {
  return part.kind === 'not' ? part.part : { kind: 'not', part };
}

class Reading {
  readonly #fields: Fields;
  #conditions = 0;

  constructor(fields: Fields) {
    this.#fields = fields;
  }

  filter(given: unknown, depth: number): Tree {
    const filter = objectOf(given, 'a filter', "an object, such as { must: [{ field: 'country', match: 'NL' }] }");
    onlyKnown(filter, FILTER, 'a filter');
    const parts = [...this.#parts(filter, 'must', depth)];
    if (Object.hasOwn(filter, 'should')) {
      const should = this.#parts(filter, 'should', depth);
      if (should.length === 0) throw invalid('`should` has no condition, so that none can hold: leave it out');
      parts.push(joined('or', should));
    }
    for (const part of this.#parts(filter, 'must_not', depth)) parts.push(negated(part));
    if (parts.length === 0 && depth > 0)
      throw invalid('a condition is an empty filter, which holds for every record: leave it out');
    return joined('and', parts);
  }

  #parts(filter: Properties, clause: 'must' | 'should' | 'must_not', depth: number): Tree[] {
    if (!Object.hasOwn(filter, clause)) return [];
    const given = filter[clause];
    if (depth >= MAX_DEPTH) throw invalid(`filters are nested at most ${MAX_DEPTH} deep; make this one flatter`);
    // Not `map`, which leaves out holes.
    return Array.from(Array.isArray(given) ? given : [given], (each) => this.#condition(each, clause, depth));
  }

  #condition(given: unknown, clause: string, depth: number): Tree {
    if (++this.#conditions > MAX_CONDITIONS)
      throw invalid(`a filter has at most ${MAX_CONDITIONS} conditions; name many values by { any: [...] }`);
    const condition = objectOf(given, `a condition of \`${clause}\``, 'an object, such as { field, match }');
    if (Object.hasOwn(condition, 'field')) return this.#onField(condition);
    if (Object.hasOwn(condition, 'hasId')) return idsOf(condition);
    if (Object.keys(condition).every((name) => !Object.hasOwn(FILTER, name)) && Object.keys(condition).length > 0)
      throw invalid(
        `a condition has \`field\`, \`hasId\`, \`must\`, \`should\` or \`must_not\`, not ${names(condition)}`,
      );
    return this.filter(condition, depth + 1);
  }

  #onField(condition: Properties): Tree {
    onlyKnown(condition, ON_FIELD, 'a condition on a field');
    const { field } = condition;
    if (typeof field !== 'string') throw invalid('`field` is the name of a field, a text');
    if (!Object.hasOwn(this.#fields, field)) throw unknownField(field, this.#fields);
    const type = this.#fields[field];
    const [what, ...more] = Object.keys(condition).filter((name) => name !== 'field');
    if (what === undefined || more.length > 0)
      throw invalid(
        `the condition on ${quoted(field)} has one of \`match\`, \`range\` and \`empty\`; take two for two`,
      );
    const given = condition[what];
    if (what === 'empty') {
      if (typeof given !== 'boolean') throw invalid(`\`empty\` of ${quoted(field)} is true or false`);
      const isThere: Tree = { kind: 'field', field, type, test: { kind: 'any' } };
      return given ? negated(isThere) : isThere;
    }
    const test = what === 'range' ? rangeOf(given, field, type) : matchOf(given, field, type);
    return { kind: 'field', field, type, test };
  }
}

type Properties = Readonly<Record<string, unknown>>;

const FILTER: OptionNames<Properties> = { must: true, should: true, must_not: true };
const ON_FIELD: OptionNames<Properties> = { field: true, match: true, range: true, empty: true };
const MATCH: OptionNames<Properties> = { value: true, any: true, except: true, prefix: true };
const RANGE: OptionNames<Properties> = { gt: true, gte: true, lt: true, lte: true };

function matchOf(given: unknown, field: string, type: FieldType): Test {
  if (typeof given !== 'object' || given === null) return valuesTest('in', [operandOf(given, field, type)]);
  const match = objectOf(given, `\`match\` of ${quoted(field)}`, 'a value, or { any }, { except } or { prefix }');
  onlyKnown(match, MATCH, `\`match\` of ${quoted(field)}`);
  const [kind, ...more] = Object.keys(match);
  if (kind === undefined || more.length > 0)
    throw invalid(`\`match\` of ${quoted(field)} has one of value, any, except and prefix`);
  const operand = match[kind];
  if (kind === 'value') return valuesTest('in', [operandOf(operand, field, type)]);
  if (kind === 'prefix') {
    if (type !== 'keyword' && type !== 'keyword[]')
      throw invalid(`${quoted(field)} is a ${type}, and only texts have a prefix; use match or range`);
    return { kind: 'prefix', prefix: operandOf(operand, field, type) as string };
  }
  const values = listOf(operand, `\`${kind}\` of ${quoted(field)}`, 'values');
  return valuesTest(
    kind === 'any' ? 'in' : 'except',
    values.map((value) => operandOf(value, field, type)),
  );
}

function valuesTest(kind: 'in' | 'except', given: readonly Comparable[]): Test {
  const values = new Set(given);
  const sorted = [...values].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return { kind, values, sorted };
}

function rangeOf(given: unknown, field: string, type: FieldType): Test {
  if (type !== 'number' && type !== 'date')
    throw invalid(`${quoted(field)} is a ${type}, and only numbers and dates have a range; use match`);
  const range = objectOf(given, `\`range\` of ${quoted(field)}`, 'an object of gt, gte, lt or lte');
  onlyKnown(range, RANGE, `\`range\` of ${quoted(field)}`);
  if (Object.keys(range).length === 0)
    throw invalid(`\`range\` of ${quoted(field)} has no bound; give gt, gte, lt or lte`);
  const bound = (inclusive: string, exclusive: string): Bound | undefined => {
    const [name, other] = [inclusive, exclusive].filter((each) => Object.hasOwn(range, each));
    if (other !== undefined)
      throw invalid(`\`range\` of ${quoted(field)} has both ${inclusive} and ${exclusive}; leave out one`);
    if (name === undefined) return undefined;
    return { value: operandOf(range[name], field, type), isInclusive: name === inclusive };
  };
  return { kind: 'range', from: bound('gte', 'gt'), to: bound('lte', 'lt') };
}

function idsOf(condition: Properties): Tree {
  onlyKnown(condition, { hasId: true }, 'a condition on ids');
  const ids = listOf(condition.hasId, '`hasId`', 'ids');
  for (const id of ids)
    if (typeof id !== 'string' || id === '' || id.length > MAX_ID_BYTES || !id.isWellFormed())
      throw invalid(`\`hasId\` names ids of records: texts of 1 to ${MAX_ID_BYTES} bytes`);
  return { kind: 'ids', ids: new Set(ids as readonly string[]) };
}

function operandOf(given: unknown, field: string, type: FieldType): Comparable {
  if (given === null)
    throw invalid(`${quoted(field)} is compared with null; say { field: ${quoted(field)}, empty: true }`);
  const operand = comparableOf(type, given);
  if (operand !== undefined) return operand;
  throw invalid(`${quoted(field)} is compared with what is not ${EXPECTED[type === 'keyword[]' ? 'keyword' : type]}`);
}

export function unknownField(field: string, fields: Fields): Error {
  const known = Object.keys(fields);
  const those = known.length === 0 ? 'it has none; add it to the fields first' : `it has ${known.join(', ')}`;
  return invalid(`the collection has no field ${quoted(field)}: ${those}`);
}

function objectOf(given: unknown, what: string, expected: string): Properties {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw invalid(`${what} is ${expected}`);
  return given as Properties;
}

function listOf(given: unknown, what: string, of: string): readonly unknown[] {
  if (!Array.isArray(given)) throw invalid(`${what} is a list of ${of}`);
  if (given.length === 0)
    throw invalid(`${what} has no ${of}, so that nothing is said; name one, or leave the condition out`);
  if (given.length > MAX_VALUES) throw invalid(`${what} has at most ${MAX_VALUES} ${of}; split it up`);
  return [...given];
}

function onlyKnown(given: Properties, known: OptionNames<Properties>, what: string): void {
  refuseUnknown(given, known, what);
  for (const name of Object.keys(given))
    if (given[name] === undefined) throw invalid(`${name} of ${what} is undefined; leave it out, or give it a value`);
}

function names(given: Properties): string {
  return Object.keys(given).slice(0, 5).map(quoted).join(', ');
}

/**
 * Returns a text that is the same for filters that differ in order, repetition and nesting alone:
 * answers are found again by it. It names types: a field may be dropped and come back with another.
 */
export function canonicalText(tree: Tree): string {
  switch (tree.kind) {
    case 'and':
      return listed('and', tree.parts.flatMap(conjuncts));
    case 'or':
      return listed('or', tree.parts.map(canonicalText));
    case 'not':
      return `not(${canonicalText(tree.part)})`;
    case 'ids':
      return `id${JSON.stringify([...tree.ids].sort())}`;
    case 'field':
      return listed('and', conjuncts(tree));
  }
}

/** A range with two bounds is the same as two ranges. */
function conjuncts(tree: Tree): string[] {
  if (tree.kind !== 'field') return [canonicalText(tree)];
  return conditions(tree.test).map((condition) => `${tree.field}:${tree.type} ${condition}`);
}

function conditions(test: Test): string[] {
  switch (test.kind) {
    case 'any':
      return ['there'];
    case 'prefix':
      return [`prefix${JSON.stringify(test.prefix)}`];
    case 'range': {
      const { from, to } = test;
      const least = from ? [`${from.isInclusive ? '>=' : '>'}${from.value}`] : [];
      return [...least, ...(to ? [`${to.isInclusive ? '<=' : '<'}${to.value}`] : [])];
    }
    default:
      return [`${test.kind}${JSON.stringify(test.sorted)}`];
  }
}

function listed(kind: 'and' | 'or', parts: readonly string[]): string {
  const sorted = [...new Set(parts)].sort();
  return sorted.length === 1 ? sorted[0] : `${kind}(${sorted.join(',')})`;
}
