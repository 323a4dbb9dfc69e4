// The planner: from what a collection needs to scales, bits, noise, failure probability, sizes and
// security. Both sides compute it from the same request, so nothing of it has to be trusted.
// README.md derives the formulas.

import { HersError } from './errors.ts';
import { log2Failure, type NoiseInput, type NoiseTerms, noiseProxy, noiseTerms } from './noise.ts';
import { logModulus, modulusOf, type ParameterSet, PROFILES, type Profile, parameterSet } from './parameters.ts';
import { type Security, securityOf } from './security.ts';
import { BLOCK_OVERHEAD, QUERY_OVERHEAD, RESPONSE_OVERHEAD } from './wire.ts';

export type Metric = 'cosine' | 'dot' | 'euclidean';
export const METRICS: readonly Metric[] = ['cosine', 'dot', 'euclidean'];

export const MIN_DIMENSION = 2;
export const MAX_DIMENSION = 4096;
/** `exact` rounds to 1/250 of the norm bound, the paper's precision of 0.004. */
const EXACT_STEPS = 250;
/**
 * Norms may exceed their bound by this much, for vectors that were normalised in single precision.
 */
export const NORM_TOLERANCE = 1e-5;
/** `exact` promises a wrong score with at most this probability (log2). */
const LOG2_FAILURE = -128;
/** `compact`: switching the response may add this share to the variance that is there. */
const SWITCHING_SHARE = 0.12;
/**
 * `compact`: room for this many standard deviations beyond the largest score; decryption refuses
 * beyond REFUSE_SIGMAS.
 */
const ROOM_SIGMAS = 10;
const REFUSE_SIGMAS = 8;

export interface PlanRequest {
  readonly dimension: number;
  readonly metric?: Metric;
  readonly profile?: Profile;
  /**
   * Largest norm of a gallery vector, and of a query (by default the same). Cosine normalises and
   * takes none.
   */
  readonly normBound?: number;
  readonly queryNormBound?: number;
  /** How many ciphertexts may be added into one block; 1 for blocks encrypted at once. */
  readonly maxAdditions?: number;
  /**
   * A parameter set other than the profile's; an insecure one only together with `allowInsecure`.
   */
  readonly parameters?: string;
  readonly allowInsecure?: boolean;
}

export interface Plan {
  readonly dimension: number;
  readonly metric: Metric;
  readonly profile: Profile;
  readonly normBound: number;
  readonly queryNormBound: number;
  readonly maxAdditions: number;
  readonly parameters: ParameterSet;
  /** Encoded coordinates: the dimension, and one more for euclidean. */
  readonly width: number;
  /** Rows the server scans: width + digits. */
  readonly rows: number;
  /** Δ_g and Δ_q. */
  readonly galleryScale: number;
  readonly queryScale: number;
  /**
   * `exact`: steps per norm bound (250), and the divisor of the appended coordinate's scale under
   * euclidean. `compact`: zero.
   */
  readonly steps: number;
  readonly appended: number;
  /** `exact` with euclidean: R², from which the appended coordinate takes ‖P‖². Else zero. */
  readonly squares: number;
  /**
   * The phase of one step of the decrypted score: a score of 1 under `compact`, an integer step
   * under `exact`.
   */
  readonly unit: number;
  /** Decryption refuses phases beyond this share of Q (`compact`). */
  readonly largestPhase: number;
  readonly responseBits: { readonly c0: number; readonly c1: number };
  readonly noise: {
    /**
     * Standard deviations for full blocks at the norm bounds, in score units (`compact`) or integer
     * steps (`exact`).
     */
    readonly A: number;
    readonly B: number;
    readonly C: number;
    readonly D: number;
    readonly E: number;
    readonly rounding: number;
    readonly total: number;
    /**
     * `compact`: the same as `total` in the units of the scores that decryption returns. `exact`
     * ones are exact: zero.
     */
    readonly score: number;
    /** `compact`: what rounding can move a score by at the very worst, beside the noise. */
    readonly worstRounding: number;
    /** log2 of the probability that one score is wrong (`exact`) or wraps around (`compact`). */
    readonly log2Failure: number;
  };
  readonly bytes: {
    readonly perTemplate: number;
    readonly perTemplateAndDimension: number;
    readonly block: number;
    readonly query: number;
    readonly response: number;
    readonly responsePerScore: number;
    /** What enrolling a single template homomorphically uploads. */
    readonly homomorphicUpload: number;
  };
  readonly security: Security;
}

interface Bounds {
  /** Bounds on the norms of encoded vectors in units of their scales, and on |score| in units. */
  readonly gallery: number;
  readonly query: number;
  readonly score: number;
  /** Phase of one unit divided by Δ_g·Δ_q, and the multiple that Δ_g must be of. */
  readonly unit: number;
  readonly multiple: number;
}

function check(request: PlanRequest): void {
  const refuse = (message: string): never => {
    throw new HersError('UNSUPPORTED_PLAN', message);
  };
  const { dimension, metric = 'cosine', profile = 'compact' } = request;
  for (const name of Object.keys(request)) {
    if (
      ![
        'dimension',
        'metric',
        'profile',
        'normBound',
        'queryNormBound',
        'maxAdditions',
        'parameters',
        'allowInsecure',
      ].includes(name)
    ) {
      refuse(`a plan has no option ${JSON.stringify(name)}`);
    }
  }
  if (!(Number.isInteger(dimension) && dimension >= MIN_DIMENSION && dimension <= MAX_DIMENSION)) {
    refuse(`dimension must be a whole number from ${MIN_DIMENSION} to ${MAX_DIMENSION}`);
  }
  if (!METRICS.includes(metric)) refuse(`metric must be one of ${METRICS.join(', ')}`);
  if (!Object.hasOwn(PROFILES, profile)) refuse(`profile must be one of ${Object.keys(PROFILES).join(', ')}`);
  for (const bound of [request.normBound, request.queryNormBound]) {
    if (bound === undefined) continue;
    if (metric === 'cosine') refuse('cosine normalises vectors and takes no norm bound');
    if (!(Number.isFinite(bound) && bound > 0)) refuse('a norm bound must be a positive number');
  }
  const { maxAdditions = 1 } = request;
  if (!(Number.isInteger(maxAdditions) && maxAdditions >= 1 && maxAdditions <= 65536)) {
    refuse('maxAdditions must be a whole number from 1 to 65536');
  }
}

/**
 * Everything about a collection's encryption that is not secret.
 *
 * @example plan({ dimension: 128 }).noise.total // 0.00144: standard deviation of a cosine score
 */
export function plan(request: PlanRequest): Plan {
  check(request);
  const { dimension, metric = 'cosine', profile = 'compact', maxAdditions = 1 } = request;
  const parameters = parameterSet(request.parameters ?? PROFILES[profile]);
  const logQ = logModulus(parameters);
  const security = securityOf(parameters.n, logQ);
  if (!security.secure && !(parameters.insecure && request.allowInsecure === true)) {
    throw new HersError(
      'INSECURE_PARAMETERS',
      `${parameters.name} is not within the 2024 quantum table; insecure sets need allowInsecure: true`,
    );
  }
  const normBound = request.normBound ?? 1;
  const exact = profile === 'exact';
  const base = {
    dimension,
    metric,
    profile,
    normBound,
    // Under euclidean both are compared, so they share one scale.
    queryNormBound:
      metric === 'euclidean' ? Math.max(normBound, request.queryNormBound ?? 0) : (request.queryNormBound ?? normBound),
    maxAdditions,
    parameters,
    width: dimension + (metric === 'euclidean' ? 1 : 0),
    steps: exact ? EXACT_STEPS : 0,
    security,
  };
  if (metric === 'euclidean') base.normBound = base.queryNormBound;
  const { noise, ...chosen } = exact ? planExact(base) : planCompact(base);
  // Squared distances are −2 times what is decrypted, in units of the bound squared.
  const slope = (metric === 'euclidean' ? 2 : 1) * base.normBound * base.queryNormBound;
  return {
    ...base,
    ...chosen,
    noise: { ...noise, score: exact ? 0 : noise.total * slope },
    rows: base.width + parameters.digits,
    bytes: sizes(base, chosen.responseBits),
  };
}

type Base = Pick<Plan, 'dimension' | 'metric' | 'maxAdditions' | 'parameters' | 'width'>;
type Chosen = Pick<
  Plan,
  'galleryScale' | 'queryScale' | 'appended' | 'squares' | 'unit' | 'largestPhase' | 'responseBits'
> & { readonly noise: Omit<Plan['noise'], 'score'> };

/** Noise at the bounds: a full block of vectors of the largest norm. */
function atBounds(
  base: Base,
  bounds: Bounds,
  gallery: number,
  query: number,
  roundingShare: number,
): Omit<NoiseInput, 'bits0' | 'bits1'> {
  const { parameters, width, maxAdditions: additions } = base;
  const querySquares = (query * bounds.query) ** 2;
  const gallerySquares = parameters.n * (gallery * bounds.gallery) ** 2;
  const rounding = (roundingShare / 12) * (querySquares + gallerySquares / parameters.n);
  return { parameters, width, gallerySquares, querySquares, rounding, additions };
}

/**
 * The split of Δ_g·Δ_q = product for which terms A and B are equal, which makes their sum least.
 */
function split(base: Base, bounds: Bounds, product: number, roundingShare: number): { gallery: number; query: number } {
  const a = Math.sqrt(base.parameters.n) * bounds.gallery;
  const b = Math.sqrt(base.maxAdditions + roundingShare / (12 * 10.5)) * bounds.query;
  const gallery = Math.max(1, Math.floor(Math.sqrt((product * b) / a) / bounds.multiple)) * bounds.multiple;
  return { gallery, query: Math.max(1, Math.floor(product / gallery)) };
}

function planCompact(base: Base): Chosen {
  const half = modulusOf(base.parameters) / 2;
  const euclidean = base.metric === 'euclidean';
  // p' = (p, 1 − ‖p‖²) has norm at most 1, q' = (q, ½) at most √1.25, and their product stays
  // within ±1 (README.md §5).
  const tolerated = 1 + (euclidean ? 3 : 1) * NORM_TOLERANCE;
  const bounds: Bounds = {
    gallery: tolerated,
    query: tolerated * (euclidean ? Math.sqrt(1.25) : 1),
    score: tolerated * tolerated,
    unit: 1,
    multiple: 1,
  };
  const halfWidth = Math.sqrt(base.width) / 2;
  const worst = (g: number, q: number) => halfWidth * (q * bounds.query + g * bounds.gallery) + base.width / 4;
  // The room for noise depends on the scales and they on it: a few rounds settle.
  let product = half;
  let { gallery, query } = split(base, bounds, product, 1);
  let bits = { c0: 0, c1: 0 };
  let terms: NoiseTerms | undefined;
  for (let round = 0; round < 8; round++) {
    const input = atBounds(base, bounds, gallery, query, 1);
    bits = compactBits(input);
    terms = noiseTerms({ ...input, bits0: bits.c0, bits1: bits.c1 });
    product = (half - worst(gallery, query) - ROOM_SIGMAS * Math.sqrt(terms.total)) / bounds.score;
    ({ gallery, query } = split(base, bounds, product, 1));
  }
  const input = { ...atBounds(base, bounds, gallery, query, 1), bits0: bits.c0, bits1: bits.c1 };
  terms = noiseTerms(input);
  const unit = gallery * query;
  const sigma = Math.sqrt(terms.total);
  const edge = unit * bounds.score + worst(gallery, query);
  if (edge + ROOM_SIGMAS * sigma > half * (1 + 1e-3)) {
    throw new HersError(
      'UNSUPPORTED_PLAN',
      `compact has no room for ${base.maxAdditions} additions; lower maxAdditions or use exact`,
    );
  }
  return {
    galleryScale: gallery,
    queryScale: query,
    appended: 0,
    squares: 0,
    unit,
    largestPhase: (edge + REFUSE_SIGMAS * sigma) / (2 * half),
    responseBits: bits,
    noise: {
      ...deviations(terms, unit),
      worstRounding: worst(gallery, query) / unit,
      log2Failure: log2Failure(noiseProxy(input), half - edge),
    },
  };
}

/**
 * The fewest bits in all for which switching adds at most its share; among equals the least noise.
 */
function compactBits(input: Omit<NoiseInput, 'bits0' | 'bits1'>): { c0: number; c1: number } {
  return fewestBits(input.parameters, (bits0, bits1) => {
    const terms = noiseTerms({ ...input, bits0, bits1 });
    return terms.E <= SWITCHING_SHARE * (terms.total - terms.E) ? terms.E : undefined;
  });
}

function fewestBits(
  parameters: ParameterSet,
  cost: (bits0: number, bits1: number) => number | undefined,
): { c0: number; c1: number } {
  // The exact product of s and c1 (Ring.phase) carries at most this many bits.
  const most = Math.min(32, 2 * (29 - Math.log2(parameters.n)));
  for (let total = 2; total <= 2 * most; total++) {
    let best: { c0: number; c1: number; cost: number } | undefined;
    for (let c1 = Math.ceil(total / 2); c1 <= Math.min(most, total - 1); c1++) {
      const value = cost(total - c1, c1);
      if (value !== undefined && (!best || value < best.cost)) best = { c0: total - c1, c1, cost: value };
    }
    if (best) return { c0: best.c0, c1: best.c1 };
  }
  return { c0: most, c1: most };
}

function planExact(base: Base): Chosen {
  const half = modulusOf(base.parameters) / 2;
  const euclidean = base.metric === 'euclidean';
  // Rounding can lengthen an integer vector by √d/2, and equal coordinates reach it (README.md §3):
  // there is room for all of it.
  const norm = EXACT_STEPS * (1 + NORM_TOLERANCE) + Math.sqrt(base.dimension) / 2;
  const appended = euclidean ? 2 * Math.ceil(norm / 2) : 0;
  const bounds: Bounds = {
    gallery: norm,
    query: euclidean ? Math.sqrt(norm * norm + (appended * appended) / 4) : norm,
    // Euclidean: the decrypted integer is 2⟨P, Q⟩ + R² − ‖P‖², so a step is half as wide and there
    // are twice as many.
    score: euclidean ? 2 * norm * norm + 1 : norm * norm,
    unit: euclidean ? 0.5 : 1,
    multiple: euclidean ? appended : 1,
  };
  const { gallery, query } = split(base, bounds, half / (bounds.unit * (bounds.score + 0.5)), 0);
  const unit = gallery * query * bounds.unit;
  const input = atBounds(base, bounds, gallery, query, 0);
  const failure = (bits0: number, bits1: number, additions = base.maxAdditions) =>
    log2Failure(noiseProxy({ ...input, additions, bits0, bits1 }), unit / 2);
  const bits = fewestBits(base.parameters, (bits0, bits1) => {
    const log2 = failure(bits0, bits1);
    return log2 <= LOG2_FAILURE ? log2 : undefined;
  });
  const log2 = failure(bits.c0, bits.c1);
  if (log2 > LOG2_FAILURE) {
    throw new HersError(
      'UNSUPPORTED_PLAN',
      `exact cannot promise right scores after ${base.maxAdditions} additions at dimension ${base.dimension} with ${base.metric}; lower maxAdditions`,
    );
  }
  const terms = noiseTerms({ ...input, bits0: bits.c0, bits1: bits.c1 });
  return {
    galleryScale: gallery,
    queryScale: query,
    appended,
    squares: euclidean ? Math.floor(norm * norm) : 0,
    unit,
    largestPhase: (unit * (bounds.score + 0.5)) / (2 * half),
    responseBits: bits,
    noise: { ...deviations(terms, unit), worstRounding: 0, log2Failure: log2 },
  };
}

function deviations(terms: NoiseTerms, unit: number): Omit<Plan['noise'], 'worstRounding' | 'log2Failure' | 'score'> {
  const sigma = (variance: number) => Math.sqrt(variance) / unit;
  return {
    A: sigma(terms.A),
    B: sigma(terms.B),
    C: sigma(terms.C),
    D: sigma(terms.D),
    E: sigma(terms.E),
    rounding: sigma(terms.rounding),
    total: sigma(terms.total),
  };
}

function sizes(base: Base, bits: Plan['responseBits']): Plan['bytes'] {
  const { parameters, width, dimension } = base;
  const poly = 4 * parameters.n * parameters.primes.length;
  const rows = width + parameters.digits;
  const response = RESPONSE_OVERHEAD + (parameters.n * (bits.c0 + bits.c1)) / 8;
  const block = BLOCK_OVERHEAD + width * poly;
  return {
    perTemplate: (rows * poly) / parameters.n,
    perTemplateAndDimension: (rows * poly) / parameters.n / dimension,
    block,
    query: QUERY_OVERHEAD + rows * poly,
    response,
    responsePerScore: response / parameters.n,
    homomorphicUpload: block,
  };
}
