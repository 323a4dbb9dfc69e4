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

  /** It is the client's turn. */
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
