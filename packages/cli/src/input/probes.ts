// What is searched with: a vector written out, a row of a file, or all rows of a file.

import { HersError } from '@hers/client';
import type { Environment } from '../context.ts';
import { absentError, type CommandError, inputError, usageError } from '../exit.ts';
import { inParts } from './lines.ts';
import { openRows, type Row, type RowOptions } from './rows.ts';
import { writtenOut } from './vectors.ts';

export interface Probe {
  /** The id in the file, or the number of the row. */
  readonly label: string | number;
  readonly vector: ArrayLike<number>;
}

/** Numbers with something between them: `0.1,0.2` or `0.1 0.2`. A single number could be a file. */
const WRITTEN_OUT = /^\s*[-+]?[\d.][\d.eE+-]*(?:[\s,;]+[-+]?[\d.][\d.eE+-]*)+\s*$/;

/** The vector in an argument; undefined when it is the name of a file. */
function vectorIn(argument: string): number[] | undefined {
  if (argument.trim() === '') throw usageError('the probe is empty', 'give a vector, or name a file');
  const text = argument.trim();
  if (!text.startsWith('[') && !WRITTEN_OUT.test(text)) return undefined;
  const numbers = writtenOut(text)?.map((number) => (number === '' ? Number.NaN : Number(number)));
  if (!numbers) throw inputError('the vector lacks a bracket', "write it as '[0.1, 0.2, …]'");
  if (numbers.some(Number.isNaN))
    throw inputError('the vector holds something that is not a number', "write it as '[0.1, 0.2, …]'");
  return numbers;
}

const labelOf = (row: Row) => row.id ?? row.number;

/** One probe. A file with several rows needs a row number. */
export async function oneProbe(
  environment: Environment,
  argument: string,
  row: number | undefined,
  options: RowOptions,
): Promise<Probe> {
  const vector = vectorIn(argument);
  if (vector) {
    if (row !== undefined) throw usageError('--row goes with a file, not with a vector');
    return { label: 0, vector };
  }
  const file = await openRows(environment, argument, options);
  try {
    if (row === undefined && file.count !== undefined && file.count > 1) throw several(argument, file.count);
    let found: Row | undefined;
    for await (const each of file.rows()) {
      if (row !== undefined ? each.number === row : found === undefined) found = each;
      else if (row === undefined) throw several(argument);
      if (row !== undefined && found) break;
    }
    if (found) return { label: labelOf(found), vector: found.vector };
    const message = row === undefined ? `${argument} has no rows` : `${argument} has no row ${row}`;
    throw absentError(message, 'rows are counted from 0');
  } finally {
    await file.source.close();
  }
}

function several(argument: string, count?: number): CommandError {
  return usageError(
    `${argument} has ${count ?? 'several'} rows`,
    'choose one with --row, or search with all of them with --batch',
  );
}

/** All rows of a file, so many at a time. */
export async function* probeBatches(
  environment: Environment,
  argument: string,
  size: number,
  options: RowOptions,
  onCount: (count: number | undefined) => void,
): AsyncGenerator<Probe[]> {
  if (vectorIn(argument)) throw usageError('--batch goes with a file, not with a vector');
  const file = await openRows(environment, argument, options);
  onCount(file.count);
  try {
    for await (const rows of inParts(file.rows(), size))
      yield rows.map((row) => {
        if (row.vector.length > 0) return { label: labelOf(row), vector: row.vector };
        throw new HersError('INVALID_VECTOR', `${argument}, ${row.where} holds no vector`);
      });
  } finally {
    await file.source.close();
  }
}
