// Between moduli: CRT of two primes, balanced digits, switching to a power of two, and bit packing.

import { centreLanes, embedLanes, mulShoup, reduceOnce } from './arithmetic';

/**
 * The integer in (−Q/2, Q/2] with the residues at a0 and a1, where inverse = p0^−1 mod p1 and Q =
 * p0·p1 < 2^60; or, where p1 = 0, with the residue at a0, and Q = p0.
 */
@inline
export function centred(a0: usize, a1: usize, p0: u64, p1: u64, inverse: u64): i64 {
  const x0 = <u64>load<u32>(a0);
  let x = <i64>x0;
  let q = <i64>p0;
  if (p1) {
    x += <i64>(p0 * (((load<u32>(a1) + p1 - (x0 % p1)) * inverse) % p1));
    q *= <i64>p1;
  }
  return x - (q & -(<i64>(x > q >> 1)));
}

/** out[j] (doubles) = the centred integer of the residues; exact up to 2^53, then rounded. */
export function centre(out: usize, a0: usize, a1: usize, n: i32, p0: u32, p1: u32, inverse: u32): void {
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 4)
    store<f64>(out + 2 * i, <f64>centred(a0 + i, a1 + i, p0, p1, inverse));
}

/**
 * One prime's share of the switch to 2^bits, added to 64-bit sums at `sums`: (a·h mod p)·T with h =
 * (Q/p)^−1 mod p and T = round(2^(31+b)/p), b the bit length of p. README.md derives it.
 */
export function switchShare(sums: usize, a: usize, h: u32, T: u32, n: i32, p: u32, first: i32): void {
  const P = i32x4.splat(p);
  const H = i32x4.splat(h);
  const HS = i32x4.splat(<u32>((<u64>h << 32) / p));
  const W = i32x4.splat(T);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const y = reduceOnce(mulShoup(v128.load(a + i), H, HS, P), P);
    const at = sums + 2 * i;
    let low = i64x2.extmul_low_i32x4_u(y, W);
    let high = i64x2.extmul_high_i32x4_u(y, W);
    if (!first) {
      low = i64x2.add(low, v128.load(at));
      high = i64x2.add(high, v128.load(at, 16));
    }
    v128.store(at, low);
    v128.store(at, high, 16);
  }
}

/**
 * The rounded top `bits` bits of sums scaled by 2^scale (scale = 31 + b), modulo 2^bits, as words.
 */
export function switchRound(out: usize, sums: usize, n: i32, scale: i32, bits: i32): void {
  const shift = scale - bits;
  const round = i64x2.splat((<i64>1) << (shift - 1));
  const mask = i32x4.splat(<i32>(((<u64>1) << bits) - 1));
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const low = i64x2.shr_u(i64x2.add(v128.load(sums + 2 * i), round), shift);
    const high = i64x2.shr_u(i64x2.add(v128.load(sums + 2 * i, 16), round), shift);
    v128.store(out + i, v128.and(v128.shuffle<u32>(low, high, 0, 2, 4, 6), mask));
  }
}

/**
 * n words of `bits` ≤ 32 bits into a little-endian bit string of n·bits/8 bytes; n a multiple of 8.
 */
export function packBits(out: usize, a: usize, n: i32, bits: i32): void {
  let held: u64 = 0;
  let count = 0;
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 4) {
    held |= <u64>load<u32>(a + i) << count;
    count += bits;
    if (count >= 32) {
      store<u32>(out, <u32>held);
      out += 4;
      held >>= 32;
      count -= 32;
    }
  }
  for (; count > 0; count -= 8) {
    store<u8>(out++, <u8>held);
    held >>= 8;
  }
}

/** The inverse; may read up to 7 bytes past the string, which the caller's buffer must hold. */
export function unpackBits(out: usize, bytes: usize, n: i32, bits: i32): void {
  const mask: u64 = ((<u64>1) << bits) - 1;
  if (bits == 16) {
    for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
      v128.store(out + i, v128.load16x4_u(bytes + (i >> 1)));
    }
    return;
  }
  // Eight values occupy `bits` whole bytes, so shifts within a group do not depend on its position.
  for (let i = 0; i < n; i += 8) {
    for (let k = 0; k < 8; k++) {
      const at = k * bits;
      store<u32>(out + (<usize>k << 2), <u32>((load<u64>(bytes + (at >> 3)) >> (at & 7)) & mask));
    }
    bytes += <usize>bits;
    out += 32;
  }
}

/**
 * Splits words of `bits` bits into balanced halves for an exact product with a ternary polynomial
 * modulo one prime: x ≡ high·2^cut + low (mod 2^bits), both centred, embedded modulo p. cut = bits
 * means low alone.
 */
export function splitCentred(low: usize, high: usize, a: usize, n: i32, bits: i32, cut: i32, p: u32): void {
  const P = i32x4.splat(p);
  const left = 32 - cut;
  const top = bits - cut;
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const x = v128.load(a + i);
    const l = i32x4.shr_s(i32x4.shl(x, left), left);
    v128.store(low + i, embedLanes(l, P));
    if (top > 0) {
      const h = i32x4.shr_s(i32x4.shl(i32x4.shr_s(i32x4.sub(x, l), cut), 32 - top), 32 - top);
      v128.store(high + i, embedLanes(h, P));
    }
  }
}

/**
 * phase = c0·2^(bits − bits0) + low + high·2^cut modulo 2^bits, sign-extended; low and high are
 * residues to centre.
 */
export function joinPhase(
  out: usize, c0: usize, low: usize, high: usize, n: i32, bits: i32, bits0: i32, cut: i32, p: u32,
): void {
  const P = i32x4.splat(p);
  const half = i32x4.splat(p >> 1);
  const up = bits - bits0;
  const extend = 32 - bits;
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    let x = i32x4.add(i32x4.shl(v128.load(c0 + i), up), centreLanes(v128.load(low + i), P, half));
    if (cut < bits) x = i32x4.add(x, i32x4.shl(centreLanes(v128.load(high + i), P, half), cut));
    v128.store(out + i, i32x4.shr_s(i32x4.shl(x, extend), extend));
  }
}

/** out[j] (floats) = phase[j]·factor + offset; returns the largest |phase|, 2^31 included. */
export function scaleToFloat(out: usize, phase: usize, n: i32, factor: f32, offset: f32): f64 {
  const F = f32x4.splat(factor);
  const O = f32x4.splat(offset);
  let most = i32x4.splat(0);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const x = v128.load(phase + i);
    most = i32x4.max_u(most, i32x4.abs(x));
    v128.store(out + i, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(x), F), O));
  }
  return <f64>max<u32>(
    max<u32>(i32x4.extract_lane(most, 0), i32x4.extract_lane(most, 1)),
    max<u32>(i32x4.extract_lane(most, 2), i32x4.extract_lane(most, 3)),
  );
}

/** out[j] (integers) = nearest(phase[j]·factor); returns the largest distance from an integer. */
export function scaleToInteger(out: usize, phase: usize, n: i32, factor: f64): f64 {
  const F = f64x2.splat(factor);
  let most = f64x2.splat(0);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const x = v128.load(phase + i);
    const a = f64x2.mul(f64x2.convert_low_i32x4_s(x), F);
    const b = f64x2.mul(f64x2.convert_low_i32x4_s(v128.shuffle<u64>(x, x, 1, 1)), F);
    const ra = f64x2.nearest(a);
    const rb = f64x2.nearest(b);
    most = f64x2.max(most, f64x2.max(f64x2.abs(f64x2.sub(a, ra)), f64x2.abs(f64x2.sub(b, rb))));
    v128.store(out + i, v128.shuffle<u64>(i32x4.trunc_sat_f64x2_s_zero(ra), i32x4.trunc_sat_f64x2_s_zero(rb), 0, 2));
  }
  return max(f64x2.extract_lane(most, 0), f64x2.extract_lane(most, 1));
}
