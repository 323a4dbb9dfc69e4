// Rows of .jsonl files: one JSON object a line with `id`, `vector` and perhaps `payload`, or a line
// that is nothing but a vector; and new payloads, `{"id": …, "payload": …}` a line.

import { type Fields, HersError, type Payload, type PayloadUpdate, valuesOf } from '@hers/client';
import type { Environment } from '../context.ts';
import { attempt, type BadRow, type ByteSource, byteLines, type Line, openBytes, textOf, untilBad } from './lines.ts';
import type { Row, RowOptions } from './rows.ts';

const SPACE = 0x20;

export interface JsonLine {
  readonly value: unknown;
  readonly where: string;
}

/** The values of all lines that are not empty. */
export function jsonLines(source: ByteSource): AsyncGenerator<JsonLine> {
  return untilBad(readLines(source, (value, where) => ({ value, where })));
}

/** What `read` makes of the value of every line that is not empty. */
async function* readLines<T>(
  source: ByteSource,
  read: (value: unknown, where: string, number: number) => T,
): AsyncGenerator<T | BadRow> {
  let number = 0;
  for await (const line of byteLines(source)) {
    const { where, bytes } = line;
    if (bytes.every((byte) => byte <= SPACE)) continue;
    const at = number++;
    yield attempt(at, where, () => read(parsed(source.name, line), where, at));
  }
}

function parsed(source: string, line: Line): unknown {
  const text = textOf(source, line);
  try {
    return JSON.parse(text);
  } catch {
    throw new HersError('MALFORMED', `${source}, ${line.where} is not JSON`);
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function fieldOf(source: string, { value, where }: JsonLine, name: string): unknown {
  if (isObject(value) && Object.hasOwn(value, name)) return value[name];
  throw new HersError('MALFORMED', `${source}, ${where} has no field ${JSON.stringify(name)}`);
}

/** Ids are text; whole numbers are what many files have instead. */
export function idFrom(source: string, where: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (Number.isSafeInteger(value)) return String(value);
  throw new HersError('MALFORMED', `${source}, ${where} has an id that is neither text nor a whole number`);
}

export function readJsonl(source: ByteSource, options: RowOptions): AsyncGenerator<Row | BadRow> {
  return readLines(source, (value, where, number) => ({
    number,
    where,
    ...contentOf(source.name, { value, where }, value, options),
  }));
}

function contentOf(
  source: string,
  line: JsonLine,
  value: unknown,
  { id, vector = 'vector', payload, closed = false }: RowOptions,
): Pick<Row, 'vector' | 'id' | 'payload'> {
  if (Array.isArray(value)) return { vector: vectorFrom(source, line.where, value) };
  if (!isObject(value)) throw new HersError('MALFORMED', `${source}, ${line.where} is neither an object nor a vector`);
  // Nothing, where nobody said that there is one, is what many programs write for no id.
  const name = id ?? (Object.hasOwn(value, 'id') && value.id !== null ? 'id' : undefined);
  const content = payload
    ? (Object.fromEntries(payload.map((field) => [field, fieldOf(source, line, field)])) as Payload)
    : (value.payload as Payload | undefined);
  const row = {
    vector: vectorFrom(source, line.where, fieldOf(source, line, vector)),
    ...(name === undefined ? {} : { id: idFrom(source, line.where, fieldOf(source, line, name)) }),
    ...(content === undefined || payload?.length === 0 ? {} : { payload: content }),
  };
  const lost = Object.keys(value).find((field) => ![name, vector, 'id', 'payload'].includes(field));
  if (closed && lost !== undefined)
    throw new HersError(
      'MALFORMED',
      `${source}, ${line.where} has a field ${JSON.stringify(lost)}, which is neither id, vector nor payload; --payload names the fields to keep, --no-payload keeps none`,
    );
  return row;
}

function vectorFrom(source: string, where: string, value: unknown): number[] {
  if (Array.isArray(value) && value.every((x) => typeof x === 'number')) return value;
  // JSON has no NaN; null is what many programs write for it.
  throw new HersError('MALFORMED', `${source}, ${where} has a vector that is not a list of numbers`);
}

export async function* updatesFrom(
  environment: Environment,
  path: string,
  fields: Fields,
): AsyncGenerator<PayloadUpdate> {
  const source = await openBytes(environment, path);
  try {
    for await (const line of jsonLines(source)) yield updateIn(source.name, line, fields);
  } finally {
    await source.close();
  }
}

function updateIn(source: string, line: JsonLine, fields: Fields): PayloadUpdate {
  const { value, where } = line;
  const wrong = (message: string) => new HersError('MALFORMED', `${source}, ${where}: ${message}`);
  if (!isObject(value)) throw wrong('there is no object with an id and a payload');
  const other = Object.keys(value).find((name) => name !== 'id' && name !== 'payload');
  if (other !== undefined)
    throw wrong(`it has a field ${JSON.stringify(other)}, which is neither id nor payload; put it into the payload`);
  const id = idFrom(source, where, fieldOf(source, line, 'id'));
  if (!Object.hasOwn(value, 'payload')) return { id };
  const payload = value.payload as Payload;
  try {
    valuesOf(payload, fields, id);
  } catch (error) {
    throw wrong((error as Error).message);
  }
  return { id, payload };
}
