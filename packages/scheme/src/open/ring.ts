// Polynomials modulo q, p1 and p2, one residue after the other, and the steps that expansion and
// packing are made of: plain and slow, the oracle of the fast ones (README.md §9). In messages a
// residue has as many bits as its prime, the lowest bit first, with zeros up to the next byte.

import { bitLength, modInverse, type Poly, Ring } from '@hers/ring';
import { HersError } from '../errors.ts';
import { OPEN_ERRORS } from '../layout.ts';
import type { OpenSet } from '../parameters.ts';

/** Residues modulo q, p1 and p2, or the first of these: n words for each prime. */
export type Residues = readonly Uint32Array[];

/** A ciphertext: body and mask. Its phase is body + mask·secret. */
export type Pair = readonly [body: Residues, mask: Residues];

/** The primes by their place in a list of residues. */
export const Q = 0;
export const P1 = 1;
export const P2 = 2;

/** Fixed point of the switch from q·p1·p2: fractions in units of 2^−30. */
const FRACTION_BITS = 30;
/** Reciprocals of p1 and p2 are in units of 2^−55, so that they have 31 bits. */
const RECIPROCAL_BITS = 55;

const known = new Map<number, EvaluationRing>();

/** What a switch from q·p1·p2 to q·2^t needs to know. */
export interface SwitchConstants {
  /** (p1·p2)^−1 mod q, p2^−1 mod p1, p1^−1 mod p2: what residues are multiplied by first. */
  readonly scales: readonly number[];
  /** p1^−1 and p2^−1 mod q. */
  readonly inverses: readonly number[];
  /** round(2^55/p1) and round(2^55/p2). */
  readonly reciprocals: readonly number[];
}

export class EvaluationRing {
  readonly n: number;
  readonly primes: readonly number[];
  readonly constants: SwitchConstants;
  readonly #lists: readonly (readonly number[])[];

  /** The one for this set; one per process. */
  static of(set: OpenSet): EvaluationRing {
    let ring = known.get(set.id);
    if (!ring) known.set(set.id, (ring = new EvaluationRing(set)));
    return ring;
  }

  private constructor(set: OpenSet) {
    this.n = set.n;
    this.primes = [...set.primes, ...set.evaluation.primes];
    this.#lists = this.primes.map((p) => [p]);
    const [q, p1, p2] = this.primes;
    const inverse = (x: number, p: number) => Number(modInverse(BigInt(x), BigInt(p)));
    const reciprocal = (p: number) => Number(((1n << BigInt(RECIPROCAL_BITS)) + BigInt(p) / 2n) / BigInt(p));
    this.constants = {
      scales: [inverse(Number((BigInt(p1) * BigInt(p2)) % BigInt(q)), q), inverse(p2, p1), inverse(p1, p2)],
      inverses: [inverse(p1, q), inverse(p2, q)],
      reciprocals: [reciprocal(p1), reciprocal(p2)],
    };
  }

  ring(l: number): Ring {
    return Ring.of(this.n, this.#lists[l]);
  }

  /** Expands a polynomial in NTT form for each of these primes; prime l is number first + l. */
  uniform(primes: readonly number[], key: Uint8Array, domain: number, first = 0): Residues {
    return primes.map((l) => {
      const [poly] = this.ring(l).polys;
      this.ring(l).uniform(poly, { key, domain, index: first + l });
      return poly.residues.slice();
    });
  }

  /** Draws the small errors of one polynomial. */
  errors(key: Uint8Array, index: number): Int32Array {
    const ring = this.ring(Q);
    ring.error(ring.words[0], { key, domain: OPEN_ERRORS, index });
    return ring.words[0].values.slice();
  }

  /** Zeroes the memory of all three. */
  wipe(): void {
    for (let l = 0; l < this.primes.length; l++) this.ring(l).wipe();
  }

  #with(l: number, inputs: readonly Uint32Array[], work: (ring: Ring, ...polys: Poly[]) => void): Uint32Array {
    const ring = this.ring(l);
    inputs.forEach((words, i) => {
      ring.polys[i].residues.set(words);
    });
    work(ring, ...ring.polys);
    return ring.polys[0].residues.slice();
  }

  ntt(l: number, a: Uint32Array): Uint32Array {
    return this.#with(l, [a], (ring, x) => ring.ntt(x));
  }

  intt(l: number, a: Uint32Array): Uint32Array {
    return this.#with(l, [a], (ring, x) => ring.intt(x));
  }

  add(l: number, a: Uint32Array, b: Uint32Array): Uint32Array {
    return this.#with(l, [a, b], (ring, x, y) => ring.add(x, x, y));
  }

  subtract(l: number, a: Uint32Array, b: Uint32Array): Uint32Array {
    return this.#with(l, [a, b], (ring, x, y) => ring.subtract(x, x, y));
  }

  /** In NTT form. */
  multiply(l: number, a: Uint32Array, b: Uint32Array): Uint32Array {
    return this.#with(l, [a, b], (ring, x, y) => ring.multiply(x, x, y));
  }

  scale(l: number, a: Uint32Array, by: bigint): Uint32Array {
    return this.#with(l, [new Uint32Array(this.n), a], (ring, x, y) => ring.scaleAdd(x, y, by));
  }

  /** Coefficients modulo prime `from`, centred, modulo prime `to`. */
  lift(from: number, to: number, a: Uint32Array): Uint32Array {
    const p = this.primes[from];
    const into = this.primes[to];
    const out = new Uint32Array(a.length);
    for (let j = 0; j < out.length; j++) {
      const centred = (a[j] > p >> 1 ? a[j] - p : a[j]) % into;
      out[j] = centred < 0 ? centred + into : centred;
    }
    return out;
  }

  /** a(x^exponent) in coefficient form; the exponent is odd. */
  automorphism(l: number, a: Uint32Array, exponent: number): Uint32Array {
    const { n } = this;
    const p = this.primes[l];
    const out = new Uint32Array(n);
    for (let j = 0; j < n; j++) {
      const at = (j * exponent) % (2 * n);
      if (at < n) out[at] = a[j];
      else out[at - n] = a[j] === 0 ? 0 : p - a[j];
    }
    return out;
  }

  /** a·x^−k in coefficient form, 0 ≤ k < 2n. */
  shiftDown(l: number, a: Uint32Array, k: number): Uint32Array {
    const { n } = this;
    const p = this.primes[l];
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
  switchDown([xq, x1, x2]: Residues, t: number): Residues {
    const { primes } = this;
    const [q, p1, p2] = primes;
    const [sq, s1, s2] = this.constants.scales;
    const [i1, i2] = this.constants.inverses;
    const [r1, r2] = this.constants.reciprocals;
    const out = primes.map(() => new Uint32Array(this.n));
    const [one, m] = [2 ** FRACTION_BITS, 2 ** t];
    for (let j = 0; j < this.n; j++) {
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

  /** Small signed coefficients as residues; no branch depends on them. */
  embed(l: number, small: Int32Array): Uint32Array {
    const p = this.primes[l];
    const out = new Uint32Array(small.length);
    for (let j = 0; j < out.length; j++) out[j] = small[j] + ((small[j] >> 31) & p);
    return out;
  }
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

export function bitBytes(p: number, count: number): number {
  return Math.ceil((bitLength(p) * count) / 8);
}

export function packResidues(out: Uint8Array, residues: Uint32Array, p: number): void {
  const bits = bitLength(p);
  const words = new Uint32Array(Math.ceil(out.length / 4) + 1);
  let at = 0;
  for (let i = 0; i < residues.length; i++, at += bits) {
    const [word, shift] = [at >>> 5, at & 31];
    words[word] |= residues[i] << shift;
    if (shift + bits > 32) words[word + 1] = residues[i] >>> (32 - shift);
  }
  out.set(new Uint8Array(words.buffer, 0, out.length));
}

/** Refuses what `packResidues` does not make: residues that are not reduced, bits that are left. */
export function unpackResidues(bytes: Uint8Array, count: number, p: number, what: string): Uint32Array {
  const bits = bitLength(p);
  const words = new Uint32Array(Math.ceil(bytes.length / 4) + 1);
  new Uint8Array(words.buffer).set(bytes);
  const mask = 2 ** bits - 1;
  const out = new Uint32Array(count);
  let isReduced = true;
  let at = 0;
  for (let i = 0; i < count; i++, at += bits) {
    const [word, shift] = [at >>> 5, at & 31];
    let residue = words[word] >>> shift;
    if (shift + bits > 32) residue |= words[word + 1] << (32 - shift);
    residue &= mask;
    isReduced = isReduced && residue < p;
    out[i] = residue;
  }
  const left = 8 * bytes.length - at;
  if (!isReduced || left < 0 || left > 7 || (left > 0 && bytes[bytes.length - 1] >> (8 - left) !== 0))
    throw new HersError('MALFORMED', `a residue of this ${what} is not below its prime, or a bit is left over`);
  return out;
}
