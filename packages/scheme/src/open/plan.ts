// The planner of open queries: scales, bits, noise and its bound for every gallery (README.md §9).

import { HersError } from '../errors.ts';
import { CHECKSUM_BYTES, FIELD_BYTES, HEAD_BYTES, ID_BYTES } from '../layout.ts';
import { bodyVariance, digitVariances, ERROR_VARIANCE, log2Failure, type NoiseTerms } from '../noise.ts';
import {
  type Levels,
  levelsOf,
  logEvaluation,
  modulusOf,
  OPEN_SETS,
  type OpenSet,
  PROFILE_SETS,
  rowsOf,
  wideFactor,
} from '../parameters.ts';
import {
  checkedSecurity,
  deviations,
  LOG2_WRAP,
  MIN_DIMENSION,
  NORM_TOLERANCE,
  type Plan,
  type PlanRequest,
  plan,
  REFUSE_SIGMAS,
  SWITCHING_SHARE,
} from '../plan.ts';
import { encodeVectors, type Vectors } from '../vectors.ts';
import { BLOCK_OVERHEAD } from '../wire.ts';
import { evaluationBytes } from './evaluation.ts';
import { openQueryBytes } from './query.ts';

/**
 * The result secret is drawn again until no |ŝ|² exceeds this many times its mean (README.md §9).
 */
export const LARGEST_SPECTRUM = 12;
/**
 * As many a slot as `compact` has. The tolerance is wider here, because it holds for every gallery:
 * sixteen of them miss as little as eight of `compact`.
 */
const CANARIES = 16;

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
interface Input {
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

function noiseTerms({ set, width, levels, gallerySquares, querySquares, bits0, bits1 }: Input): Terms {
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
function noiseProxy(input: Input): number {
  const { set, width, levels, gallerySquares, querySquares } = input;
  const body = bodyVariance(set);
  const gallery = Math.sqrt(gallerySquares) / wideFactor(set) + Math.sqrt(2 * body * set.n * width);
  const rows = LARGEST_SPECTRUM * rowVariance(set) * gallery ** 2;
  const rest = noiseTerms(input);
  return rows + body * querySquares + 3 * maskVariance(set, levels) + rest.E + rest.rounding;
}

function fewestBits(input: Omit<Input, 'bits0' | 'bits1'>): { c0: number; c1: number } {
  const { responses } = input.set.evaluation;
  let best = { c0: 24, c1: 24, cost: Number.POSITIVE_INFINITY };
  for (let c0 = 2; c0 <= 20; c0++)
    for (let c1 = c0; c1 <= 24; c1++) {
      const { E, total } = noiseTerms({ ...input, bits0: c0, bits1: c1 });
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

/** What `plan` calls for the profile `open`, with a request that it has checked. */
export function planOpen(request: PlanRequest): OpenPlan {
  const { dimension, metric = 'cosine', parameters = PROFILE_SETS.open } = request;
  const euclidean = metric === 'euclidean';
  const set = OPEN_SETS[parameters];
  const most = set.n - (euclidean ? 1 : 0);
  if (dimension > most)
    throw new HersError('UNSUPPORTED_PLAN', `dimension must be a whole number from ${MIN_DIMENSION} to ${most}`);
  const security = checkedSecurity(set, logEvaluation(set), request);
  const normBound = euclidean
    ? Math.max(request.normBound ?? 1, request.queryNormBound ?? 0)
    : (request.normBound ?? 1);
  const queryNormBound = euclidean ? normBound : (request.queryNormBound ?? normBound);
  const width = dimension + (euclidean ? 1 : 0);
  const levels = levelsOf(set, width);

  const { n } = set;
  const m = wideFactor(set);
  const half = modulusOf(set) / 2;
  const tolerated = 1 + (euclidean ? 3 : 1) * NORM_TOLERANCE;
  const longest = { gallery: tolerated, query: tolerated * (euclidean ? Math.sqrt(1.25) : 1), score: tolerated ** 2 };
  const a = Math.sqrt(n * rowVariance(set)) * longest.gallery;
  const b = Math.sqrt(bodyVariance(set) + 1 / (12 * m ** 2)) * longest.query;
  /** The split for which terms A and B are equal, so that their sum is least. */
  const split = (product: number) => {
    const gallery = Math.max(1, Math.floor(m * Math.sqrt((product * b) / a)));
    return { gallery, query: Math.max(1, Math.floor((product * m) / gallery)) };
  };
  const worst = (g: number, q: number) =>
    (Math.sqrt(width) / 2) * ((q * longest.query) / m + (g * longest.gallery) / m) + width / 4 / m;
  const inputOf = ({ gallery, query }: { gallery: number; query: number }): Input => {
    const squares = {
      gallerySquares: n * (gallery * longest.gallery) ** 2,
      querySquares: (query * longest.query) ** 2,
    };
    const bits = fewestBits({ set, width, levels, ...squares });
    return { set, width, levels, ...squares, bits0: bits.c0, bits1: bits.c1 };
  };
  const roomFor = (input: Input) => Math.sqrt(2 * noiseProxy(input) * (1 - LOG2_WRAP) * Math.LN2);
  // The room for noise depends on the scales and they on it: a few rounds settle.
  let scales = split(half);
  for (let round = 0; round < 8; round++)
    scales = split((half - worst(scales.gallery, scales.query) - roomFor(inputOf(scales))) / longest.score);
  const input = inputOf(scales);
  const terms = noiseTerms(input);
  const unit = (scales.gallery * scales.query) / m;
  const edge = unit * longest.score + worst(scales.gallery, scales.query);
  const bound = Math.sqrt(noiseProxy(input));
  const slope = (euclidean ? 2 : 1) * normBound * queryNormBound;
  const noise = deviations(terms, unit);
  const capacity = n - CANARIES;
  const poly = 4 * n;
  const rows = rowsOf(set, width);
  const block = BLOCK_OVERHEAD + width * poly;
  const sizes = openQueryBytes(set, width);
  const { responses } = set.evaluation;
  const frame = (HEAD_BYTES + FIELD_BYTES['packed response'] + CHECKSUM_BYTES) / responses + ID_BYTES + 8;
  const response = frame + (n * (input.bits0 + input.bits1 / responses)) / 8;
  return {
    dimension,
    metric,
    profile: 'open',
    normBound,
    queryNormBound,
    integrity: 'standard',
    parameters: set,
    levels,
    width,
    rows,
    canaries: CANARIES,
    checksumGroup: 0,
    capacity,
    galleryScale: scales.gallery,
    queryScale: scales.query,
    steps: 0,
    appended: 0,
    squares: 0,
    unit,
    largestPhase: (edge + REFUSE_SIGMAS * bound) / (2 * half),
    responseBits: { c0: input.bits0, c1: input.bits1 },
    noise: {
      ...noise,
      bound: bound / unit,
      score: (bound / unit) * slope,
      worstRounding: worst(scales.gallery, scales.query) / unit,
      log2Failure: log2Failure(noiseProxy(input), half - edge),
    },
    error: { rounding: noise.rounding * slope, total: noise.total * slope },
    bytes: {
      perTemplate: (rows * poly) / capacity,
      perTemplateAndDimension: (rows * poly) / capacity / dimension,
      block,
      query: sizes.device,
      publicQuery: sizes.public,
      evaluation: evaluationBytes(set, width),
      response,
      responsePerScore: response / capacity,
    },
    security,
  };
}

/**
 * The standard deviation of the scores of one block against one query, where the templates are not
 * alike: in units of a score of 1 at the norm bounds.
 */
export function predictedOpenNoise(plan: OpenPlan, gallery: Vectors, query: ArrayLike<number>): number {
  const { parameters: set, width, levels, responseBits } = plan;
  const gallerySquares = encodeVectors(plan, gallery, 'gallery').squares.reduce((sum, x) => sum + x, 0);
  const querySquares = encodeVectors(plan, [query], 'query').squares[0];
  const { c0: bits0, c1: bits1 } = responseBits;
  const terms = noiseTerms({ set, width, levels, gallerySquares, querySquares, bits0, bits1 });
  return Math.sqrt(terms.total) / plan.unit;
}
