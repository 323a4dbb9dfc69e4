// What is sent: whole where it fits, so that it can be sent again; as a stream where it does not,
// and where the platform can.

import type { Many } from '@hers/service';
import { canStream } from '#fetch';
import { concat } from '../bytes.ts';

/** Up to here a body is held in memory for the sake of sending it again. */
const WHOLE_BYTES = 2 ** 23;

export interface Sent {
  /** In all, and in the last piece. */
  readonly bytes: number;
  readonly last: number;
  /** Whether the next piece is waited for: then it is not the server that is slow. */
  readonly waiting: boolean;
}

export interface Body {
  /** Something that fetch takes. Whole bodies give it as often as asked, streams once. */
  content(): Uint8Array | ReadableStream<Uint8Array>;
  readonly repeatable: boolean;
  /** What was handed over to be sent. */
  sent(): Sent;
  /** Why the source of a stream failed, where it did. */
  failure(): { readonly error: unknown } | undefined;
  /** Ends the source. */
  done(): Promise<void>;
}

export function wholeBody(bytes: Uint8Array): Body {
  const sent = { bytes: bytes.length, last: bytes.length, waiting: false };
  return { content: () => bytes, repeatable: true, sent: () => sent, failure: () => undefined, done: async () => {} };
}

/**
 * Reads pieces until there are no more, or more than are worth holding. Errors of the source are
 * thrown as they are.
 */
export async function gatherBody(pieces: Many<Uint8Array>, signal: AbortSignal | undefined): Promise<Body> {
  const source = Symbol.asyncIterator in pieces ? pieces[Symbol.asyncIterator]() : pieces[Symbol.iterator]();
  const held: Uint8Array[] = [];
  let bytes = 0;
  try {
    while (!canStream || bytes <= WHOLE_BYTES) {
      signal?.throwIfAborted();
      const next = await source.next();
      if (next.done) return wholeBody(held.length === 1 ? held[0] : concat(...held));
      held.push(next.value);
      bytes += next.value.length;
    }
  } catch (error) {
    await source.return?.();
    throw error;
  }
  return streamedBody(held, source);
}

function streamedBody(held: Uint8Array[], source: Iterator<Uint8Array> | AsyncIterator<Uint8Array>): Body {
  let failure: { error: unknown } | undefined;
  let [bytes, last, waiting] = [0, 0, false];
  let ended: Promise<void> | undefined;
  const end = () => {
    ended ??= (async () => {
      await source.return?.();
    })();
    return ended;
  };
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          waiting = true;
          for (;;) {
            const next = held.length > 0 ? { value: held.shift()!, done: false } : await source.next();
            if (next.done) return controller.close();
            if (next.value.length === 0) continue;
            last = next.value.length;
            bytes += last;
            return controller.enqueue(next.value);
          }
        } catch (error) {
          failure = { error };
          throw error;
        } finally {
          waiting = false;
        }
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
  const sent = () => ({ bytes, last, waiting });
  return { content: () => stream, repeatable: false, sent, failure: () => failure, done: end };
}
