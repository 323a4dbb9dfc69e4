// The parameter sets of open queries (README.md §10). They are parameter sets of blocks like all
// others, and have two primes besides, in which queries are expanded and responses packed.

import { HersError } from '../errors.ts';
import { logModulus, type ParameterSet } from '../parameters.ts';

/** What a server computes with when it expands queries and packs responses. */
interface Evaluation {
  /** p1 and p2. Queries are modulo q·p1, evaluation keys modulo q·p1·p2. */
  readonly primes: readonly [number, number];
  /** Mask rows that there are keys for; the row after each is made from the same keys. */
  readonly bases: readonly number[];
  /** Blocks whose responses share a mask. */
  readonly responses: number;
}

export interface OpenSet extends ParameterSet {
  readonly evaluation: Evaluation;
}

/** Levels of an expansion that are done at once, without rounding in between. */
export const LAST_LEVELS = 3;
/**
 * Gallery secrets of a collection, at most n divided by this: each has evaluation keys of its own,
 * which a server holds in memory. More coordinates share secrets, with masks of their own.
 */
const SECRETS_DIVISOR = 32;

function set(id: number, n: number, q: number, primes: readonly [number, number], insecure = false): OpenSet {
  return {
    name: `${insecure ? 'insecure_' : ''}n_${n}_logq_30_wide_5_open`,
    id,
    n,
    primes: [q],
    digits: 5,
    digitBits: 7,
    wideBits: 5,
    wordBytes: 4,
    insecure,
    evaluation: { primes, bases: [0, 2, 4], responses: 8 },
  };
}

/** By name. The insecure one is for tests. Their ids are different from those of all other sets. */
export const OPEN_SETS: Readonly<Record<string, OpenSet>> = Object.fromEntries(
  [
    set(6, 4096, 1_073_692_673, [33_538_049, 33_349_633]),
    set(0xff06, 128, 1_073_738_753, [33_553_153, 33_552_641], true),
  ].map((each) => [each.name, each]),
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

export function levelsOf({ n }: OpenSet, width: number): Levels {
  if (!(Number.isInteger(width) && width >= 1 && width <= n))
    throw new HersError('UNSUPPORTED_PLAN', `open queries have at most ${n} coordinates, not ${width}`);
  let leaves = 2 ** LAST_LEVELS;
  while (leaves < width) leaves *= 2;
  const nodes = leaves / 2 ** LAST_LEVELS;
  // All leaves of a node have one mask, so there are at most as many masks as nodes.
  const masks = Math.min(nodes, Math.max(1, (SECRETS_DIVISOR * leaves) / n));
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
