// Named parameter sets. A name says everything; what is not secure says so too.

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
export function leavesOf(width: number): number {
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

/** The bit length of the primes. */
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
