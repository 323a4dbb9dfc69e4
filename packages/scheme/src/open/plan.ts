// The planner of open queries: scales, bits, noise and its bound for every gallery (README.md §9).

import { CHECKSUM_BYTES, FIELD_BYTES, HEAD_BYTES, ID_BYTES } from '../layout.ts';
import { bodyVariance, digitVariances, ERROR_VARIANCE, type NoiseTerms } from '../noise.ts';
import { type Levels, levelsOf, OPEN_SETS, type OpenSet, wideFactor } from '../parameters.ts';
import {
  type Base,
  type Bounds,
  type NoiseModel,
  type Plan,
  type PlanRequest,
  plan,
  type Scales,
  SWITCHING_SHARE,
} from '../plan.ts';
import { evaluationBytes } from './evaluation.ts';
import { openQueryBytes } from './query.ts';

/**
 * The result secret is drawn again until no |ŝ|² exceeds this many times its mean (README.md §9).
 */
export const LARGEST_SPECTRUM = 12;
/** The plan of the profile `open`, whose queries are expanded. */
export interface OpenPlan extends Plan {
  readonly parameters: OpenSet;
  readonly levels: Levels;
  /**
   * Beside what every plan has: the deviation that holds for every gallery, structured ones
   * included. `noise.score` is this one, because canaries are checked with it; `noise.total` is
   * what to expect.
   */
  readonly noise: Plan['noise'] & { readonly bound: number };
  readonly bytes: Plan['bytes'] & {
    readonly publicQuery: number;
    /** Evaluation keys as they are uploaded, those of one device included. */
    readonly evaluation: number;
  };
}

/** What the noise depends on, in absolute units. */
export interface OpenNoise {
  readonly set: OpenSet;
  readonly width: number;
  readonly levels: Levels;
  /** Σ over slots of squared norms, and the squared norm of the query, scales included. */
  readonly gallerySquares: number;
  readonly querySquares: number;
  readonly bits0: number;
  readonly bits1: number;
}

type Terms = Omit<NoiseTerms, 'F'>;

/** An error of variance 1/12 in a body, and one in its mask, which meets a ternary secret. */
const roundingOf = (n: number) => 1 / 12 + n / 18;

/** Variance of a coefficient of an expanded row: rounding, and the noise of all key switching. */
function rowVariance({ n, primes: [q], evaluation, wideBits }: OpenSet): number {
  const [p1, p2] = evaluation.primes;
  // Two keys a step, a digit modulo q each. What step k adds, those after it double, or cancel:
  // on average over the coefficients n/2^(k+1) of it is left, which adds up to n.
  const step = 2 * n * (q ** 2 / 12) * ERROR_VARIANCE;
  return roundingOf(n) + step * n * (2 ** wideBits / (p1 * p2)) ** 2;
}

/** Variance of the error of mask row k. */
function maskRowVariance(
  { n, primes: [q], evaluation, wideBits, digitBits }: OpenSet,
  k: number,
  secrets: number,
): number {
  const [p1, p2] = evaluation.primes;
  const base = evaluation.bases.findLast((each) => each <= k)!;
  const keys = ((q * 2 ** wideBits) ** 2 / 12) * ERROR_VARIANCE * 2 * n * secrets;
  return roundingOf(n) + keys * (2 ** (digitBits * (k - base)) / (p1 * p2)) ** 2;
}

/** Of all masks: their digits times the errors of their rows. */
function maskVariance(set: OpenSet, { masks, secrets }: Levels): number {
  return masks * set.n * digitVariances(set).reduce((sum, d, k) => sum + d * maskRowVariance(set, k, secrets), 0);
}

/** Packing, and switching bodies and masks of responses. */
function responseVariance({ n, primes: [q], evaluation }: OpenSet, bits0: number, bits1: number): number {
  const keys = evaluation.responses * n * (q ** 2 / 12) * ERROR_VARIANCE;
  const packing = keys / evaluation.primes[1] ** 2 + roundingOf(n);
  return packing + (n / 18) * (q / 2 ** bits1) ** 2 + (1 / 12) * (q / 2 ** bits0) ** 2;
}

export function openTerms({ set, width, levels, gallerySquares, querySquares, bits0, bits1 }: OpenNoise): Terms {
  const m = wideFactor(set);
  const body = bodyVariance(set);
  const row = rowVariance(set);
  const terms = {
    A: (row * gallerySquares) / m ** 2,
    B: body * querySquares,
    C: row * body * set.n * width,
    D: maskVariance(set, levels),
    E: responseVariance(set, bits0, bits1),
    rounding: querySquares / 12 / m ** 2,
  };
  return { ...terms, total: terms.A + terms.B + terms.C + terms.D + terms.E + terms.rounding };
}

/**
 * A sub-Gaussian proxy that holds for every gallery. The result secret lives long, so the errors of
 * rows are weighed by |ŝ|² at the frequencies that a gallery has: at most LARGEST_SPECTRUM times.
 */
function noiseProxy(input: OpenNoise): number {
  const { set, width, levels, gallerySquares, querySquares } = input;
  const body = bodyVariance(set);
  const gallery = Math.sqrt(gallerySquares) / wideFactor(set) + Math.sqrt(2 * body * set.n * width);
  const rows = LARGEST_SPECTRUM * rowVariance(set) * gallery ** 2;
  const rest = openTerms(input);
  return rows + body * querySquares + 3 * maskVariance(set, levels) + rest.E + rest.rounding;
}

function fewestBits(input: Omit<OpenNoise, 'bits0' | 'bits1'>): { c0: number; c1: number } {
  const { responses } = input.set.evaluation;
  let best = { c0: 24, c1: 24, cost: Number.POSITIVE_INFINITY };
  for (let c0 = 2; c0 <= 20; c0++)
    for (let c1 = c0; c1 <= 24; c1++) {
      const { E, total } = openTerms({ ...input, bits0: c0, bits1: c1 });
      const cost = c0 + c1 / responses;
      if (E <= SWITCHING_SHARE * (total - E) && cost < best.cost) best = { c0, c1, cost };
    }
  return { c0: best.c0, c1: best.c1 };
}

/**
 * Everything about a collection of the profile `open` that is not secret.
 *
 * @example openPlan({ dimension: 128 }).noise.total // 0.00112: standard deviation of a cosine
 * score
 */
export function openPlan(request: Omit<PlanRequest, 'profile'>): OpenPlan {
  return plan({ ...request, profile: 'open' }) as OpenPlan;
}

/** Predicts the noise of open queries, for `plan`. */
export function openModel({ parameters, width }: Base, bounds: Bounds): NoiseModel {
  const set = OPEN_SETS[parameters.name];
  const levels = levelsOf(set, width);
  const atBounds = ({ gallery, query }: Scales) => ({
    set,
    width,
    levels,
    gallerySquares: set.n * (gallery * bounds.gallery) ** 2,
    querySquares: (query * bounds.query) ** 2,
  });
  const input = (scales: Scales, { c0: bits0, c1: bits1 }: Plan['responseBits']) => ({
    ...atBounds(scales),
    bits0,
    bits1,
  });
  return {
    a: Math.sqrt(set.n * rowVariance(set)) * bounds.gallery,
    b: Math.sqrt(bodyVariance(set) + 1 / (12 * wideFactor(set) ** 2)) * bounds.query,
    bits: (scales) => fewestBits(atBounds(scales)),
    terms: (scales, bits) => openTerms(input(scales, bits)),
    proxy: (scales, bits) => noiseProxy(input(scales, bits)),
  };
}

/** Sizes that differ from those of other plans, and those that only this one has. */
export function openSizes(
  set: OpenSet,
  width: number,
  { c0, c1 }: Plan['responseBits'],
  capacity: number,
): Pick<OpenPlan['bytes'], 'query' | 'publicQuery' | 'evaluation' | 'response' | 'responsePerScore'> {
  const query = openQueryBytes(set, width);
  const { responses } = set.evaluation;
  const frame = (HEAD_BYTES + FIELD_BYTES['packed response'] + CHECKSUM_BYTES) / responses + ID_BYTES + 8;
  const response = frame + (set.n * (c0 + c1 / responses)) / 8;
  return {
    query: query.device,
    publicQuery: query.public,
    evaluation: evaluationBytes(set, width),
    response,
    responsePerScore: response / capacity,
  };
}
