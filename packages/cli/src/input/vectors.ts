// All vectors of a file at once, with their labels: what training and measuring need.

import { readLabels } from '@hers/vectors/npy';
import type { Environment } from '../context.ts';
import { inputError } from '../exit.ts';
import { idsFrom } from './companions.ts';
import { openBytes } from './lines.ts';
import { openRows, type RowOptions } from './rows.ts';

export interface Vectors {
  /** One after the other. */
  readonly vectors: Float32Array;
  readonly count: number;
  readonly dimension: number;
  /** Whose each is: of a file of labels, or the `label` column or field. */
  readonly labels?: readonly (string | number)[];
}

export interface VectorOptions extends RowOptions {
  /** A .npy file of whole numbers, or a text file with a line for each vector. */
  readonly labels?: string;
  /** The column or field with the label. */
  readonly label?: string;
}

/** Half of what an array can hold. */
const MAX_NUMBERS = 2 ** 31;

export async function readVectors(
  environment: Environment,
  argument: string,
  { labels, label, ...options }: VectorOptions,
): Promise<Vectors> {
  // The label stands where ids do: a column or field beside the vector.
  const file = await openRows(environment, argument, label === undefined ? options : { ...options, id: label });
  const name = file.source.name;
  const parts: Float32Array[] = [];
  const found: string[] = [];
  let dimension = file.dimension ?? 0;
  try {
    for await (const { where, vector, id } of file.rows()) {
      dimension ||= vector.length;
      if (vector.length !== dimension)
        throw inputError(
          `${name}, ${where}: its vector has ${vector.length} coordinates, and the first has ${dimension}`,
          'all vectors need the same length',
        );
      if ((parts.length + 1) * dimension > MAX_NUMBERS)
        throw inputError(`${name} holds more than fits into memory`, 'take a part of it');
      parts.push(Float32Array.from(vector));
      if (label !== undefined && id !== undefined) found.push(id);
    }
  } finally {
    await file.source.close();
  }
  if (parts.length === 0) throw inputError(`${name} holds no vectors`, 'check where it comes from');
  const vectors = new Float32Array(parts.length * dimension);
  parts.forEach((part, i) => {
    vectors.set(part, i * dimension);
  });
  const all = { vectors, count: parts.length, dimension };
  const named = labels === undefined ? found : await labelsFrom(environment, labels, label);
  if (named.length === 0) return all;
  if (named.length !== parts.length)
    throw inputError(
      `${labels ?? name} has ${named.length} labels, and ${name} has ${parts.length} vectors`,
      'they must be as many',
    );
  const missing = named.indexOf('');
  if (missing >= 0)
    throw inputError(
      `vector ${missing} has no label in ${labels ?? name}`,
      'give every vector one: those of one person have the same',
    );
  return { ...all, labels: named };
}

async function labelsFrom(
  environment: Environment,
  path: string,
  column = 'label',
): Promise<readonly (string | number)[]> {
  if (!/\.npy$/i.test(path)) return Array.fromAsync(idsFrom(environment, path, column));
  const source = await openBytes(environment, path);
  try {
    return Array.from(await readLabels(source));
  } finally {
    await source.close();
  }
}

/** Its numbers, as text; undefined where a bracket stands alone. */
export function writtenOut(text: string): string[] | undefined {
  const whole = text.trim();
  const isOpen = whole.startsWith('[');
  if (isOpen !== whole.endsWith(']')) return undefined;
  return (isOpen ? whole.slice(1, -1) : whole).trim().split(/[\s,;]+/);
}
