// The steps that the slow expansion is made of, against their definitions in whole numbers.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { lift, shiftDown, switchDown } from '../../testing/slow-ring.ts';
import { LAST_LEVELS, lastExponent, levelsOf, logEvaluation, OPEN_SETS, stepExponent } from '../parameters.ts';
import { EvaluationRing, P1, P2, Q } from './ring.ts';

const sets = Object.values(OPEN_SETS);
const small = OPEN_SETS.insecure_n_128_logq_30_wide_5_open;

describe('parameter sets of open queries', () => {
  it('have primes that serve ring, mask and fixed point, within the strictest table', () => {
    for (const set of sets) {
      const ring = EvaluationRing.of(set);
      for (const p of ring.primes) assert.equal((p - 1) % (2 * set.n), 0);
      // q ≡ 1 modulo 2^t, for arithmetic modulo q·2^t; p1·p2 too, so that κ_0 is nearly exact.
      for (const p of ring.primes) assert.equal(p % 2 ** set.wideBits, 1);
      for (const p of set.evaluation.primes) assert.ok(p > 2 ** 24 && p < 2 ** 25);
      assert.ok(2 ** (set.digits * set.digitBits) >= ring.primes[Q] * 2 ** set.wideBits);
      if (!set.insecure) assert.ok(logEvaluation(set) <= 80);
      assert.deepEqual(set.evaluation.bases, [0, 2, 4]);
    }
  });
  it('have levels of every width: leaves that hold it, masks that divide the nodes', () => {
    for (const set of sets)
      for (const width of [1, 2, 8, 9, 31, 64, 100, 128].concat(set.n > 128 ? [129, 512, 513, 4096] : [])) {
        const { leaves, stride, steps, nodes, masks, secrets } = levelsOf(set, width);
        assert.ok(leaves >= width && (leaves === 8 || leaves / 2 < width));
        assert.equal(leaves * stride, set.n);
        assert.equal(2 ** (steps + LAST_LEVELS), set.n);
        assert.equal(nodes % masks, 0);
        assert.ok(secrets * masks >= width && secrets <= 128);
      }
  });
});

describe('steps of an expansion', () => {
  const ring = EvaluationRing.of(small);
  const { n, primes } = ring;
  const poly = (l: number) =>
    fc.array(fc.oneof(fc.nat(primes[l] - 1), fc.constantFrom(0, 1, primes[l] >> 1, primes[l] - 1)), {
      minLength: n,
      maxLength: n,
    });

  it('switch to the nearest of x·2^t/(p1·p2), and lift it as an integer', () => {
    const [q, p1, p2] = primes.map(BigInt);
    const whole = q * p1 * p2;
    fc.assert(
      fc.property(fc.bigInt(0n, whole - 1n), fc.constantFrom(0, 5), (x, t) => {
        const residues = primes.map((p) => new Uint32Array(n).fill(Number(x % BigInt(p))));
        const out = switchDown(ring, residues, t);
        const [yq, y1, y2] = out.map((words) => BigInt(words[0]));
        // The integer that all three are residues of, nearest zero.
        const y = [...Array(1)].map(() => {
          const joined = crt([yq, y1, y2], [q, p1, p2]);
          return joined > whole / 2n ? joined - whole : joined;
        })[0];
        const m = 1n << BigInt(t);
        // y·p1·p2 − x·m is a multiple of q·m·p1·p2 away from at most half of p1·p2.
        const period = q * m * p1 * p2;
        const difference = (((y * p1 * p2 - x * m) % period) + period) % period;
        const distance = difference > period / 2n ? period - difference : difference;
        assert.ok(2n * distance <= p1 * p2 + (p1 * p2) / 2n ** 20n, `${x}, ${t}: ${distance}`);
        assert.ok(2n * (y < 0n ? -y : y) <= q * m + m, 'centred');
      }),
    );
  });
  it('are ring homomorphisms, and signs where it matters', () => {
    fc.assert(
      fc.property(poly(Q), poly(Q), fc.nat(n - 1), (a, b, e) => {
        const [x, y] = [a, b].map((words) => Uint32Array.from(words));
        const g = 2 * e + 1;
        const times = (u: Uint32Array, v: Uint32Array) =>
          ring.intt(Q, ring.multiply(Q, ring.ntt(Q, u), ring.ntt(Q, v)));
        const turn = (u: Uint32Array) => ring.automorphism(Q, u, g);
        assert.deepEqual(turn(times(x, y)), times(turn(x), turn(y)));
      }),
      { numRuns: 20 },
    );
    for (let k = 0; k < Math.log2(n); k++)
      for (let j = 0; j < n; j += 2 ** k) {
        const x = new Uint32Array(n);
        x[j] = 5;
        const expected = new Uint32Array(n);
        expected[j] = (j / 2 ** k) % 2 === 0 ? 5 : primes[P1] - 5;
        assert.deepEqual(ring.automorphism(P1, x, stepExponent(n, k)), expected);
      }
    assert.equal(lastExponent(n, 0), 1);
  });
  it('shift by a power of x, and lift centred integers', () => {
    fc.assert(
      fc.property(poly(P2), fc.nat(2 * n - 1), (a, k) => {
        const x = Uint32Array.from(a);
        const power = new Uint32Array(n);
        power[k % n] = k < n ? 1 : primes[P2] - 1;
        const back = shiftDown(ring, P2, x, k);
        assert.deepEqual(ring.intt(P2, ring.multiply(P2, ring.ntt(P2, back), ring.ntt(P2, power))), x);
        for (const to of [Q, P1])
          lift(ring, P2, to, x).forEach((y, j) => {
            const centred = x[j] > primes[P2] / 2 ? x[j] - primes[P2] : x[j];
            assert.equal((y - centred) % primes[to], 0);
          });
      }),
      { numRuns: 20 },
    );
  });
});

/** The number below the product of the moduli with these residues. */
function crt(residues: readonly bigint[], moduli: readonly bigint[]): bigint {
  const product = moduli.reduce((a, b) => a * b, 1n);
  let sum = 0n;
  moduli.forEach((p, i) => {
    const rest = product / p;
    let inverse = 1n;
    for (let [base, e] = [rest % p, p - 2n]; e > 0n; e >>= 1n, base = (base * base) % p)
      if (e & 1n) inverse = (inverse * base) % p;
    sum += residues[i] * rest * inverse;
  });
  return sum % product;
}
