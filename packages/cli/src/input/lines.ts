// Bytes of a file or of standard input, text a line at a time, and rows that cannot be used.

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { HersError } from '@hers/client';
import { ByteSource } from '@hers/vectors/npy';
import type { Environment } from '../context.ts';
import { usageError } from '../exit.ts';

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

// Bytes from a file or a pipe.

export { ByteSource };

/** Standard input, as an argument. */
export const STANDARD_INPUT = '-';

/** A file, or standard input for `-`. */
export async function openBytes({ cwd, stdin, signal }: Environment, argument: string): Promise<ByteSource> {
  if (argument === STANDARD_INPUT) {
    if (stdin.isTTY) throw usageError('standard input is a terminal', 'send data through a pipe, or name a file');
    return new ByteSource('standard input', untilAborted(stdin as AsyncIterable<Uint8Array>, signal));
  }
  const path = resolve(cwd, argument);
  const info = await stat(path);
  if (info.isDirectory()) throw usageError(`${argument} is a folder`, 'name a file');
  const stream = createReadStream(path, { highWaterMark: 2 ** 18 });
  return new ByteSource(argument, untilAborted(stream, signal), info.isFile() ? info.size : undefined);
}

/** Chunks until the signal: a pipe that stays silent must not keep Ctrl-C from working. */
async function* untilAborted(chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]();
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => {});
  const stop = () => stopped.reject(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  try {
    for (;;) {
      signal.throwIfAborted();
      const { value, done } = await Promise.race([iterator.next(), stopped.promise]);
      if (done) return;
      yield typeof value === 'string' ? Buffer.from(value) : value;
    }
  } finally {
    signal.removeEventListener('abort', stop);
    // Not awaited: the end of a silent pipe may never come.
    void iterator.return?.()?.catch(() => {});
  }
}

// A row that cannot be used. Readers pass it on instead of ending, so that whoever reads can
// choose: to stop there, or to count it and go on.

export class BadRow {
  /** Counted from 0, with all others. */
  readonly number: number;
  readonly where: string;
  readonly error: HersError;

  constructor(number: number, where: string, error: HersError) {
    this.number = number;
    this.where = where;
    this.error = error;
  }
}

/** What `read` makes of a row, or what is wrong with the row. */
export function attempt<T>(number: number, where: string, read: () => T): T | BadRow {
  try {
    return read();
  } catch (error) {
    if (error instanceof HersError) return new BadRow(number, where, error);
    throw error;
  }
}

/** For those who stop at the first. */
export async function* untilBad<T>(rows: AsyncIterable<T | BadRow>): AsyncGenerator<T> {
  for await (const row of rows) {
    if (row instanceof BadRow) throw row.error;
    yield row;
  }
}

// What comes one by one, in arrays of so many.

export async function* inParts<T>(items: Iterable<T> | AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let part: T[] = [];
  for await (const item of items) {
    part.push(item);
    if (part.length === size) {
      yield part;
      part = [];
    }
  }
  if (part.length > 0) yield part;
}
