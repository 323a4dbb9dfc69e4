// The noise of a score, term by term. README.md §3 derives each line.

import { modulusOf, type ParameterSet } from './parameters.ts';

/** Variance of the centred binomial with η = 21; also its sub-Gaussian proxy. */
const ERROR_VARIANCE = 10.5;

/** Everything the noise depends on, in absolute units (a score of one step is `unit`). */
export interface NoiseInput {
  readonly parameters: ParameterSet;
  readonly width: number;
  /** Σ over the slots of the block of the squared norm of its encoded vector, scales included. */
  readonly gallerySquares: number;
  /** Squared norm of the encoded query, scale included. */
  readonly querySquares: number;
  /**
   * Squared scale times squared norm of what rounding moved: zero where vectors are integers
   * already.
   */
  readonly rounding: number;
  readonly additions: number;
  readonly bits0: number;
  readonly bits1: number;
}

/**
 * Variances, absolute. The letters are those of README.md §3; F is the fixed point of the switch.
 */
export interface NoiseTerms {
  readonly A: number;
  readonly B: number;
  readonly C: number;
  readonly D: number;
  readonly E: number;
  readonly F: number;
  readonly rounding: number;
  readonly total: number;
}

/** Variances of the digits D_k of a uniform mask: full ones g²/12, the last what is left of Q. */
function digitVariances(parameters: ParameterSet): number[] {
  const g = 2 ** parameters.digitBits;
  const last = modulusOf(parameters) / g ** (parameters.digits - 1);
  return Array.from({ length: parameters.digits }, (_, k) => (k < parameters.digits - 1 ? g : last) ** 2 / 12);
}

/**
 * Switching C1 to 2^bits1 (each rounding error meets a ternary coefficient, variance 2/3) and C0 to
 * 2^bits0.
 */
function switching(parameters: ParameterSet, bits0: number, bits1: number): { E: number; F: number } {
  const q = modulusOf(parameters);
  const { n } = parameters;
  // Reciprocals of 32 bits shift a residue by at most 2^−32·Q for every prime, before rounding.
  const fixedPoint = (parameters.primes.length * q) / 2 ** 32;
  return {
    E: (n / 18) * (q / 2 ** bits1) ** 2 + (1 / 12) * (q / 2 ** bits0) ** 2,
    F: ((2 * n) / 3 + 1) * fixedPoint ** 2,
  };
}

/** The variance of one coefficient of the phase. */
export function noiseTerms(input: NoiseInput): NoiseTerms {
  const { parameters, width, additions: k } = input;
  const { n } = parameters;
  const v = ERROR_VARIANCE;
  const terms = {
    A: v * input.gallerySquares,
    B: v * k * input.querySquares,
    C: v * v * n * width * k,
    D: v * n * digitVariances(parameters).reduce((sum, d) => sum + d, 0),
    ...switching(parameters, input.bits0, input.bits1),
    rounding: input.rounding,
  };
  // F is a bound, not an expectation: it counts in failure probabilities, not in what is measured.
  return { ...terms, total: terms.A + terms.B + terms.C + terms.D + terms.E + terms.rounding };
}

/**
 * A sub-Gaussian proxy of the noise that holds for every gallery within the bounds, so that
 * P(|noise| > t) ≤ 2·exp(−t²/2V). Terms C and D are products of two random factors. For C the
 * squared norm of the block's errors is taken at twice its mean, which it exceeds with probability
 * below exp(−0.153·n·width), far below 2^−128 for every secure set; for D every digit is taken at
 * its largest.
 */
export function noiseProxy(input: NoiseInput): number {
  const { parameters, width, additions: k } = input;
  const { n } = parameters;
  const v = ERROR_VARIANCE;
  const queryError = v * (Math.sqrt(input.gallerySquares) + Math.sqrt(2 * v * k * n * width)) ** 2;
  const maskRows = v * n * digitVariances(parameters).reduce((sum, d) => sum + 3 * d, 0);
  const { E, F } = switching(parameters, input.bits0, input.bits1);
  return queryError + v * k * input.querySquares + maskRows + E + F + input.rounding;
}

/** log2 of the probability that the noise exceeds `limit`. */
export function log2Failure(proxy: number, limit: number): number {
  return 1 - (limit * limit) / (2 * proxy) / Math.LN2;
}
