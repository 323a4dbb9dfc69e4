// Rates of errors and their curves, in the terms of ISO/IEC 19795-1, from outcomes that belong to
// people, and their intervals of confidence. Each takes weights of the people: 1 for everybody, or
// how often each was drawn again.

import { Random } from '../random.ts';

/** A score, and the people it is of: one for a search, two for a pair of different people. */
export interface Outcomes {
  /** From the highest to the lowest. */
  readonly scores: Float64Array;
  readonly first: Int32Array;
  readonly second: Int32Array;
}

/** Sorts scores with their people; where two people are the same, the outcome counts once. */
export function outcomesOf(
  scores: ArrayLike<number>,
  first: ArrayLike<number>,
  second: ArrayLike<number> = first,
): Outcomes {
  const order = Int32Array.from({ length: scores.length }, (_, i) => i).sort((a, b) => scores[b] - scores[a]);
  return {
    scores: Float64Array.from(order, (i) => scores[i]),
    first: Int32Array.from(order, (i) => first[i]),
    second: Int32Array.from(order, (i) => second[i]),
  };
}

function weightAt({ first, second }: Outcomes, i: number, weights: Float64Array): number {
  return first[i] === second[i] ? weights[first[i]] : weights[first[i]] * weights[second[i]];
}

/** The weight of all outcomes. */
export function weightOf(outcomes: Outcomes, weights: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < outcomes.scores.length; i++) sum += weightAt(outcomes, i, weights);
  return sum;
}

/** The lowest thresholds that at most these shares reach: just above the first one too many. */
export function thresholdsAt(outcomes: Outcomes, shares: readonly number[], weights: Float64Array): number[] {
  const { scores } = outcomes;
  const total = weightOf(outcomes, weights);
  const found = shares.map(() => -Infinity);
  const ascending = Array.from(shares.keys()).sort((a, b) => shares[a] - shares[b]);
  for (let end = 0, passed = 0, next = 0; end < scores.length && next < ascending.length; ) {
    // Equal scores pass together.
    const score = scores[end];
    for (; end < scores.length && scores[end] === score; end++) passed += weightAt(outcomes, end, weights);
    for (; next < ascending.length && passed > shares[ascending[next]] * total + 1e-9; next++)
      found[ascending[next]] = above(score);
  }
  return found;
}

/** The next larger floating-point number. */
function above(value: number): number {
  if (value === -Infinity) return -Number.MAX_VALUE;
  const bits = new BigInt64Array(1);
  const float = new Float64Array(bits.buffer);
  float[0] = value === 0 ? 0 : value;
  bits[0] += float[0] >= 0 ? 1n : -1n;
  return float[0];
}

/** The share of the outcomes that is below each threshold. */
function sharesBelow(outcomes: Outcomes, thresholds: readonly number[], weights: Float64Array): number[] {
  const { scores } = outcomes;
  const sums = thresholds.map(() => 0);
  let total = 0;
  for (let i = 0; i < scores.length; i++) {
    const weight = weightAt(outcomes, i, weights);
    total += weight;
    for (let t = 0; t < thresholds.length; t++) if (scores[i] < thresholds[t]) sums[t] += weight;
  }
  return sums.map((sum) => sum / total);
}

/**
 * What is missed at thresholds that let these shares of the impostors pass: FNMR at FMR for pairs,
 * FNIR at FPIR for searches, where a mate that did not come first has the score −Infinity.
 */
export function missedAt(
  genuine: Outcomes,
  impostor: Outcomes,
  shares: readonly number[],
  weights: Float64Array,
): number[] {
  return sharesBelow(genuine, thresholdsAt(impostor, shares, weights), weights);
}

/** Where FMR and FNMR are equal: the mean of the two where they cross. */
export function equalErrorRate(genuine: Outcomes, impostor: Outcomes, weights: Float64Array): number {
  const [all, others] = [weightOf(genuine, weights), weightOf(impostor, weights)];
  let [g, i, matched, accepted] = [0, 0, 0, 0];
  let best = { apart: Number.POSITIVE_INFINITY, rate: 1 };
  while (g < genuine.scores.length || i < impostor.scores.length) {
    const threshold = Math.max(genuine.scores[g] ?? -Infinity, impostor.scores[i] ?? -Infinity);
    while (g < genuine.scores.length && genuine.scores[g] >= threshold) matched += weightAt(genuine, g++, weights);
    while (i < impostor.scores.length && impostor.scores[i] >= threshold) accepted += weightAt(impostor, i++, weights);
    const [fnmr, fmr] = [1 - matched / all, accepted / others];
    if (Math.abs(fnmr - fmr) < best.apart) best = { apart: Math.abs(fnmr - fmr), rate: (fnmr + fmr) / 2 };
    if (fmr > fnmr) break;
    if (threshold === -Infinity) break;
  }
  return best.rate;
}

// Confidence by drawing people again (Efron and Tibshirani): outcomes of a person belong together,
// so people are drawn, and all their outcomes with them.

export interface Interval {
  readonly value: number;
  /** The 2.5th and the 97.5th percentile of the draws, or the value where that is beyond them. */
  readonly low: number;
  readonly high: number;
}

/** Each number that `statistic` makes of people's weights, with its interval, by the seed. */
export function bootstrapped(
  people: number,
  statistic: (weights: Float64Array) => readonly number[],
  { seed = 1, draws = 200 }: { readonly seed?: number; readonly draws?: number } = {},
): Interval[] {
  const values = statistic(new Float64Array(people).fill(1));
  const drawn: number[][] = values.map(() => []);
  const random = new Random(seed, 0xb007);
  const weights = new Float64Array(people);
  for (let draw = 0; draw < draws; draw++) {
    weights.fill(0);
    for (let i = 0; i < people; i++) weights[random.below(people)]++;
    statistic(weights).forEach((value, i) => {
      if (!Number.isNaN(value)) drawn[i].push(value);
    });
  }
  return values.map((value, i) => {
    const sorted = Float64Array.from(drawn[i]).sort();
    if (sorted.length === 0) return { value, low: Number.NaN, high: Number.NaN };
    const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))];
    return { value, low: Math.min(value, at(0.025)), high: Math.max(value, at(0.975)) };
  });
}

/**
 * The interval of a rate of errors. Where none was seen, or nothing else, drawing people again
 * shows no spread: there it ends at the rate that so many people would have shown with 95 % (the
 * rule of three of ISO/IEC 19795-1, over people).
 */
export function ofRate({ value, low, high }: Interval, people: number): Interval {
  const least = 0.05 ** (1 / people);
  if (value === 0) return { value, low, high: Math.max(high, 1 - least) };
  if (value === 1) return { value, low: Math.min(low, least), high };
  return { value, low, high };
}

// Unlinkability after Gomez-Barrero, Galbally, Rathgeb and Busch ("General framework to evaluate
// unlinkability in biometric template protection systems", 2018): how much the score of a linking
// function says about whether two protected templates are of one person.

/**
 * D_sys = Σ p(s | mated) · D(s), where D(s) = 2·LR / (1 + LR) − 1 for LR = p(s | mated) / p(s |
 * non-mated) above 1, and 0 below: 0 is fully unlinkable, 1 is fully linkable. Densities are
 * histograms over the range of all scores. Few scores make it larger than it is, so compare it with
 * that of shuffled ones.
 */
export function linkability(
  mated: ArrayLike<number>,
  others: ArrayLike<number>,
  bins: number = binsFor(mated, others),
): number {
  let [low, high] = [Infinity, -Infinity];
  for (const list of [mated, others])
    for (let i = 0; i < list.length; i++) [low, high] = [Math.min(low, list[i]), Math.max(high, list[i])];
  const share = (list: ArrayLike<number>) => {
    const counts = new Float64Array(bins);
    for (let i = 0; i < list.length; i++)
      counts[high === low ? 0 : Math.min(bins - 1, Math.floor(((list[i] - low) / (high - low)) * bins))] +=
        1 / list.length;
    return counts;
  };
  const [same, different] = [share(mated), share(others)];
  let sum = 0;
  for (let b = 0; b < bins; b++)
    if (same[b] > different[b]) sum += (same[b] * (same[b] - different[b])) / (same[b] + different[b]);
  return sum;
}

/** As many as there are scores in each, on average. */
function binsFor(mated: ArrayLike<number>, others: ArrayLike<number>): number {
  return Math.max(2, Math.round(Math.sqrt(Math.min(mated.length, others.length))));
}
