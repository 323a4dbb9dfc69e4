// Bodies that are held in memory, all together.

import { Overloaded } from './gate.ts';

export class Memory {
  readonly #limit: number;
  #held = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get held(): number {
    return this.#held;
  }

  /** Counts bytes that came for one request; the first request of all may be as large as it likes. */
  take(bytes: number, own: number): void {
    if (this.#held + bytes > this.#limit && this.#held > own)
      throw new Overloaded('the server holds as much in memory as it may', 1);
    this.#held += bytes;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}
