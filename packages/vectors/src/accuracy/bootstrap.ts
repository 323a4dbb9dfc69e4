// Confidence by drawing people again (Efron and Tibshirani): outcomes of a person belong together,
// so people are drawn, and all their outcomes with them.

import { Random } from '../random.ts';

export interface Interval {
  readonly value: number;
  /** The 2.5th and the 97.5th percentile of the draws, or the value where that is beyond them. */
  readonly low: number;
  readonly high: number;
}

/**
 * Each number that `statistic` makes of the people's weights, with its interval. The same seed
 * draws the same people.
 */
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
