// Operations on whole polynomials, coefficient by coefficient or slot by slot. n is a multiple of
// 4; residues are reduced.

import { embedLanes, mulBarrett, mulShoup, reduceLazy, reduceOnce } from './arithmetic';

export function add(out: usize, a: usize, b: usize, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    v128.store(out + i, reduceOnce(i32x4.add(v128.load(a + i), v128.load(b + i)), P));
  }
}

export function subtract(out: usize, a: usize, b: usize, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    v128.store(out + i, reduceOnce(i32x4.sub(i32x4.add(v128.load(a + i), P), v128.load(b + i)), P));
  }
}

export function multiply(out: usize, a: usize, b: usize, n: i32, p: u32, mu: u32, shift: i32): void {
  const P = i32x4.splat(p);
  const P2 = i32x4.splat(2 * p);
  const M = i32x4.splat(mu);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    v128.store(out + i, reduceLazy(mulBarrett(v128.load(a + i), v128.load(b + i), P, M, shift), P, P2));
  }
}

/** out += a·b. */
export function multiplyAdd(out: usize, a: usize, b: usize, n: i32, p: u32, mu: u32, shift: i32): void {
  const P = i32x4.splat(p);
  const P2 = i32x4.splat(2 * p);
  const M = i32x4.splat(mu);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const product = mulBarrett(v128.load(a + i), v128.load(b + i), P, M, shift);
    v128.store(out + i, reduceLazy(i32x4.add(v128.load(out + i), product), P, P2));
  }
}

/** out −= a·b. The product is below 5p/2, so 3p keeps the difference within [0, 4p). */
export function multiplySubtract(out: usize, a: usize, b: usize, n: i32, p: u32, mu: u32, shift: i32): void {
  const P = i32x4.splat(p);
  const P2 = i32x4.splat(2 * p);
  const P3 = i32x4.splat(3 * p);
  const M = i32x4.splat(mu);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const product = mulBarrett(v128.load(a + i), v128.load(b + i), P, M, shift);
    v128.store(out + i, reduceLazy(i32x4.sub(i32x4.add(v128.load(out + i), P3), product), P, P2));
  }
}

/** out += a·w for one residue w. */
export function scaleAdd(out: usize, a: usize, w: u32, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  const P2 = i32x4.splat(2 * p);
  const W = i32x4.splat(w);
  const S = i32x4.splat(<u32>((<u64>w << 32) / p));
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    v128.store(out + i, reduceLazy(i32x4.add(v128.load(out + i), mulShoup(v128.load(a + i), W, S, P)), P, P2));
  }
}

/**
 * out = values·w + noise for signed words of magnitude below p: how a message and its error become
 * residues.
 */
export function encode(out: usize, values: usize, noise: usize, w: u32, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  const P2 = i32x4.splat(2 * p);
  const W = i32x4.splat(w);
  const S = i32x4.splat(<u32>((<u64>w << 32) / p));
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    const value = mulShoup(embedLanes(v128.load(values + i), P), W, S, P);
    v128.store(out + i, reduceLazy(i32x4.add(value, embedLanes(v128.load(noise + i), P)), P, P2));
  }
}

/** Signed words of magnitude below p to residues. */
export function embed(out: usize, values: usize, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    v128.store(out + i, embedLanes(v128.load(values + i), P));
  }
}

/** 1 when every word is below p, else 0. Words at a need no alignment. */
export function isReduced(a: usize, n: i32, p: u32): i32 {
  const P = i32x4.splat(p);
  let bad = i32x4.splat(0);
  for (let i: usize = 0, end = <usize>n << 2; i < end; i += 16) {
    bad = v128.or(bad, i32x4.ge_u(v128.load(a + i), P));
  }
  return v128.any_true(bad) ? 0 : 1;
}
