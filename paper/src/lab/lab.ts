// `npm run lab -- <name> [--json] [--small] [--out <folder>] [options of the experiment]` runs an
// experiment, writes its data, and renders its page and plot from them. With `render [name]` it
// renders again, without measuring.

import { existsSync } from 'node:fs';
import { access, constants, mkdir, open, readFile, writeFile } from 'node:fs/promises';
import { AS_FILE, isFileThere } from '@hers/service/target';
import type { Data, Experiment, Experiments, Page, Rendered } from './experiment.ts';
import { complain, progress } from './report.ts';
import { type Listed, type Options, parse, type Runner, refuse, UsageError, type Values } from './runner.ts';

const COMMON: Options = {
  json: { type: 'boolean', help: 'print the data as one JSON object and nothing else' },
  small: { type: 'boolean', help: 'the same in seconds, to see that it works: its figures mean nothing' },
  out: { type: 'string', help: 'the folder to write to (paper/results or docs/results; nowhere when small)' },
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

/** All experiments of a command, by name. */
class Lab {
  readonly #of: ReadonlyMap<string, Experiments>;

  constructor(groups: readonly Experiments[]) {
    this.#of = new Map(groups.flatMap((group) => Object.keys(group.byName).map((name) => [name, group] as const)));
  }

  get names(): string[] {
    return [...this.#of.keys()];
  }

  folderOf(name: string): string {
    return this.#of.get(name)!.results;
  }

  /**
   * The page is loaded before anything is measured. Otherwise a run of hours might fail at its end.
   */
  async itemOf(name: string): Promise<Item> {
    const { byName, results } = this.#of.get(name)!;
    const experiment = await load(name, () => byName[name].experiment());
    const page = await load(name, () => byName[name].page());
    const { summary, options } = experiment;
    return { summary, options, run: (values) => measureAndRender(experiment, page, values, results) };
  }

  /** Renders one page, or those that a folder holds data of. */
  async renderAgain(name: string | undefined, out: string | undefined): Promise<void> {
    if (name !== undefined && !this.#of.has(name)) throw new UsageError(`There is no experiment '${name}'`);
    const names = name === undefined ? this.#renderable(out) : [name];
    for (const each of names) {
      const folder = out ?? this.folderOf(each);
      await writePage(each, await renderAgain(this.#of.get(each)!, each, folder), folder);
    }
    progress(`rendered: ${names.join(', ')}`);
  }

  #renderable(out: string | undefined): string[] {
    const names = this.names.filter((name) => existsSync(`${out ?? this.folderOf(name)}/${name}.json`));
    if (names.length === 0) throw new UsageError(`${out} holds no data of an experiment`);
    return names;
  }
}

function runnerOf(lab: Lab): Runner<Item> {
  const render: Item = {
    summary: 'make every page again from its data, or the one that is named; nothing is measured',
    options: {},
    operand: 'name',
    async run(values, operand) {
      if (values.json || values.small) throw new UsageError('render takes neither --json nor --small');
      await lab.renderAgain(operand, typeof values.out === 'string' ? values.out : undefined);
    },
  };
  return {
    command: 'npm run lab --',
    noun: 'experiment',
    items: { ...Object.fromEntries(lab.names.map((name) => [name, () => lab.itemOf(name)])), render: () => render },
    // In the list, an experiment that cannot be run says why.
    unavailable(error) {
      if (error instanceof MissingError) return { summary: `(not here: ${error.message})`, options: {} };
      throw error;
    },
    common: COMMON,
    examples: ['table2 --small', 'table2 --small --json', 'render faces'].map((example) => `npm run lab -- ${example}`),
    remedy: '`npm run lab` lists what there is',
  };
}

/** The page and the plot of data in a folder. */
export async function renderAgain({ byName }: Experiments, name: string, folder: string): Promise<Rendered> {
  const page = await load(name, () => byName[name].page());
  const data: Data = JSON.parse(await readFile(`${folder}/${name}.json`, 'utf8'));
  if (data.bench !== name) throw new UsageError(`${name}.json holds the data of ${data.bench}`);
  return page.render(data);
}

async function measureAndRender(experiment: Experiment, page: Page, values: Values, results: string): Promise<void> {
  const { json: asJson, out, help: _, ...options } = values;
  const { name } = experiment;
  const folder = typeof out === 'string' ? out : options.small ? undefined : results;
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

/** Runs the command with these experiments. Returns the exit code. */
export async function runLab(groups: readonly Experiments[], args: readonly string[]): Promise<number> {
  const runner = runnerOf(new Lab(groups));
  try {
    const call = await parse(runner, args);
    await call?.item.run(call.values, call.operand);
    return 0;
  } catch (error) {
    if (error instanceof MissingError) {
      complain(`${error.message}; install it, or run this in a clone after npm ci.`);
      return 3;
    }
    if (!isRefusal(error)) throw error;
    if (!('syscall' in error)) return refuse(runner, error);
    complain(`${error.message.replace(/\.$/, '')}.`);
    return 2;
  }
}
