// What a client sends, piece by piece: never more than allowed, and never more slowly.

import type { IncomingMessage } from 'node:http';
import { grown, HersError } from '@hers/service';
import type { Pace } from './pace.ts';

export interface BodyLimits {
  /** Undefined: as much as comes. */
  readonly bytes: number | undefined;
  /** Milliseconds without a byte after which a body counts as abandoned. */
  readonly stallMs: number;
  readonly signal: AbortSignal;
  readonly pace: Pace;
  /** Hears how much came, before it is passed on. */
  readonly onBytes?: (bytes: number) => void;
  /** Waited for before more is read, where memory is short. */
  readonly room?: () => Promise<void> | undefined;
}

/** So much of a body is read however short memory is: a search is hardly larger. */
const AT_ANY_TIME_BYTES = 2 ** 21;

/**
 * The body of a request. Leaving early leaves the connection open, so that the client can be told
 * why.
 */
export async function* bodyOf(raw: IncomingMessage, limits: BodyLimits): AsyncGenerator<Uint8Array> {
  const { bytes: limit, stallMs, signal, pace, onBytes, room } = limits;
  const announced = Number(raw.headers['content-length'] ?? 0);
  if (limit !== undefined && announced > limit) throw tooLarge(announced, limit);
  let total = 0;
  for (;;) {
    const busy = total > AT_ANY_TIME_BYTES ? room?.() : undefined;
    if (busy !== undefined) await busy;
    signal.throwIfAborted();
    const piece: Buffer | null = raw.read();
    if (piece) {
      total += piece.length;
      pace.moved(piece.length);
      onBytes?.(piece.length);
      if (limit !== undefined && total > limit) throw tooLarge(total, limit);
      yield piece;
    } else if (raw.readableEnded) {
      return;
    } else if (raw.destroyed) {
      throw new HersError('MALFORMED', 'the body of this request broke off');
    } else {
      pace.wait();
      if (!(await moved(raw, stallMs, signal)) || pace.isTooSlow(stallMs))
        throw new HersError('TIMED_OUT', 'this body came too slowly; send it again');
    }
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
    filled += piece.length;
    release(piece);
  }
  return whole.subarray(0, filled);
}

/** Frees a piece that was copied, where it has memory of its own: it need not become garbage. */
function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** Waits until there is something to read, or the end; false when nothing happens for so long. */
function moved(raw: IncomingMessage, ms: number, signal?: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const events = ['readable', 'end', 'close', 'error'];
    const settle = (value: boolean) => {
      clearTimeout(timer);
      for (const event of events) raw.off(event, happened);
      signal?.removeEventListener('abort', happened);
      resolve(value);
    };
    const happened = () => settle(true);
    const timer = setTimeout(() => settle(false), ms);
    for (const event of events) raw.on(event, happened);
    signal?.addEventListener('abort', happened);
    if (signal?.aborted) happened();
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
