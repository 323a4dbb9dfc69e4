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

/** How many requests each caller has under way, and how fast they come: a bucket that fills with `perSecond` and holds twice that. */
export class Quotas {
  readonly #atOnce: number;
  readonly #perSecond: number;
  readonly #callers = new Map<string, { running: number; tokens: number; since: number }>();

  constructor({ atOnce, perSecond }: { atOnce: number; perSecond: number }) {
    this.#atOnce = atOnce;
    this.#perSecond = perSecond;
  }

  /** Lets a request in, and returns what to call when it is over. */
  enter(caller: string, now = performance.now()): () => void {
    const most = 2 * this.#perSecond;
    let state = this.#callers.get(caller);
    if (!state) this.#callers.set(caller, (state = { running: 0, tokens: most, since: now }));
    state.tokens = Math.min(most, state.tokens + ((now - state.since) / 1000) * this.#perSecond);
    state.since = now;
    if (state.running >= this.#atOnce)
      throw new Overloaded(`this caller has ${this.#atOnce} requests under way already`, 1);
    if (state.tokens < 1)
      throw new Overloaded(
        `this caller sends more than ${this.#perSecond} requests a second`,
        (1 - state.tokens) / this.#perSecond,
      );
    state.tokens--;
    state.running++;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      state.running--;
      this.#forget(now);
    };
  }

  /** Callers that have been quiet for long enough are as good as new. */
  #forget(now: number): void {
    if (this.#callers.size < 1024) return;
    for (const [caller, { running, since }] of this.#callers)
      if (running === 0 && now - since > 2000) this.#callers.delete(caller);
  }
}
