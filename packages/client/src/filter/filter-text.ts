// Filters as people write them in a shell:
//
//   country = NL and age >= 18 and not tags in (vip, staff)
//
//   filter      and binds more strongly than or, not more strongly than both; parentheses
//   condition   field = value           is the value; of a list, has it
//               field != value          has a value, and it is another (not of lists)
//               field < <= > >= value   numbers and dates
//               field in (a, b)         one of these
//               field not in (a, b)     has a value, and it is none of these (not of lists)
//               field not only in (a, b)   has a value that is none of these: `except`, for lists
//               field starts with text
//               field is empty, field is not empty
//               id = x, id != x, id in (x, y), id not in (x, y)   the record's id
//   field       a bare word, or quoted where it is one of the words and, or, not, id
//   value       a bare word or a quoted text, read as the field's type says: 18 is a text where the
//               field is a keyword. After an operator every word is a value: state = OR.
//   bare word   anything but white space, ( ) , = ! < > & | ; \ ` and quotes
//   quoted      in " or ', with the escapes of JSON, and \'
//
// The words of the grammar may be in upper case. `!=` and `not in` do not hold for a missing value,
// as in SQL and as `except`; `not country = NL` does. On lists `not in` could be read in two ways,
// so it is an error that names both.

import { comparableOf, EXPECTED, type Fields, type FieldType, invalid } from '../fields/field.ts';
import { type Bounds, type Condition, conditionsOf, type Filter } from './filter.ts';
import { MAX_DEPTH, treeOf, unknownField } from './tree.ts';

/** Of a text, in UTF-16 code units. */
const MAX_LENGTH = 2 ** 20;
/** A filter that is nested once is at most a `not` and a parenthesis. */
const MAX_NESTING = 2 * MAX_DEPTH;
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
/**
 * The filter that a text says.
 *
 * @param text - A filter as people write it: see docs/filters.md.
 * @param fields - The fields of the collection, which say how values are read.
 * @throws {HersError} INVALID_ARGUMENT: where the text says no filter, or names a field that there
 *   is not; the message shows the place.
 * @example
 * const filter = parseFilter('country = NL and age >= 18', await faces.fields());
 */
export function parseFilter(text: string, fields: Fields): Filter {
  if (typeof text !== 'string') throw invalid('a filter to read is a text');
  if (typeof fields !== 'object' || fields === null)
    throw invalid('a text is read by the fields of its collection: parseFilter(text, await collection.fields())');
  if (text.length > MAX_LENGTH)
    throw invalid(`a filter has at most ${MAX_LENGTH} characters as a text; give it as JSON`);
  const filter = new Parser(text, fields).whole();
  treeOf(filter, fields);
  return filter;
}

class Parser {
  readonly #text: string;
  readonly #fields: Fields;
  readonly #tokens: readonly Token[];
  #next = 0;
  #nesting = 0;

  constructor(text: string, fields: Fields) {
    this.#text = text;
    this.#fields = fields;
    this.#tokens = tokensOf(text);
  }

  #wrong(at: number, message: string): Error {
    return wrong(this.#text, at, message);
  }

  whole(): Filter {
    if (this.#peek().kind === 'end') throw this.#wrong(0, 'the filter is empty; leave it out to take every record');
    const condition = this.#either();
    const { kind, at, text } = this.#peek();
    if (kind !== 'end') throw this.#wrong(at, `expected \`and\` or \`or\` before ${JSON.stringify(text)}`);
    return isFilter(condition) ? condition : { must: [condition] };
  }

  #either(): Condition {
    const parts = [this.#both()];
    while (this.#takeWord('or')) parts.push(this.#both());
    return parts.length === 1 ? parts[0] : { should: parts };
  }

  #both(): Condition {
    const parts = [this.#negation()];
    while (this.#takeWord('and')) parts.push(this.#negation());
    return parts.length === 1 ? parts[0] : conjunction(parts);
  }

  #negation(): Condition {
    const { at } = this.#peek();
    if (++this.#nesting > MAX_NESTING) throw this.#wrong(at, `more than ${MAX_DEPTH} levels; make the filter flatter`);
    try {
      if (this.#takeWord('not')) return { must_not: [this.#negation()] };
      if (!this.#takeSymbol('(')) return this.#comparison();
      const inner = this.#either();
      this.#expectSymbol(')', 'to close the parenthesis');
      return inner;
    } finally {
      this.#nesting--;
    }
  }

  #comparison(): Condition {
    const name = this.#take();
    if (name.kind === 'end' || name.kind === 'symbol') throw this.#wrong(name.at, 'expected the name of a field');
    if (isWord(name, 'and') || isWord(name, 'or'))
      throw this.#wrong(name.at, `expected a condition before \`${name.text}\`; a field of this name is quoted`);
    if (isWord(name, 'id')) return this.#onId(name);
    const field = name.text;
    if (!Object.hasOwn(this.#fields, field)) throw this.#wrong(name.at, unknownField(field, this.#fields).message);
    const type = this.#fields[field];
    const operator = this.#peek();
    switch (this.#operator()) {
      case '=':
        return { field, match: this.#value(type) } as Condition;
      case '!=':
        this.#refuseList(type, field, operator);
        return { field, match: { except: [this.#value(type)] } } as Condition;
      case '<':
        return this.#bound(field, type, 'lt', operator);
      case '<=':
        return this.#bound(field, type, 'lte', operator);
      case '>':
        return this.#bound(field, type, 'gt', operator);
      case '>=':
        return this.#bound(field, type, 'gte', operator);
      case 'in':
        return { field, match: { any: this.#list(() => this.#value(type)) } } as Condition;
      case 'not in':
        this.#refuseList(type, field, operator);
        return { field, match: { except: this.#list(() => this.#value(type)) } } as Condition;
      case 'not only in':
        return { field, match: { except: this.#list(() => this.#value(type)) } } as Condition;
      case 'starts with':
        if (type !== 'keyword' && type !== 'keyword[]')
          throw this.#wrong(operator.at, `${field} is a ${type}, and only texts start with something`);
        return { field, match: { prefix: this.#value(type) as string } };
      case 'is empty':
        return { field, empty: true };
      case 'is not empty':
        return { field, empty: false };
    }
  }

  #onId(name: Token): Condition {
    const { at } = this.#peek();
    const operator = this.#operator();
    if (operator === '=' || operator === '!=') {
      const hasId = [this.#valueToken().text];
      return operator === '=' ? { hasId } : { must_not: [{ hasId }] };
    }
    if (operator !== 'in' && operator !== 'not in')
      throw this.#wrong(at, `\`${name.text}\` is the id of a record: = != in, not in; a field of this name is quoted`);
    const hasId = this.#list(() => this.#valueToken().text);
    return operator === 'in' ? { hasId } : { must_not: [{ hasId }] };
  }

  #operator(): Operator {
    const token = this.#take();
    if (token.kind === 'symbol' && isComparison(token.text)) return token.text;
    if (isWord(token, 'in')) return 'in';
    if (isWord(token, 'starts') && this.#takeWord('with')) return 'starts with';
    if (isWord(token, 'is')) {
      const isNot = this.#takeWord('not');
      if (this.#takeWord('empty')) return isNot ? 'is not empty' : 'is empty';
    }
    if (isWord(token, 'not')) {
      const isOnly = this.#takeWord('only');
      if (this.#takeWord('in')) return isOnly ? 'not only in' : 'not in';
    }
    const operators = '= != < <= > >=, in (…), not in (…), starts with, is empty, is not empty';
    throw this.#wrong(token.at, `expected one of ${operators}`);
  }

  #bound(field: string, type: FieldType, bound: keyof Bounds<never>, { at, text }: Token): Condition {
    if (type !== 'number' && type !== 'date')
      throw this.#wrong(at, `${field} is a ${type}, and ${text} compares numbers and dates`);
    return { field, range: { [bound]: this.#value(type) } } as Condition;
  }

  /** Of a list, "not in" can mean two things, and one of them is rarely what is meant. */
  #refuseList(type: FieldType, field: string, { at }: Token): void {
    if (type === 'keyword[]')
      throw this.#wrong(
        at,
        `${field} is a list: write \`not ${field} in (…)\` for records with none of these, or \`${field} not only in (…)\` for records that have others`,
      );
  }

  #list<T>(element: () => T): T[] {
    this.#expectSymbol('(', 'before the values');
    const values = [element()];
    while (this.#takeSymbol(',')) values.push(element());
    this.#expectSymbol(')', 'after the values, or a comma between two');
    return values;
  }

  #value(type: FieldType): string | number | boolean {
    const token = this.#valueToken();
    const value = read(token, type);
    if (comparableOf(type, value) === undefined)
      throw this.#wrong(token.at, `expected ${EXPECTED[type === 'keyword[]' ? 'keyword' : type]}`);
    return value;
  }

  #valueToken(): Token {
    const token = this.#take();
    if (token.kind !== 'word' && token.kind !== 'quoted') throw this.#wrong(token.at, 'expected a value');
    return token;
  }

  #peek(): Token {
    return this.#tokens[this.#next];
  }

  #take(): Token {
    const token = this.#peek();
    if (token.kind !== 'end') this.#next++;
    return token;
  }

  #takeWord(word: string): boolean {
    const isIt = isWord(this.#peek(), word);
    if (isIt) this.#next++;
    return isIt;
  }

  #takeSymbol(symbol: string): boolean {
    const { kind, text } = this.#peek();
    const isIt = kind === 'symbol' && text === symbol;
    if (isIt) this.#next++;
    return isIt;
  }

  #expectSymbol(symbol: string, why: string): void {
    if (!this.#takeSymbol(symbol)) throw this.#wrong(this.#peek().at, `expected ${symbol} ${why}`);
  }
}

type Operator = Comparison | 'in' | 'not in' | 'not only in' | 'starts with' | 'is empty' | 'is not empty';

function isWord({ kind, text }: Token, word: string): boolean {
  return kind === 'word' && text.toLowerCase() === word;
}

function read({ kind, text }: Token, type: FieldType): string | number | boolean {
  if (kind === 'word' && type === 'number' && NUMBER.test(text)) return Number(text);
  if (kind === 'word' && type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

function isFilter(condition: Condition): condition is Filter {
  return !('field' in condition) && !('hasId' in condition);
}

/** In the three clauses of one filter, as a person would put it. */
function conjunction(parts: readonly Condition[]): Filter {
  const must: Condition[] = [];
  const not: Condition[] = [];
  let should: Filter['should'];
  for (const part of parts) {
    const clauses = isFilter(part) ? Object.keys(part).join() : '';
    if (clauses === 'must_not') not.push(...conditionsOf((part as Filter).must_not));
    else if (clauses === 'must') must.push(...conditionsOf((part as Filter).must));
    else if (clauses === 'should' && should === undefined) should = (part as Filter).should;
    else must.push(part);
  }
  return {
    ...(must.length > 0 ? { must } : {}),
    ...(should === undefined ? {} : { should }),
    ...(not.length > 0 ? { must_not: not } : {}),
  };
}

/** What an error shows of a long text, on either side. */
const SHOWN = 50;
const NOT_IN_WORDS = /[\s()",'=!<>&|;\\`‘’“”\p{Cc}]/u;
const ESCAPES: Readonly<Record<string, string>> = {
  ...{ '"': '"', "'": "'", '\\': '\\', '/': '/' },
  ...{ b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' },
};

const COMPARISONS = ['=', '!=', '<', '<=', '>', '>='] as const;
export type Comparison = (typeof COMPARISONS)[number];

export interface Token {
  readonly kind: 'word' | 'quoted' | 'symbol' | 'end';
  readonly text: string;
  readonly at: number;
}

function isComparison(text: string): text is Comparison {
  return (COMPARISONS as readonly string[]).includes(text);
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < text.length) {
    const character = text[at];
    if (/\s/.test(character)) {
      at++;
      continue;
    }
    const token = tokenAt(text, at);
    tokens.push(token.token);
    at = token.end;
  }
  tokens.push({ kind: 'end', text: '', at: text.length });
  return tokens;
}

function tokenAt(text: string, at: number): { readonly token: Token; readonly end: number } {
  const character = text[at];
  if (character === '"' || character === "'") return quotedAt(text, at);
  const pair = text.slice(at, at + 2);
  if (isComparison(pair)) return { token: { kind: 'symbol', text: pair, at }, end: at + 2 };
  if ('()=<>,'.includes(character)) return { token: { kind: 'symbol', text: character, at }, end: at + 1 };
  let end = at;
  while (end < text.length && !NOT_IN_WORDS.test(text[end])) end++;
  if (end > at) return { token: { kind: 'word', text: text.slice(at, end), at }, end };
  throw wrong(text, at, INSTEAD[character] ?? 'this character stands in quotes only');
}

const CURLY = 'quotes are straight: " or \'';
const INSTEAD: Readonly<Record<string, string>> = {
  ...{ '&': 'write `and`', '|': 'write `or`', '!': 'write `not`, or != between a field and a value' },
  ...{ '‘': CURLY, '’': CURLY, '“': CURLY, '”': CURLY },
};

function quotedAt(text: string, at: number): { readonly token: Token; readonly end: number } {
  const quote = text[at];
  let content = '';
  for (let i = at + 1; i < text.length; i++) {
    const character = text[i];
    if (character === quote) return { token: { kind: 'quoted', text: content, at }, end: i + 1 };
    if (character !== '\\') {
      content += character;
      continue;
    }
    const escaped = text[++i] ?? '';
    const code = text.slice(i + 1, i + 5);
    if (escaped === 'u' && /^[0-9a-fA-F]{4}$/.test(code)) {
      content += String.fromCharCode(Number.parseInt(code, 16));
      i += 4;
    } else if (Object.hasOwn(ESCAPES, escaped)) content += ESCAPES[escaped];
    else throw wrong(text, i - 1, 'no such escape: there are \\" \\\' \\\\ \\/ \\b \\f \\n \\r \\t and \\u0000');
  }
  throw wrong(text, at, `this text has no closing ${quote}`);
}

/** With the text, and a caret under the place. */
export function wrong(text: string, at: number, message: string): Error {
  const start = Math.max(0, at - SHOWN);
  const shown = text
    .slice(start, at + SHOWN)
    .toWellFormed()
    .replaceAll(/[\s\p{Cc}]/gu, ' ');
  const before = [...shown.slice(0, at - start)].length;
  return invalid(`in the filter, ${message}\n  ${shown}\n  ${' '.repeat(before)}^`);
}
