// Modulo Q·m with m = 2^t and Q ≡ 1 (mod m): an integer is known by its residues modulo the primes
// of Q and by its low t bits. Integers that are neither stay centred in 64 bits: Q·m < 2^64.

import { centred } from './convert';
import { keystream } from './chacha';

/** n words uniform in [0, 2^t), t ≤ 8: the low bits of one byte of the keystream each. */
export function uniformBits(out: usize, n: i32, t: i32, bytes: usize, key: usize, domain: u32, index: u32): void {
  const mask = <u32>((1 << t) - 1);
  keystream(bytes, (n + 255) >> 8, key, domain, index, 0, 0);
  for (let j: usize = 0; j < <usize>n; j++) store<u32>(out + (j << 2), <u32>load<u8>(bytes + j) & mask);
}

/**
 * out = values·scale + noise ± the centred residue of a product, all modulo 2^t: `sign` is 1 or −1.
 * The product's integer is below p/2 in magnitude.
 */
export function combineBits(
  out: usize, values: usize, noise: usize, product: usize, n: i32, p: u32, t: i32, scale: u32, sign: i32,
): void {
  const mask = <u32>((1 << t) - 1);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 4) {
    const x = <u32>centred(product + i, 0, p, 0, 0);
    store<u32>(out + i, (load<u32>(values + i) * scale + load<u32>(noise + i) + <u32>sign * x) & mask);
  }
}

/** The integer in [−Q·m/2, Q·m/2] that is x modulo Q, x centred, and has these low bits. */
@inline
function join(x: i64, bits: i64, q: i64, t: i32): i64 {
  const m = (<i64>1) << t;
  const half = m >> 1;
  const k = (bits - x) & (m - 1);
  const over = <i64>(k > half) | (<i64>(k == half) & <i64>(x > 0));
  return x + q * (k - (m & -over));
}

/** Joins one residue (p1 = 0) or two, where inverse = p0^−1 mod p1, with the low bits. */
export function joinWide(
  out: usize, a0: usize, a1: usize, bits: usize, n: i32, p0: u32, p1: u32, inverse: u32, t: i32,
): void {
  const q = p1 ? <i64>p0 * <i64>p1 : <i64>p0;
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 4)
    store<i64>(out + 2 * i, join(centred(a0 + i, a1 + i, p0, p1, inverse), load<u32>(bits + i), q, t));
}

/** out = round(wide/2^t) mod p, ties to even: rounding halves up would shift every score. */
export function roundWide(out: usize, wide: usize, n: i32, p: u32, t: i32): void {
  const m = (<i64>1) << t;
  const half = m >> 1;
  for (let j: usize = 0; j < <usize>n; j++) {
    const x = load<i64>(wide + (j << 3));
    const down = x >> t;
    const left = x & (m - 1);
    const nearest = down + (<i64>(left > half) | (<i64>(left == half) & down & 1));
    const r = nearest % <i64>p;
    store<u32>(out + (j << 2), <u32>(r + (<i64>p & (r >> 63))));
  }
}

/** Balanced digits to base 2^bits, `count` of them, signed words at out + 4kn. */
export function digitsWide(out: usize, wide: usize, n: i32, bits: i32, count: i32): void {
  const bias: i64 = (<i64>1) << (bits - 1);
  const mask: i64 = ((<i64>1) << bits) - 1;
  const row = <usize>n << 2;
  for (let j: usize = 0; j < <usize>n; j++) {
    let x = load<i64>(wide + (j << 3));
    let to = out + (j << 2);
    for (let k = 1; k < count; k++) {
      // Of x + bias only the low bits count, so it may wrap around; the shift of x does not.
      const digit = ((x + bias) & mask) - bias;
      store<i32>(to, <i32>digit);
      x = (x >> bits) + <i64>(digit < 0);
      to += row;
    }
    store<i32>(to, <i32>x);
  }
}

/** The integers as doubles, in place: exact up to 2^53, then rounded. */
export function floatWide(wide: usize, n: i32): void {
  for (let j: usize = 0; j < <usize>n; j++) store<f64>(wide + (j << 3), <f64>load<i64>(wide + (j << 3)));
}

/** The low t bits of the centred integers of one or two residues (p1 = 0: one). */
export function lowBits(out: usize, a0: usize, a1: usize, n: i32, p0: u32, p1: u32, inverse: u32, t: i32): void {
  const mask = <u32>((1 << t) - 1);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 4)
    store<u32>(out + i, <u32>centred(a0 + i, a1 + i, p0, p1, inverse) & mask);
}
