// Rows of .csv and .tsv files. The first line names the columns, unless every cell of it is a number.

import { Readable } from 'node:stream';
import { HersError, type Payload } from '@hers/client';
import { type Parser, parse } from 'csv-parse';
import type { ByteSource } from './bytes.ts';
import { MAX_LINE } from './lines.ts';
import type { Row, RowOptions } from './rows.ts';

export interface CsvRow {
  readonly cells: readonly string[];
  readonly line: number;
}

/** Cells of every line, and the names of the columns. */
export async function* csvTable(
  source: ByteSource,
  { delimiter = ',', header }: Pick<RowOptions, 'delimiter' | 'header'>,
): AsyncGenerator<CsvRow & { readonly names: readonly string[] }> {
  const parser = parse({
    bom: true,
    delimiter,
    skip_empty_lines: true,
    trim: true,
    info: true,
    max_record_size: MAX_LINE,
  });
  let names: readonly string[] | undefined;
  try {
    for await (const { record, info } of streamed(source, parser)) {
      if (!names) {
        const named = header ?? !record.every(isNumber);
        names = named ? checkedNames(source.name, record) : record.map((_, i) => String(i + 1));
        if (named) continue;
      }
      yield { cells: record, line: info.lines, names };
    }
  } catch (error) {
    throw csvError(source.name, error);
  }
}

type Parsed = { record: string[]; info: { lines: number } };

async function* streamed(source: ByteSource, parser: Parser): AsyncGenerator<Parsed> {
  const input = Readable.from(source.rest());
  // An error of the source must end the parser, or the loop below would wait for ever.
  input.on('error', (error) => parser.destroy(error));
  input.pipe(parser);
  try {
    yield* parser as AsyncIterable<Parsed>;
  } finally {
    input.destroy();
  }
}

function csvError(name: string, error: unknown): unknown {
  const { code, lines, message } = error as { code?: unknown; lines?: unknown; message?: string };
  if (typeof code !== 'string' || !code.startsWith('CSV_')) return error;
  const where = typeof lines === 'number' ? `, line ${lines}` : '';
  if (code === 'CSV_RECORD_INCONSISTENT_FIELDS_LENGTH')
    return new HersError('MALFORMED', `${name}${where} has another number of columns than the lines before`);
  return new HersError('MALFORMED', `${name}${where} is not CSV: ${message}`);
}

function checkedNames(file: string, names: readonly string[]): readonly string[] {
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined)
    throw new HersError('MALFORMED', `${file} has two columns called ${JSON.stringify(twice)}; rename one`);
  return names;
}

const isNumber = (cell: string) => cell !== '' && Number.isFinite(Number(cell));

/** The position of a column that was asked for. */
export function columnOf(file: string, names: readonly string[], name: string): number {
  const at = names.indexOf(name);
  if (at >= 0) return at;
  const shown = names.length > 12 ? `${names.slice(0, 12).join(', ')}, …` : names.join(', ');
  throw new HersError('INVALID_ARGUMENT', `${file} has no column ${JSON.stringify(name)}; it has ${shown}`);
}

interface Plan {
  readonly id: number | undefined;
  readonly payload: readonly (readonly [name: string, at: number])[];
  /** One column with everything in it, or one for each coordinate. */
  readonly vector: number | readonly number[];
}

function planFor(file: string, names: readonly string[], options: RowOptions): Plan {
  const column = (name: string) => columnOf(file, names, name);
  const usual = (name: string) => (names.includes(name) ? names.indexOf(name) : undefined);
  const id = options.id === undefined ? usual('id') : column(options.id);
  const payload = (options.payload ?? []).map((name) => [name, column(name)] as const);
  const whole = options.vector === undefined ? usual('vector') : column(options.vector);
  if (whole !== undefined) return { id, payload, vector: whole };
  const taken = new Set([id, ...payload.map(([, at]) => at)]);
  return { id, payload, vector: names.map((_, i) => i).filter((i) => !taken.has(i)) };
}

export async function* readCsv(source: ByteSource, options: RowOptions): AsyncGenerator<Row> {
  let plan: Plan | undefined;
  let number = 0;
  for await (const { cells, line, names } of csvTable(source, options)) {
    plan ??= planFor(source.name, names, options);
    const where = `line ${line}`;
    const numbers =
      typeof plan.vector === 'number'
        ? cells[plan.vector]
            .replace(/^\[|\]$/g, '')
            .trim()
            .split(/[\s,;]+/)
        : plan.vector.map((at) => cells[at]);
    const vector = new Float32Array(numbers.length);
    for (let i = 0; i < numbers.length; i++) {
      const value = numbers[i] === '' ? undefined : Number(numbers[i]);
      // "NaN" in the file is a number that is refused later, as everywhere; a word is not.
      if (value === undefined || (Number.isNaN(value) && !/^[+-]?nan$/i.test(numbers[i])))
        throw new HersError(
          'MALFORMED',
          `${source.name}, ${where}: ${describeCell(names, plan, i)} is ${JSON.stringify(numbers[i].slice(0, 40))}, not a number; name the columns that are not part of the vector with --id and --payload`,
        );
      vector[i] = value;
    }
    const payload = payloadOf(plan, cells);
    yield {
      number: number++,
      where,
      vector,
      ...(plan.id === undefined ? {} : { id: cells[plan.id] }),
      ...(payload === undefined ? {} : { payload }),
    };
  }
}

function describeCell(names: readonly string[], { vector }: Plan, i: number): string {
  return typeof vector === 'number'
    ? `a coordinate in column ${JSON.stringify(names[vector])}`
    : `column ${JSON.stringify(names[vector[i]])}`;
}

/** Cells as they are written: turning "007" into a number would lose something. */
function payloadOf({ payload }: Plan, cells: readonly string[]): Payload | undefined {
  return payload.length === 0 ? undefined : Object.fromEntries(payload.map(([name, at]) => [name, cells[at]]));
}
