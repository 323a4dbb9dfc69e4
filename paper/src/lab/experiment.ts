// What an experiment is: `measure` runs it and records the source of each figure; `render`, in the
// file `name.page.ts`, makes the page and the plot from that record alone. The runner (lab.ts)
// writes both.

import type { Machine } from '@hers/vectors/machine';
import type { Result } from './report.ts';
import type { Options, Values } from './runner.ts';

/**
 * The source of a figure: the paper; a whole run here; a partial run here, multiplied; or a formula
 * alone.
 */
export type Source = 'published' | 'measured' | 'extrapolated' | 'computed';

/** A result of a benchmark, and its source. */
export interface Figure extends Result {
  source: Source;
}

/** Vectors and the people or classes they are of. */
export interface Counts {
  readonly vectors: number;
  readonly labels: number;
}

/** The record of a run, kept as JSON: everything that its page and its plot are made from. */
export interface Data<Parameters = object> {
  readonly bench: string;
  /** The day of the run, as 2026-01-31. */
  readonly date: string;
  /** The arguments of `npm run lab` that run it again. */
  readonly command: string;
  readonly parameters: Parameters & { readonly small?: true };
  readonly versions: Readonly<Record<string, string>>;
  readonly machine: Machine;
  readonly results: readonly Figure[];
  /** Lines of a plot with too many points to name each, over even steps. */
  readonly curves?: Readonly<Record<string, readonly number[]>>;
}

export interface Experiment {
  readonly name: string;
  /** One line, for the list. */
  readonly summary: string;
  /**
   * Besides `small`, which every experiment takes: the same in seconds, for tests, with figures
   * that mean nothing.
   */
  readonly options: Options;
  measure(values: Values): Promise<Data>;
}

export interface Rendered {
  /** Tables, and the text about them. Refers to the plot as `name.svg`. */
  readonly markdown: string;
  readonly svg: string;
}

/** What `name.page.ts` exports. */
export interface Page {
  render(data: Data): Promise<Rendered>;
}

/**
 * Experiments by name. They load on demand, so that listing them is instant, and rendering a page
 * loads no code that measures.
 */
export interface Experiments {
  /** The folder of their pages, in a clone. */
  readonly results: string;
  readonly byName: Readonly<
    Record<string, { readonly experiment: () => Promise<Experiment>; readonly page: () => Promise<Page> }>
  >;
}

/** What makes no difference to the page. */
const ASIDE = ['models', 'out', 'json', 'help'];

/** The options as they were given, for the command that runs an experiment again. */
export function asGiven(values: Values): string {
  return Object.entries(values)
    .filter(([name, value]) => !ASIDE.includes(name) && value !== undefined && value !== false)
    .map(([name, value]) => (value === true ? `--${name}` : `--${name} ${quoted(String(value))}`))
    .join(' ');
}

const quoted = (word: string) => (/^[\w+,./:-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
