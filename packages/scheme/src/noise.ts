// The noise of a score, term by term. README.md §3 derives each line.

import { reciprocalError } from '@hers/ring';
import { modulusOf, type ParameterSet, wideFactor } from './parameters.ts';

/** Variance of the centred binomial with η = 21; also its sub-Gaussian proxy. */
export const ERROR_VARIANCE = 10.5;

/** Everything the noise depends on, in absolute units (a score of one step is `unit`). */
export interface NoiseInput {
  readonly parameters: ParameterSet;
  readonly width: number;
  /**
   * Σ over the slots of the block of the squared norm of its encoded vector, scales included:
   * modulo Q·2^wideBits, where blocks are encrypted.
   */
  readonly gallerySquares: number;
  /** Squared norm of the encoded query, scale included. */
  readonly querySquares: number;
  /**
   * Squared scale times squared norm of what rounding moved: zero where vectors are integers
   * already.
   */
  readonly rounding: number;
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

/**
 * Variances of the digits D_k of a uniform mask: full ones g²/12, the last what is left of the
 * modulus.
 */
export function digitVariances(parameters: ParameterSet): number[] {
  const g = 2 ** parameters.digitBits;
  const last = (modulusOf(parameters) * wideFactor(parameters)) / g ** (parameters.digits - 1);
  return Array.from({ length: parameters.digits }, (_, k) => (k < parameters.digits - 1 ? g : last) ** 2 / 12);
}

/** Rounding to a multiple of m, in units of m, ties to even: of the whole numbers modulo m. */
function roundingVariance(m: number): number {
  return (1 + 2 / m ** 2) / 12;
}

/** Variance of what is in a body beside the message: the error, and the rounding. */
export function bodyVariance(parameters: ParameterSet): number {
  const m = wideFactor(parameters);
  return ERROR_VARIANCE / m ** 2 + roundingVariance(m);
}

/**
 * Variance of the error in mask row k of a query. A row whose factor g^k is no multiple of m is
 * made modulo Q·m, and its mask is rounded too: each error meets a ternary coefficient.
 */
function maskRowVariance(parameters: ParameterSet, k: number): number {
  const { n, wideBits, digitBits } = parameters;
  const m = wideFactor(parameters);
  if (k * digitBits >= wideBits) return ERROR_VARIANCE;
  return ERROR_VARIANCE / m ** 2 + roundingVariance(m) * (1 + (2 * n) / 3);
}

/** Σ_k Var(D_k)·Var(row k), of n coefficients each. */
function maskVariance(parameters: ParameterSet): number {
  return digitVariances(parameters).reduce((sum, d, k) => sum + parameters.n * d * maskRowVariance(parameters, k), 0);
}

/**
 * Switching C1 to 2^bits1 (each rounding error meets a ternary coefficient, variance 2/3) and C0 to
 * 2^bits0.
 */
function switching(parameters: ParameterSet, bits0: number, bits1: number): { E: number; F: number } {
  const q = modulusOf(parameters);
  const { n } = parameters;
  // Reciprocals of 32 bits shift a residue by at most 2^−32·Q for every prime, before rounding; by
  // how much is known of each prime.
  const fixedPoint = parameters.primes.reduce((sum, p) => sum + Math.abs(reciprocalError(p)), 0) * (q / 2 ** 31);
  return {
    E: (n / 18) * (q / 2 ** bits1) ** 2 + (1 / 12) * (q / 2 ** bits0) ** 2,
    F: ((2 * n) / 3 + 1) * fixedPoint ** 2,
  };
}

/** The variance of one coefficient of the phase. */
export function noiseTerms(input: NoiseInput): NoiseTerms {
  const { parameters, width } = input;
  const { n } = parameters;
  const v = ERROR_VARIANCE;
  const body = bodyVariance(parameters);
  const terms = {
    A: (v * input.gallerySquares) / wideFactor(parameters) ** 2,
    B: body * input.querySquares,
    C: v * body * n * width,
    D: maskVariance(parameters),
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
  const { parameters, width } = input;
  const { n } = parameters;
  const v = ERROR_VARIANCE;
  const body = bodyVariance(parameters);
  const gallery = Math.sqrt(input.gallerySquares) / wideFactor(parameters);
  const queryError = v * (gallery + Math.sqrt(2 * body * n * width)) ** 2;
  const maskRows = 3 * maskVariance(parameters);
  const { E, F } = switching(parameters, input.bits0, input.bits1);
  return queryError + body * input.querySquares + maskRows + E + F + input.rounding;
}

/** log2 of the probability that the noise exceeds `limit`. */
export function log2Failure(proxy: number, limit: number): number {
  return 1 - (limit * limit) / (2 * proxy) / Math.LN2;
}
