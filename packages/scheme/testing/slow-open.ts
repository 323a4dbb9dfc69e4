// Open queries as they are derived (README.md §9), step by step: the oracles of the fast expansion,
// packing and scan.

import type { Block } from '../src/block.ts';
import type { EvaluationKeys, SwitchingKey } from '../src/open/evaluation.ts';
import { checkExpandable, type OpenRows } from '../src/open/fast.ts';
import {
  checkResults,
  type OpenResult,
  type PackedResponse,
  packedHead,
  resultOf,
  scannedQuery,
} from '../src/open/pack.ts';
import { type OpenQuery, queryPair } from '../src/open/query.ts';
import { EvaluationRing, P1, P2, type Pair, Q, type Residues } from '../src/open/ring.ts';
import { LAST_LEVELS, lastExponent, levelsOf, ringOf, stepExponent } from '../src/parameters.ts';
import { encodeResponse, scanBlock } from '../src/response.ts';
import { lift, shiftDown, switchDown, unswitched } from './slow-ring.ts';

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
      if (!isTrace) odd.push(map(down(ring, difference(ring, x, y)), (l, a) => shiftDown(ring, l, a, 2 ** k)));
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
      const scaled = leaf.map((half) => switchDown(ring, half, wideBits)) as unknown as Pair;
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
      put(width + m * digits + k, raised.map((half) => switchDown(ring, half, 0)) as unknown as Pair);
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
  const digits = [Q, P1].map((from) => ring.primes.map((_, l) => ring.ntt(l, lift(ring, from, l, mask[from]))));
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
      const rest = ring.subtract(l, residues[l], lift(ring, P2, l, residues[P2]));
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
      list[c | (1 << z)] = map(difference(ring, x, y), (l, a) => shiftDown(ring, l, a, shift));
    }
  return list;
}

/**
 * Switches results from the result secret s to the response secrets: result u of mask C1 adds
 * C1·(its packing key)/p2 to the mask and to all bodies, which adds C1·s to the phase of body u
 * alone. Then all are switched to powers of two.
 */
export function packResults(keys: EvaluationKeys, query: OpenQuery, results: readonly OpenResult[]): PackedResponse {
  checkResults(keys, results);
  const ring = EvaluationRing.of(keys.parameters);
  const { bits0, bits1 } = query;
  const inverse = BigInt(ring.constants.inverses[1]);
  const q = ring.primes[Q];
  const digits = results.map((result) => {
    const mask = unswitched(result.mask, q);
    return [ring.ntt(Q, mask), ring.ntt(P2, lift(ring, Q, P2, mask))];
  });
  /** Output v, or the mask where v is undefined. */
  const output = (v?: number): Uint32Array => {
    const [high, low] = [Q, P2].map((l, i) => {
      let sum: Uint32Array = new Uint32Array(ring.n);
      digits.forEach((digit, u) => {
        const key = keys.packing[u];
        sum = ring.add(l, sum, ring.multiply(l, digit[i], (v === undefined ? key.mask : key.bodies[v])[i]));
      });
      return ring.intt(l, sum);
    });
    const divided = ring.scale(Q, ring.subtract(Q, high, lift(ring, P2, Q, low)), inverse);
    return v === undefined ? divided : ring.add(Q, divided, unswitched(results[v].body, q));
  };
  const plain = ringOf(keys.parameters);
  const packed = (words: Uint32Array, bits: number) => {
    const out = new Uint8Array(plain.packedBytes(bits));
    plain.polys[0].residues.set(words);
    plain.switchAndPack(out, plain.polys[0], bits);
    return out;
  };
  return {
    ...packedHead(keys, query, results),
    mask: packed(output(), bits1),
    bodies: results.map((_, v) => packed(output(v), bits0)),
  };
}

/** Σ G_r·B_r and Σ G_r·A_r over the rows of a block and those of a query: plain and slow. */
export function scanOpenBlock(block: Block, maskRows: Uint32Array, query: OpenQuery, rows: OpenRows): OpenResult {
  const scanned = { query: scannedQuery(query, rows), uniform: rows.masks };
  return resultOf(encodeResponse(scanBlock({ block, maskRows }, scanned)));
}
