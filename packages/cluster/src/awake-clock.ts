// Time in which this process could run. While its machine sleeps or it is stopped, nobody else has
// been silent.

const TICK_MS = 500;
/** Between two ticks, at most. */
const LONGEST_MS = 4 * TICK_MS;

export class AwakeClock {
  #last = performance.now();
  #ms = 0;
  readonly #timer: NodeJS.Timeout = setInterval(() => this.now(), TICK_MS).unref();

  /** Milliseconds since it was made. */
  now(): number {
    const now = performance.now();
    this.#ms += Math.min(now - this.#last, LONGEST_MS);
    this.#last = now;
    return this.#ms;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
