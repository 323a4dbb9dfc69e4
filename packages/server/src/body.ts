// What a client sends, piece by piece: never more than allowed, and never more slowly.

import type { IncomingMessage } from 'node:http';
import { HersError } from '@hers/service';

export interface BodyLimits {
  /** Undefined: as much as comes. */
  readonly bytes: number | undefined;
  /** Milliseconds without a byte after which a body counts as abandoned. */
  readonly stallMs: number;
  /** Hears how much came. */
  readonly onBytes?: (bytes: number) => void;
}

/** The body of a request. Leaving early leaves the line open, so that the client can be told why. */
export async function* bodyOf(raw: IncomingMessage, limits: BodyLimits): AsyncGenerator<Uint8Array> {
  const { bytes: limit, stallMs, onBytes } = limits;
  const announced = Number(raw.headers['content-length'] ?? 0);
  if (limit !== undefined && announced > limit) throw tooLarge(announced, limit);
  let total = 0;
  for (;;) {
    const piece: Buffer | null = raw.read();
    if (piece) {
      total += piece.length;
      onBytes?.(piece.length);
      if (limit !== undefined && total > limit) throw tooLarge(total, limit);
      yield piece;
    } else if (raw.readableEnded) {
      return;
    } else if (raw.destroyed) {
      throw new HersError('MALFORMED', 'the body of this request broke off');
    } else if (!(await moved(raw, stallMs))) {
      throw new HersError('TIMED_OUT', `nothing more came for ${stallMs / 1000} s; send it again`);
    }
  }
}

/** Waits until there is something to read or the end; false when nothing happens for so long. */
function moved(raw: IncomingMessage, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const events = ['readable', 'end', 'close', 'error'];
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

/** Takes what is left of a body off the line, within bounds: many clients listen only after they have sent everything. */
export async function drain(raw: IncomingMessage, { bytes, ms }: { bytes: number; ms: number }): Promise<void> {
  const until = performance.now() + ms;
  let left = bytes;
  while (!raw.readableEnded && !raw.destroyed && left > 0) {
    const piece: Buffer | null = raw.read();
    if (piece) left -= piece.length;
    else if (performance.now() >= until || !(await moved(raw, until - performance.now()))) return;
  }
}

function tooLarge(bytes: number, limit: number): HersError {
  return new HersError('TOO_LARGE', `this body has ${bytes} bytes or more; this server takes ${limit} at most`);
}
