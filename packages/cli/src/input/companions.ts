// Ids and payloads that lie in files of their own, beside the vectors: line for line, or row for
// row.

import type { Payload } from '@hers/client';
import type { Environment } from '../context.ts';
import { usageError } from '../exit.ts';
import { cellAt, columnOf, csvTable } from './csv.ts';
import { fieldOf, idFrom, isObject, jsonLines } from './jsonl.ts';
import { linesOf, openBytes } from './lines.ts';

const ending = (path: string) => /\.([a-z]+)$/i.exec(path)?.[1]?.toLowerCase();

const delimiterOf = (path: string) => (ending(path) === 'tsv' ? '\t' : ',');

/** Whether a line has cells, which have no types. */
export const hasCells = (path: string): boolean => ['csv', 'tsv'].includes(ending(path) ?? '');

/** Whether the parts of a line have names. */
export const hasColumns = (path: string): boolean => hasCells(path) || ['jsonl', 'ndjson'].includes(ending(path) ?? '');

/** Ids from a text file (one a line), or from one column of a .csv or one field of a .jsonl. */
export async function* idsFrom(environment: Environment, path: string, column = 'id'): AsyncGenerator<string> {
  const source = await openBytes(environment, path);
  try {
    switch (ending(path)) {
      case 'csv':
      case 'tsv':
        for await (const { cells, names } of csvTable(source, { delimiter: delimiterOf(path) }))
          yield cellAt(cells, columnOf(path, names, column));
        return;
      case 'jsonl':
      case 'ndjson':
        for await (const line of jsonLines(source)) yield idFrom(path, line.where, fieldOf(path, line, column));
        return;
      default:
        for await (const line of linesOf(source)) yield line;
    }
  } finally {
    await source.close();
  }
}

/**
 * Payloads from a .jsonl (a value a line) or a .csv (an object of its columns), reduced to some
 * fields where these are named.
 */
export async function* payloadsFrom(
  environment: Environment,
  path: string,
  fields?: readonly string[],
): AsyncGenerator<Payload> {
  const source = await openBytes(environment, path);
  try {
    switch (ending(path)) {
      case 'csv':
      case 'tsv':
        for await (const { cells, names } of csvTable(source, { delimiter: delimiterOf(path) }))
          yield Object.fromEntries((fields ?? names).map((name) => [name, cellAt(cells, columnOf(path, names, name))]));
        return;
      case 'jsonl':
      case 'ndjson':
        for await (const line of jsonLines(source))
          yield (
            fields && isObject(line.value)
              ? Object.fromEntries(fields.map((name) => [name, fieldOf(path, line, name)]))
              : line.value
          ) as Payload;
        return;
      default:
        throw usageError(`${path} is neither .jsonl nor .csv`, 'give payloads in one of these');
    }
  } finally {
    await source.close();
  }
}

/**
 * How many there are. A second pass over a small file is cheaper than half an import with the wrong
 * names.
 */
export async function countOf(items: AsyncIterable<unknown>): Promise<number> {
  let total = 0;
  for await (const _ of items) total++;
  return total;
}
