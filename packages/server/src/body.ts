// Bodies in both directions, piece by piece. A client sends never more than allowed, and neither
// sends nor takes more slowly.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { freeBytes, grown, HersError, OCTETS } from '@hers/service';
import type { FastifyReply } from 'fastify';

export interface BodyLimits {
  /** Undefined: as much as comes. */
  readonly bytes: number | undefined;
  /** Milliseconds without a byte after which a body counts as abandoned. */
  readonly stallMs: number;
  readonly signal: AbortSignal;
  readonly pace: Pace;
  /** Hears how much came, before it is passed on. */
  readonly onBytes?: (bytes: number) => void;
  /** Waited for before more is read. */
  readonly rest?: () => Promise<void> | undefined;
  /** Hears of pieces that are left for the engine to collect. */
  readonly litter: (bytes: number) => void;
}

/** So much of a body is read without a rest: a search is hardly larger. */
const AT_ANY_TIME_BYTES = 2 ** 21;

/** Bytes that come from a socket while the ones before are not taken yet. */
const AHEAD_BYTES = 2 ** 16;

/** What comes of a body, piece by piece: `read` would copy several into one. */
class Flow {
  readonly #raw: IncomingMessage;
  readonly #signal: AbortSignal;
  readonly #pieces: Buffer[] = [];
  #bytes = 0;
  #wake: (() => void) | undefined;

  constructor(raw: IncomingMessage, signal: AbortSignal) {
    this.#raw = raw;
    this.#signal = signal;
    raw.on('data', this.#came);
    for (const event of ENDINGS) raw.on(event, this.#moved);
    signal.addEventListener('abort', this.#moved);
  }

  readonly #moved = (): void => this.#wake?.();

  readonly #came = (piece: Buffer): void => {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    if (this.#bytes >= AHEAD_BYTES) this.#raw.pause();
    this.#moved();
  };

  take(): Buffer | undefined {
    const piece = this.#pieces.shift();
    if (!piece) return undefined;
    this.#bytes -= piece.length;
    if (this.#bytes < AHEAD_BYTES && this.#raw.isPaused()) this.#raw.resume();
    return piece;
  }

  /** Waits until something comes, or the end; false when nothing happens for so long. */
  wait(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (value: boolean) => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve(value);
      };
      const timer = setTimeout(settle, ms, false);
      this.#wake = () => settle(true);
    });
  }

  leave(): void {
    this.#raw.off('data', this.#came).pause();
    for (const event of ENDINGS) this.#raw.off(event, this.#moved);
    this.#signal.removeEventListener('abort', this.#moved);
  }
}

const ENDINGS = ['end', 'close', 'error'] as const;

/**
 * The body of a request. Each piece is freed when the next is asked for. Leaving early leaves the
 * connection open, so that the client can be told why.
 */
export async function* bodyOf(raw: IncomingMessage, limits: BodyLimits): AsyncGenerator<Uint8Array> {
  const { bytes: limit, stallMs, signal, pace, onBytes, rest, litter } = limits;
  const announced = Number(raw.headers['content-length'] ?? 0);
  if (limit !== undefined && announced > limit) throw tooLarge(announced, limit);
  let total = 0;
  const flow = new Flow(raw, signal);
  try {
    for (;;) {
      const courtesy = total > AT_ANY_TIME_BYTES ? rest?.() : undefined;
      if (courtesy !== undefined) await courtesy;
      signal.throwIfAborted();
      const piece = flow.take();
      if (piece) {
        total += piece.length;
        pace.moved(piece.length);
        onBytes?.(piece.length);
        if (limit !== undefined && total > limit) throw tooLarge(total, limit);
        const { length } = piece;
        // No Buffer, of which `slice` would be a view and no copy.
        yield new Uint8Array(piece.buffer, piece.byteOffset, length);
        if (!freeBytes(piece)) litter(length);
      } else if (raw.readableEnded) {
        return;
      } else if (raw.destroyed) {
        throw new HersError('MALFORMED', 'the body of this request broke off');
      } else {
        pace.wait();
        if (!(await flow.wait(stallMs)) || pace.isTooSlow(stallMs))
          throw new HersError('TIMED_OUT', 'this body came too slowly; send it again');
      }
    }
  } finally {
    flow.leave();
  }
}

/** A buffer is made this large because somebody says so; beyond that, only as bytes come. */
const AT_ONCE_BYTES = 2 ** 22;

/** The whole body in one buffer. `hold` hears of the room that is made for it, before it is. */
export async function wholeBody(
  raw: IncomingMessage,
  limits: BodyLimits,
  hold: (bytes: number) => void,
): Promise<Uint8Array> {
  const announced = Number(raw.headers['content-length'] ?? 0);
  // Of its own: parts of it are read as words, and words want to lie at whole places.
  let whole = new Uint8Array(0);
  let filled = 0;
  for await (const piece of bodyOf(raw, limits)) {
    const needed = filled + piece.length;
    if (needed > whole.length) {
      const doubled = Math.max(needed, 2 * whole.length, Math.min(announced, AT_ONCE_BYTES));
      const room = announced >= needed ? Math.min(announced, doubled) : doubled;
      hold(room);
      const before = whole.length;
      whole = grown(whole, room);
      hold(-before);
    }
    whole.set(piece, filled);
    filled = needed;
  }
  return whole.subarray(0, filled);
}

/** Waits until there is something to read, or the end; false when nothing happens for so long. */
function moved(raw: IncomingMessage, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const events = ['readable', ...ENDINGS];
    const settle = (value: boolean) => {
      clearTimeout(timer);
      for (const event of events) raw.off(event, happened);
      resolve(value);
    };
    const happened = () => settle(true);
    const timer = setTimeout(() => settle(false), ms);
    for (const event of events) raw.on(event, happened);
  });
}

/**
 * Takes what is left of a body from the socket, within bounds: many clients listen only after they
 * have sent everything.
 */
export async function drain(
  raw: IncomingMessage,
  { bytes, ms }: { readonly bytes: number; readonly ms: number },
  onBytes: (bytes: number) => void,
): Promise<void> {
  const until = performance.now() + ms;
  let left = bytes;
  while (!raw.readableEnded && !raw.destroyed && left > 0) {
    const piece: Buffer | null = raw.read();
    if (piece) {
      left -= piece.length;
      onBytes(piece.length);
    } else if (performance.now() >= until || !(await moved(raw, until - performance.now()))) return;
  }
}

function tooLarge(bytes: number, limit: number): HersError {
  return new HersError('TOO_LARGE', `this body has ${bytes} bytes or more; this server takes ${limit} at most`);
}

// An answer of octets on its way to a client: a piece at a time, and the next when the one before
// was taken. Who takes them too slowly is given up.

export interface AnswerOptions {
  /** A client that takes nothing for so long is given up. */
  readonly stallMs: number;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  /** Hears when it begins, and what was taken. */
  readonly onBegin: () => void;
  readonly onSent: (bytes: number) => void;
}

export class Answer {
  readonly #reply: FastifyReply;
  readonly #response: ServerResponse;
  readonly #options: AnswerOptions;
  /** From then on its status is sent. */
  begun = false;

  constructor(reply: FastifyReply, options: AnswerOptions) {
    this.#reply = reply;
    this.#response = reply.raw;
    this.#options = options;
  }

  get gone(): boolean {
    return this.#response.destroyed;
  }

  #begin(): void {
    this.begun = true;
    this.#options.onBegin();
    const { statusCode } = this.#reply;
    const headers = { ...this.#reply.getHeaders(), 'content-type': OCTETS } as Record<string, string>;
    this.#reply.hijack();
    this.#response.writeHead(statusCode, headers);
  }

  /** Resolves when the client has taken it. */
  write(bytes: Uint8Array): Promise<void> {
    if (!this.begun) this.#begin();
    const response = this.#response;
    const { stallMs, pace, signal, onSent } = this.#options;
    return new Promise((resolve, reject) => {
      const gone = (): Error => (signal.aborted ? signal.reason : new HersError('UNAVAILABLE', 'the client is gone'));
      const closed = () => settle(gone());
      const stop = () => response.destroy();
      const settle = (error?: Error | null) => {
        clearTimeout(timer);
        response.off('close', closed);
        signal.removeEventListener('abort', stop);
        pace.moved(error ? 0 : bytes.length);
        if (!error && pace.isTooSlow(stallMs)) response.destroy();
        if (error) return reject(error instanceof HersError ? error : gone());
        onSent(bytes.length);
        resolve();
      };
      const timer = setTimeout(stop, stallMs);
      if (response.destroyed) return closed();
      response.once('close', closed);
      signal.addEventListener('abort', stop, { once: true });
      pace.wait();
      response.write(bytes, settle);
    });
  }

  end(): void {
    if (!this.begun) this.#begin();
    this.#response.end();
  }

  /** It cannot be finished: the client must notice. */
  breakOff(): void {
    this.#response.destroy();
  }
}

// How fast a client is: what it sends or takes, in the time that the server waits for it.

/**
 * Bytes a second that a client must move once it has been waited for that long; else a byte now and
 * then would hold a connection for ever.
 */
export const MIN_RATE: number = 2 ** 14;
/** Who is slower than this gives way when others find no room. */
const GIVES_WAY_RATE = 2 ** 18;
const GIVES_WAY_MS = 1000;

export class Pace {
  readonly #clock: () => number;
  #waitedMs = 0;
  #bytes = 0;
  #since: number | undefined;

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  wait(): void {
    this.#since ??= this.#clock();
  }

  /** It was waited for, and so many bytes moved. */
  moved(bytes: number): void {
    this.#waitedMs = this.#waited();
    this.#since = undefined;
    this.#bytes += bytes;
  }

  #waited(): number {
    return this.#waitedMs + (this.#since === undefined ? 0 : this.#clock() - this.#since);
  }

  /**
   * Whether it has kept the server waiting for `stallMs` in all, and moved less than it must. What
   * was long ago counts less and less.
   */
  isTooSlow(stallMs: number): boolean {
    const waited = this.#waited();
    if (waited <= stallMs) return false;
    if (this.#bytes < (waited / 1000) * MIN_RATE) return true;
    this.#waitedMs /= 2;
    this.#bytes /= 2;
    return false;
  }

  /**
   * Bytes a second of waiting: infinite for one that has hardly been waited for, and none for one
   * that has not moved for a while.
   */
  get rate(): number {
    const waited = this.#waited();
    if (waited - this.#waitedMs >= GIVES_WAY_MS) return 0;
    return waited < GIVES_WAY_MS ? Number.POSITIVE_INFINITY : (1000 * this.#bytes) / waited;
  }

  /** Whether it should make room for others. */
  get givesWay(): boolean {
    return this.rate < GIVES_WAY_RATE;
  }
}
