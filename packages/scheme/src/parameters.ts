// Named parameter sets. A name says everything; what is not secure says so too.

import { nttPrimes, Ring } from '@hers/ring';
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
  readonly insecure: boolean;
}

function set(id: number, name: string, n: number, primes: number, insecure = false): ParameterSet {
  return { name, id, n, primes: nttPrimes(30, n, primes), digits: 3, digitBits: 10 * primes, insecure };
}

/** All sets by name. `insecure_…` ones exist for tests: small enough to follow by hand. */
export const PARAMETER_SETS: Readonly<Record<string, ParameterSet>> = Object.fromEntries(
  [
    set(1, 'n_2048_logq_30', 2048, 1),
    set(2, 'n_4096_logq_30_30', 4096, 2),
    set(0xff01, 'insecure_n_64_logq_30', 64, 1, true),
    set(0xff02, 'insecure_n_64_logq_30_30', 64, 2, true),
  ].map((s) => [s.name, s]),
);

export const PROFILES = { compact: 'n_2048_logq_30', exact: 'n_4096_logq_30_30' } as const;

export type Profile = keyof typeof PROFILES;

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

/** log2 Q. */
export function logModulus(parameters: ParameterSet): number {
  return parameters.primes.reduce((sum, p) => sum + Math.log2(p), 0);
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
