// The parameter sets of open queries (README.md §9). They are parameter sets of blocks like all
// others, and have two primes besides, in which queries are expanded and responses packed.

import { HersError } from '../errors.ts';
import {
  type Evaluation,
  LAST_LEVELS,
  leavesOf,
  logModulus,
  masksOf,
  PARAMETER_SETS,
  type ParameterSet,
} from '../parameters.ts';

export { LAST_LEVELS };

export interface OpenSet extends ParameterSet {
  readonly evaluation: Evaluation;
}

function isOpen(set: ParameterSet | undefined): set is OpenSet {
  return set?.evaluation !== undefined;
}

/** By name. The insecure one is for tests. */
export const OPEN_SETS: Readonly<Record<string, OpenSet>> = Object.fromEntries(
  Object.values(PARAMETER_SETS)
    .filter((each) => isOpen(each))
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
  /** Nodes of the last levels. */
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
  const nodes = leaves / 2 ** LAST_LEVELS;
  const masks = masksOf(set, width);
  return {
    leaves,
    stride: n / leaves,
    steps: Math.log2(n) - LAST_LEVELS,
    nodes,
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
