// Polynomials modulo q, p1 and p2, one residue after the other (README.md §9). In messages a
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

/** Reciprocals of p1 and p2 are in units of 2^−55, so that they have 31 bits. */
export const RECIPROCAL_BITS = 55;

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

  /** Small signed coefficients as residues; no branch depends on them. */
  embed(l: number, small: Int32Array): Uint32Array {
    const p = this.primes[l];
    const out = new Uint32Array(small.length);
    for (let j = 0; j < out.length; j++) out[j] = small[j] + ((small[j] >> 31) & p);
    return out;
  }
}

function bitBytes(p: number, count: number): number {
  return Math.ceil((bitLength(p) * count) / 8);
}

function packResidues(out: Uint8Array, residues: Uint32Array, p: number): void {
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

/** Bytes of `count` residues modulo each of these primes. */
export function residuesBytes(primes: readonly number[], count: number): number {
  return primes.reduce((sum, p) => sum + bitBytes(p, count), 0);
}

/** Puts residues modulo these primes one after the other, from `at` on. Returns where they end. */
export function putResidues(bytes: Uint8Array, at: number, residues: Residues, primes: readonly number[]): number {
  let end = at;
  for (const [i, words] of residues.entries()) {
    const from = end;
    end += bitBytes(primes[i], words.length);
    packResidues(bytes.subarray(from, end), words, primes[i]);
  }
  return end;
}

/** The inverse: `count` residues modulo each of these primes. */
export function takeResidues(
  bytes: Uint8Array,
  at: number,
  count: number,
  primes: readonly number[],
  what: string,
): Residues {
  let end = at;
  return primes.map((p) => {
    const from = end;
    end += bitBytes(p, count);
    return unpackResidues(bytes.subarray(from, end), count, p, what);
  });
}

/** Refuses what `packResidues` does not make: residues that are not reduced, bits that are left. */
function unpackResidues(bytes: Uint8Array, count: number, p: number, what: string): Uint32Array {
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
