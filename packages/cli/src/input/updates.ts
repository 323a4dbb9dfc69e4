// New payloads from a .jsonl file: `{"id": …, "payload": …}` a line.

import { type Fields, HersError, type Payload, type PayloadUpdate, valuesOf } from '@hers/client';
import type { Environment } from '../environment.ts';
import { openBytes } from './bytes.ts';
import { fieldOf, idFrom, isObject, type JsonLine, jsonLines } from './jsonl.ts';

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
