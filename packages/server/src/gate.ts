// What is refused when there is too much of it, and when to come back.

import { HersError } from '@hers/service';

/** OVERLOADED, with the seconds after which it makes sense to try again. */
export class Overloaded extends HersError {
  readonly retryAfter: number;

  constructor(message: string, retryAfter: number) {
    super('OVERLOADED', message);
    // Not shown, but sent as a header.
    this.retryAfter = Math.max(1, Math.ceil(retryAfter));
  }
}

/** Half of what there is, but something. */
export const half = (count: number): number => (count === 0 ? 0 : Math.max(1, Math.floor(count / 2)));

/** Callers that are remembered before the quiet ones are forgotten. */
const MANY = 1024;
const QUIET_MS = 2000;

/**
 * How fast requests of each caller come: a bucket that fills with `perSecond` and holds twice that.
 */
export class Rates {
  readonly #perSecond: number;
  readonly #buckets = new Map<string, { left: number; since: number }>();

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Zero when one more may come, else the seconds until then. */
  take(caller: string, now: number = performance.now()): number {
    const most = 2 * this.#perSecond;
    if (this.#buckets.size >= MANY) this.#forget(now);
    const bucket = this.#buckets.get(caller) ?? { left: most, since: now };
    // Whoever has been quiet for longest comes first.
    this.#buckets.delete(caller);
    this.#buckets.set(caller, bucket);
    bucket.left = Math.min(most, bucket.left + ((now - bucket.since) / 1000) * this.#perSecond);
    bucket.since = now;
    if (bucket.left < 1) return (1 - bucket.left) / this.#perSecond;
    bucket.left--;
    return 0;
  }

  /** Callers that have been quiet for long enough are as good as new. */
  #forget(now: number): void {
    for (const [caller, { since }] of this.#buckets) {
      if (now - since <= QUIET_MS) return;
      this.#buckets.delete(caller);
    }
  }
}
