// Steps that expansion and packing are made of, plain and slow: the oracle of the fast ones
// (README.md §9).

import { type EvaluationRing, RECIPROCAL_BITS, type Residues } from '../src/open/ring.ts';

/** Fixed point of the switch from q·p1·p2: fractions in units of 2^−30. */
const FRACTION_BITS = 30;
/** Bits of a response that a result is read from. */
const EXACT_BITS = 32;

/** Coefficients modulo prime `from`, centred, modulo prime `to`. */
export function lift(ring: EvaluationRing, from: number, to: number, a: Uint32Array): Uint32Array {
  const p = ring.primes[from];
  const into = ring.primes[to];
  const out = new Uint32Array(a.length);
  for (let j = 0; j < out.length; j++) {
    const centred = (a[j] > p >> 1 ? a[j] - p : a[j]) % into;
    out[j] = centred < 0 ? centred + into : centred;
  }
  return out;
}

/** a·x^−k in coefficient form, 0 ≤ k < 2n. */
export function shiftDown(ring: EvaluationRing, l: number, a: Uint32Array, k: number): Uint32Array {
  const { n } = ring;
  const p = ring.primes[l];
  const out = new Uint32Array(n);
  for (let j = 0; j < n; j++) {
    const at = (j - k + 2 * n) % (2 * n);
    if (at < n) out[at] = a[j];
    else out[at - n] = a[j] === 0 ? 0 : p - a[j];
  }
  return out;
}

/**
 * round(x·2^t/(p1·p2)) for x modulo q·p1·p2 in coefficient form: an integer y modulo q·2^t, given
 * modulo q, and as the centred integer that it is modulo p1 and p2.
 *
 * With α1 = x·p2^−1 mod p1, α2 = x·p1^−1 mod p2 and f = α1/p1 + α2/p2 we have
 * x/(p1·p2) = h + f − κ modulo q for every integer κ, with
 * h = x·(p1·p2)^−1 − α1·p1^−1 − α2·p2^−1 + κ mod q. κ is the integer next to f, so
 * y = 2^t·h + round(2^t·(f − κ)). f is a fixed-point number, the same everywhere.
 */
export function switchDown(ring: EvaluationRing, [xq, x1, x2]: Residues, t: number): Residues {
  const { primes } = ring;
  const [q, p1, p2] = primes;
  const [sq, s1, s2] = ring.constants.scales;
  const [i1, i2] = ring.constants.inverses;
  const [r1, r2] = ring.constants.reciprocals;
  const out = primes.map(() => new Uint32Array(ring.n));
  const [one, m] = [2 ** FRACTION_BITS, 2 ** t];
  for (let j = 0; j < ring.n; j++) {
    const a1 = multiplyModulo(x1[j], s1, p1);
    const a2 = multiplyModulo(x2[j], s2, p2);
    const f = fraction(a1, r1) + fraction(a2, r2);
    const k = Math.floor(f / one + 1 / 2);
    const rest = Math.floor(((f - k * one) * m) / one + 1 / 2);
    const spent = multiplyModulo(a1, i1, q) + multiplyModulo(a2, i2, q);
    const h = (multiplyModulo(xq[j], sq, q) + k + 2 * q - spent) % q;
    const y = (h > q / 2 ? h - q : h) * m + rest;
    for (let l = 0; l < 3; l++) out[l][j] = y - Math.floor(y / primes[l]) * primes[l];
  }
  return out;
}

/** a·b modulo p, all below 2^30, in doubles that hold every step exactly. */
function multiplyModulo(a: number, b: number, p: number): number {
  return (((a * (b >>> 15)) % p) * 2 ** 15 + a * (b & 0x7fff)) % p;
}

/** ⌊a·r/2^25⌋: a/p in units of 2^−30, where r = round(2^55/p). The product has up to 56 bits. */
function fraction(a: number, r: number): number {
  const high = a * Math.floor(r / 2 ** 16) + Math.floor((a * (r % 2 ** 16)) / 2 ** 16);
  return Math.floor(high / 2 ** (RECIPROCAL_BITS - FRACTION_BITS - 16));
}

/**
 * The residues x modulo q < 2^30 that were switched to y ≈ x·2^32/q: steps of y are four apart, and
 * y is off by at most one and a half, a half by rounding and one by the reciprocal of q.
 */
export function unswitched(y: Uint32Array, q: number): Uint32Array {
  // The product, below 2^62, is rounded by less than 2^9: the quotient is off by less than 2^−23.
  return y.map((word) => Math.round((word * q) / 2 ** EXACT_BITS) % q);
}
