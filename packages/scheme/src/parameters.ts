// Named parameter sets, those of open queries among them (README.md §9), and how large a modulus
// may be (README.md §4): the public tables, and an estimate of our own beside them. A name says
// everything; what is not secure says so too.

import { bitLength, Ring } from '@hers/ring';
import { HersError } from './errors.ts';

export interface ParameterSet {
  readonly name: string;
  /** The number that stands for the set on the wire. */
  readonly id: number;
  /** Ring dimension, and templates per block. */
  readonly n: number;
  readonly primes: readonly number[];
  /** Balanced digits of a block's mask: `digits` of them to base 2^digitBits. */
  readonly digits: number;
  readonly digitBits: number;
  /**
   * The wide mask (README.md §2): blocks are encrypted modulo Q·2^wideBits, and their bodies
   * rounded to Q.
   */
  readonly wideBits: number;
  /** Bytes of a residue on the wire and in a segment. */
  readonly wordBytes: 3 | 4;
  readonly insecure: boolean;
  /** Of sets whose queries a server expands (README.md §9). */
  readonly evaluation?: Evaluation;
}

/** What a server computes with when it expands queries and packs responses. */
export interface Evaluation {
  /** p1 and p2. Queries are modulo q·p1, evaluation keys modulo q·p1·p2. */
  readonly primes: readonly [number, number];
  /** Mask rows that there are keys for; the row after each is made from the same keys. */
  readonly bases: readonly number[];
  /** Blocks whose responses share a mask. */
  readonly responses: number;
}

type Mask = Pick<ParameterSet, 'digits' | 'digitBits' | 'wideBits'>;

/**
 * Primes are written out, because finding them takes longer than a command should take to start.
 * plan.test.ts finds them: the largest below 2^bits that are 1 modulo 2n; of sets with two primes,
 * those whose reciprocals of 32 bits err by less than a sixteenth of the last one, because
 * responses of 32 bits need that (README.md §3, term F).
 */
function set(id: number, n: number, primes: readonly number[], mask: Mask, insecure = false): ParameterSet {
  const bits = bitLength(primes[0]);
  const name = `${insecure ? 'insecure_' : ''}n_${n}_logq${`_${bits}`.repeat(primes.length)}_wide_${mask.wideBits}`;
  return { name, id, n, primes, ...mask, wordBytes: bits <= 24 ? 3 : 4, insecure };
}

function openSet(id: number, n: number, q: number, primes: readonly [number, number], insecure = false): ParameterSet {
  const plain = set(id, n, [q], OPEN, insecure);
  return { ...plain, name: `${plain.name}_open`, evaluation: { primes, bases: [0, 2, 4], responses: 8 } };
}

const COMPACT: Mask = { digits: 4, digitBits: 9, wideBits: 5 };
const EXACT: Mask = { digits: 3, digitBits: 22, wideBits: 4 };
const SMALL: Mask = { digits: 6, digitBits: 5, wideBits: 5 };
const OPEN: Mask = { digits: 5, digitBits: 7, wideBits: 5 };

/** All sets by name. `insecure_…` ones exist for tests: small enough to follow by hand. */
export const PARAMETER_SETS: Readonly<Record<string, ParameterSet>> = Object.fromEntries(
  [
    set(1, 2048, [1_073_692_673], COMPACT),
    set(2, 4096, [1_073_643_521, 1_073_479_681], EXACT),
    set(3, 2048, [16_760_833], SMALL),
    openSet(4, 4096, 1_073_692_673, [33_538_049, 33_349_633]),
    set(0xff01, 64, [1_073_741_441], COMPACT, true),
    set(0xff02, 64, [1_073_741_441, 1_073_739_649], EXACT, true),
    set(0xff03, 64, [16_776_961], SMALL, true),
    openSet(0xff04, 128, 1_073_738_753, [33_553_153, 33_552_641], true),
  ].map((s) => [s.name, s]),
);

/** What a collection can promise about its scores; the order is that of the wire. */
export const PROFILES = ['compact', 'exact', 'small', 'open'] as const;

/** How exact scores are, and at which size. */
export type Profile = (typeof PROFILES)[number];

/** The names of the sets that profiles use. */
export const PROFILE_SETS: Readonly<Record<Profile, string>> = {
  compact: 'n_2048_logq_30_wide_5',
  exact: 'n_4096_logq_30_30_wide_4',
  small: 'n_2048_logq_24_wide_5',
  open: 'n_4096_logq_30_wide_5_open',
};

export function parameterSet(name: string): ParameterSet {
  const found = Object.hasOwn(PARAMETER_SETS, name) ? PARAMETER_SETS[name] : undefined;
  if (!found)
    throw new HersError(
      'UNSUPPORTED_PLAN',
      `there is no parameter set ${JSON.stringify(name)}; use one of ${Object.keys(PARAMETER_SETS).join(', ')}`,
    );
  return found;
}

export function parameterSetById(id: number): ParameterSet {
  for (const found of Object.values(PARAMETER_SETS)) if (found.id === id) return found;
  throw new HersError('UNSUPPORTED_VERSION', `parameter set ${id} is unknown to this version; use a newer one`);
}

export function ringOf(parameters: ParameterSet): Ring {
  return Ring.of(parameters.n, parameters.primes);
}

/** Levels of an expansion that are done at once, without rounding in between. */
export const LAST_LEVELS = 3;
/**
 * Where queries are expanded, gallery secrets of a collection are at most n divided by this: each
 * has evaluation keys of its own, which a server holds in memory. More coordinates share secrets,
 * with masks of their own.
 */
const SECRETS_DIVISOR = 32;

/** Coordinates of an expansion: the next power of two from the width on, at least 2^LAST_LEVELS. */
function leavesOf(width: number): number {
  let leaves = 2 ** LAST_LEVELS;
  while (leaves < width) leaves *= 2;
  return leaves;
}

/** Masks of a block: coordinate i has mask i mod masks and gallery secret ⌊i/masks⌋. */
export function masksOf({ n, evaluation }: ParameterSet, width: number): number {
  if (!evaluation) return 1;
  const leaves = leavesOf(width);
  // All leaves of a node have one mask, so there are at most as many masks as nodes.
  return Math.min(leaves / 2 ** LAST_LEVELS, Math.max(1, (SECRETS_DIVISOR * leaves) / n));
}

/** Rows that are scanned of a block: its coordinates, and the digits of its masks. */
export function rowsOf(parameters: ParameterSet, width: number): number {
  return width + masksOf(parameters, width) * parameters.digits;
}

/** log2 of the modulus that security depends on: Q·2^wideBits. */
export function logModulus(parameters: ParameterSet): number {
  return parameters.primes.reduce((sum, p) => sum + Math.log2(p), parameters.wideBits);
}

export function primeBits(parameters: ParameterSet): number {
  return bitLength(parameters.primes[0]);
}

/** 2^wideBits: what a body is divided by. */
export function wideFactor(parameters: ParameterSet): number {
  return 2 ** parameters.wideBits;
}

/**
 * Q as a double: a product of integers, so the same on every engine, which logarithms need not be.
 */
export function modulusOf(parameters: ParameterSet): number {
  return parameters.primes.reduce((q, p) => q * p, 1);
}

/** Words of one polynomial: n for each prime. */
export function polyWords(parameters: ParameterSet): number {
  return parameters.n * parameters.primes.length;
}

export interface OpenSet extends ParameterSet {
  readonly evaluation: Evaluation;
}

/** By name. The insecure one is for tests. */
export const OPEN_SETS: Readonly<Record<string, OpenSet>> = Object.fromEntries(
  Object.values(PARAMETER_SETS)
    .filter((each): each is OpenSet => each.evaluation !== undefined)
    .map((each) => [each.name, each]),
);

export function openSetById(id: number): OpenSet {
  for (const found of Object.values(OPEN_SETS)) if (found.id === id) return found;
  throw new HersError('UNSUPPORTED_VERSION', `parameter set ${id} is no set of open queries that this version knows`);
}

/** log2(q·p1·p2): that of all moduli in use that security depends on most. */
export function logEvaluation(set: OpenSet): number {
  const evaluation = set.evaluation.primes.reduce((sum, p) => sum + Math.log2(p), Math.log2(set.primes[0]));
  return Math.max(evaluation, logModulus(set));
}

/** The levels of a query: how its coordinates lie in a polynomial, and what each of them uses. */
export interface Levels {
  /** The next power of two from the width on, at least 2^LAST_LEVELS. */
  readonly leaves: number;
  /** Coordinate i is coefficient i·stride of a query. */
  readonly stride: number;
  /** Steps before the last levels; secret t_k encrypts what step k is given. */
  readonly steps: number;
  readonly nodes: number;
  /** Masks of a block: coordinate i has mask i mod masks and gallery secret ⌊i/masks⌋. */
  readonly masks: number;
  /** Gallery secrets. */
  readonly secrets: number;
}

export function levelsOf(set: OpenSet, width: number): Levels {
  const { n } = set;
  if (!(Number.isInteger(width) && width >= 1 && width <= n))
    throw new HersError('UNSUPPORTED_PLAN', `open queries have at most ${n} coordinates, not ${width}`);
  const leaves = leavesOf(width);
  const masks = masksOf(set, width);
  return {
    leaves,
    stride: n / leaves,
    steps: Math.log2(n) - LAST_LEVELS,
    nodes: leaves / 2 ** LAST_LEVELS,
    masks,
    secrets: Math.ceil(width / masks),
  };
}

/** The exponent of step k: x ↦ x^(n/2^k + 1), which is the sign (−1)^(j/2^k) of x^j for 2^k | j. */
export function stepExponent(n: number, k: number): number {
  return n / 2 ** k + 1;
}

/** That of the product of the last steps whose bit is set in c, modulo 2n. */
export function lastExponent(n: number, c: number): number {
  const first = Math.log2(n) - LAST_LEVELS;
  let exponent = 1;
  for (let z = 0; z < LAST_LEVELS; z++) if ((c >> z) & 1) exponent = (exponent * stepExponent(n, first + z)) % (2 * n);
  return exponent;
}

/** Largest log2 Q for 128 bits with a uniform ternary secret and σ ≈ 3.2. */
const LIMITS: Record<number, readonly [number, number, number, number]> = {
  1024: [27, 25, 26, 20],
  2048: [54, 51, 53, 40],
  4096: [109, 101, 106, 80],
  8192: [218, 202, 214, 161],
};
const COLUMNS = ['classical2018', 'quantum2018', 'classical2024', 'quantum2024'] as const;

type Column = (typeof COLUMNS)[number];

export interface Security {
  readonly n: number;
  readonly logQ: number;
  /**
   * For each table (HomomorphicEncryption.org 2018; the 2024 guideline): the largest log2 Q, and
   * whether ours is within. 0: n is not in it.
   */
  readonly tables: Readonly<Record<Column, { readonly limit: number; readonly within: boolean }>>;
  /** Within the strictest column, quantum2024. */
  readonly secure: boolean;
  /** Core-SVP bits of the primal attack (0.292·β classical, 0.265·β quantum). */
  readonly coreSvp: { readonly classical: number; readonly quantum: number };
}

/**
 * What the tables and the core-SVP model say about ring dimension n and a modulus of logQ bits.
 *
 * @example securityOf(4096, 109).tables.quantum2024.within // false: the paper's set passes the
 * 2018 classical column only
 */
export function securityOf(n: number, logQ: number): Security {
  const limits = LIMITS[n] ?? [0, 0, 0, 0];
  const tables = Object.fromEntries(COLUMNS.map((name, i) => [name, { limit: limits[i], within: logQ <= limits[i] }]));
  const beta = blockSize(n, logQ);
  return {
    n,
    logQ,
    tables: tables as Security['tables'],
    secure: logQ <= limits[3],
    coreSvp: { classical: Math.floor(0.292 * beta), quantum: Math.floor(0.265 * beta) },
  };
}

/**
 * The smallest BKZ block size β for which the primal attack finds the secret (Alkim et al.,
 * "NewHope", 2016, §6.3): for the best number of samples m, with the secret scaled to the size of
 * the error, σ·√β ≤ δ^(2β−d−1)·Vol^(1/d) where d = m + n + 1.
 */
function blockSize(n: number, logQ: number): number {
  const sigma = Math.sqrt(10.5);
  const scaling = Math.log(sigma / Math.sqrt(2 / 3)); // ternary coordinates are lengthened by this factor
  const logModulus = logQ * Math.LN2;
  const succeeds = (beta: number): boolean => {
    const delta = (Math.log(Math.PI * beta) / beta + Math.log(beta / (2 * Math.PI * Math.E))) / (2 * (beta - 1));
    for (let m = n >> 2; m <= 2 * n; m += Math.max(1, n >> 6)) {
      const d = m + n + 1;
      const volume = (m * logModulus + n * scaling) / d;
      if (Math.log(sigma) + Math.log(beta) / 2 <= (2 * beta - d - 1) * delta + volume) return true;
    }
    return false;
  };
  let low = 50;
  let high = 4 * n;
  if (succeeds(low)) return low;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (succeeds(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** Refuses residues that are not below their prime: the kernels count on it. */
export function checkReduced(parameters: ParameterSet, residues: Uint32Array, kind: string): void {
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  for (let at = 0; at < residues.length; at += words) {
    if (!ring.isReduced(residues.subarray(at, at + words)))
      throw new HersError('MALFORMED', `this ${kind} holds a residue that is not below its prime`);
  }
}
