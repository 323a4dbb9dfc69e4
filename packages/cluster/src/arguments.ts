// What callers give, looked at before anything is done.

import { HersError } from '@hers/service';

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
