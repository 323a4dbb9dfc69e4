// Rows of vectors from .npy, .csv and .jsonl files, or from standard input: one shape for what is
// imported and for what is searched with.

import type { Payload } from '@hers/client';
import { isNpy, openNpy } from '@hers/vectors/npy';
import type { HersCommand } from '../command.ts';
import type { Environment } from '../context.ts';
import { inputError, usageError } from '../exit.ts';
import { readCsv } from './csv.ts';
import { readJsonl } from './jsonl.ts';
import { type BadRow, type ByteSource, openBytes, untilBad } from './lines.ts';

const FORMATS = ['npy', 'csv', 'tsv', 'jsonl'] as const;
export type Format = (typeof FORMATS)[number];

export interface Row {
  /** Counted from 0, as numpy does. */
  readonly number: number;
  /** For errors: `row 3`, `line 4`. */
  readonly where: string;
  readonly vector: Float32Array | readonly number[];
  readonly id?: string;
  readonly payload?: Payload;
}

/** Which columns (of .csv) or fields (of .jsonl) are what. */
export interface RowOptions {
  readonly format?: Format;
  /** The column or field that holds the id; `id` where there is one. */
  readonly id?: string;
  /**
   * The column or field that holds the whole vector; `vector` where there is one, and otherwise all
   * columns that are nothing else.
   */
  readonly vector?: string;
  /** Columns or fields that together form the payload. */
  readonly payload?: readonly string[];
  /** Refuse a field of .jsonl that is none of these, and would be lost. */
  readonly closed?: boolean;
  readonly delimiter?: string;
  readonly header?: boolean;
}

export interface RowFile {
  readonly format: Format;
  readonly source: ByteSource;
  /** Where the format says so beforehand. */
  readonly count?: number;
  readonly dimension?: number;
  /** Until the first that cannot be used. */
  rows(): AsyncGenerator<Row>;
  /** All of them. */
  attempts(): AsyncGenerator<Row | BadRow>;
}

/** Opens a file, or standard input for `-`. Its name or its first bytes tell the format. */
export async function openRows(environment: Environment, argument: string, options: RowOptions = {}): Promise<RowFile> {
  const source = await openBytes(environment, argument);
  try {
    const format = options.format ?? (await formatOf(source));
    if (format === 'npy') return await npyRows(source);
    const reader = format === 'jsonl' ? readJsonl : readCsv;
    const settings = format === 'tsv' ? { delimiter: '\t', ...options } : options;
    const attempts = () => reader(source, settings);
    return { format, source, attempts, rows: () => untilBad(attempts()) };
  } catch (error) {
    await source.close();
    throw error;
  }
}

async function npyRows(source: ByteSource): Promise<RowFile> {
  const file = await openNpy(source);
  const rows = async function* (): AsyncGenerator<Row> {
    let number = 0;
    for await (const vector of file.vectors()) yield { number, where: `row ${number++}`, vector };
  };
  return { format: 'npy', source, count: file.rows, dimension: file.columns, rows, attempts: rows };
}

const ENDINGS: ReadonlyMap<string, Format> = new Map([
  ...FORMATS.map((format) => [format, format] as const),
  ['ndjson', 'jsonl'],
]);

async function formatOf(source: ByteSource): Promise<Format> {
  const ending = /\.([a-z]+)$/i.exec(source.name)?.[1]?.toLowerCase();
  const named = ENDINGS.get(ending ?? '');
  if (named) return named;
  const start = await source.peek(8);
  if (start.length === 0) throw inputError(`${source.name} is empty`, 'check where it comes from');
  if (isNpy(start)) return 'npy';
  const text = Buffer.from(start)
    .toString('latin1')
    .replace(/^\xef\xbb\xbf/, '')
    .trimStart();
  if (text.startsWith('{') || text.startsWith('[')) return 'jsonl';
  if (/^["\w.+-]/.test(text)) return 'csv';
  throw inputError(
    `${source.name} is in a format that cannot be told from its name or its first bytes`,
    `say which it is: --format ${FORMATS.join(', ')}`,
  );
}

function delimiter(text: string): string {
  const character = text === '\\t' || text === 'tab' ? '\t' : text;
  if (character.length === 1) return character;
  throw usageError(`--delimiter takes one character, not ${JSON.stringify(text)}`);
}

/** How .csv and .jsonl are read. */
export function addRowOptions<T extends HersCommand>(command: T): T {
  return command
    .choice('--format <format>', 'what the file is; told from its name or its first bytes by default', [...FORMATS])
    .option('--id <column>', 'column (.csv) or field (.jsonl) with the id; `id` by default')
    .option(
      '--vector <column>',
      'column or field with the whole vector; `vector`, or all columns that are nothing else, by default',
    )
    .option('--delimiter <character>', 'between the cells of .csv; a comma by default', delimiter)
    .option('--no-header', 'the first line of .csv is data; told from its cells by default');
}

/** The same for vectors that are of somebody. */
export function addLabelOptions<T extends HersCommand>(command: T): T {
  return addRowOptions(command)
    .option('--labels <file>', 'the label of each vector: a .npy file of whole numbers, or a text file, one a line')
    .option('--label <column>', 'the same from a column (.csv) or field (.jsonl)');
}

/** The flag is there even when nobody gave it. */
export function rowOptionsOf<T extends RowOptions>({ header, ...rest }: T): Omit<T, 'header'> & { header?: boolean } {
  return { ...rest, ...(header === false ? { header } : {}) };
}
