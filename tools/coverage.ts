// How much of each package the tests run, by lines, and a file that names the lines they do not.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { Workspace } from './workspace.ts';

/** A file as the test runner reports it. */
export interface Covered {
  readonly path: string;
  readonly lines: readonly { readonly line: number; readonly count: number }[];
}

/** Line numbers as ranges: 3-5, 9. */
export function ranges(lines: readonly number[]): string {
  const found: [number, number][] = [];
  for (const line of lines) {
    const last = found.at(-1);
    if (last && line === last[1] + 1) last[1] = line;
    else found.push([line, line]);
  }
  return found.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(', ');
}

/** Prints a line for each package, and writes `coverage/uncovered.txt`. */
export function reportCoverage(root: string, files: readonly Covered[]): void {
  const workspace = new Workspace(root);
  const packages = new Map<string, { run: number; all: number }>();
  const uncovered: string[] = [];
  for (const { path, lines } of files) {
    const file = relative(root, path).replaceAll(sep, '/');
    const name = workspace.placeOf(file)!.name;
    const sum = packages.get(name) ?? { run: 0, all: 0 };
    const missed = lines.filter(({ count }) => count === 0).map(({ line }) => line);
    sum.all += lines.length;
    sum.run += lines.length - missed.length;
    packages.set(name, sum);
    if (missed.length > 0) uncovered.push(`${file}: ${ranges(missed)}`);
  }
  const total = { run: 0, all: 0 };
  const print = (name: string, { run, all }: typeof total) =>
    console.log(`${name.padEnd(10)} ${((100 * run) / all).toFixed(1).padStart(5)} % of ${all} lines`);
  for (const [name, sum] of [...packages].sort()) {
    print(name, sum);
    total.run += sum.run;
    total.all += sum.all;
  }
  print('all', total);
  mkdirSync(join(root, 'coverage'), { recursive: true });
  writeFileSync(join(root, 'coverage/uncovered.txt'), `${uncovered.sort().join('\n')}\n`);
  console.log('Lines that no test runs are in coverage/uncovered.txt.');
}
