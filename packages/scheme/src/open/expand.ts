// Expansion of an open query into the rows of a scan (README.md §9), step by step as it is
// derived. Slow: the oracle of the fast one (fast.ts).

import { HersError } from '../errors.ts';
import { LAST_LEVELS, lastExponent, levelsOf, stepExponent } from '../parameters.ts';
import type { EvaluationKeys, KeysHead, SwitchingKey } from './evaluation.ts';
import { type OpenQuery, queryPair } from './query.ts';
import { EvaluationRing, P1, P2, type Pair, Q, type Residues } from './ring.ts';

/** The rows of a query as they are scanned, modulo q in NTT form, one after the other. */
export interface OpenRows {
  /** B and A of the coordinates, then of the mask rows: for each mask its digits. */
  readonly bodies: Uint32Array;
  readonly masks: Uint32Array;
}

/** Refuses a query that these keys cannot expand. */
export function checkExpandable(keys: KeysHead, query: OpenQuery): void {
  if (query.parameters.id !== keys.parameters.id || query.keyId.some((byte, i) => byte !== keys.keyId[i]))
    throw new HersError('KEY_MISMATCH', 'this query belongs to another key than the evaluation keys');
  if (query.width !== keys.width || query.generation !== keys.generation)
    throw new HersError('QUERY_MISMATCH', 'this query was made for other evaluation keys; fetch the newest key');
  if (!keys.devices.has(query.device))
    throw new HersError('KEY_MISMATCH', 'there are no evaluation keys for the device that made this query');
}

export function expandOpenQuery(keys: EvaluationKeys, query: OpenQuery): OpenRows {
  checkExpandable(keys, query);
  const { parameters, width } = query;
  const { n, wideBits, digits, digitBits } = parameters;
  const ring = EvaluationRing.of(parameters);
  const levels = levelsOf(parameters, width);
  const { stride, steps, nodes, masks } = levels;
  const step = (k: number) => (k === 0 ? keys.devices.get(query.device)! : keys.steps[k - 1]);

  // In coefficient form from here on.
  const pair = queryPair(query).map((half) => half.map((words, l) => ring.intt(l, words)));
  let tree: Pair[] = [[pair[0], pair[1]]];
  for (let k = 0; k < steps; k++) {
    const isTrace = 2 ** k < stride;
    const even: Pair[] = [];
    const odd: Pair[] = [];
    for (const node of tree) {
      const [plain, turned] = step(k);
      const x = keySwitch(ring, node, plain, 1);
      const y = keySwitch(ring, node, turned, stepExponent(n, k));
      even.push(down(ring, sum(ring, x, y)));
      if (!isTrace) odd.push(map(down(ring, difference(ring, x, y)), (l, a) => ring.shiftDown(l, a, 2 ** k)));
    }
    tree = [...even, ...odd];
  }

  const rows = width + masks * digits;
  const out: OpenRows = { bodies: new Uint32Array(rows * n), masks: new Uint32Array(rows * n) };
  const put = (row: number, [body, mask]: Pair) => {
    out.bodies.set(ring.ntt(Q, body[Q]), row * n);
    out.masks.set(ring.ntt(Q, mask[Q]), row * n);
  };
  const { bases } = parameters.evaluation;
  const zero = (): Residues => ring.primes.map(() => new Uint32Array(n));
  const sums = Array.from({ length: masks }, () => bases.map((): Pair => [zero(), zero()]));
  tree.forEach((node, at) => {
    for (const [c, leaf] of leaves(ring, node, keys).entries()) {
      const i = at + c * nodes;
      if (i >= width) continue;
      const scaled = leaf.map((half) => ring.switchDown(half, wideBits)) as unknown as Pair;
      put(i, scaled);
      const [body, mask] = map(scaled, (l, a) => ring.ntt(l, a));
      keys.masks[Math.floor(i / masks)].forEach(([own, product], k) => {
        const [b, a] = sums[i % masks][k];
        [b, a].forEach((whole, half) => {
          whole.forEach((words, l) => {
            const x = ring.multiply(l, body[l], own[half][l]);
            const y = ring.multiply(l, mask[l], product[half][l]);
            words.set(ring.add(l, words, ring.add(l, x, y)));
          });
        });
      });
    }
  });
  for (let m = 0; m < masks; m++)
    for (let k = 0; k < digits; k++) {
      const base = bases.findLastIndex((each) => each <= k);
      const factor = 1n << BigInt(digitBits * (k - bases[base]));
      const raised = map(sums[m][base], (l, a) => ring.scale(l, ring.intt(l, a), factor));
      put(width + m * digits + k, raised.map((half) => ring.switchDown(half, 0)) as unknown as Pair);
    }
  return out;
}

const each = (x: Pair, y: Pair, f: (l: number, a: Uint32Array, b: Uint32Array) => Uint32Array): Pair => [
  x[0].map((a, l) => f(l, a, y[0][l])),
  x[1].map((a, l) => f(l, a, y[1][l])),
];

const sum = (ring: EvaluationRing, x: Pair, y: Pair): Pair => each(x, y, (l, a, b) => ring.add(l, a, b));
const difference = (ring: EvaluationRing, x: Pair, y: Pair): Pair => each(x, y, (l, a, b) => ring.subtract(l, a, b));

const map = (x: Pair, f: (l: number, a: Uint32Array) => Uint32Array): Pair => [
  x[0].map((a, l) => f(l, a)),
  x[1].map((a, l) => f(l, a)),
];

/**
 * c(x^exponent) under another secret, times p2, modulo q·p1·p2 ("raised"). Digits are the residues
 * of the mask modulo q and modulo p1, as centred integers.
 */
function keySwitch(ring: EvaluationRing, c: Pair, key: SwitchingKey, exponent: number): Pair {
  const [body, mask] = map(c, (l, a) => ring.automorphism(l, a, exponent));
  const digits = [Q, P1].map((from) => ring.primes.map((_, l) => ring.ntt(l, ring.lift(from, l, mask[from]))));
  const half = (which: 0 | 1): Residues =>
    ring.primes.map((_, l) => {
      const [x, y] = digits.map((digit, j) => ring.multiply(l, digit[l], key[j][which][l]));
      return ring.intt(l, ring.add(l, x, y));
    });
  const p2 = BigInt(ring.primes[P2]);
  const raised = half(0).map((words, l) => (l === P2 ? words : ring.add(l, words, ring.scale(l, body[l], p2))));
  return [raised, half(1)];
}

/** Divided by p2 and rounded: modulo q·p1. */
function down(ring: EvaluationRing, x: Pair): Pair {
  const half = (residues: Residues) =>
    [Q, P1].map((l) => {
      const rest = ring.subtract(l, residues[l], ring.lift(P2, l, residues[P2]));
      return ring.scale(l, rest, l === Q ? BigInt(ring.constants.inverses[1]) : BigInt(ring.constants.scales[P1]));
    });
  return [half(x[0]), half(x[1])];
}

/** The last levels without rounding in between: leaf c is coordinate node + c·nodes, raised. */
function leaves(ring: EvaluationRing, node: Pair, keys: EvaluationKeys): Pair[] {
  const { n } = ring;
  const list = keys.last.map((key, c) => keySwitch(ring, node, key, lastExponent(n, c)));
  const first = Math.log2(n) - LAST_LEVELS;
  for (let z = 0; z < LAST_LEVELS; z++)
    for (let c = 0; c < list.length; c++) {
      if ((c >> z) & 1) continue;
      // Automorphisms of the levels that follow have been applied already.
      const later = lastExponent(n, (c >> (z + 1)) << (z + 1));
      const shift = (2 ** (first + z) * later) % (2 * n);
      const [x, y] = [list[c], list[c | (1 << z)]];
      list[c] = sum(ring, x, y);
      list[c | (1 << z)] = map(difference(ring, x, y), (l, a) => ring.shiftDown(l, a, shift));
    }
  return list;
}
