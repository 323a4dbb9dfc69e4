// `node packages/lab/src/lab.ts <name> [--json] [--small] [--out <folder>]`: runs an experiment and writes its table, plot and data.

import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Experiment, Option, Outcome, Values } from './experiments/experiment.ts';
import { EXPERIMENTS } from './experiments/index.ts';
import { print, progress } from './report.ts';

const RESULTS = fileURLToPath(new URL('../../../docs/results/', import.meta.url));

const common: Record<string, Option> = {
  json: { type: 'boolean', help: 'print the results as one JSON object and nothing else' },
  small: { type: 'boolean', help: 'the same in seconds, to see that it works: its figures mean nothing' },
  out: { type: 'string', help: 'where to write; docs/results, and nowhere when small, unless given' },
  help: { type: 'boolean', short: 'h', help: 'print this' },
};

/** A mistake in how the command was called: its message is all the user needs to see. */
class UsageError extends Error {}

async function usage(): Promise<string> {
  const lines = ['Usage: node packages/lab/src/lab.ts <experiment> [options]', '', 'Experiments:'];
  for (const load of Object.values(EXPERIMENTS)) {
    const { name, summary, options } = await load();
    lines.push(`  ${name.padEnd(15)} ${summary}`, ...optionLines(options).map((line) => `    ${line}`));
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
  const position = args.findIndex((arg, i) => !arg.startsWith('-') && args[i - 1] !== '--out');
  const name = args[position];
  if (name !== undefined && !Object.hasOwn(EXPERIMENTS, name)) throw new UsageError(`There is no experiment '${name}'`);
  const experiment = name === undefined ? undefined : await EXPERIMENTS[name]();
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

/** Writes name.md, name.svg and name.json. */
export async function write(name: string, { markdown, svg, report }: Outcome, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(`${folder}/${name}.md`, markdown);
  await writeFile(`${folder}/${name}.svg`, svg);
  await writeFile(`${folder}/${name}.json`, `${json(report)}\n`);
}

/** An error of ours that is about what was given: a file that is not there, a dimension that cannot be. */
function isRefusal(error: unknown): error is Error {
  return error instanceof Error && 'status' in error && Number(error.status) < 500;
}

/** Runs the command; `hers lab` does the same. Returns the exit code. */
export async function lab(args: string[]): Promise<number> {
  try {
    const { experiment, values } = await parse(args);
    if (values.help) {
      process.stdout.write(await usage());
      return 0;
    }
    if (!experiment) throw new UsageError('Name the experiment to run');
    const { json: asJson, out, help: _, ...options } = values;
    const outcome = await experiment.run(options);
    const folder = typeof out === 'string' ? out : options.small ? undefined : RESULTS;
    if (folder !== undefined) {
      await write(experiment.name, outcome, folder);
      progress(`written: ${experiment.name}.md, ${experiment.name}.svg and ${experiment.name}.json`);
    }
    if (asJson) print(outcome.report, { json: true });
    else process.stdout.write(outcome.markdown);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof RangeError || isRefusal(error))) throw error;
    process.stderr.write(`${error.message.replace(/\.$/, '')}; --help lists what there is.\n`);
    return 2;
  }
}

if (process.argv[1] === import.meta.filename) process.exitCode = await lab(process.argv.slice(2));
