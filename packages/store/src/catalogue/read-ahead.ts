// Small pieces of an open file, which are read in about their order: one call for each would take
// longer than what is done with them.

import { readSync } from 'node:fs';

const AHEAD_BYTES = 2 ** 20;

export class ReadAhead {
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
  readonly view: DataView;
  readonly #file: number;
  readonly #size: number;
  readonly #piece: number;
  #from = 0;
  #until = 0;

  /** Of a file of `size` bytes, in pieces of `piece` bytes, a multiple of four. */
  constructor(file: number, size: number, piece: number) {
    this.#file = file;
    this.#size = size;
    this.#piece = piece;
    const together = Math.max(1, Math.floor(Math.min(AHEAD_BYTES, size) / piece));
    const buffer = new ArrayBuffer(together * piece);
    this.bytes = new Uint8Array(buffer);
    this.words = new Uint32Array(buffer);
    this.view = new DataView(buffer);
  }

  /** Where the piece at `position` of the file lies in `bytes`, until another is asked for. */
  at(position: number): number {
    if (position < this.#from || position + this.#piece > this.#until || (position - this.#from) % 4 !== 0) {
      const length = Math.min(this.bytes.length, this.#size - position);
      // What the file no longer holds must not look like what was read before.
      const got = readSync(this.#file, this.bytes, 0, Math.max(0, length), position);
      this.bytes.fill(0, got);
      this.#from = position;
      this.#until = position + this.bytes.length;
    }
    return position - this.#from;
  }
}
