// Reports the memory that a call holds: before it is taken, and when it is released.

export class Holding {
  readonly #hold: (bytes: number) => void;
  #bytes = 0;

  constructor(hold: (bytes: number) => void = () => {}) {
    this.#hold = hold;
  }

  become(bytes: number): void {
    if (bytes === this.#bytes) return;
    this.#hold(bytes - this.#bytes);
    this.#bytes = bytes;
  }

  [Symbol.dispose](): void {
    this.become(0);
  }
}
