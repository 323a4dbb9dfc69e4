// The Markdown of a result: tables that can be read in a README and in a terminal, and the facts without which figures mean nothing.

import { existsSync, readFileSync } from 'node:fs';
import type { Machine, Parameter } from '../report.ts';

/** The first column is aligned to the left, the others to the right. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  left: readonly number[] = [0],
): string {
  const cells = [head, ...rows].map((row) => row.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = head.map((_, i) => Math.max(3, ...cells.map((row) => row[i].length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, i) => (left.includes(i) ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join(' | ')} |`;
  const rule = `|${widths.map((width, i) => (left.includes(i) ? `:${'-'.repeat(width)} ` : ` ${'-'.repeat(width)}:`)).join('|')}|`;
  return [line(cells[0]), rule, ...cells.slice(1).map(line)].join('\n');
}

export const EXTRAPOLATED =
  '\\* Extrapolated: a sample of blocks was measured and multiplied; every block costs the same.';

/** A page: title, paragraphs, and at the end where the figures come from. */
export function page(
  title: string,
  name: string,
  paragraphs: readonly string[],
  { parameters, machine }: { parameters: Record<string, Parameter>; machine: Machine },
  options = '',
): string {
  const shown = (value: Parameter) => (typeof value === 'object' ? value.join(', ') : String(value));
  const facts = [
    ...Object.entries(parameters).map(([key, value]) => [key, shown(value)]),
    ['machine', `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB`],
    ['instruction sets', machine.flags.join(' ')],
    ['system', `Node ${machine.node}, ${machine.os}`],
  ];
  const parts = [
    `# ${title}`,
    ...paragraphs,
    '## How this was measured',
    table(['', ''], facts, [0, 1]),
    `Made by \`npx hers lab ${`${name} ${options}`.trim()}\`; the same as data: [${name}.json](${name}.json).`,
  ];
  return `${parts.join('\n\n')}\n`;
}

/** Versions of what is measured. */
export function versions(): Record<string, string> {
  return {
    'node-seal': versionOf('node-seal', import.meta.resolve('node-seal')),
    hers: versionOf('@hers/scheme', import.meta.resolve('@hers/scheme')),
  };
}

/** Not every package lets its package.json be imported, so it is looked for above the entry. */
function versionOf(name: string, entry: string): string {
  for (let folder = new URL('.', entry); folder.pathname !== '/'; folder = new URL('..', folder)) {
    const file = new URL('package.json', folder);
    if (!existsSync(file)) continue;
    const { name: found, version } = JSON.parse(readFileSync(file, 'utf8'));
    if (found === name) return version;
  }
  throw new Error(`${name} has no package.json`);
}
