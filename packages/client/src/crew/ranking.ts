// The best of many scores, without sorting them all.

/** Similarities are better when larger, distances when smaller. */
export type Order = 'descending' | 'ascending';

export interface Candidate {
  readonly block: number;
  readonly slot: number;
  readonly score: number;
}

/**
 * Keeps the best `limit` candidates offered to it, and never NaN: that is how a slot is left out.
 */
export class Ranking {
  readonly limit: number;
  readonly order: Order;
  readonly #sign: number;
  /** Ascending by goodness, so the worst kept is first. */
  readonly #kept: { key: number; block: number; slot: number }[] = [];
  #floor: number;

  constructor(limit: number, order: Order, threshold?: number) {
    this.limit = limit;
    this.order = order;
    this.#sign = order === 'descending' ? 1 : -1;
    this.#floor = floorOf(this.#sign, threshold);
  }

  /**
   * Offers the scores of one block: all, or those of some slots, bit j & 31 of word j >> 5 for slot
   * j. Of few, only those are looked at.
   */
  offer(block: number, first: number, scores: ArrayLike<number>, slots?: Uint32Array): void {
    const sign = this.#sign;
    if (!slots) {
      // A number of its own: to look it up takes longer than to compare with it.
      let floor = this.#floor;
      for (let j = 0; j < scores.length; j++) {
        const key = sign * scores[j];
        if (!(key > floor)) continue;
        this.#keep(key, block, first + j);
        floor = this.#floor;
      }
      return;
    }
    for (let w = 0; w < slots.length; w++)
      for (let left = slots[w]; left !== 0; left &= left - 1) {
        const j = 32 * w + 31 - Math.clz32(left & -left);
        const key = sign * scores[j];
        if (key > this.#floor) this.#keep(key, block, first + j);
      }
  }

  merge(candidates: Iterable<Candidate>): void {
    for (const { block, slot, score } of candidates) {
      const key = this.#sign * score;
      if (key > this.#floor) this.#keep(key, block, slot);
    }
  }

  #keep(key: number, block: number, slot: number): void {
    const kept = this.#kept;
    let low = 0;
    let high = kept.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (kept[middle].key < key) low = middle + 1;
      else high = middle;
    }
    kept.splice(low, 0, { key, block, slot });
    if (kept.length > this.limit) kept.shift();
    if (kept.length === this.limit) this.#floor = Math.max(this.#floor, kept[0].key);
  }

  /** Best first. */
  best(): Candidate[] {
    return this.#kept.map(({ key, block, slot }) => ({ block, slot, score: this.#sign * key })).reverse();
  }
}

/** The best of every group, and of those the best `limit`. */
export class GroupedRanking {
  readonly #limit: number;
  readonly #order: Order;
  readonly #best = new Map<unknown, Candidate>();

  constructor(limit: number, order: Order) {
    this.#limit = limit;
    this.#order = order;
  }

  /** A candidate without a group is one of its own. */
  offer(candidate: Candidate, group: unknown = candidate): void {
    const best = this.#best.get(group);
    if (!best || this.#compare(candidate, best) < 0) this.#best.set(group, candidate);
  }

  /** Of equal ones that of the lower block and slot is better, in whatever order they come. */
  #compare(a: Candidate, b: Candidate): number {
    const worse = this.#order === 'descending' ? b.score - a.score : a.score - b.score;
    return worse || a.block - b.block || a.slot - b.slot;
  }

  /** Best first. */
  best(): Candidate[] {
    return [...this.#best.values()].sort((a, b) => this.#compare(a, b)).slice(0, this.#limit);
  }
}

/** What sign·score must exceed: everything at or beyond the threshold counts. */
export function floorOf(sign: number, threshold: number | undefined): number {
  return threshold === undefined ? Number.NEGATIVE_INFINITY : previous(sign * threshold);
}

/** The next double below, so that `>` includes the value itself. */
function previous(x: number): number {
  return x - Math.max(Math.abs(x) * Number.EPSILON, Number.MIN_VALUE);
}
