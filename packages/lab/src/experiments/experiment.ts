// What an experiment is: it measures, and says where each figure comes from. The runner (../lab.ts) prints and writes what it returns.

import type { ParseArgsOptionDescriptor } from 'node:util';
import type { Report, Result } from '../report.ts';

/**
 * Where a figure comes from: the paper; a run here, whole; a run of a part here, multiplied; or a formula alone.
 */
export type Source = 'published' | 'measured' | 'extrapolated' | 'computed';

/** A result of a benchmark, and its source. */
export interface Figure extends Result {
  source: Source;
}

export interface Outcome {
  /** The benchmarks' own form, with the source of every result. */
  report: Omit<Report, 'results'> & { results: Figure[] };
  /** For docs/results: tables, and what has to be said about them. Names the plot as `name.svg`. */
  markdown: string;
  svg: string;
}

export type Option = ParseArgsOptionDescriptor & { help: string };
export type Values = { [name: string]: string | boolean | (string | boolean)[] | undefined };

export interface Experiment {
  readonly name: string;
  /** One line, for the list. */
  readonly summary: string;
  /** Beside `small`, which every experiment takes: the same in seconds, for tests, with figures that mean nothing. */
  readonly options: Record<string, Option>;
  run(values: Values): Promise<Outcome>;
}

const isCount = (number: number) => Number.isSafeInteger(number) && number > 0;

/** An option that is a list of whole numbers, separated by commas; what is named twice counts once. */
export function wholeNumbers(value: Values[string], otherwise: readonly number[]): number[] {
  if (typeof value !== 'string') return [...otherwise];
  const numbers = value.split(',').map(Number);
  if (numbers.every(isCount)) return [...new Set(numbers)];
  throw new RangeError(`${JSON.stringify(value)} is not a list of positive whole numbers`);
}

/** An option that is one whole number. */
export function wholeNumber(values: Values, name: string, otherwise: number): number {
  const value = values[name];
  if (value === undefined) return otherwise;
  if (isCount(Number(value))) return Number(value);
  throw new RangeError(`--${name} is one positive whole number, not ${JSON.stringify(value)}`);
}

/** What makes no difference to the page. */
const ASIDE = ['models', 'out', 'json', 'help'];

/** The options as they were given, for the command that makes a page again. */
export function asGiven(values: Values): string {
  return Object.entries(values)
    .filter(([name, value]) => !ASIDE.includes(name) && value !== undefined && value !== false)
    .map(([name, value]) => (value === true ? `--${name}` : `--${name} ${quoted(String(value))}`))
    .join(' ');
}

const quoted = (word: string) => (/^[\w+,./:-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
