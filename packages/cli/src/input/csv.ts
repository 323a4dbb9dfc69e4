// Rows of .csv and .tsv files. The first line names the columns, unless every cell of it is a
// number.
//
// Lines with quotation marks are read with care, all others are split: 100 000 rows of 128 numbers
// take 1.9 s this way, and took a parser that looks at every character 5.7 s.

import { HersError, type Payload } from '@hers/client';
import { attempt, BadRow, type ByteSource, byteLines, type Line, MAX_LINE, textOf, untilBad } from './lines.ts';
import type { Row, RowOptions } from './rows.ts';
import { writtenOut } from './vectors.ts';

export interface CsvLine {
  /** Counted from 0, the names of the columns left out. */
  readonly number: number;
  readonly where: string;
  readonly cells: readonly string[];
  /** The names of the columns. */
  readonly names: readonly string[];
}

/** Cells of every line, and the names of the columns. */
export function csvTable(source: ByteSource, options: CsvOptions): AsyncGenerator<CsvLine> {
  return untilBad(csvLines(source, options));
}

type CsvOptions = Pick<RowOptions, 'delimiter' | 'header'>;

/** The same with lines that cannot be read, or have another number of cells than the first. */
async function* csvLines(
  source: ByteSource,
  { delimiter = ',', header }: CsvOptions,
): AsyncGenerator<CsvLine | BadRow> {
  let names: readonly string[] | undefined;
  let number = 0;
  for await (const lines of records(source)) {
    const [first, ...others] = lines;
    const last = others.at(-1);
    const where = last ? `${first.where.replace('line', 'lines')} to ${last.where.slice(5)}` : first.where;
    const read = () => cellsOf(source.name, where, lines, delimiter);
    if (!names) {
      const cells = read();
      const named = header ?? !cells.every(isNumber);
      names = named ? checkedNames(source.name, cells) : cells.map((_, i) => String(i + 1));
      if (named) continue;
    }
    const at = number++;
    const columns = names;
    yield attempt(at, where, () => {
      const cells = read();
      if (cells.length === columns.length) return { number: at, where, cells, names: columns };
      throw new HersError(
        'MALFORMED',
        `${source.name}, ${where}: there are ${cells.length} cells, and the first line has ${columns.length}`,
      );
    });
  }
}

const QUOTE = 0x22;
const SPACE = 0x20;

/** The lines of each record: more than one where a quotation mark is open at the end of a line. */
async function* records(source: ByteSource): AsyncGenerator<[Line, ...Line[]]> {
  let held: [Line, ...Line[]] | undefined;
  let open = false;
  let length = 0;
  const unclosed = ([{ where }]: [Line, ...Line[]]) =>
    new HersError(
      'MALFORMED',
      `${source.name}, ${where}: a quotation mark is not closed, so that nothing behind it can be read`,
    );
  for await (const line of byteLines(source)) {
    if (!held && line.bytes.every((byte) => byte === SPACE)) continue;
    for (let at = line.bytes.indexOf(QUOTE); at >= 0; at = line.bytes.indexOf(QUOTE, at + 1)) open = !open;
    if (held) held.push(line);
    else held = [line];
    length += line.bytes.length;
    if (length > MAX_LINE) throw unclosed(held);
    if (open) continue;
    yield held;
    held = undefined;
    length = 0;
  }
  if (held) throw unclosed(held);
}

function cellsOf(source: string, where: string, lines: readonly Line[], delimiter: string): string[] {
  const text = lines.map((line) => textOf(source, line)).join('\n');
  if (!text.includes('"')) {
    if (text.includes('\r'))
      throw new HersError(
        'MALFORMED',
        `${source}, ${where} ends with a carriage return alone; save it with line feeds`,
      );
    return text.split(delimiter).map((cell) => cell.trim());
  }
  try {
    const cells = quotedCells(text, delimiter);
    if (cells) return cells;
  } catch (error) {
    // Millions of doubled marks in one cell are more than a regular expression can go back over.
    if (!(error instanceof RangeError)) throw error;
  }
  throw new HersError('MALFORMED', `${source}, ${where} is not CSV: its quotation marks are misplaced`);
}

function checkedNames(file: string, names: readonly string[]): readonly string[] {
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined)
    throw new HersError('MALFORMED', `${file} has two columns called ${JSON.stringify(twice)}; rename one`);
  return names;
}

const isNumber = (cell: string) => cell !== '' && Number.isFinite(Number(cell));

/** A line has as many cells as there are columns: `csvLines` refuses all others. */
export const cellAt = (cells: readonly string[], column: number): string => cells[column]!;

/** The position of a column that was asked for. */
export function columnOf(file: string, names: readonly string[], name: string): number {
  const at = names.indexOf(name);
  if (at >= 0) return at;
  const shown = names.length > 12 ? `${names.slice(0, 12).join(', ')}, …` : names.join(', ');
  throw new HersError('INVALID_ARGUMENT', `${file} has no column ${JSON.stringify(name)}; it has ${shown}`);
}

interface Plan {
  readonly id: number | undefined;
  /** Whether somebody said where the id is: then every row has one there. */
  readonly isIdNamed: boolean;
  readonly payload: readonly (readonly [name: string, at: number])[];
  /** One column with everything in it, or one for each coordinate. */
  readonly vector: number | readonly number[];
}

function planFor(file: string, names: readonly string[], options: RowOptions): Plan {
  const column = (name: string) => columnOf(file, names, name);
  const at = (name: string) => (names.includes(name) ? names.indexOf(name) : undefined);
  const isIdNamed = options.id !== undefined;
  const id = isIdNamed ? column(options.id!) : at('id');
  const payload = (options.payload ?? []).map((name) => [name, column(name)] as const);
  const whole = options.vector === undefined ? at('vector') : column(options.vector);
  if (whole !== undefined) return { id, isIdNamed, payload, vector: whole };
  const taken = new Set([id, ...payload.map(([, at]) => at)]);
  return { id, isIdNamed, payload, vector: names.map((_, i) => i).filter((i) => !taken.has(i)) };
}

export async function* readCsv(source: ByteSource, options: RowOptions): AsyncGenerator<Row | BadRow> {
  let plan: Plan | undefined;
  for await (const line of csvLines(source, options)) {
    if (line instanceof BadRow) yield line;
    else {
      plan ??= planFor(source.name, line.names, options);
      const { id, isIdNamed, payload } = plan;
      const { number, where, cells } = line;
      yield attempt(number, where, () => ({
        number,
        where,
        vector: vectorOf(source.name, line, plan!),
        ...(id === undefined || (cells[id] === '' && !isIdNamed) ? {} : { id: cellAt(cells, id) }),
        ...(payload.length === 0 ? {} : { payload: payloadOf(plan!, cells) }),
      }));
    }
  }
}

function vectorOf(source: string, { where, cells, names }: CsvLine, plan: Plan): Float32Array {
  const numbers =
    typeof plan.vector === 'number'
      ? writtenOut(cellAt(cells, plan.vector))
      : plan.vector.map((at) => cellAt(cells, at));
  if (!numbers) throw new HersError('MALFORMED', `${source}, ${where} has a vector that lacks a bracket`);
  const vector = new Float32Array(numbers.length);
  for (let i = 0; i < numbers.length; i++) {
    const text = numbers[i] ?? '';
    const value = text === '' ? Number.NaN : Number(text);
    // "NaN" in the file is a number that is refused later, as everywhere; a word is not.
    if (Number.isNaN(value) && !/^[+-]?nan$/i.test(text))
      throw new HersError(
        'MALFORMED',
        `${source}, ${where}: ${describeCell(names, plan, i)} is ${JSON.stringify(text.slice(0, 40))}, not a number; name the columns that are not part of the vector with --id and --payload`,
      );
    vector[i] = value;
  }
  return vector;
}

function describeCell(names: readonly string[], { vector }: Plan, i: number): string {
  return typeof vector === 'number'
    ? `a coordinate in column ${JSON.stringify(names[vector])}`
    : `column ${JSON.stringify(vector.map((at) => names[at])[i])}`;
}

/** Cells as they are written: turning "007" into a number would lose something. */
function payloadOf({ payload }: Plan, cells: readonly string[]): Payload {
  return Object.fromEntries(payload.map(([name, at]) => [name, cellAt(cells, at)]));
}

// The cells of one CSV record that has quotation marks in it: RFC 4180, section 2, and spaces
// around a cell are not part of it.

/** Nothing where quotation marks are misplaced, or a line ends outside of them. */
export function quotedCells(text: string, delimiter: string): string[] | undefined {
  const end = RegExp.escape(delimiter);
  const spaces = `(?:(?!${end})[^\\S\\r\\n])*`;
  const cell = new RegExp(`(?:${spaces}"([^"]*(?:""[^"]*)*)"${spaces}|([^"\\r\\n${end}]*))(${end}|$)`, 'y');
  const cells: string[] = [];
  for (let match = cell.exec(text); match; match = cell.exec(text)) {
    // Two marks stand for one.
    cells.push(match[1]?.replaceAll('""', '"') ?? match[2]!.trim());
    if (match[3] === '') return cells;
  }
  return undefined;
}
