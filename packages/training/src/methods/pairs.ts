// Pairs of vectors to learn from: genuine (of one class) and impostor (of two), drawn at random or
// mined for the largest error.

import type { Random } from '@hers/vectors/random';

/** Pairs as places in a pool. */
export interface Pairs {
  left: number[];
  right: number[];
}

/** The k largest of many numbers, kept in a heap whose root is the smallest of them. */
class Largest {
  readonly #limit: number;
  readonly #sizes: number[] = [];
  readonly #places: number[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** What a number has to exceed to be among them. */
  get least(): number {
    return this.#sizes.length < this.#limit ? -1 : (this.#sizes[0] ?? Infinity);
  }

  /** From the largest to the smallest; equal ones in the order of their places. */
  get places(): number[] {
    const order = Array.from(this.#sizes.keys());
    order.sort((a, b) => this.#sizes[b] - this.#sizes[a] || this.#places[a] - this.#places[b]);
    return order.map((i) => this.#places[i]);
  }

  push(size: number, place: number): void {
    const [sizes, places] = [this.#sizes, this.#places];
    const put = (i: number, from: number) => {
      sizes[i] = sizes[from];
      places[i] = places[from];
    };
    let hole: number;
    if (sizes.length < this.#limit) {
      hole = sizes.push(size) - 1;
      places.push(place);
      for (let up = (hole - 1) >> 1; hole > 0 && sizes[up] > size; up = (hole - 1) >> 1) {
        put(hole, up);
        hole = up;
      }
    } else {
      hole = 0;
      for (let down = 1; down < sizes.length; down = 2 * hole + 1) {
        if (down + 1 < sizes.length && sizes[down + 1] < sizes[down]) down++;
        if (sizes[down] >= size) break;
        put(hole, down);
        hole = down;
      }
    }
    sizes[hole] = size;
    places[hole] = place;
  }
}

/**
 * The `count` pairs of each kind whose error is largest, among all pairs of a pool. The errors come
 * a block of rows at a time.
 */
export class HardestPairs {
  readonly #classes: Int32Array;
  readonly #genuine: Largest;
  readonly #impostor: Largest;

  constructor(classes: Int32Array, count: number) {
    this.#classes = classes;
    this.#genuine = new Largest(count);
    this.#impostor = new Largest(count);
  }

  /**
   * Errors of the rows from `first` on, with columns that begin at `first` too: what lies left of
   * them has been seen, or is yet to come.
   */
  scan(errors: Float32Array, first: number, rows: number): void {
    const [classes, genuine, impostor] = [this.#classes, this.#genuine, this.#impostor];
    const n = classes.length;
    const columns = n - first;
    let least = impostor.least;
    for (let i = first; i < first + rows; i++) {
      const own = classes[i];
      for (let j = i + 1, at = (i - first) * columns + j - first; j < n; j++, at++) {
        const error = Math.abs(errors[at]);
        if (classes[j] === own) {
          if (error > genuine.least) genuine.push(error, i * n + j);
        } else if (error > least) {
          impostor.push(error, i * n + j);
          least = impostor.least;
        }
      }
    }
  }

  get genuine(): Pairs {
    return pairsAt(this.#genuine.places, this.#classes.length);
  }

  get impostor(): Pairs {
    return pairsAt(this.#impostor.places, this.#classes.length);
  }
}

function pairsAt(places: number[], n: number): Pairs {
  return { left: places.map((at) => Math.floor(at / n)), right: places.map((at) => at % n) };
}

/** The `count` places of the largest absolute values. */
export function largest(values: ArrayLike<number>, count: number): number[] {
  const found = new Largest(count);
  for (let i = 0; i < values.length; i++) if (Math.abs(values[i]) > found.least) found.push(Math.abs(values[i]), i);
  return found.places;
}

/** The places of each class that has two or more. */
export function several(classes: Int32Array): number[][] {
  const lists = new Map<number, number[]>();
  classes.forEach((klass, i) => {
    const list = lists.get(klass);
    if (list) list.push(i);
    else lists.set(klass, [i]);
  });
  return [...lists.values()].filter((list) => list.length > 1);
}

/**
 * Random pairs of one class: one of these classes, then two of its members. None when there is no
 * class.
 */
export function randomGenuine(lists: readonly (readonly number[])[], count: number, random: Random): Pairs {
  const pairs: Pairs = { left: [], right: [] };
  for (let p = 0; p < count && lists.length > 0; p++) {
    const list = lists[random.below(lists.length)];
    const first = random.below(list.length);
    const second = (first + 1 + random.below(list.length - 1)) % list.length;
    pairs.left.push(list[first]);
    pairs.right.push(list[second]);
  }
  return pairs;
}

/** Random pairs of two classes. None when there is one class only. */
export function randomImpostor(classes: Int32Array, count: number, random: Random): Pairs {
  const pairs: Pairs = { left: [], right: [] };
  if (classes.every((klass) => klass === classes[0])) return pairs;
  while (pairs.left.length < count) {
    const [i, j] = [random.below(classes.length), random.below(classes.length)];
    if (classes[i] === classes[j]) continue;
    pairs.left.push(i);
    pairs.right.push(j);
  }
  return pairs;
}

/** Random pairs of whatever classes: nearly all of them impostors. */
export function randomPairs(n: number, count: number, random: Random): Pairs {
  const pairs: Pairs = { left: [], right: [] };
  for (let p = 0; p < count; p++) {
    const i = random.below(n);
    pairs.left.push(i);
    pairs.right.push((i + 1 + random.below(n - 1)) % n);
  }
  return pairs;
}

export function joined(...parts: Pairs[]): Pairs {
  return { left: parts.flatMap(({ left }) => left), right: parts.flatMap(({ right }) => right) };
}
