// Byte strings one after the other in a stream of bytes: each behind its length, a u32. Snapshots and HTTP bodies are made of them.

import { HersError } from '@hers/scheme';
import type { Many } from './service.ts';

/** Length and bytes, as one piece. */
export function frame(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(4 + bytes.length);
  new DataView(out.buffer).setUint32(0, bytes.length, true);
  out.set(bytes, 4);
  return out;
}

/** Reads frames back from pieces cut anywhere. A frame longer than `limit`, or one that the stream cuts off, is MALFORMED. */
export async function* unframe(pieces: Many<Uint8Array>, limit = 2 ** 28): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let held = 0;
  /** Takes exactly `length` held bytes. */
  const take = (length: number): Uint8Array => {
    const out = new Uint8Array(length);
    let at = 0;
    while (at < length) {
      const part = parts[0];
      const use = Math.min(part.length, length - at);
      out.set(part.subarray(0, use), at);
      at += use;
      if (use === part.length) parts.shift();
      else parts[0] = part.subarray(use);
    }
    held -= length;
    return out;
  };
  let wanted: number | undefined;
  for await (const piece of pieces) {
    if (piece.length === 0) continue;
    parts.push(piece);
    held += piece.length;
    for (;;) {
      if (wanted === undefined) {
        if (held < 4) break;
        wanted = new DataView(take(4).buffer).getUint32(0, true);
        if (wanted > limit)
          throw new HersError(
            'MALFORMED',
            `a part of this stream claims ${wanted} bytes; at most ${limit} are allowed`,
          );
      }
      if (held < wanted) break;
      yield take(wanted);
      wanted = undefined;
    }
  }
  parts = [];
  if (held > 0 || wanted !== undefined)
    throw new HersError('MALFORMED', 'this stream ends in the middle of a part; was it cut off?');
}
