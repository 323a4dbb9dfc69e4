// Rates of errors and their curves, in the terms of ISO/IEC 19795-1, from outcomes that belong to
// people. Each takes weights of the people: 1 for everybody, or how often each was drawn again.

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

/**
 * The lowest thresholds that at most these shares of the scores reach: just above the first score
 * that would be too many.
 */
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
export function sharesBelow(outcomes: Outcomes, thresholds: readonly number[], weights: Float64Array): number[] {
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
