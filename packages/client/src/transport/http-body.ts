// What is sent: whole where it fits, so that it can be sent again; as a stream where it does not,
// and where the platform can. A stream of what can be had again can be sent again too; one of
// anything else, as long as no more of it was sent than is held.

import { type Many, Renewable } from '@hers/service';
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

export const NOTHING_SENT: Sent = { bytes: 0, last: 0, waiting: false };

export interface Body {
  /** Something that fetch takes, for one attempt. It begins again every time. */
  content(): Uint8Array | ReadableStream<Uint8Array>;
  /** Whether `content` can be called again. */
  readonly repeatable: boolean;
  /** What was handed over to be sent by the last attempt. */
  sent(): Sent;
  /** Why the source of a stream failed, where it did. */
  failure(): { readonly error: unknown } | undefined;
  done(): Promise<void>;
}

type Source = Iterator<Uint8Array> | AsyncIterator<Uint8Array>;

export function wholeBody(bytes: Uint8Array): Body {
  const sent = { bytes: bytes.length, last: bytes.length, waiting: false };
  return { content: () => bytes, repeatable: true, sent: () => sent, failure: () => undefined, done: async () => {} };
}

/**
 * Reads pieces until there are no more, or more than are worth holding. Errors of the source are
 * thrown as they are.
 */
export async function gatherBody(pieces: Many<Uint8Array>, signal: AbortSignal | undefined): Promise<Body> {
  const source = sourceOf(pieces);
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
  if (Array.isArray(pieces) || pieces instanceof Renewable) {
    await source.return?.();
    return streamedBody(again(pieces instanceof Renewable ? pieces : new Renewable(() => inCopies(pieces))));
  }
  return streamedBody(once(held, source));
}

const COPY_BYTES = 2 ** 18;

/**
 * The same bytes in memory of their own: a socket may still read what it was given when the call is
 * over, because the server answered too early, and the caller may give its memory back by then.
 */
export function* inCopies(pieces: Iterable<Uint8Array>): Generator<Uint8Array> {
  for (const piece of pieces)
    for (let at = 0; at < piece.length; at += COPY_BYTES) yield piece.slice(at, at + COPY_BYTES);
}

function sourceOf(pieces: Many<Uint8Array>): Source {
  return Symbol.asyncIterator in pieces ? pieces[Symbol.asyncIterator]() : pieces[Symbol.iterator]();
}

/** Where the pieces of a stream come from, attempt after attempt. */
interface Supply {
  /** Called once per attempt. */
  begin(): Source;
  readonly repeatable: boolean;
  end(): Promise<void>;
}

/** Pieces that can be had again. */
function again(pieces: Many<Uint8Array>): Supply {
  let source: Source | undefined;
  return {
    begin: () => (source = sourceOf(pieces)),
    repeatable: true,
    end: async () => void (await source?.return?.()),
  };
}

/** Pieces that are held, and then others, which can be had once. */
function once(first: readonly Uint8Array[], rest: Source): Supply {
  let held: readonly Uint8Array[] | undefined = first;
  let ended: Promise<unknown> | undefined;
  return {
    begin() {
      let at = 0;
      return {
        async next() {
          if (held && at < held.length) return { value: held[at++], done: false };
          held = undefined;
          return rest.next();
        },
      };
    },
    /** Until something else than what is held was asked for. */
    get repeatable() {
      return held !== undefined;
    },
    async end() {
      ended ??= Promise.resolve(rest.return?.());
      await ended;
    },
  };
}

function streamedBody(supply: Supply): Body {
  let sending: Sending | undefined;
  return {
    content() {
      // What is left of an earlier attempt must not take pieces from this one.
      sending?.stop();
      sending = new Sending(supply.begin());
      return sending.stream;
    },
    get repeatable() {
      return supply.repeatable;
    },
    sent: () => sending?.sent ?? NOTHING_SENT,
    failure: () => sending?.failure,
    async done() {
      sending?.stop();
      await supply.end();
    },
  };
}

class Sending {
  readonly stream: ReadableStream<Uint8Array>;
  sent: Sent = NOTHING_SENT;
  failure: { readonly error: unknown } | undefined;
  readonly #source: Source;
  #isOver = false;

  constructor(source: Source) {
    this.#source = source;
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => this.#pull(controller);
    this.stream = new ReadableStream({ pull, cancel: () => this.stop() }, { highWaterMark: 0 });
  }

  stop(): void {
    this.#isOver = true;
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    let { bytes, last } = this.sent;
    try {
      this.sent = { bytes, last, waiting: true };
      for (;;) {
        if (this.#isOver) throw new Error('this attempt is over');
        const next = await this.#source.next();
        if (next.done) return controller.close();
        if (next.value.length === 0) continue;
        last = next.value.length;
        bytes += last;
        return controller.enqueue(next.value);
      }
    } catch (error) {
      if (!this.#isOver) this.failure = { error };
      throw error;
    } finally {
      this.sent = { bytes, last, waiting: false };
    }
  }
}
