// A seeded generator: the same seed gives the same training. Nothing secret comes from it.

function mix(state: number): number {
  let z = state | 0;
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return z ^ (z >>> 15);
}

/** xoshiro128** (Blackman, Vigna), started from the stream with these names. */
export class Random {
  readonly #state = new Uint32Array(4);
  #spare = Number.NaN;

  constructor(...names: number[]) {
    for (let lane = 0; lane < 4; lane++) {
      let word = mix(Math.imul(lane + 1, 0x9e3779b9));
      for (const name of names) word = mix((word ^ name) + 0x9e3779b9);
      this.#state[lane] = word;
    }
    this.#state[3] |= 1; // never all zero, the one state it cannot leave
  }

  /** Uniform in [0, 1). */
  uniform(): number {
    const s = this.#state;
    const product = Math.imul(s[1], 5);
    const result = Math.imul((product << 7) | (product >>> 25), 9) >>> 0;
    const shifted = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return result / 2 ** 32;
  }

  /** A whole number from 0 to `count` − 1. */
  below(count: number): number {
    return Math.floor(this.uniform() * count);
  }

  /** Standard normal (Box and Muller); they come in pairs, and the second waits for the next call. */
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
