// The seeded generator of training and of synthetic data: the same seed gives the same numbers
// everywhere. For statistics only. Nothing secret may come from it: its whole state follows from a
// few outputs.

/** The mixing function of SplitMix32: spreads numbers that lie close together over all 32 bits. */
function splitMix(state: number): number {
  let z = state | 0;
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return z ^ (z >>> 15);
}

const golden = 0x9e3779b9;

function absorb(names: readonly number[], lane: number): number {
  let state = splitMix(Math.imul(lane, golden));
  for (const name of names) state = splitMix((state ^ name) + golden);
  return state;
}

/** xoshiro128** (Blackman, Vigna). */
export class Random {
  #a = 0;
  #b = 0;
  #c = 0;
  #d = 0;
  #spare = Number.NaN;

  /** The stream named by these 32-bit integers. */
  constructor(...names: number[]) {
    this.seed(...names);
  }

  /** Starts the stream with these names. Streams of different names share nothing. */
  seed(...names: number[]): void {
    // Four words that absorb the names separately: with one of 32 bits, two of a million streams
    // would soon be the same.
    this.#a = absorb(names, 1);
    this.#b = absorb(names, 2);
    this.#c = absorb(names, 3);
    this.#d = absorb(names, 4) | 1; // Never all zero, the one state xoshiro cannot leave.
    this.#spare = Number.NaN;
  }

  /** Uniform in [0, 1), with 32 bits. */
  uniform(): number {
    const b = this.#b;
    const multiplied = Math.imul(b, 5);
    const result = Math.imul((multiplied << 7) | (multiplied >>> 25), 9);
    this.#c ^= this.#a;
    this.#d ^= b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= b << 9;
    this.#d = (this.#d << 11) | (this.#d >>> 21);
    return (result >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 to `count` − 1. */
  below(count: number): number {
    return Math.floor(this.uniform() * count);
  }

  /**
   * Standard normal (Box and Muller); they come in pairs, and the second waits for the next call.
   * Tails beyond 6.7 standard deviations do not occur.
   */
  normal(): number {
    const spare = this.#spare;
    if (!Number.isNaN(spare)) {
      this.#spare = Number.NaN;
      return spare;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    const angle = 2 * Math.PI * this.uniform();
    this.#spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }

  /** Writes scale times normal numbers over `target`: whole pairs, not what `normal` left. */
  fill(target: Float64Array, scale: number): void {
    for (let i = 0; i < target.length; i += 2) {
      const radius = scale * Math.sqrt(-2 * Math.log(1 - this.uniform()));
      const angle = 2 * Math.PI * this.uniform();
      target[i] = radius * Math.cos(angle);
      if (i + 1 < target.length) target[i + 1] = radius * Math.sin(angle);
    }
  }

  /** The numbers from 0 to `count` − 1 in random order (Fisher and Yates). */
  order(count: number): Int32Array {
    const order = Int32Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
}
