// Text a line at a time.

import { HersError } from '@hers/client';
import type { ByteSource } from './bytes.ts';

/** A line longer than this is no text file. */
export const MAX_LINE = 2 ** 26;

/** Lines without their ends. Throws MALFORMED where the bytes are not UTF-8. */
export async function* linesOf(source: ByteSource): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const decode = (bytes?: Uint8Array) => {
    try {
      return bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode();
    } catch {
      throw new HersError('MALFORMED', `${source.name} is not text: its bytes are not UTF-8`);
    }
  };
  let held = '';
  for await (const chunk of source.rest()) {
    const lines = decode(chunk).split('\n');
    lines[0] = held + lines[0];
    held = lines.pop()!;
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line;
    if (held.length > MAX_LINE)
      throw new HersError(
        'MALFORMED',
        `${source.name} has a line of more than ${MAX_LINE} characters: it is no text file`,
      );
  }
  held += decode();
  if (held !== '') yield held.endsWith('\r') ? held.slice(0, -1) : held;
}
