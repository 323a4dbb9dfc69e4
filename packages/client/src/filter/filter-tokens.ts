// The words, texts and signs of which a filter is written (filter-text.ts).

import { invalid } from '../fields/field.ts';

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

export function isComparison(text: string): text is Comparison {
  return (COMPARISONS as readonly string[]).includes(text);
}

export function tokensOf(text: string): Token[] {
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
