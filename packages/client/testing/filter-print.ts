// A filter in the words of filter-text.ts.

import type { Fields, FieldType } from '../src/fields/field.ts';
import { type Condition, conditionsOf, type Filter } from '../src/filter/filter.ts';
import type { Comparison } from '../src/filter/filter-text.ts';
import { treeOf } from '../src/filter/tree.ts';

/**
 * The text of a filter, which parses to one that means the same. A filter without conditions is the
 * empty text, which does not parse.
 */
export function printFilter(filter: Filter, fields: Fields): string {
  treeOf(filter, fields);
  return print(filter, fields).text;
}

/** `isAlone`: needs no parentheses wherever it stands. */
interface Printed {
  readonly text: string;
  readonly isAlone: boolean;
}

function print(condition: Condition, fields: Fields): Printed {
  if ('hasId' in condition) return { text: `id in (${printed(condition.hasId)})`, isAlone: true };
  if ('field' in condition) return joined(printOn(condition as OnField, fields[condition.field]), ' and ');
  const filter = condition as Filter;
  const parts = conditionsOf(filter.must).map((part) => print(part, fields));
  if (filter.should !== undefined) {
    const should = conditionsOf(filter.should).map((part) => enclosed(print(part, fields)));
    parts.push(joined(should, ' or '));
  }
  for (const part of conditionsOf(filter.must_not))
    parts.push({ text: `not ${enclosed(print(part, fields))}`, isAlone: true });
  return parts.length === 1 ? parts[0] : joined(parts.map(enclosed), ' and ');
}

function joined(texts: readonly string[], word: string): Printed {
  return { text: texts.join(word), isAlone: texts.length === 1 };
}

function enclosed({ text, isAlone }: Printed): string {
  return isAlone ? text : `(${text})`;
}

interface OnField {
  readonly field: string;
  readonly match?: Operand | { readonly [kind: string]: Operand | readonly Operand[] };
  readonly range?: { readonly [bound: string]: Operand };
  readonly empty?: boolean;
}
type Operand = string | number | boolean;

const BOUNDS: Readonly<Record<string, Comparison>> = { gt: '>', gte: '>=', lt: '<', lte: '<=' };

function printOn({ field, match, range, empty }: OnField, type: FieldType): string[] {
  const name = ['and', 'or', 'not', 'id'].includes(field.toLowerCase()) ? JSON.stringify(field) : field;
  if (empty !== undefined) return [`${name} is ${empty ? '' : 'not '}empty`];
  if (range !== undefined)
    return Object.keys(range).map((bound) => `${name} ${BOUNDS[bound]} ${printed([range[bound]])}`);
  if (typeof match !== 'object') return [`${name} = ${printed([match!])}`];
  const [kind] = Object.keys(match);
  const operand = match[kind];
  if (kind === 'value') return [`${name} = ${printed([operand as Operand])}`];
  if (kind === 'prefix') return [`${name} starts with ${printed([operand as Operand])}`];
  const word = kind === 'any' ? 'in' : type === 'keyword[]' ? 'not only in' : 'not in';
  return [`${name} ${word} (${printed(operand as readonly Operand[])})`];
}

function printed(values: readonly Operand[]): string {
  return values.map((value) => JSON.stringify(value)).join(', ');
}
