// Pools to mine in: the training set in portions of at most so many vectors, classes together, in a
// new order on every pass.

import { Random } from '@hers/vectors/random';
import { members, type TrainingSet } from './training-set.ts';

export class Pools {
  readonly #lists: number[][];
  readonly #seed: number;
  readonly #count: number;
  /** Pools in one pass over the set. */
  readonly perPass: number;
  #pass = -1;
  #order = new Int32Array();

  constructor(set: TrainingSet, size: number, seed: number) {
    this.#lists = members(set);
    this.#seed = seed;
    this.#count = set.count;
    this.perPass = Math.ceil(set.count / size);
  }

  /** The rows of pool number `step`, which depends on the seed and the number alone. */
  at(step: number): Int32Array {
    const pass = Math.floor(step / this.perPass);
    if (pass !== this.#pass) {
      const random = new Random(this.#seed, 0x9001, pass);
      this.#order = Int32Array.from([...random.order(this.#lists.length)].flatMap((klass) => this.#lists[klass]));
      this.#pass = pass;
    }
    // All of one size, so that what is computed for one fits the next; the last ones of a pass
    // overlap.
    const size = Math.ceil(this.#count / this.perPass);
    const start = Math.min((step % this.perPass) * size, this.#count - size);
    return this.#order.subarray(start, start + size);
  }
}
