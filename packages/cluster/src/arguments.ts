// What callers and others give, looked at before anything is done.

import { HersError, otherFormat } from '@hers/service';

export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

export const isCode = (error: unknown, ...codes: string[]): boolean =>
  error instanceof HersError && codes.includes(error.code);

export function checkBytes(value: unknown, what: string, length?: number): asserts value is Uint8Array {
  if (!(value instanceof Uint8Array) || (length !== undefined && value.length !== length))
    throw new HersError('INVALID_ARGUMENT', `${what} is ${length === undefined ? '' : `${length} `}bytes`);
}

/** A caller that asks for the same many times would receive many times what is stored. */
export function checkIds(ids: readonly Uint8Array[], what: string, length: number): void {
  for (const id of ids) checkBytes(id, `the id of a ${what}`, length);
  if (new Set(ids.map(hex)).size < ids.length)
    throw new HersError('INVALID_ARGUMENT', `a ${what} is asked for twice; ask for it once`);
}

/** The number of the format of all that nodes share. */
export const FORMAT = 1;

/** Throws UNSUPPORTED_VERSION for another number. */
export function checkFormat(format: unknown): void {
  if (format !== FORMAT) throw otherFormat('this cluster');
}

/**
 * A document of JSON that nodes share, if it has this shape. UNSUPPORTED_VERSION for another
 * format; MALFORMED for what no node writes.
 */
export function readDocument(
  bytes: Uint8Array,
  what: string,
  hasShape: (fields: Record<string, unknown>) => boolean,
): Record<string, unknown> {
  let read: unknown;
  try {
    read = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {}
  if (!isObject(read)) throw new HersError('MALFORMED', `${what} makes no sense; see docs/cluster.md`);
  const { format, ...fields } = read;
  checkFormat(format);
  if (!hasShape(fields)) throw new HersError('MALFORMED', `${what} makes no sense; see docs/cluster.md`);
  return fields;
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
