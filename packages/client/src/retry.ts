// Calls that fail because a server is busy, restarting or out of reach are made again, later and later, and whoever wants to know is told.

import { HersError } from '@hers/service';

export interface RetryEvent {
  /** What was called. */
  readonly operation: string;
  /** Which attempt failed, from one. */
  readonly attempt: number;
  /** How long it waits before the next. */
  readonly delayMs: number;
  readonly code: HersError['code'];
  readonly message: string;
}

export interface RetryOptions {
  /**
   * How long a call is repeated before it fails; 30 seconds by default, 0 for never. A server that is silent for as long counts as gone; one that has to work, as in a
   * search, may be silent for twenty times as long.
   */
  readonly retryMs?: number;
  /** Hears of every attempt that failed and will be repeated. */
  readonly onRetry?: (event: RetryEvent) => void;
}

const DEFAULT_MS = 30_000;
const FIRST_MS = 100;
const LONGEST_MS = 5_000;
/** A server may ask for this long a pause, and no longer. */
const LONGEST_AFTER_MS = 60_000;
/** A silence between these, whatever is repeated for how long: less is usual on a bad line, and more helps nobody. */
const LEAST_QUIET_MS = 1_000;
const MOST_QUIET_MS = 300_000;

/** A failure that may pass, and when the server said to come back. */
export class Passing extends Error {
  readonly error: HersError;
  readonly afterMs: number | undefined;
  /** Whether the server has certainly not begun with what it was asked. */
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
  /** `untouched`: only what the server certainly did not begin with is repeated. */
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

  /** How long a server that has nothing to work on may be silent before its line counts as broken. */
  get quietMs(): number {
    return Math.min(Math.max(this.#forMs || DEFAULT_MS, LEAST_QUIET_MS), MOST_QUIET_MS);
  }

  /** Runs `attempt` until it succeeds, fails for good, or has failed for too long. */
  async run<T>({ operation, signal, when }: Retrying, attempt: (number: number) => Promise<T>): Promise<T> {
    const began = performance.now();
    for (let number = 1; ; number++) {
      try {
        return await attempt(number);
      } catch (error) {
        if (!(error instanceof Passing)) throw error;
        const allowed = typeof when === 'function' ? when() : when;
        const may = allowed === 'always' || (allowed === 'untouched' && error.untouched);
        const elapsed = performance.now() - began;
        const left = this.#forMs - elapsed;
        if (!may || left <= 0) throw last(error.error, number, elapsed);
        // The last attempt is made when the time is up, and not given up before.
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

function pause(ms: number, signal: AbortSignal): Promise<void> {
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
