// Expansion of open queries and packing of their results: the parts that
// packages/ring/src/expansion-wasm.ts puts together. The formulas are those of
// native/expansion_lanes.h, four words at a time. Keys are in Montgomery form. A sum of up to
// sixteen products of residues below 2^30 fits in 64 bits.

import { embedLanes, mulHigh, mulShoup, reduceOnce } from './arithmetic';

export { intt, ntt } from './ntt';

const LEAVES: usize = 8;
const BASES: usize = 3;
/** Words of the keys that one word of every leaf of a node meets. */
const KEYS: usize = LEAVES * BASES * 4;

@inline
function companion(w: u32, p: u32): v128 {
  return i32x4.splat(<u32>((<u64>w << 32) / p));
}

/** Montgomery's reduction of sums below p·2^32: of lanes 0 and 1, and of lanes 2 and 3. */
@inline
function reduce(low: v128, high: v128, p: v128, negated: v128): v128 {
  const m = i32x4.mul(v128.shuffle<u32>(low, high, 0, 2, 4, 6), negated);
  low = i64x2.add(low, i64x2.extmul_low_i32x4_u(m, p));
  high = i64x2.add(high, i64x2.extmul_high_i32x4_u(m, p));
  return reduceOnce(v128.shuffle<u32>(low, high, 1, 3, 5, 7), p);
}

/** x·j + y·k, reduced. */
@inline
function twoProducts(x: v128, j: v128, y: v128, k: v128, p: v128, negated: v128): v128 {
  const low = i64x2.add(i64x2.extmul_low_i32x4_u(x, j), i64x2.extmul_low_i32x4_u(y, k));
  const high = i64x2.add(i64x2.extmul_high_i32x4_u(x, j), i64x2.extmul_high_i32x4_u(y, k));
  return reduce(low, high, p, negated);
}

/** A word in the high half of every 64 bits. */
@inline
function splatHigh(x: u32): v128 {
  return i64x2.splat(<i64>(<u64>x << 32));
}

/** Sums whose high words are below 4p, to sums below p·2^32. */
@inline
function fold(sum: v128, high: v128, high2: v128): v128 {
  return reduceOnce(reduceOnce(sum, high2), high);
}

@inline
function addModulo(a: v128, b: v128, p: v128): v128 {
  return reduceOnce(i32x4.add(a, b), p);
}

@inline
function subtractModulo(a: v128, b: v128, p: v128): v128 {
  return reduceOnce(i32x4.sub(i32x4.add(a, p), b), p);
}

/** The words at from[0 … 3], which lie in one vector. */
@inline
function permuted(a: usize, from: usize): v128 {
  const index = v128.load16x4_u(from);
  const lanes = i32x4.mul(v128.and(index, i32x4.splat(3)), i32x4.splat(0x04040404));
  return i8x16.swizzle(v128.load(a + ((<usize>load<u16>(from) & ~3) << 2)), i32x4.add(lanes, i32x4.splat(0x03020100)));
}

/** Coefficients modulo one prime, centred, modulo another. */
export function lift(out: usize, a: usize, from: u32, to: u32, n: i32): void {
  const P = i32x4.splat(to);
  const half = i32x4.splat(from >> 1);
  const whole = i32x4.splat(from % to);
  const one = i32x4.splat(1);
  const S = companion(1, to);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const x = v128.load(a + i);
    const residue = reduceOnce(mulShoup(x, one, S, P), P);
    v128.store(out + i, v128.bitselect(subtractModulo(residue, whole, P), residue, i32x4.gt_u(x, half)));
  }
}

/** out = (a − b)·w. */
export function subtractScaled(out: usize, a: usize, b: usize, w: u32, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  const W = i32x4.splat(w);
  const S = companion(w, p);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const x = i32x4.sub(i32x4.add(v128.load(a + i), P), v128.load(b + i));
    v128.store(out + i, reduceOnce(mulShoup(x, W, S, P), P));
  }
}

/** out = a·w. */
export function scaled(out: usize, a: usize, w: u32, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  const W = i32x4.splat(w);
  const S = companion(w, p);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16)
    v128.store(out + i, reduceOnce(mulShoup(v128.load(a + i), W, S, P), P));
}

/** a = a·factors, which have their companions behind them. */
export function multiplyEach(a: usize, factors: usize, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  const bytes = <usize>n << 2;
  for (let i: usize = 0; i < bytes; i += 16)
    v128.store(a + i, reduceOnce(mulShoup(v128.load(a + i), v128.load(factors + i), v128.load(factors + bytes + i), P), P));
}

/**
 * One half of a step modulo one prime: `key` and the one 12n words behind it are those of the plain
 * and of the turned mask, digits 6n words apart. `body` may be null. `odd` may be null.
 */
export function step(even: usize, odd: usize, digit0: usize, digit1: usize, body: usize, key: usize, from: usize, n: i32, p: u32, negated: u32): void {
  const P = i32x4.splat(p);
  const N = i32x4.splat(negated);
  const poly = <usize>n << 2;
  for (let i: usize = 0; i < poly; i += 16) {
    const index = from + (i >> 1);
    const k = key + i;
    let plain = twoProducts(v128.load(digit0 + i), v128.load(k), v128.load(digit1 + i), v128.load(k + 6 * poly), P, N);
    let turned = twoProducts(
      permuted(digit0, index), v128.load(k + 12 * poly), permuted(digit1, index), v128.load(k + 18 * poly), P, N,
    );
    if (body) {
      plain = addModulo(plain, v128.load(body + i), P);
      turned = addModulo(turned, permuted(body, index), P);
    }
    v128.store(even + i, addModulo(plain, turned, P));
    if (odd) v128.store(odd + i, subtractModulo(plain, turned, P));
  }
}

/**
 * One half of the last levels modulo one prime. Leaf c goes to leaves + 6n·c words; its key is at
 * keys + 12n·c, its permutation at from + n·c. `monomials` has for every level and pair the factors
 * of eighths and their companions.
 */
export function lastLevels(leaves: usize, digit0: usize, digit1: usize, body: usize, keys: usize, from: usize, monomials: usize, n: i32, p: u32, negated: u32): void {
  const P = i32x4.splat(p);
  const N = i32x4.splat(negated);
  const poly = <usize>n << 2;
  for (let i: usize = 0; i < poly; i += 16) {
    for (let c: usize = 0; c < LEAVES; c++) {
      const index = from + c * (poly >> 1) + (i >> 1);
      const k = keys + 12 * c * poly + i;
      let leaf = twoProducts(permuted(digit0, index), v128.load(k), permuted(digit1, index), v128.load(k + 6 * poly), P, N);
      if (body) leaf = addModulo(leaf, permuted(body, index), P);
      v128.store(leaves + 6 * c * poly + i, leaf);
    }
    let at = monomials + ((i / (poly / LEAVES)) << 2);
    for (let z: usize = 0; z < 3; z++) {
      for (let c: usize = 0; c < LEAVES; c++) {
        if ((c >> z) & 1) continue;
        const w = v128.load32_splat(at);
        const s = v128.load32_splat(at + 4 * LEAVES);
        at += 8 * LEAVES;
        const a = leaves + 6 * c * poly + i;
        const b = leaves + 6 * (c | (1 << z)) * poly + i;
        const x = v128.load(a);
        const y = v128.load(b);
        v128.store(a, addModulo(x, y, P));
        v128.store(b, reduceOnce(mulShoup(i32x4.sub(i32x4.add(x, P), y), w, s, P), P));
      }
    }
  }
}

@inline
function lifted(h: v128, isAbove: v128, rest: v128, m: u32, q: u32, p: u32): v128 {
  const P = i32x4.splat(p);
  const residue = reduceOnce(mulShoup(h, i32x4.splat(m), companion(m, p), P), P);
  const whole = i32x4.splat(<u32>((<u64>m * q) % p));
  const chosen = v128.bitselect(subtractModulo(residue, whole, P), residue, isAbove);
  return addModulo(chosen, embedLanes(rest, P), P);
}

/**
 * From residues that were multiplied by the constants of the switch to round(x·2^t/(p1·p2)), in
 * place: modulo q, and, for `lifts`, the centred integer modulo p1 and p2.
 */
export function switchDown(xq: usize, x1: usize, x2: usize, n: i32, t: i32, lifts: i32, q: u32, p1: u32, p2: u32, inverse1: u32, inverse2: u32, reciprocal1: u32, reciprocal2: u32): void {
  const Q = i32x4.splat(q);
  const half = i32x4.splat(q >> 1);
  const R1 = i32x4.splat(reciprocal1);
  const R2 = i32x4.splat(reciprocal2);
  const I1 = i32x4.splat(inverse1);
  const S1 = companion(inverse1, q);
  const I2 = i32x4.splat(inverse2);
  const S2 = companion(inverse2, q);
  const m = <u32>1 << t;
  const M = i32x4.splat(m);
  const SM = companion(m, q);
  const middle = i32x4.splat(1 << 29);
  const round = i32x4.splat(1 << (29 - t));
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const a1 = v128.load(x1 + i);
    const a2 = v128.load(x2 + i);
    const f = i32x4.add(mulHigh(i32x4.shl(a1, 7), R1), mulHigh(i32x4.shl(a2, 7), R2));
    const k = i32x4.shr_u(i32x4.add(f, middle), 30);
    let h = addModulo(v128.load(xq + i), k, Q);
    h = subtractModulo(h, reduceOnce(mulShoup(a1, I1, S1, Q), Q), Q);
    h = subtractModulo(h, reduceOnce(mulShoup(a2, I2, S2, Q), Q), Q);
    if (!lifts) {
      v128.store(xq + i, h);
      continue;
    }
    const rest = i32x4.shr_s(i32x4.add(i32x4.sub(f, i32x4.shl(k, 30)), round), 30 - t);
    const isAbove = i32x4.gt_u(h, half);
    v128.store(xq + i, addModulo(reduceOnce(mulShoup(h, M, SM, Q), Q), embedLanes(rest, Q), Q));
    v128.store(x1 + i, lifted(h, isAbove, rest, m, q, p1));
    v128.store(x2 + i, lifted(h, isAbove, rest, m, q, p2));
  }
}

/**
 * Adds bodies and masks of leaves, which are 6n words apart, times the keys of their secrets, to a
 * sum: `place` is 4·base + half.
 */
export function addMaskKeys(sum: usize, bodies: usize, masks: usize, leaves: i32, keys: usize, place: usize, n: i32, p: u32, negated: u32): void {
  const P = i32x4.splat(p);
  const N = i32x4.splat(negated);
  const H = splatHigh(p);
  const H2 = splatHigh(2 * p);
  const poly = <usize>n << 2;
  for (let i: usize = 0; i < poly; i += 16) {
    let low = i64x2.splat(0);
    let high = i64x2.splat(0);
    // A line has sixteen words of every key.
    let key = keys + (i & ~63) * KEYS + (i & 63) + 64 * place;
    for (let c: usize = 0; c < <usize>leaves; c++, key += 64 * BASES * 4) {
      const x = v128.load(bodies + 6 * c * poly + i);
      const y = v128.load(masks + 6 * c * poly + i);
      const own = v128.load(key);
      const both = v128.load(key + 128);
      low = i64x2.add(low, i64x2.add(i64x2.extmul_low_i32x4_u(x, own), i64x2.extmul_low_i32x4_u(y, both)));
      high = i64x2.add(high, i64x2.add(i64x2.extmul_high_i32x4_u(x, own), i64x2.extmul_high_i32x4_u(y, both)));
    }
    const value = reduce(fold(low, H, H2), fold(high, H, H2), P, N);
    v128.store(sum + i, addModulo(v128.load(sum + i), value, P));
  }
}

/** The sums over `count` inputs of each times its key. */
export function packSum(out: usize, input: usize, keys: usize, stride: usize, count: i32, n: i32, p: u32, negated: u32): void {
  const P = i32x4.splat(p);
  const N = i32x4.splat(negated);
  const H = splatHigh(p);
  const H2 = splatHigh(2 * p);
  const poly = <usize>n << 2;
  for (let i: usize = 0; i < poly; i += 16) {
    let low = i64x2.splat(0);
    let high = i64x2.splat(0);
    for (let u: usize = 0; u < <usize>count; u++) {
      const x = v128.load(input + u * poly + i);
      const y = v128.load(keys + u * stride + i);
      low = i64x2.add(low, i64x2.extmul_low_i32x4_u(x, y));
      high = i64x2.add(high, i64x2.extmul_high_i32x4_u(x, y));
    }
    v128.store(out + i, reduce(fold(low, H, H2), fold(high, H, H2), P, N));
  }
}

/** Coefficients modulo p that were switched to 32 bits: y·p/2^32, rounded; plus `sum`, if any. */
export function unswitch(out: usize, y: usize, sum: usize, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const x = v128.load(y + i);
    const rounded = i32x4.add(mulHigh(x, P), i32x4.shr_u(i32x4.mul(x, P), 31));
    let value = reduceOnce(rounded, P);
    if (sum) value = addModulo(value, v128.load(sum + i), P);
    v128.store(out + i, value);
  }
}

/** Where free memory begins. */
export function heapBase(): usize {
  return __heap_base;
}
