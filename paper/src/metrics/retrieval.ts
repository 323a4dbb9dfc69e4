// Retrieval by class: how many of the first results belong to the probe's class.

import { eachScoreRow, type Labelled, rowsAt } from '@hers/vectors/accuracy';
import { Random } from '@hers/vectors/random';

export interface Retrieval {
  /** Mean over the probes of the share of the first ten that are of the probe's class. */
  readonly precisionAt10: number;
  /** Mean over the probes of the average precision of their whole ranking. */
  readonly meanAveragePrecision: number;
}

/**
 * A fifth of each class, drawn at random: the paper takes 10 of 50 as probes, and the other 40 are
 * their mates. Of a class with fewer than five, one; a class of one is left out.
 */
export function fifths(labels: ArrayLike<number>, seed = 1): Int32Array {
  const classes = new Map<number, number[]>();
  for (let i = 0; i < labels.length; i++) classes.set(labels[i], [...(classes.get(labels[i]) ?? []), i]);
  const random = new Random(seed, 0xf1f7);
  const chosen = Array.from(classes.values()).flatMap((places) => {
    if (places.length < 2) return [];
    const order = random.order(places.length);
    return Array.from(order.subarray(0, Math.max(1, Math.floor(places.length / 5))), (at) => places[at]);
  });
  return Int32Array.from(chosen).sort();
}

/**
 * Every probe (a place in the set) against all others; with `apart`, against those that are no
 * probes of its own class, which are its mates, and all of the other classes.
 */
export function retrieval(
  { vectors, dimension, labels }: Labelled,
  probes: ArrayLike<number>,
  {
    apart = false,
  }: {
    apart?: boolean | undefined;
  } = {},
): Retrieval {
  const isProbe = new Uint8Array(labels.length);
  if (apart) for (let n = 0; n < probes.length; n++) isProbe[probes[n]] = 1;
  let [precision, average] = [0, 0];
  eachScoreRow(rowsAt(vectors, dimension, probes), vectors, dimension, (n, scores) => {
    const own = probes[n];
    const mates = Uint8Array.from(scores, (_, j) => Number(labels[j] === labels[own]));
    const ranking = ranked(scores, mates).filter((j) => j !== own && !(isProbe[j] === 1 && mates[j] === 1));
    const relevant = Array.from(ranking, (j) => mates[j] === 1);
    precision += precisionAt(relevant, 10);
    average += averagePrecision(relevant);
  });
  return { precisionAt10: precision / probes.length, meanAveragePrecision: average / probes.length };
}

/**
 * Places in the order of their scores, best first. In a tie the relevant ones come last, as mates
 * do in ranks, so that file order cannot help.
 */
function ranked(scores: ArrayLike<number>, relevant: ArrayLike<number>): Int32Array {
  const places = Int32Array.from({ length: scores.length }, (_, i) => i);
  return places.sort((a, b) => scores[b] - scores[a] || relevant[a] - relevant[b]);
}

/** The share of the first k that are relevant. */
export function precisionAt(relevant: readonly boolean[], k: number): number {
  return relevant.slice(0, k).filter(Boolean).length / Math.min(k, relevant.length);
}

/** The mean of the precisions at the ranks of the relevant ones; 0 when there are none. */
export function averagePrecision(relevant: readonly boolean[]): number {
  let [found, sum] = [0, 0];
  for (let i = 0; i < relevant.length; i++) if (relevant[i]) sum += ++found / (i + 1);
  return found === 0 ? 0 : sum / found;
}

export interface PrecisionRecall {
  /** Recall in even steps from 0 to 1. */
  readonly recall: Float64Array;
  /** The best precision that is reached at that recall or beyond. */
  readonly precision: Float64Array;
  readonly averagePrecision: number;
}

/**
 * One ranking of scored decisions (relevant: 1, others: 0), whatever they are about: with all pairs
 * of pictures and classes in it, it is the micro-average. Of equal scores the relevant ones come
 * last.
 */
export function precisionRecall(scores: ArrayLike<number>, relevant: ArrayLike<number>, steps = 100): PrecisionRecall {
  const order = ranked(scores, relevant);
  const total = order.reduce((sum, i) => sum + (relevant[i] ? 1 : 0), 0);
  if (total === 0) throw new RangeError('nothing is relevant, so there is no recall');
  const precision = new Float64Array(steps + 1);
  let [found, sum] = [0, 0];
  for (let i = 0; i < order.length; i++) {
    if (!relevant[order[i]]) continue;
    const now = ++found / (i + 1);
    sum += now;
    const step = Math.floor((found / total) * steps + 1e-9);
    precision[step] = Math.max(precision[step], now);
  }
  for (let step = steps - 1; step >= 0; step--) precision[step] = Math.max(precision[step], precision[step + 1]);
  return { recall: Float64Array.from(precision, (_, step) => step / steps), precision, averagePrecision: sum / total };
}
