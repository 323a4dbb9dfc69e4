// The planner: from what a collection needs to scales, bits, noise, failure probability, sizes and
// security. Both sides compute it from the same request, so nothing of it has to be trusted.
// README.md derives the formulas.

import { HersError } from './errors.ts';
import {
  bodyVariance,
  ERROR_VARIANCE,
  log2Failure,
  type NoiseInput,
  type NoiseTerms,
  noiseProxy,
  noiseTerms,
} from './noise.ts';
import { type OpenPlan, openModel, openSizes } from './open/plan.ts';
import { type OptionNames, refuseUnknown } from './options.ts';
import {
  levelsOf,
  logEvaluation,
  logModulus,
  modulusOf,
  OPEN_SETS,
  type ParameterSet,
  PROFILE_SETS,
  PROFILES,
  type Profile,
  parameterSet,
  primeBits,
  rowsOf,
  type Security,
  securityOf,
  wideFactor,
} from './parameters.ts';
import { BLOCK_OVERHEAD, QUERY_OVERHEAD, RESPONSE_OVERHEAD } from './wire.ts';

/** How vectors are compared: `cosine` and `dot` are similarities, `euclidean` a distance. */
export type Metric = 'cosine' | 'dot' | 'euclidean';
export const METRICS: readonly Metric[] = ['cosine', 'dot', 'euclidean'];

/** How much of a response is checked: by canaries, or by checksum canaries as well. */
export type Integrity = 'standard' | 'strong';

export const MIN_DIMENSION = 2;
export const MAX_DIMENSION = 4096;
/** `exact` rounds to no fewer steps of the norm bound: the paper's precision of 0.004. */
const COARSEST_STEPS = 250;
/**
 * `exact` rounds so finely that this much is added to a score of unit vectors (rms), where there is
 * room for it: 1/√6 of a step, from a rounding error of variance 1/12 in every coordinate of both.
 */
const EXACT_ROUNDING = 0.000298;
const FINEST_STEPS = Math.ceil(1 / Math.sqrt(6) / EXACT_ROUNDING);
/**
 * Norms may exceed their bound by this much, for vectors that were normalised in single precision.
 */
export const NORM_TOLERANCE = 1e-5;
/**
 * Canaries of a block; under `small`, where one says less, twice as many, and under `open`, whose
 * tolerance is wider because it holds for every gallery: sixteen miss as little as eight do.
 */
const CANARIES = 8;
/**
 * Records for each checksum canary of `integrity: 'strong'`; under `small`, whose scores have more
 * noise, fewer: a sum of them has less.
 */
const CHECKSUM_GROUP = 64;
const CHECKSUM_GROUP_SMALL = 16;
/** Of norm bounds: the square of a distance twice as long is still a single-precision number. */
const LARGEST_BOUND = 1e15;
/** `exact` promises a wrong score with at most this probability (log2). */
const LOG2_FAILURE = -128;
/** Switching the response may add this share to the variance that is there. */
export const SWITCHING_SHARE = 0.12;
/** log2 of how often a score may wrap around. */
const LOG2_WRAP = -66;
/** Decryption refuses phases this many deviations beyond the largest score. */
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
  /**
   * `strong`, for `compact` and `small`: blocks hold checksum canaries as well, which show a change
   * of a single score (README.md §8). Every score of `exact` is checked without.
   */
  readonly integrity?: Integrity;
  /**
   * A parameter set other than the profile's; an insecure one only together with `allowInsecure`.
   */
  readonly parameters?: string;
  readonly allowInsecure?: boolean;
}

const OPTIONS: OptionNames<PlanRequest> = {
  dimension: true,
  metric: true,
  profile: true,
  normBound: true,
  queryNormBound: true,
  integrity: true,
  parameters: true,
  allowInsecure: true,
};

/** What a collection promises, and how it keeps it: sizes, errors, security. */
export interface Plan {
  /** Of the vectors. */
  readonly dimension: number;
  /** How they are compared. */
  readonly metric: Metric;
  /** How exact scores are, and at which size. */
  readonly profile: Profile;
  /** The longest template that is accepted; 1 for `cosine`. */
  readonly normBound: number;
  /** The longest probe that is accepted; 1 for `cosine`. */
  readonly queryNormBound: number;
  /** Whether there are checksum canaries. */
  readonly integrity: Integrity;
  /** Of the lattice. */
  readonly parameters: ParameterSet;
  /** Encoded coordinates: the dimension, and one more for euclidean. */
  readonly width: number;
  /** Rows the server scans: width + digits. */
  readonly rows: number;
  /**
   * Records of the key holder's own in every block (README.md §7), and the slots left for others.
   */
  readonly canaries: number;
  /** `strong`: there is a checksum canary for every so many records (README.md §8). Else zero. */
  readonly checksumGroup: number;
  /** Slots of a block that records can have. */
  readonly capacity: number;
  /** Δ_g, modulo Q·2^wideBits, and Δ_q. */
  readonly galleryScale: number;
  /** Δ_q. */
  readonly queryScale: number;
  /**
   * `exact`: steps per norm bound, and the divisor of the appended coordinate's scale under
   * euclidean. `compact`: zero.
   */
  readonly steps: number;
  /** Under euclidean: the divisor of the scale of the appended coordinate. */
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
  /** Bits of a coefficient of each half of a response. */
  readonly responseBits: { readonly c0: number; readonly c1: number };
  /** The error of a score, by where it comes from. */
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
  /**
   * How far a decrypted score is from that of the vectors as they are, before any rounding: root
   * mean squares in units of scores, for vectors at their norm bounds and, under euclidean, at
   * right angles. Coordinates far below a rounding step err more; `hers plan` measures vectors.
   */
  readonly error: {
    /** By rounding vectors to what is encrypted. */
    readonly rounding: number;
    /** By rounding and encryption together. */
    readonly total: number;
  };
  /** Sizes. */
  readonly bytes: {
    /** What a server scans for a record of a full block, its share of canaries included. */
    readonly perTemplate: number;
    readonly perTemplateAndDimension: number;
    /** As it is uploaded: its mask is a seed. */
    readonly block: number;
    readonly query: number;
    /** Of one block; and of that for each record of a full block, canaries included. */
    readonly response: number;
    readonly responsePerScore: number;
  };
  /** What an attack would cost. */
  readonly security: Security;
}

/** Limits what the noise of a plan is predicted for. */
export interface Bounds {
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
  refuseUnknown(request, OPTIONS, 'a plan');
  const { dimension, metric = 'cosine', profile = 'compact', integrity = 'standard' } = request;
  if (!(Number.isInteger(dimension) && dimension >= MIN_DIMENSION && dimension <= MAX_DIMENSION)) {
    refuse(`dimension must be a whole number from ${MIN_DIMENSION} to ${MAX_DIMENSION}`);
  }
  if (!METRICS.includes(metric)) refuse(`metric must be one of ${METRICS.join(', ')}`);
  if (!PROFILES.includes(profile)) refuse(`profile must be one of ${PROFILES.join(', ')}`);
  for (const bound of [request.normBound, request.queryNormBound]) {
    if (bound === undefined) continue;
    if (metric === 'cosine') refuse('cosine normalises vectors and takes no norm bound');
    if (!(Number.isFinite(bound) && bound > 0)) refuse('a norm bound must be a positive number');
    // Scores are in single precision, and the bounds are multiplied in them.
    if (!(bound >= 1 / LARGEST_BOUND && bound <= LARGEST_BOUND))
      refuse(`a norm bound must be from ${1 / LARGEST_BOUND} to ${LARGEST_BOUND}; scale the vectors`);
  }
  const { evaluation, name } = parameterSet(request.parameters ?? PROFILE_SETS[profile]);
  if ((evaluation !== undefined) !== (profile === 'open'))
    refuse(`${name} ${evaluation ? 'is for the profile open alone' : 'is no parameter set of the profile open'}`);
  const most = evaluation ? OPEN_SETS[name].n - appendedTo(metric) : MAX_DIMENSION;
  if (dimension > most) refuse(`dimension must be a whole number from ${MIN_DIMENSION} to ${most}`);
  if (integrity !== 'standard' && integrity !== 'strong') refuse('integrity must be standard or strong');
  if (integrity === 'standard') return;
  if (profile === 'open') refuse("there are no checksum canaries under open; leave out integrity: 'strong'");
  if (profile === 'exact')
    refuse("exact checks every score already, by sums that are exact; leave out integrity: 'strong'");
}

const MAX_KNOWN = 64;
/** The latest plans, by their requests: a client asks for the same one again and again. */
const known = new Map<string, Plan>();

/**
 * Everything about a collection's encryption that is not secret.
 *
 * @example plan({ dimension: 128 }).noise.total // 0.00144: standard deviation of a cosine score
 */
export function plan(request: PlanRequest): Plan {
  check(request);
  const { dimension, metric = 'cosine', profile = 'compact', integrity = 'standard' } = request;
  const { normBound = 1, queryNormBound = normBound, parameters = PROFILE_SETS[profile] } = request;
  const allowInsecure = request.allowInsecure === true;
  const resolved = { dimension, metric, profile, integrity, normBound, queryNormBound, parameters, allowInsecure };
  const key = Object.values(resolved).join();
  let made = known.get(key);
  if (!made) {
    made = makePlan(resolved);
    for (const part of [made, ...Object.values(made)]) Object.freeze(part);
    if (known.size === MAX_KNOWN) known.delete(known.keys().next().value!);
    known.set(key, made);
  }
  return made;
}

function makePlan(request: Required<PlanRequest>): Plan {
  const { dimension, metric, profile, normBound, queryNormBound, integrity } = request;
  const parameters = parameterSet(request.parameters);
  const set = OPEN_SETS[parameters.name];
  const security = checkedSecurity(parameters, set ? logEvaluation(set) : logModulus(parameters), request);
  const exact = profile === 'exact';
  const base = {
    dimension,
    metric,
    profile,
    normBound,
    // Under euclidean both are compared, so they share one scale.
    queryNormBound: metric === 'euclidean' ? Math.max(normBound, queryNormBound) : queryNormBound,
    integrity,
    parameters,
    width: dimension + appendedTo(metric),
    security,
  };
  if (metric === 'euclidean') base.normBound = base.queryNormBound;
  const canaries = profile === 'small' || profile === 'open' ? 2 * CANARIES : CANARIES;
  const group = profile === 'small' ? CHECKSUM_GROUP_SMALL : CHECKSUM_GROUP;
  const checksumGroup = base.integrity === 'strong' ? group : 0;
  const left = parameters.n - canaries;
  const capacity = left - checksumsAmong(checksumGroup, left);
  const { noise, ...chosen } = exact ? planExact(base) : planNoisy(base);
  // Squared distances are −2 times what is decrypted, in units of the bound squared.
  const slope = (metric === 'euclidean' ? 2 : 1) * base.normBound * base.queryNormBound;
  const rounding = exact ? exactRounding(base, chosen.steps) : noise.rounding * slope;
  const bytes = sizes(base, chosen.responseBits, capacity);
  const made = {
    ...base,
    ...chosen,
    noise: { ...noise, score: exact ? 0 : (noise.bound ?? noise.total) * slope },
    error: { rounding, total: exact ? rounding : noise.total * slope },
    rows: rowsOf(parameters, base.width),
    canaries,
    checksumGroup,
    capacity,
    bytes,
  };
  if (!set) return made;
  const open = openSizes(set, base.width, chosen.responseBits, capacity);
  return { ...made, levels: levelsOf(set, base.width), bytes: { ...bytes, ...open } } as OpenPlan;
}

/** Coordinates that are appended to vectors. */
function appendedTo(metric: Metric): number {
  return metric === 'euclidean' ? 1 : 0;
}

/** Refuses a set that is not secure, unless it says so and the request allows it. */
function checkedSecurity({ n, name, insecure }: ParameterSet, logQ: number, { allowInsecure }: PlanRequest): Security {
  const security = securityOf(n, logQ);
  if (!security.secure && !(insecure && allowInsecure === true))
    throw new HersError(
      'INSECURE_PARAMETERS',
      `${name} is not within the 2024 quantum table; insecure sets need allowInsecure: true`,
    );
  return security;
}

/**
 * The error of an exact score, whose vectors have rounding errors ε and δ, uniform in ± half a
 * step, of variance v. Products err by p·δ + ε·q + ε·δ. Squared distances err by
 * 2 (p − q)·(ε − δ) and by ‖ε − δ‖², which is never negative: of mean 2dv, and of
 * variance 5.6dv².
 */
function exactRounding(
  {
    dimension: d,
    metric,
    normBound,
    queryNormBound,
  }: Pick<Plan, 'dimension' | 'metric' | 'normBound' | 'queryNormBound'>,
  steps: number,
): number {
  const v = 1 / (12 * steps * steps);
  if (metric !== 'euclidean') return normBound * queryNormBound * Math.sqrt(2 * v + d * v * v);
  return normBound * normBound * Math.sqrt(16 * v + (2 * d * v) ** 2 + 5.6 * d * v * v);
}

/** How many of so many slots are checksum canaries, where the rest are records: of g + 1, one. */
export function checksumsAmong(group: number, slots: number): number {
  return group === 0 ? 0 : Math.ceil(slots / (group + 1));
}

/** The slots of a block of so many records: theirs, and those of all its canaries. */
export function slotsFor({ canaries, checksumGroup: group }: Plan, records: number): number {
  return records + canaries + (group === 0 ? 0 : Math.ceil(records / group));
}

export type Base = Pick<Plan, 'dimension' | 'metric' | 'profile' | 'parameters' | 'width'>;
type Chosen = Pick<
  Plan,
  'galleryScale' | 'queryScale' | 'steps' | 'appended' | 'squares' | 'unit' | 'largestPhase' | 'responseBits'
> & { readonly noise: Omit<Plan['noise'], 'score'> & Partial<Pick<OpenPlan['noise'], 'bound'>> };

/** Δ_g, modulo Q·2^wideBits, and Δ_q. */
export interface Scales {
  readonly gallery: number;
  readonly query: number;
}

type Bits = Plan['responseBits'];

/** Predicts the noise of scores from scales and bits: at the bounds, for a full block. */
export interface NoiseModel {
  /** Terms A and B are alike where gallery·a = query·b, in units of their scales. */
  readonly a: number;
  readonly b: number;
  /** The fewest bits for which switching adds at most its share. */
  bits(scales: Scales): Bits;
  terms(scales: Scales, bits: Bits): Omit<NoiseTerms, 'F'>;
  /** A sub-Gaussian proxy that holds for every gallery. */
  proxy(scales: Scales, bits: Bits): number;
}

/** Noise at the bounds: a full block of vectors of the largest norm. */
function atBounds(
  base: Base,
  bounds: Bounds,
  scales: Scales,
  roundingShare: number,
): Omit<NoiseInput, 'bits0' | 'bits1'> {
  const { parameters, width } = base;
  const querySquares = (scales.query * bounds.query) ** 2;
  const gallerySquares = parameters.n * (scales.gallery * bounds.gallery) ** 2;
  // A coordinate of the gallery is rounded modulo Q·m, one of the query modulo Q.
  const rounding =
    ((roundingShare / 12) * (querySquares + gallerySquares / parameters.n)) / wideFactor(parameters) ** 2;
  return { parameters, width, gallerySquares, querySquares, rounding };
}

function modelOf(base: Base, bounds: Bounds, roundingShare: number): NoiseModel {
  const { parameters } = base;
  const m = wideFactor(parameters);
  const body = bodyVariance(parameters) / ERROR_VARIANCE;
  const input = (scales: Scales, { c0: bits0, c1: bits1 }: Bits) => ({
    ...atBounds(base, bounds, scales, roundingShare),
    bits0,
    bits1,
  });
  return {
    a: Math.sqrt(parameters.n) * bounds.gallery,
    b: Math.sqrt(body + roundingShare / (12 * ERROR_VARIANCE * m ** 2)) * bounds.query,
    bits: (scales) => noisyBits(atBounds(base, bounds, scales, roundingShare)),
    terms: (scales, bits) => noiseTerms(input(scales, bits)),
    proxy: (scales, bits) => noiseProxy(input(scales, bits)),
  };
}

/**
 * The split of Δ_g·Δ_q = product for which terms A and B are equal, which makes their sum least.
 * Δ_g is a multiple of `multiple`.
 */
function split({ a, b }: NoiseModel, m: number, product: number, multiple: number): Scales {
  const gallery = Math.max(1, Math.floor((m * Math.sqrt((product * b) / a)) / multiple)) * multiple;
  return { gallery, query: Math.max(1, Math.floor((product * m) / gallery)) };
}

/** `compact`, `small` and `open`: scores with an error. */
function planNoisy(base: Base): Chosen {
  const { parameters, profile } = base;
  const half = modulusOf(parameters) / 2;
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
  const model = profile === 'open' ? openModel(base, bounds) : modelOf(base, bounds, 1);
  const halfWidth = Math.sqrt(base.width) / 2;
  const m = wideFactor(parameters);
  const worst = ({ gallery: g, query: q }: Scales) =>
    (halfWidth * (q * bounds.query + g * bounds.gallery) + base.width / 4) / m;
  /** Leaves room beyond the largest phase, so that noise does not wrap around. */
  const roomFor = (scales: Scales, bits: Bits) => Math.sqrt(2 * model.proxy(scales, bits) * (1 - LOG2_WRAP) * Math.LN2);
  // The room for noise depends on the scales and they on it: a few rounds settle.
  let scales = split(model, m, half, 1);
  let bits = model.bits(scales);
  for (let round = 0; round < 8; round++) {
    scales = split(model, m, (half - worst(scales) - roomFor(scales, bits)) / bounds.score, 1);
    bits = model.bits(scales);
  }
  const terms = model.terms(scales, bits);
  const proxy = model.proxy(scales, bits);
  const unit = (scales.gallery * scales.query) / m;
  // The result secret of open queries lives long, so what holds for every gallery counts.
  const sigma = Math.sqrt(profile === 'open' ? proxy : terms.total);
  const edge = unit * bounds.score + worst(scales);
  if (edge + roomFor(scales, bits) > half * (1 + 1e-3)) {
    throw new HersError(
      'UNSUPPORTED_PLAN',
      `${profile} has no room for ${base.dimension} dimensions; use compact or exact`,
    );
  }
  return {
    galleryScale: scales.gallery,
    queryScale: scales.query,
    steps: 0,
    appended: 0,
    squares: 0,
    unit,
    largestPhase: (edge + REFUSE_SIGMAS * sigma) / (2 * half),
    responseBits: bits,
    noise: {
      ...deviations(terms, unit),
      ...(profile === 'open' ? { bound: sigma / unit } : {}),
      worstRounding: worst(scales) / unit,
      log2Failure: log2Failure(proxy, half - edge),
    },
  };
}

/**
 * The fewest bits in all for which switching adds at most its share; among equals the least noise.
 */
function noisyBits(input: Omit<NoiseInput, 'bits0' | 'bits1'>): Bits {
  return fewestBits(input.parameters, ({ c0: bits0, c1: bits1 }) => {
    const terms = noiseTerms({ ...input, bits0, bits1 });
    return terms.E <= SWITCHING_SHARE * (terms.total - terms.E) ? terms.E : undefined;
  });
}

function fewestBits(parameters: ParameterSet, costOf: (bits: Bits) => number | undefined): Bits {
  // The exact product of s and c1 (Ring.phase) carries at most this many bits.
  const most = Math.min(32, 2 * (primeBits(parameters) - 1 - Math.log2(parameters.n)));
  for (let total = 2; total <= 2 * most; total++) {
    let best: { bits: Bits; cost: number } | undefined;
    for (let c1 = Math.ceil(total / 2); c1 <= Math.min(most, total - 1); c1++) {
      const bits = { c0: total - c1, c1 };
      const cost = costOf(bits);
      if (cost !== undefined && (!best || cost < best.cost)) best = { bits, cost };
    }
    if (best) return best.bits;
  }
  return { c0: most, c1: most };
}

/** The finest steps that the promise leaves room for, up to those that are fine enough. */
function planExact(base: Base): Chosen {
  for (let steps = FINEST_STEPS; ; steps = Math.floor(0.95 * steps)) {
    try {
      return planSteps(base, steps);
    } catch (error) {
      if (steps <= COARSEST_STEPS) throw error;
    }
  }
}

function planSteps(base: Base, steps: number): Chosen {
  const half = modulusOf(base.parameters) / 2;
  const euclidean = base.metric === 'euclidean';
  // Rounding can lengthen an integer vector by √d/2, and equal coordinates reach it (README.md §3):
  // there is room for all of it.
  const norm = steps * (1 + NORM_TOLERANCE) + Math.sqrt(base.dimension) / 2;
  const appended = euclidean ? 2 * Math.ceil(norm / 2) : 0;
  const bounds: Bounds = {
    gallery: norm,
    query: euclidean ? Math.sqrt(norm * norm + (appended * appended) / 4) : norm,
    // Euclidean: the decrypted integer is 2⟨P, Q⟩ + R² − ‖P‖², so a step is half as
    // wide and there are twice as many.
    score: euclidean ? 2 * norm * norm + 1 : norm * norm,
    unit: euclidean ? 0.5 : 1,
    multiple: euclidean ? appended : 1,
  };
  const m = wideFactor(base.parameters);
  const model = modelOf(base, bounds, 0);
  const scales = split(model, m, half / (bounds.unit * (bounds.score + 0.5)), bounds.multiple * m);
  const unit = (scales.gallery * scales.query * bounds.unit) / m;
  const failure = (bits: Bits) => log2Failure(model.proxy(scales, bits), unit / 2);
  const bits = fewestBits(base.parameters, (bits) => {
    const log2 = failure(bits);
    return log2 <= LOG2_FAILURE ? log2 : undefined;
  });
  const log2 = failure(bits);
  if (log2 > LOG2_FAILURE) {
    throw new HersError(
      'UNSUPPORTED_PLAN',
      `exact cannot promise right scores at dimension ${base.dimension} with ${base.metric}; use compact`,
    );
  }
  return {
    galleryScale: scales.gallery,
    queryScale: scales.query,
    steps,
    appended,
    squares: euclidean ? Math.floor(norm * norm) : 0,
    unit,
    largestPhase: (unit * (bounds.score + 0.5)) / (2 * half),
    responseBits: bits,
    noise: { ...deviations(model.terms(scales, bits), unit), worstRounding: 0, log2Failure: log2 },
  };
}

/** Standard deviations of these variances, in units of scores. */
function deviations(
  terms: Omit<NoiseTerms, 'F'>,
  unit: number,
): Omit<Plan['noise'], 'worstRounding' | 'log2Failure' | 'score'> {
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

function sizes(base: Base, bits: Plan['responseBits'], capacity: number): Plan['bytes'] {
  const { parameters, width, dimension } = base;
  const poly = parameters.wordBytes * parameters.n * parameters.primes.length;
  const rows = rowsOf(parameters, width);
  const response = RESPONSE_OVERHEAD + (parameters.n * (bits.c0 + bits.c1)) / 8;
  const block = BLOCK_OVERHEAD + width * poly;
  return {
    perTemplate: (rows * poly) / capacity,
    perTemplateAndDimension: (rows * poly) / capacity / dimension,
    block,
    query: QUERY_OVERHEAD + rows * poly,
    response,
    responsePerScore: response / capacity,
  };
}
