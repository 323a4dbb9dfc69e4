// What a benchmark reports, and its output: a table for people, or one JSON object for programs
// that follow the figures over time.

import type { Machine } from '@hers/vectors/machine';

export type Result = {
  name: string;
  value: number;
  unit: string;
  /** This value divided by that of the result named in `against`, whichever way is better. */
  ratio?: number;
  against?: string;
};

export type Parameter = string | number | boolean | readonly (string | number)[];

export type Report = {
  bench: string;
  parameters: Record<string, Parameter>;
  machine: Machine;
  results: Result[];
};

/** A result beside its baseline. Both must have the same unit, or the ratio would mean nothing. */
export function compared(result: Result, baseline: Result): Result {
  if (result.unit !== baseline.unit) {
    throw new Error(`${result.name} is in ${result.unit} but ${baseline.name} in ${baseline.unit}.`);
  }
  return { ...result, ratio: result.value / baseline.value, against: baseline.name };
}

/**
 * Writes a report to standard output: with `json` exactly one object on one line, otherwise a
 * table.
 */
export function print(report: Report, { json = false }: { json?: boolean } = {}): void {
  process.stdout.write(json ? `${JSON.stringify(report)}\n` : table(report));
}

/** Prints progress on standard error, so that standard output holds only the report. */
export function progress(message: string): void {
  process.stderr.write(`${message}\n`);
}

/**
 * Reports why there is no result: to the parent process if it listens, otherwise on standard error.
 */
export function complain(message: string): void {
  if (process.send) process.send(message);
  else process.stderr.write(`${message}\n`);
}

/** The report for people. */
export function table(report: Report): string {
  const { cpu, cores, memoryGiB, node, os, flags } = report.machine;
  const facts: [string, string][] = [
    ...Object.entries(report.parameters).map(([name, value]): [string, string] => [name, shown(value)]),
    ['machine', `${cpu}, ${cores} ${cores === 1 ? 'core' : 'cores'}, ${memoryGiB} GiB`],
    ['system', `Node ${node}, ${os}`],
    ...(flags.length > 0 ? [['flags', flags.join(' ')] as [string, string]] : []),
  ];
  const rows = report.results.map(({ name, value, unit, ratio, against }) => [
    name,
    digits(value),
    unit,
    ratio === undefined ? '' : `${ratioDigits(ratio)}x of ${against ?? 'the baseline'}`,
  ]);
  const heading = `bench ${report.bench}`;
  return `${heading}\n${'='.repeat(heading.length)}\n\n${columns(facts)}\n\n${columns(rows, new Set([1]))}\n`;
}

function shown(value: Parameter): string {
  return typeof value === 'object' ? value.join(' ') : String(value);
}

/**
 * Integers (bytes, counts) in full; measurements to four significant digits, more would be noise.
 */
function digits(value: number): string {
  return Number.isInteger(value)
    ? value.toLocaleString('en-GB')
    : value.toLocaleString('en-GB', { maximumSignificantDigits: 4 });
}

function ratioDigits(ratio: number): string {
  return ratio.toLocaleString('en-GB', { maximumSignificantDigits: 3 });
}

/** Pads cells to the widest of their column; the columns in `right` are aligned to the right. */
export function columns(rows: readonly (readonly string[])[], right: ReadonlySet<number> = new Set()): string {
  const widths: number[] = [];
  for (const row of rows) for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  const pad = (cell: string, i: number) => (right.has(i) ? cell.padStart(widths[i]) : cell.padEnd(widths[i]));
  return rows.map((row) => row.map(pad).join('  ').trimEnd()).join('\n');
}
