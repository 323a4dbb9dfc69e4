// What a call holds in memory, told to whoever counts: before it is taken, and when it is given
// back.

export class Holding {
  readonly #hold: (bytes: number) => void;
  #bytes = 0;

  constructor(hold: (bytes: number) => void = () => {}) {
    this.#hold = hold;
  }

  /** From now on it is so much. */
  become(bytes: number): void {
    if (bytes === this.#bytes) return;
    this.#hold(bytes - this.#bytes);
    this.#bytes = bytes;
  }

  [Symbol.dispose](): void {
    this.become(0);
  }
}
