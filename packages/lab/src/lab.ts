// `hers lab <name> [--json] [--small] [--out <folder>] [options of the experiment]` runs an
// experiment, writes its data, and renders its page and plot from them. `hers lab render [name]`
// renders again, without measuring.

import { existsSync } from 'node:fs';
import { access, constants, mkdir, open, readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AS_FILE, isFileThere } from '@hers/service/target';
import type { Data, Experiment, Page, Rendered } from './experiments/experiment.ts';
import { EXPERIMENTS } from './experiments/index.ts';
import { complain, progress } from './report.ts';
import { type Listed, type Options, parse, type Runner, refuse, UsageError, type Values } from './runner.ts';

/** The pages of results, in a clone. */
export const RESULTS: string = fileURLToPath(new URL('../../../docs/results/', import.meta.url));

/** Outside a clone, a folder here. */
const defaultFolder = () => (existsSync(RESULTS) ? RESULTS : resolve('results'));

const COMMON: Options = {
  json: { type: 'boolean', help: 'print the data as one JSON object and nothing else' },
  small: { type: 'boolean', help: 'the same in seconds, to see that it works: its figures mean nothing' },
  out: { type: 'string', help: 'the folder to write to (docs/results; nowhere when small)' },
};

interface Item extends Listed {
  run(values: Values, operand: string | undefined): Promise<void>;
}

/** An optional dependency is not installed. */
class MissingError extends Error {}

/** Loads a part of an experiment. */
async function load<T>(name: string, part: () => Promise<T>): Promise<T> {
  try {
    return await part();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const [, missing] = /Cannot find package '([^']+)'/.exec(message) ?? [];
    if (code !== 'ERR_MODULE_NOT_FOUND' || missing === undefined) throw error;
    throw new MissingError(`${name} needs the package ${missing}, which is not installed`, { cause: error });
  }
}

/**
 * The page is loaded before anything is measured. Otherwise a run of hours might fail at its end.
 */
async function itemOf(name: string): Promise<Item> {
  const experiment = await load(name, () => EXPERIMENTS[name].experiment());
  const page = await load(name, () => EXPERIMENTS[name].page());
  const { summary, options } = experiment;
  return { summary, options, run: (values) => measureAndRender(experiment, page, values) };
}

const RENDER: Item = {
  summary: 'make every page again from its data, or the one that is named; nothing is measured',
  options: {},
  operand: 'name',
  async run(values, operand) {
    if (values.json || values.small) throw new UsageError('render takes neither --json nor --small');
    if (operand !== undefined && !Object.hasOwn(EXPERIMENTS, operand))
      throw new UsageError(`There is no experiment '${operand}'`);
    const folder = typeof values.out === 'string' ? values.out : defaultFolder();
    const names = operand === undefined ? await renderable(folder) : [operand];
    for (const name of names) await writePage(name, await renderAgain(name, folder), folder);
    progress(`rendered in ${folder}: ${names.join(', ')}`);
  },
};

const RUNNER: Runner<Item> = {
  command: 'hers lab',
  noun: 'experiment',
  items: {
    ...Object.fromEntries(Object.keys(EXPERIMENTS).map((name) => [name, () => itemOf(name)])),
    render: () => RENDER,
  },
  // In the list, an experiment that cannot be run says why.
  unavailable(error) {
    if (error instanceof MissingError) return { summary: `(not here: ${error.message})`, options: {} };
    throw error;
  },
  common: COMMON,
  examples: ['hers lab table2 --small', 'hers lab table2 --small --json', 'hers lab render faces'],
  remedy: '`hers lab` lists what there is',
};

/** The experiments that have data in a folder. */
async function renderable(folder: string): Promise<string[]> {
  const names = Object.keys(EXPERIMENTS).filter((name) => existsSync(`${folder}/${name}.json`));
  if (names.length === 0) throw new UsageError(`${folder} holds no data of an experiment`);
  return names;
}

/** The page and the plot of data in a folder. */
export async function renderAgain(name: string, folder: string): Promise<Rendered> {
  const page = await load(name, () => EXPERIMENTS[name].page());
  const data: Data = JSON.parse(await readFile(`${folder}/${name}.json`, 'utf8'));
  if (data.bench !== name) throw new UsageError(`${name}.json holds the data of ${data.bench}`);
  return page.render(data);
}

async function measureAndRender(experiment: Experiment, page: Page, values: Values): Promise<void> {
  const { json: asJson, out, help: _, ...options } = values;
  const { name } = experiment;
  const folder = typeof out === 'string' ? out : options.small ? undefined : defaultFolder();
  if (folder !== undefined) await requireWritable(name, folder);
  const data = await experiment.measure(options);
  let rendered: Rendered;
  try {
    // Printed first: whatever happens to the folder, the figures are not lost.
    if (asJson) process.stdout.write(`${JSON.stringify(data)}\n`);
    rendered = await page.render(data);
    if (!asJson) process.stdout.write(rendered.markdown);
  } finally {
    if (folder !== undefined) await writeData(name, data, folder);
  }
  if (folder === undefined) return;
  await writePage(name, rendered, folder);
  progress(`written to ${folder}: ${name}.json, ${name}.md and ${name}.svg`);
}

/** JSON with lists of plain values in one line. */
function json(value: unknown, indent = ''): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.every((item) => typeof item !== 'object'))
      return `[${value.map((item) => JSON.stringify(item)).join(', ')}]`;
    return `[\n${value.map((item) => inner + json(item, inner)).join(',\n')}\n${indent}]`;
  }
  const lines = Object.entries(value).map(([key, item]) => `${inner}${JSON.stringify(key)}: ${json(item, inner)}`);
  return `{\n${lines.join(',\n')}\n${indent}}`;
}

/** A run may take hours, so a folder that cannot be written is reported before it. */
async function requireWritable(name: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await access(folder, constants.W_OK);
  for (const ending of ['md', 'svg', 'json']) {
    const path = `${folder}/${name}.${ending}`;
    if (isFileThere(path)) await (await open(path, 'r+')).close();
  }
}

const { O_CREAT, O_TRUNC, O_WRONLY } = constants;

/** Overwrites a file, or creates one. */
async function writeOver(path: string, text: string): Promise<void> {
  isFileThere(path);
  await writeFile(path, text, { flag: O_CREAT | O_TRUNC | O_WRONLY | AS_FILE });
}

/** Writes name.json. */
export async function writeData(name: string, data: Data, folder: string): Promise<void> {
  await writeOver(`${folder}/${name}.json`, `${json(data)}\n`);
}

/** Writes name.md and name.svg. */
export async function writePage(name: string, { markdown, svg }: Rendered, folder: string): Promise<void> {
  await writeOver(`${folder}/${name}.md`, markdown);
  await writeOver(`${folder}/${name}.svg`, svg);
}

/**
 * An error in the arguments, of ours (an impossible dimension) or of the system (a folder that
 * cannot be written).
 */
function isRefusal(error: unknown): error is Error {
  if (error instanceof UsageError || error instanceof RangeError) return true;
  return error instanceof Error && ('syscall' in error || ('status' in error && Number(error.status) < 500));
}

/** Runs the command. Returns the exit code. */
export async function lab(args: string[]): Promise<number> {
  try {
    const call = await parse(RUNNER, args);
    await call?.item.run(call.values, call.operand);
    return 0;
  } catch (error) {
    if (error instanceof MissingError) {
      complain(`${error.message}; install it, or run this in a clone after npm ci.`);
      return 3;
    }
    if (!isRefusal(error)) throw error;
    if (!('syscall' in error)) return refuse(RUNNER, error);
    complain(`${error.message.replace(/\.$/, '')}.`);
    return 2;
  }
}

if (process.argv[1] === import.meta.filename) process.exitCode = await lab(process.argv.slice(2));
