// What `npm run bench`, `npm run campaign` and `npm run lab` share: each runs an item by its name,
// with its own options, and `--help` lists all items.

import { type ParseArgsOptionDescriptor, parseArgs } from 'node:util';
import { complain } from './report.ts';

export type RunnerOption = ParseArgsOptionDescriptor & { help: string };
export type Options = Record<string, RunnerOption>;
export type Values = { [name: string]: string | boolean | (string | boolean)[] | undefined };

/** What `--help` says about one of them. */
export interface Listed {
  readonly summary: string;
  readonly options: Options;
  /** What may follow the name, if anything. */
  readonly operand?: string;
}

export interface Runner<Item extends Listed> {
  /** The command, without its arguments. */
  readonly command: string;
  /** What it runs: 'benchmark'. */
  readonly noun: string;
  /** Loaded by name on demand, so that what one of them needs does not stop the others. */
  readonly items: Readonly<Record<string, () => Item | Promise<Item>>>;
  /** For `--help`: the substitute for an item that cannot be loaded here. */
  readonly unavailable?: (error: unknown) => Listed;
  /** Options that all of them take. */
  readonly common?: Options;
  readonly examples: readonly string[];
  /** The end of an error message about a wrong call. */
  readonly remedy: string;
}

interface Call<Item> {
  readonly name: string;
  readonly item: Item;
  readonly values: Values;
  readonly operand: string | undefined;
}

/** The command was called wrongly. The message is all the user needs to see. */
export class UsageError extends Error {}

const HELP: Options = { help: { type: 'boolean', short: 'h', help: 'print this' } };

/** Parses the arguments. If they ask for help, prints it and returns undefined. */
export async function parse<Item extends Listed>(
  runner: Runner<Item>,
  args: readonly string[],
): Promise<Call<Item> | undefined> {
  const { items, noun, common = {} } = runner;
  const general = { ...common, ...HELP };
  // The argument after an option with a value is that value, not the name.
  const takesValue = (arg: string | undefined) =>
    arg?.startsWith('--') && !arg.includes('=') && general[arg.slice(2)]?.type !== 'boolean';
  const first = args.findIndex((arg, i) => !arg.startsWith('-') && !takesValue(args[i - 1]));
  // It may also follow one of its own flags, which is not known yet.
  const position = first >= 0 ? first : args.findIndex((arg) => Object.hasOwn(items, arg));
  const name = args[position];
  if (name !== undefined && !Object.hasOwn(items, name)) throw new UsageError(`There is no ${noun} '${name}'`);
  const item = name === undefined ? undefined : await items[name]();
  const rest = args.filter((_, i) => i !== position);
  const { values, positionals } = parsed(rest, { ...general, ...item?.options }, item?.operand !== undefined);
  if (values.help) {
    process.stdout.write(await help(runner));
    return undefined;
  }
  if (name === undefined || item === undefined) throw new UsageError(`Name the ${noun} to run`);
  if (positionals.length > 1) throw new UsageError(`Unexpected argument '${positionals[1]}'`);
  return { name, item, values, operand: positionals[0] };
}

function parsed(args: string[], options: Options, allowPositionals: boolean) {
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals });
    return { values: values as Values, positionals };
  } catch (error) {
    // Node's messages go on to explain positional arguments; only their first sentence matters.
    throw new UsageError((error as Error).message.split('. ')[0], { cause: error });
  }
}

async function help<Item extends Listed>(runner: Runner<Item>): Promise<string> {
  const { command, noun, items, unavailable, common = {}, examples } = runner;
  const lines = [`Usage: ${command} <name> [options]`, '', `${noun[0].toUpperCase()}${noun.slice(1)}s:`];
  const widest = Math.max(...Object.keys(items).map((name) => name.length));
  for (const [name, load] of Object.entries(items)) {
    const { summary, options, operand } = await listed(load, unavailable);
    const usage = operand === undefined ? name : `${name} [${operand}]`;
    lines.push(`  ${usage.padEnd(widest)}  ${summary}`, ...optionLines(options).map((line) => `    ${line}`));
  }
  lines.push('', 'Options of all:', ...optionLines({ ...common, ...HELP }).map((line) => `  ${line}`));
  lines.push('', 'Examples:', ...examples.map((line) => `  ${line}`));
  return `${lines.join('\n')}\n`;
}

async function listed(load: () => Listed | Promise<Listed>, unavailable?: (error: unknown) => Listed): Promise<Listed> {
  try {
    return await load();
  } catch (error) {
    if (unavailable === undefined) throw error;
    return unavailable(error);
  }
}

function optionLines(options: Options): string[] {
  return Object.entries(options).map(([name, { type, help }]) => {
    const usage = type === 'string' ? `--${name} <value>` : `--${name}`;
    return `${usage.padEnd(22)} ${help}`;
  });
}

const isCount = (number: number) => Number.isSafeInteger(number) && number > 0;

/** An option that is one positive whole number. */
export function wholeNumber(values: Values, name: string, otherwise: number): number {
  const value = values[name];
  if (value === undefined) return otherwise;
  if (isCount(Number(value))) return Number(value);
  throw new UsageError(`--${name} is one positive whole number, not ${JSON.stringify(value)}`);
}

/** An option that is a list of whole numbers, separated by commas; duplicates count once. */
export function wholeNumbers(value: Values[string], otherwise: readonly number[]): number[] {
  if (typeof value !== 'string') return [...otherwise];
  const numbers = value.split(',').map(Number);
  if (numbers.every(isCount)) return [...new Set(numbers)];
  throw new UsageError(`${JSON.stringify(value)} is not a list of positive whole numbers`);
}

/** One sentence about a wrong call, and the exit code. */
export function refuse({ remedy }: Pick<Runner<Listed>, 'remedy'>, { message }: Error): number {
  const saysWhatToDo = message.includes(';');
  complain(`${message.replace(/\.$/, '')}${saysWhatToDo ? '' : `; ${remedy}`}.`);
  return 2;
}
