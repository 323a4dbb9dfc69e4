// `hers lab <name> [--json] [--small] [--out <folder>] [options of the experiment]`: runs an experiment and writes its table, plot and data.

import { existsSync } from 'node:fs';
import { access, constants, mkdir, open, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { AS_FILE, isFileThere } from '@hers/service/target';
import type { Experiment, Option, Outcome, Values } from './experiments/experiment.ts';
import { EXPERIMENTS } from './experiments/index.ts';
import { complain, print, progress } from './report.ts';

const RESULTS = fileURLToPath(new URL('../../../docs/results/', import.meta.url));

/** In a clone, the pages of results; elsewhere a folder here. */
const usualFolder = () => (existsSync(RESULTS) ? RESULTS : resolve('results'));

const common: Record<string, Option> = {
  json: { type: 'boolean', help: 'print the results as one JSON object and nothing else' },
  small: { type: 'boolean', help: 'the same in seconds, to see that it works: its figures mean nothing' },
  out: { type: 'string', help: 'where to write; docs/results, and nowhere when small, unless given' },
  help: { type: 'boolean', short: 'h', help: 'print this' },
};

/** A mistake in how the command was called: its message is all the user needs to see. */
class UsageError extends Error {}

/** Something that not everybody has installed is not there. */
class MissingError extends Error {}

async function load(name: string): Promise<Experiment> {
  try {
    return await EXPERIMENTS[name]();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const [, missing] = /Cannot find package '([^']+)'/.exec(message) ?? [];
    if (code !== 'ERR_MODULE_NOT_FOUND' || missing === undefined) throw error;
    throw new MissingError(`${name} needs the package ${missing}, which is not installed`, { cause: error });
  }
}

/** In the list, what cannot be run says why. */
function unavailable(error: unknown): Pick<Experiment, 'summary' | 'options'> {
  if (error instanceof MissingError) return { summary: `(not here: ${error.message})`, options: {} };
  throw error;
}

async function usage(): Promise<string> {
  const lines = ['Usage: hers lab <experiment> [options]', '', 'Experiments:'];
  for (const name of Object.keys(EXPERIMENTS)) {
    const { summary, options } = await load(name).catch(unavailable);
    lines.push(`  ${name.padEnd(20)} ${summary}`, ...optionLines(options).map((line) => `    ${line}`));
  }
  lines.push('', 'Options of all:', ...optionLines(common).map((line) => `  ${line}`));
  return `${lines.join('\n')}\n`;
}

function optionLines(options: Record<string, Option>): string[] {
  return Object.entries(options).map(
    ([name, { type, help }]) => `${`--${name}${type === 'string' ? ' <value>' : ''}`.padEnd(22)} ${help}`,
  );
}

async function parse(args: string[]): Promise<{ experiment: Experiment | undefined; values: Values }> {
  // The value of an option is not the name: whatever follows an option that is no flag.
  const takesValue = (arg: string | undefined) =>
    arg?.startsWith('--') && !arg.includes('=') && common[arg.slice(2)]?.type !== 'boolean';
  const position = args.findIndex((arg, i) => !arg.startsWith('-') && !takesValue(args[i - 1]));
  const name = args[position];
  if (name !== undefined && !Object.hasOwn(EXPERIMENTS, name)) throw new UsageError(`There is no experiment '${name}'`);
  const experiment = name === undefined ? undefined : await load(name);
  try {
    const options = { ...common, ...experiment?.options };
    return { experiment, values: parseArgs({ args: args.filter((_, i) => i !== position), options }).values };
  } catch (error) {
    throw new UsageError((error as Error).message.split('. ')[0], { cause: error });
  }
}

const LINE = 120;

/** JSON as the formatter of this repository wants it: a list of plain values in one line where it fits. */
function json(value: unknown, indent = '', used = 0): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    const line = `[${value.map((item) => JSON.stringify(item)).join(', ')}]`;
    const plain = value.every((item) => typeof item !== 'object');
    if (plain && used + line.length < LINE) return line;
    return `[\n${value.map((item) => inner + json(item, inner)).join(',\n')}\n${indent}]`;
  }
  const lines = Object.entries(value).map(([key, item]) => {
    const start = `${inner}${JSON.stringify(key)}: `;
    return start + json(item, inner, start.length);
  });
  return `{\n${lines.join(',\n')}\n${indent}}`;
}

/** A run may take hours: that its results cannot be written is said before it. */
async function requireWritable(name: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await access(folder, constants.W_OK);
  for (const ending of ['md', 'svg', 'json']) {
    const path = `${folder}/${name}.${ending}`;
    if (isFileThere(path)) await (await open(path, 'r+')).close();
  }
}

const { O_CREAT, O_TRUNC, O_WRONLY } = constants;

/** Over a file, or a new one. */
async function writeOver(path: string, text: string): Promise<void> {
  isFileThere(path);
  await writeFile(path, text, { flag: O_CREAT | O_TRUNC | O_WRONLY | AS_FILE });
}

/** Writes name.md, name.svg and name.json. */
export async function write(name: string, { markdown, svg, report }: Outcome, folder: string): Promise<void> {
  await writeOver(`${folder}/${name}.md`, markdown);
  await writeOver(`${folder}/${name}.svg`, svg);
  await writeOver(`${folder}/${name}.json`, `${json(report)}\n`);
}

/** An error about what was given, of ours (a dimension that cannot be) or of the system (a folder that cannot be written). */
function isRefusal(error: unknown): error is Error {
  return error instanceof Error && ('syscall' in error || ('status' in error && Number(error.status) < 500));
}

/** Runs the command. Returns the exit code. */
export async function lab(args: string[]): Promise<number> {
  try {
    const { experiment, values } = await parse(args);
    if (values.help) {
      process.stdout.write(await usage());
      return 0;
    }
    if (!experiment) throw new UsageError('Name the experiment to run');
    const { json: asJson, out, help: _, ...options } = values;
    const folder = typeof out === 'string' ? out : options.small ? undefined : usualFolder();
    if (folder !== undefined) await requireWritable(experiment.name, folder);
    const outcome = await experiment.run(options);
    // Printed first: whatever happens to the folder in the meantime, the figures are not lost.
    if (asJson) print(outcome.report, { json: true });
    else process.stdout.write(outcome.markdown);
    if (folder !== undefined) {
      await write(experiment.name, outcome, folder);
      progress(`written to ${folder}: ${experiment.name}.md, ${experiment.name}.svg and ${experiment.name}.json`);
    }
    return 0;
  } catch (error) {
    if (error instanceof MissingError) {
      complain(`${error.message}; install it, or run this in a clone after npm ci.`);
      return 3;
    }
    if (!(error instanceof UsageError || error instanceof RangeError || isRefusal(error))) throw error;
    const saysWhatToDo = 'syscall' in error || error.message.includes(';');
    const remedy = saysWhatToDo ? '' : '; hers lab lists what there is';
    complain(`${error.message.replace(/\.$/, '')}${remedy}.`);
    return 2;
  }
}

if (process.argv[1] === import.meta.filename) process.exitCode = await lab(process.argv.slice(2));
