// Calls that fail because a server is busy, restarting or out of reach are retried with growing
// delays, and reported to `onRetry`.

import { HersError } from '@hers/service';

/** A call that failed and is made again. */
export interface RetryEvent {
  /** What was called. */
  readonly operation: string;
  /** Which attempt failed, from one. */
  readonly attempt: number;
  /** Milliseconds until the next attempt. */
  readonly delayMs: number;
  /** The code of the error that the attempt ended with. */
  readonly code: HersError['code'];
  /** And its message. */
  readonly message: string;
}

/** How long calls are made again, and who hears of it. */
export interface RetryOptions {
  /**
   * How long a call is retried before it fails, in milliseconds; 30 seconds by default, 0 for
   * never. A server that is silent for as long counts as gone; one that has to work, as in a
   * search, may be silent for twenty times as long.
   */
  readonly retryMs?: number;
  /** Called for every attempt that failed and will be retried. */
  readonly onRetry?: (event: RetryEvent) => void;
}

const DEFAULT_MS = 30_000;
const FIRST_MS = 100;
const LONGEST_MS = 5_000;
/** A server may ask for this long a pause, and no longer. */
const LONGEST_AFTER_MS = 60_000;
/** Silence that is allowed, whatever `retryMs` is: less is common on a bad connection. */
const MIN_QUIET_MS = 1_000;
const MAX_QUIET_MS = 300_000;

/** A failure that may pass, and when the server asked to be called again. */
export class TransientError extends Error {
  readonly error: HersError;
  readonly afterMs: number | undefined;
  /** Whether the server has certainly not begun to serve the request. */
  readonly untouched: boolean;

  constructor(error: HersError, { afterMs, untouched }: { afterMs?: number | undefined; untouched: boolean }) {
    super(error.message);
    this.error = error;
    this.afterMs = afterMs;
    this.untouched = untouched;
  }
}

export interface Retrying {
  readonly operation: string;
  readonly signal: AbortSignal;
  /** `untouched`: retry only what the server has certainly not begun to serve. */
  readonly when: 'always' | 'untouched' | (() => 'always' | 'untouched' | 'never');
}

export class Retries {
  readonly #forMs: number;
  readonly #onRetry: RetryOptions['onRetry'];

  constructor({ retryMs = DEFAULT_MS, onRetry }: RetryOptions) {
    if (!(retryMs >= 0)) throw new HersError('INVALID_ARGUMENT', 'retryMs is a number of milliseconds');
    this.#forMs = retryMs;
    this.#onRetry = onRetry;
  }

  /**
   * Milliseconds that a server without work may be silent before its connection counts as broken.
   */
  get quietMs(): number {
    return Math.min(Math.max(this.#forMs || DEFAULT_MS, MIN_QUIET_MS), MAX_QUIET_MS);
  }

  /** Runs `attempt` until it succeeds, fails for good, or has failed for too long. */
  async run<T>({ operation, signal, when }: Retrying, attempt: (number: number) => Promise<T>): Promise<T> {
    const began = performance.now();
    for (let number = 1; ; number++) {
      try {
        return await attempt(number);
      } catch (error) {
        if (!(error instanceof TransientError)) throw error;
        const allowed = typeof when === 'function' ? when() : when;
        const may = allowed === 'always' || (allowed === 'untouched' && error.untouched);
        const elapsed = performance.now() - began;
        const left = this.#forMs - elapsed;
        if (!may || left <= 0) throw last(error.error, number, elapsed);
        // The last attempt is made when the time is up, and not skipped.
        const delayMs = Math.min(this.#delay(number, error.afterMs), Math.ceil(left));
        const { code, message } = error.error;
        this.#onRetry?.({ operation, attempt: number, delayMs, code, message });
        await pause(delayMs, signal);
      }
    }
  }

  /** Twice as long every time, and never the same for two clients that failed together. */
  #delay(attempt: number, afterMs = 0): number {
    const backOff = Math.min(LONGEST_MS, FIRST_MS * 2 ** (attempt - 1));
    return Math.round(Math.min(Math.max(afterMs, 0), LONGEST_AFTER_MS) + backOff * (0.5 + Math.random() / 2));
  }
}

function last(error: HersError, attempts: number, elapsedMs: number): HersError {
  if (attempts === 1) return error;
  const seconds = (elapsedMs / 1000).toFixed(1);
  return new HersError(error.code, `${error.message} (tried ${attempts} times in ${seconds} s)`);
}

/** Resolves after so many milliseconds, or throws the signal's reason as soon as it is aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}
