// Named parameter sets. A name says everything; what is not secure says so too.

import { bitLength, nttPrimes, Ring, reciprocalError } from '@hers/ring';
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
   * rounded to Q. Zero: modulo Q.
   */
  readonly wideBits: number;
  /** Bytes of a residue on the wire and in a segment. */
  readonly wordBytes: 3 | 4;
  readonly insecure: boolean;
}

function set(id: number, name: string, n: number, primes: number, insecure = false): ParameterSet {
  const mask = { digits: 3, digitBits: 10 * primes, wideBits: 0 };
  return { name, id, n, primes: nttPrimes(30, n, primes), ...mask, wordBytes: 4, insecure };
}

type Wide = Pick<ParameterSet, 'digits' | 'digitBits' | 'wideBits'>;

function wideSet(id: number, n: number, bits: number, count: number, mask: Wide, insecure = false): ParameterSet {
  const name = `${insecure ? 'insecure_' : ''}n_${n}_logq${`_${bits}`.repeat(count)}_wide_${mask.wideBits}`;
  const primes = count === 1 ? nttPrimes(bits, n, 1) : precisePrimes(bits, n, count);
  return { name, id, n, primes, ...mask, wordBytes: bits <= 24 ? 3 : 4, insecure };
}

/**
 * The largest primes whose reciprocals of 32 bits err by less than a sixteenth of the last one.
 * Responses of 32 bits need that (README.md §3, term F).
 */
function precisePrimes(bits: number, n: number, count: number): number[] {
  return nttPrimes(bits, n, count, (p) => Math.abs(reciprocalError(p)) < 1 / 16);
}

const COMPACT: Wide = { digits: 4, digitBits: 9, wideBits: 5 };
const EXACT: Wide = { digits: 3, digitBits: 22, wideBits: 4 };
const SMALL: Wide = { digits: 6, digitBits: 5, wideBits: 5 };

/** All sets by name. `insecure_…` ones exist for tests: small enough to follow by hand. */
export const PARAMETER_SETS: Readonly<Record<string, ParameterSet>> = Object.fromEntries(
  [
    set(1, 'n_2048_logq_30', 2048, 1),
    set(2, 'n_4096_logq_30_30', 4096, 2),
    wideSet(3, 2048, 30, 1, COMPACT),
    wideSet(4, 4096, 30, 2, EXACT),
    wideSet(5, 2048, 24, 1, SMALL),
    set(0xff01, 'insecure_n_64_logq_30', 64, 1, true),
    set(0xff02, 'insecure_n_64_logq_30_30', 64, 2, true),
    wideSet(0xff03, 64, 30, 1, COMPACT, true),
    wideSet(0xff04, 64, 30, 2, EXACT, true),
    wideSet(0xff05, 64, 24, 1, SMALL, true),
  ].map((s) => [s.name, s]),
);

/** What a collection can promise about its scores; the order is that of the wire. */
export const PROFILES = ['compact', 'exact', 'small', 'exact-250'] as const;

export type Profile = (typeof PROFILES)[number];

/** Whether scores are integers: those of vectors that were rounded before. */
export function isExact(profile: Profile): boolean {
  return profile === 'exact' || profile === 'exact-250';
}

/** What a block is changed with the second edition: wide masks, and canaries in every block. */
export type Edition = 1 | 2;

const SETS: Readonly<Record<Edition, Partial<Record<Profile, string>>>> = {
  1: { compact: 'n_2048_logq_30', exact: 'n_4096_logq_30_30' },
  2: {
    compact: 'n_2048_logq_30_wide_5',
    exact: 'n_4096_logq_30_30_wide_4',
    small: 'n_2048_logq_24_wide_5',
    'exact-250': 'n_4096_logq_30_30',
  },
};

/** The name of the set that a profile uses; undefined where this edition does not have it. */
export function profileSet(profile: Profile, edition: Edition): string | undefined {
  return SETS[edition][profile];
}

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
