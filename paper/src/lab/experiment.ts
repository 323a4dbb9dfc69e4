// What an experiment is: `measure` runs it and records the source of each figure; `render`, in the
// file `name.page.ts`, makes the page and the plot from that record alone. The runner (lab.ts)
// writes both.

import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type Machine, machine } from '@hers/vectors/machine';
import type { Result } from './report.ts';
import type { Options, RunnerOption, Values } from './runner.ts';

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

// The record of a run: its figures, and the facts needed to interpret them.

export interface Measured<Parameters> {
  readonly parameters: Parameters;
  readonly results: readonly Figure[];
  readonly curves?: Data['curves'];
}

/** `options` are those that run it again, by default the values as given. */
export function record<Parameters>(
  bench: string,
  values: Values,
  { parameters, results, curves }: Measured<Parameters>,
  options: string = asGiven(values),
): Data<Parameters> {
  return {
    bench,
    date: new Date().toISOString().slice(0, 10),
    command: `${bench} ${options}`.trim(),
    parameters: { ...parameters, ...(values.small === true ? { small: true } : {}) },
    versions: versions(),
    machine: machine(),
    results,
    ...(curves === undefined ? {} : { curves }),
  };
}

/** Versions of the measured software. */
function versions(): Record<string, string> {
  return {
    'node-seal': versionOf('node-seal', import.meta.resolve('node-seal')),
    hers: versionOf('@hers/scheme', import.meta.resolve('@hers/scheme')),
  };
}

/** Not every package exports its package.json, so it is searched for above the entry point. */
function versionOf(name: string, entry: string): string {
  for (let folder = new URL('.', entry); folder.pathname !== '/'; folder = new URL('..', folder)) {
    const file = new URL('package.json', folder);
    if (!existsSync(file)) continue;
    const { name: found, version } = JSON.parse(readFileSync(file, 'utf8'));
    if (found === name) return version;
  }
  throw new Error(`${name} has no package.json`);
}

// An experiment that takes hours is measured a part at a time: what an earlier run found of the
// other parts stays on the page, with its day and its command.

export const BESIDE_OPTION: RunnerOption = {
  type: 'string',
  help: 'the data of an earlier run, such as paper/results/NAME.json; what is not measured now is taken from there',
};

/** The day and the command of the run that a part of a page is from. */
export interface Apart {
  readonly date: string;
  readonly command: string;
}

/** An earlier run of the same experiment. */
export async function earlierRun<Parameters>(file: string, bench: string): Promise<Data<Parameters>> {
  let data: Data<Parameters> | undefined;
  try {
    data = JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new RangeError(`${file} cannot be read as the data of a run`, { cause });
  }
  if (data?.bench !== bench) throw new RangeError(`${file} is no run of ${bench}`);
  return data;
}

/** The earlier run, which has to be of the same split; `undefined` where none is named. */
export async function besideRun<Parameters extends { readonly split: string }>(
  { beside }: { readonly beside?: unknown },
  bench: string,
  split: string,
): Promise<Data<Parameters> | undefined> {
  if (typeof beside !== 'string') return undefined;
  const data = await earlierRun<Parameters>(beside, bench);
  if (data.parameters.split !== split)
    throw new RangeError(`${beside} is of the split ${data.parameters.split}, not ${split}`);
  return data;
}

/** The command that runs it again, without the place of the file. */
export const besideAgain = (again: string, file: unknown): string =>
  file === undefined ? again : `${again} --beside <file>`;

export const saidApart = (apart: Apart | undefined): string =>
  apart === undefined ? '' : ` Measured on ${apart.date} by \`npm run lab -- ${apart.command}\`.`;
