// Text a line at a time.

import { HersError } from '@hers/client';
import type { ByteSource } from './bytes.ts';

/** A line longer than this is no text file. */
export const MAX_LINE: number = 2 ** 26;

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

export interface Line {
  /** For errors: `line 4`. */
  readonly where: string;
  readonly bytes: Uint8Array;
}

/** Lines without their ends, and the first without a byte order mark. */
export async function* byteLines(source: ByteSource): AsyncGenerator<Line> {
  let number = 0;
  let held: Uint8Array[] = [];
  let length = 0;
  const line = (end: Uint8Array): Line => {
    let bytes = held.length === 0 ? end : Buffer.concat([...held, end]);
    held = [];
    length = 0;
    if (bytes.at(-1) === RETURN) bytes = bytes.subarray(0, -1);
    if (number === 0 && Buffer.compare(bytes.subarray(0, 3), BYTE_ORDER_MARK) === 0) bytes = bytes.subarray(3);
    return { where: `line ${++number}`, bytes };
  };
  for await (const chunk of source.rest()) {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      yield line(chunk.subarray(from, at));
      from = at + 1;
    }
    if (from < chunk.length) held.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > MAX_LINE)
      throw new HersError('MALFORMED', `${source.name} has a line of more than ${MAX_LINE} bytes: it is no text file`);
  }
  if (length > 0) yield line(new Uint8Array(0));
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Throws MALFORMED where the bytes are not UTF-8. */
export function textOf(source: string, { where, bytes }: Line): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new HersError('MALFORMED', `${source}, ${where} is not text: its bytes are not UTF-8`);
  }
}

export async function* linesOf(source: ByteSource): AsyncGenerator<string> {
  for await (const line of byteLines(source)) yield textOf(source.name, line);
}
