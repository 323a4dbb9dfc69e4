// The Markdown of a page: tables that are readable in a README and in a terminal, and how the
// figures were measured.

import type { Data, Figure } from './experiment.ts';
import { grouped, marked } from './quantities.ts';

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

/** The note below a table with extrapolated figures. */
export const EXTRAPOLATED =
  '\\* Extrapolated: a sample of blocks was measured and multiplied. Every block costs the same ([more](README.md#how-times-are-measured)).';

/** A page: title, plot, paragraphs, and finally how it was measured. */
export function page(data: Data, title: string, plot: string, paragraphs: readonly string[]): string {
  const parts = [
    `# ${title}`,
    `![${plot}](${data.bench}.svg)`,
    ...paragraphs,
    '## How this was measured',
    howMeasured(data),
  ];
  return `${parts.join('\n\n')}\n`;
}

function howMeasured({ bench, date, command, parameters, versions, machine }: Data): string {
  const settings = Object.entries(parameters).flatMap(([name, value]) =>
    Object.hasOwn(SETTINGS, name) ? [`${SETTINGS[name]} ${typeof value === 'number' ? grouped(value) : value}`] : [],
  );
  const programs = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    `- Made by \`npm run lab -- ${command}\`; ${date}.`,
    ...(settings.length === 0 ? [] : [`- Settings: ${settings.join('; ')}.`]),
    `- Machine: ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB; Node ${machine.node}, ${machine.os}.`,
    `- Packages: ${programs.join(', ')}.`,
    `- Every figure, and all parameters: [${bench}.json](${bench}.json).`,
  ].join('\n');
}

/** Parameters that the text of a page does not mention, in words. */
const SETTINGS: Readonly<Record<string, string>> = {
  steps: 'steps of a network',
  kernel: 'kernel',
  load: 'load of the machine at the start',
  runs: 'runs',
  seal: 'parameters of SEAL',
  seeds: 'seeds',
};

export class Figures {
  readonly #byName: ReadonlyMap<string, Figure>;

  constructor({ results }: Pick<Data, 'results'>) {
    this.#byName = new Map(results.map((figure) => [figure.name, figure]));
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  of(name: string): Figure {
    const figure = this.#byName.get(name);
    if (figure === undefined) throw new Error(`There is no result '${name}' in the data.`);
    return figure;
  }

  value(name: string): number {
    return this.of(name).value;
  }

  /** A cell of a table: empty without a figure, marked if it is extrapolated. */
  cell(name: string, show: (value: number) => string): string {
    if (!this.has(name)) return '';
    const { value, source } = this.of(name);
    return marked(show(value), source);
  }
}
