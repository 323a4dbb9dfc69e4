// Reproducible randomness.

/**
 * Numbers derived from a seed and names. Every call has its own, so that a call does not depend on
 * the outcome of the one before.
 */
export class Dice {
  #state: number;

  constructor(...names: number[]) {
    let state = 0x9e3779b9;
    for (const name of names) state = Math.imul(state ^ name ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    this.#state = state;
  }

  /** In [0, 1): mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  happens(probability: number): boolean {
    return this.next() < probability;
  }

  of<T>(things: readonly T[]): T {
    return things[this.below(things.length)];
  }

  weighted<T>(things: readonly (readonly [number, T])[]): T {
    let at = this.next() * things.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, thing] of things) {
      at -= weight;
      if (at < 0) return thing;
    }
    return things[things.length - 1][1];
  }
}
