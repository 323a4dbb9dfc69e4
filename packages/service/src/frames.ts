// Byte strings in a stream of bytes, each after its length, a u32. Snapshots and HTTP bodies are
// made of them.

import { HersError } from '@hers/scheme';
import type { Many } from './service.ts';

/** Length and bytes, as one piece. */
export function frame(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(4 + bytes.length);
  new DataView(out.buffer).setUint32(0, bytes.length, true);
  out.set(bytes, 4);
  return out;
}

/** Memory reserved because of a stated length; beyond that, only as bytes come. */
const AT_ONCE_BYTES = 2 ** 20;

/** The same bytes with more capacity. If the engine can, the old memory is released at once. */
export function grown(bytes: Uint8Array<ArrayBuffer>, room: number): Uint8Array<ArrayBuffer> {
  const { buffer } = bytes;
  if (typeof buffer.transfer === 'function' && bytes.length === buffer.byteLength)
    return new Uint8Array(buffer.transfer(room));
  const larger = new Uint8Array(room);
  larger.set(bytes);
  return larger;
}

/**
 * Decodes frames from pieces cut anywhere. A frame that is longer than `limit`, or truncated, is
 * MALFORMED. `hold` is called with the memory that a frame takes, and, negative, when it is
 * released.
 */
export async function* unframe(
  pieces: Many<Uint8Array>,
  limit: number = 2 ** 28,
  hold: (bytes: number) => void = () => {},
): AsyncGenerator<Uint8Array> {
  const head = new Uint8Array(4);
  let headFilled = 0;
  let content: Uint8Array<ArrayBuffer> | undefined;
  let wanted = 0;
  let filled = 0;
  let held = 0;
  const become = (bytes: number) => {
    hold(bytes - held);
    held = bytes;
  };
  try {
    for await (const piece of pieces) {
      // Pieces are copied: a stream of single bytes would keep a large buffer alive for each.
      for (let at = 0; at < piece.length; ) {
        if (!content) {
          const use = Math.min(head.length - headFilled, piece.length - at);
          head.set(piece.subarray(at, at + use), headFilled);
          headFilled += use;
          at += use;
          if (headFilled < head.length) break;
          wanted = new DataView(head.buffer).getUint32(0, true);
          if (wanted > limit)
            throw new HersError(
              'MALFORMED',
              `a part of this stream claims ${wanted} bytes; at most ${limit} are allowed`,
            );
          const room = Math.min(wanted, Math.max(AT_ONCE_BYTES, piece.length - at));
          become(room);
          content = new Uint8Array(room);
          filled = 0;
        }
        const use = Math.min(wanted - filled, piece.length - at);
        if (filled + use > content.length) {
          const room = Math.min(wanted, Math.max(2 * content.length, filled + use));
          become(content.length + room);
          content = grown(content, room);
          become(room);
        }
        content.set(piece.subarray(at, at + use), filled);
        filled += use;
        at += use;
        if (filled < wanted) break;
        const whole = content;
        content = undefined;
        headFilled = 0;
        yield whole;
        become(0);
      }
    }
  } finally {
    become(0);
  }
  if (headFilled > 0) throw new HersError('MALFORMED', 'this stream ends in the middle of a part; was it cut off?');
}
