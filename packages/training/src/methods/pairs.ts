// Pairs of vectors to learn from: genuine (of one class) and impostor (of two), drawn at random or
// mined for the largest error, and the loss of a batch of them.

import { Random } from '@hers/vectors/random';
import type { Graph, Value } from '../training/autodiff.ts';
import { members, type TrainingSet } from '../training/training-set.ts';

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

/** The `count` pairs of each kind with the largest errors, which come in blocks of rows. */
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
  return [...Map.groupBy(classes.keys(), (i) => classes[i]).values()].filter((list) => list.length > 1);
}

/** Random pairs of one class: one of these classes, if any, then two of its members. */
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

// Pools to mine in: the training set in portions of at most so many vectors, classes together, in a
// new order on every pass.

/** The rows of pool number `step`, which depends on the seed and the number alone. */
export function poolsOf(set: TrainingSet, most: number, seed: number): (step: number) => Int32Array {
  const lists = members(set);
  const perPass = Math.ceil(set.count / most);
  // All of one size, so that what is computed for one fits the next; the last ones of a pass
  // overlap.
  const size = Math.ceil(set.count / perPass);
  let [last, order] = [-1, new Int32Array()];
  return (step) => {
    const pass = Math.floor(step / perPass);
    if (pass !== last) {
      const classes = new Random(seed, 0x9001, pass).order(lists.length);
      order = Int32Array.from([...classes].flatMap((klass) => lists[klass]));
      last = pass;
    }
    const start = Math.min((step % perPass) * size, set.count - size);
    return order.subarray(start, start + size);
  };
}

// The loss of DeepMDS and DeepMDS++: pairs of vectors keep their similarity. The batch holds the
// left vectors of all pairs, then the right ones; each pair brings its weight, so that averages
// over kinds of pairs are a matter of the weights.

export interface PairLoss {
  /** The text squares the error; the authors' code takes its absolute value. */
  error: 'squared' | 'absolute';
  /**
   * The text adds `weight · ‖C − diag C‖²_F`; the authors' code, `weight` times the mean of the
   * absolute values. C is the covariance of the outputs at unit length, as in that code: the
   * similarities do not depend on the length, so that a network could otherwise shrink its outputs
   * until the penalty vanishes.
   */
  covariance: 'frobenius' | 'mean-absolute';
  covarianceWeight: number;
}

export interface PairInputs {
  /** The vectors of the pairs, `[rows, dimension]`, at unit length. */
  x: Value;
  /** `[pairs, 1]`. */
  weight: Value;
  /** One over the number of rows, `[]`. */
  perRow: Value;
}

/** The pairs are given by the places of their vectors in a set. */
export function pairInputs(graph: Graph, dimension: number): PairInputs {
  return {
    x: gathered(graph, dimension),
    weight: graph.input('weight', ['pairs', 1]),
    perRow: graph.input('perRow', []),
  };
}

/** The vectors at places of a set. */
export function gathered(graph: Graph, dimension: number): Value {
  return graph.gather(graph.input('set', ['all', dimension]), graph.places('places', 'rows'));
}

/**
 * `left · right` of unit vectors before the network, less the same after it: `[pairs, 1]`. The left
 * ones come first, then the right ones.
 */
export function pairErrors(graph: Graph, x: Value, unit: Value): Value {
  const [before, after] = [x, unit].map((rows) => {
    const [left, right] = graph.halves(rows, 'pairs');
    return graph.sum(graph.mul(left, right), 'rows');
  });
  return graph.sub(before, after);
}

/**
 * `Σ weight · error(x · x' − cos(z, z')) + λ · penalty(covariance)` for the rows `z` of a batch.
 * The penalty, weight included, is an output of its own.
 */
export function pairLoss(graph: Graph, z: Value, { x, weight, perRow }: PairInputs, loss: PairLoss): Value {
  const unit = graph.normalise(z);
  const error = pairErrors(graph, x, unit);
  const size = loss.error === 'squared' ? graph.square(error) : graph.abs(error);
  const kept = graph.sum(graph.mul(size, weight));
  if (loss.covarianceWeight === 0) return kept;
  const columns = z.shape[1] as number;
  const mean = graph.mul(graph.sum(unit, 'columns'), perRow);
  const centred = graph.sub(unit, mean);
  const covariance = graph.mul(graph.matmul(centred, centred, { transA: true }), perRow);
  const off = graph.mul(covariance, graph.tensor('off', offDiagonal(columns), [columns, columns]));
  const penalty =
    loss.covariance === 'frobenius'
      ? graph.sum(graph.square(off))
      : graph.scale(graph.sum(graph.abs(off)), 1 / (columns * columns));
  const weighted = graph.scale(penalty, loss.covarianceWeight);
  graph.output('penalty', weighted);
  return graph.add(kept, weighted);
}

function offDiagonal(n: number): Float32Array {
  return Float32Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 0 : 1));
}
