// What a command prints. Results go to standard output: tables on a terminal, plain lines in a
// pipe, or one JSON object a line. Everything else (notes, hints, errors) goes to standard error,
// so that a pipe receives results alone. Numbers are written for people.

import { styleText } from 'node:util';
import Table from 'cli-table3';
import type { Environment, GlobalFlags, TerminalWritable } from './context.ts';
import { type Ending, sentence } from './exit.ts';

/**
 * Control characters, and those that turn the direction of text: an id or a payload must not be
 * able to steer a terminal or break a line.
 */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones to be found
  /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

export function printable(text: string): string {
  return text.replace(UNSAFE, (character) => {
    if (character === '\t') return '\\t';
    if (character === '\n') return '\\n';
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

const MAX_CELL = 60;

function shortened(text: string): string {
  return text.length <= MAX_CELL ? text : `${text.slice(0, MAX_CELL - 1)}…`;
}

export interface Column {
  readonly title: string;
  /** Numbers stand to the right. */
  readonly right?: boolean;
}

/** Columns by their titles; `>` before one says that it holds numbers. */
export const columns = (...titles: readonly string[]): Column[] =>
  titles.map((title) => (title.startsWith('>') ? { title: title.slice(1), right: true } : { title }));

/** Names and values of one thing. */
export type Facts = readonly (readonly [name: string, value: string])[];

const BORDERS =
  'top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid';
const BORDERLESS = { ...Object.fromEntries(BORDERS.split(' ').map((name) => [name, ''])), middle: '   ' };

export class Output {
  readonly json: boolean;
  readonly verbose: boolean;
  readonly #stdout: TerminalWritable;
  readonly #stderr: TerminalWritable;
  #waiting: Promise<void> | undefined;

  constructor({ stdout, stderr }: Environment, { json = false, verbose = false }: GlobalFlags) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.json = json;
    this.verbose = verbose;
  }

  /** Whether a person reads standard output. */
  get terminal(): boolean {
    return this.#stdout.isTTY === true;
  }

  #write(text: string): void {
    if (this.#stdout.write(text) || this.#waiting) return;
    this.#waiting = new Promise((resolve) => {
      const done = () => {
        this.#stdout.off('drain', done);
        this.#stdout.off('close', done);
        this.#waiting = undefined;
        resolve();
      };
      this.#stdout.once('drain', done);
      this.#stdout.once('close', done);
    });
  }

  /** Waits until the reader has taken what was printed: long lists must not pile up in memory. */
  async taken(): Promise<void> {
    await this.#waiting;
  }

  /** One object for programs, on one line. */
  object(value: object): void {
    this.#write(`${JSON.stringify(value)}\n`);
  }

  /** One result: an object for programs, and a line or facts for people. */
  result(value: object, shown: string | Facts): void {
    if (this.json) this.object(value);
    else if (typeof shown === 'string') this.line(shown);
    else this.#facts(shown);
  }

  line(text: string): void {
    this.#write(`${printable(text)}\n`);
  }

  /** The parts of one result, on one line. */
  fields(parts: readonly string[]): void {
    this.#write(`${parts.map(printable).join(this.terminal ? '   ' : '\t')}\n`);
  }

  /** Text that is laid out already. */
  text(text: string): void {
    this.#write(text.endsWith('\n') ? text : `${text}\n`);
  }

  table(columns: readonly Column[], rows: readonly (readonly string[])[]): void {
    if (!this.terminal) {
      for (const row of rows) this.#write(`${row.map(printable).join('\t')}\n`);
      return;
    }
    const table = new Table({
      head: columns.map(({ title }) => this.#styled('dim', title)),
      colAligns: columns.map(({ right }) => (right ? 'right' : 'left')),
      chars: BORDERLESS,
      style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
    });
    for (const row of rows) table.push(row.map((cell) => shortened(printable(cell))));
    this.#write(`${table.toString().replace(/ +$/gm, '')}\n`);
  }

  #facts(facts: Facts): void {
    if (!this.terminal) {
      for (const fact of facts) this.#write(`${fact.map(printable).join('\t')}\n`);
      return;
    }
    const width = Math.max(...facts.map(([name]) => name.length));
    for (const [name, value] of facts)
      this.#write(`${this.#styled('dim', name.padEnd(width))}   ${printable(value)}\n`);
  }

  #styled(style: 'dim' | 'bold', text: string): string {
    return styleText(style, text, { stream: this.#stdout as NodeJS.WriteStream });
  }

  /** Something a person should know beside the result. */
  note(text: string): void {
    this.#stderr.write(`${printable(text)}\n`);
  }

  /** What to do next: for people who sit in front of it. */
  hint(text: string): void {
    if (this.#stderr.isTTY && !this.json)
      this.#stderr.write(`${styleText('dim', printable(text), { stream: this.#stderr as NodeJS.WriteStream })}\n`);
  }

  /** Only with --verbose. */
  detail(text: string): void {
    if (this.verbose) this.#stderr.write(`${printable(text)}\n`);
  }

  failure({ place = [], ...ending }: Ending, error: unknown): void {
    if (this.json) this.#stderr.write(`${JSON.stringify({ error: ending })}\n`);
    else for (const line of [`hers: ${sentence(ending)}`, ...place]) this.#stderr.write(`${printable(line)}\n`);
    if (!this.verbose || !(error instanceof Error) || !error.stack) return;
    for (const line of error.stack.split('\n')) this.#stderr.write(`${printable(line)}\n`);
  }
}

export const count = (value: number): string => value.toLocaleString('en-GB');

/** `1 record`, `2 records`. */
export const counted = (value: number, noun: string) => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB'];

/** Decimal units, as disks and networks are sold. */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(value >= 9.995 ? 1 : 2)} ${UNITS[unit]}`;
}

/** Each unit is rounded before the next is chosen: 59.7 seconds are a minute, not 60 s. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${ms < 9.95 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const tenths = Math.round(ms / 100) / 10;
  if (tenths < 10) return `${Number.isInteger(ms / 1000) ? ms / 1000 : tenths.toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(ms / 60_000);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A score, without digits that are only noise. */
export const score = (value: number, { noisy = false }: { readonly noisy?: boolean } = {}): string =>
  String(Number(value.toPrecision(noisy ? 4 : 6)));
