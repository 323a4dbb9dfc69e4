// Negacyclic number-theoretic transform modulo p < 2^30, n = 16 … 8192.
//
// Output i of the forward transform is a(ψ^(2·brv(i)+1)): Cooley-Tukey butterflies, natural order
// in, bit-reversed order out; the inverse runs Gentleman-Sande butterflies the other way (P. Longa,
// M. Naehrig, "Speeding up the number theoretic transform", 2016). Stages are taken two at a time
// to halve the passes over memory, the two smallest strides stay inside registers, and no branch or
// address depends on data.
//
// Tables: four arrays of n words, [ψ^brv(i)], their Shoup companions, [ψ^−brv(i)], and theirs.

import { mulShoup, reduceLazy, reduceOnce } from './arithmetic';

/**
 * Fills the tables for one prime; roots[i] = ψ^brv(i) and inverses[i] = ψ^−brv(i) are already in
 * place.
 */
export function companions(tables: usize, n: i32, p: u32): void {
  const bytes = <usize>n << 2;
  for (let i: usize = 0; i < bytes; i += 4) {
    store<u32>(tables + bytes + i, <u32>((<u64>load<u32>(tables + i) << 32) / p));
    store<u32>(tables + 3 * bytes + i, <u32>((<u64>load<u32>(tables + 2 * bytes + i) << 32) / p));
  }
}

/** In place; input below 4p, output reduced. */
export function ntt(a: usize, tables: usize, n: i32, p: u32): void {
  const P = i32x4.splat(p);
  const P2 = i32x4.splat(2 * p);
  const w = tables;
  const ws = tables + (<usize>n << 2);
  let t = n;
  let m = 1;
  // Two stages at once: strides t/2 and t/4.
  while (t >> 2 >= 4) {
    const quarter = <usize>t;
    for (let i = 0; i < m; i++) {
      const first = <usize>(m + i) << 2;
      const second = first << 1;
      const w1 = v128.load32_splat(w + first);
      const s1 = v128.load32_splat(ws + first);
      const w2 = v128.load32_splat(w + second);
      const s2 = v128.load32_splat(ws + second);
      const w3 = v128.load32_splat(w + second, 4);
      const s3 = v128.load32_splat(ws + second, 4);
      let at = a + ((<usize>i * t) << 2);
      const end = at + quarter;
      for (; at < end; at += 16) {
        let x0 = reduceOnce(v128.load(at), P2);
        let x1 = reduceOnce(v128.load(at + quarter), P2);
        let y = mulShoup(v128.load(at + 2 * quarter), w1, s1, P);
        let x2 = i32x4.add(i32x4.sub(x0, y), P2);
        x0 = reduceOnce(i32x4.add(x0, y), P2);
        y = mulShoup(v128.load(at + 3 * quarter), w1, s1, P);
        const x3 = i32x4.add(i32x4.sub(x1, y), P2);
        x1 = i32x4.add(x1, y);
        y = mulShoup(x1, w2, s2, P);
        v128.store(at, i32x4.add(x0, y));
        v128.store(at + quarter, i32x4.add(i32x4.sub(x0, y), P2));
        x2 = reduceOnce(x2, P2);
        y = mulShoup(x3, w3, s3, P);
        v128.store(at + 2 * quarter, i32x4.add(x2, y));
        v128.store(at + 3 * quarter, i32x4.add(i32x4.sub(x2, y), P2));
      }
    }
    m <<= 2;
    t >>= 2;
  }
  // An odd stage of stride 4 remains for odd log2 n.
  if (t == 8) {
    let first = <usize>m << 2;
    for (let at = a, end = a + (<usize>n << 2); at < end; at += 32, first += 4) {
      const x = reduceOnce(v128.load(at), P2);
      const y = mulShoup(v128.load(at, 16), v128.load32_splat(w + first), v128.load32_splat(ws + first), P);
      v128.store(at, i32x4.add(x, y));
      v128.store(at, i32x4.add(i32x4.sub(x, y), P2), 16);
    }
  }
  // Strides 2 and 1 inside windows of eight, and the full reduction.
  let w2 = w + <usize>n;
  let s2 = ws + <usize>n;
  let w1 = w + (<usize>n << 1);
  let s1 = ws + (<usize>n << 1);
  for (let at = a, end = a + (<usize>n << 2); at < end; at += 32) {
    const A = v128.load(at);
    const B = v128.load(at, 16);
    let x = reduceOnce(v128.shuffle<u32>(A, B, 0, 1, 4, 5), P2);
    let y = v128.shuffle<u32>(A, B, 2, 3, 6, 7);
    let tw = v128.load64_zero(w2);
    let ts = v128.load64_zero(s2);
    tw = v128.shuffle<u32>(tw, tw, 0, 0, 1, 1);
    ts = v128.shuffle<u32>(ts, ts, 0, 0, 1, 1);
    let z = mulShoup(y, tw, ts, P);
    y = i32x4.add(i32x4.sub(x, z), P2);
    x = i32x4.add(x, z);
    let u = reduceOnce(v128.shuffle<u32>(x, y, 0, 4, 2, 6), P2);
    let v = v128.shuffle<u32>(x, y, 1, 5, 3, 7);
    z = mulShoup(v, v128.load(w1), v128.load(s1), P);
    v = reduceLazy(i32x4.add(i32x4.sub(u, z), P2), P, P2);
    u = reduceLazy(i32x4.add(u, z), P, P2);
    v128.store(at, v128.shuffle<u32>(u, v, 0, 4, 1, 5));
    v128.store(at, v128.shuffle<u32>(u, v, 2, 6, 3, 7), 16);
    w2 += 8;
    s2 += 8;
    w1 += 16;
    s1 += 16;
  }
}

/**
 * In place; input below 2p, output reduced. `scale` is n^−1 mod p and `last` is n^−1·ψ^−brv(1) mod
 * p.
 */
export function intt(a: usize, tables: usize, n: i32, p: u32, scale: u32, last: u32): void {
  const P = i32x4.splat(p);
  const P2 = i32x4.splat(2 * p);
  const w = tables + (<usize>n << 3);
  const ws = w + (<usize>n << 2);
  // Strides 1 and 2 inside windows of eight.
  let w2 = w + <usize>n;
  let s2 = ws + <usize>n;
  let w1 = w + (<usize>n << 1);
  let s1 = ws + (<usize>n << 1);
  for (let at = a, end = a + (<usize>n << 2); at < end; at += 32) {
    const A = v128.load(at);
    const B = v128.load(at, 16);
    let u = v128.shuffle<u32>(A, B, 0, 2, 4, 6);
    let v = v128.shuffle<u32>(A, B, 1, 3, 5, 7);
    let z = i32x4.add(i32x4.sub(u, v), P2);
    u = reduceOnce(i32x4.add(u, v), P2);
    v = mulShoup(z, v128.load(w1), v128.load(s1), P);
    let x = v128.shuffle<u32>(u, v, 0, 4, 2, 6);
    let y = v128.shuffle<u32>(u, v, 1, 5, 3, 7);
    let tw = v128.load64_zero(w2);
    let ts = v128.load64_zero(s2);
    tw = v128.shuffle<u32>(tw, tw, 0, 0, 1, 1);
    ts = v128.shuffle<u32>(ts, ts, 0, 0, 1, 1);
    z = i32x4.add(i32x4.sub(x, y), P2);
    x = reduceOnce(i32x4.add(x, y), P2);
    y = mulShoup(z, tw, ts, P);
    v128.store(at, v128.shuffle<u32>(x, y, 0, 1, 4, 5));
    v128.store(at, v128.shuffle<u32>(x, y, 2, 3, 6, 7), 16);
    w2 += 8;
    s2 += 8;
    w1 += 16;
    s1 += 16;
  }
  let t = 4; // stride of the next stage
  let h = n >> 3; // its number of twiddles
  if (ctz(n) & 1) {
    let first = <usize>h << 2;
    for (let at = a, end = a + (<usize>n << 2); at < end; at += 32, first += 4) {
      const x = v128.load(at);
      const y = v128.load(at, 16);
      v128.store(at, reduceOnce(i32x4.add(x, y), P2));
      const z = i32x4.add(i32x4.sub(x, y), P2);
      v128.store(at, mulShoup(z, v128.load32_splat(w + first), v128.load32_splat(ws + first), P), 16);
    }
    t = 8;
    h >>= 1;
  }
  const wN = i32x4.splat(scale);
  const sN = i32x4.splat(<u32>((<u64>scale << 32) / p));
  // Two stages at once: strides t and 2t. The last pair (h = 2) also multiplies by n^−1.
  while (h >= 2) {
    const stride = <usize>t << 2;
    const final = h == 2;
    for (let i = 0; i < h >> 1; i++) {
      const first = <usize>(h + 2 * i) << 2;
      const second = <usize>((h >> 1) + i) << 2;
      const wA = v128.load32_splat(w + first);
      const sA = v128.load32_splat(ws + first);
      const wB = v128.load32_splat(w + first, 4);
      const sB = v128.load32_splat(ws + first, 4);
      let at = a + <usize>i * 4 * stride;
      const end = at + stride;
      const wC = final ? i32x4.splat(last) : v128.load32_splat(w + second);
      const sC = final ? i32x4.splat(<u32>((<u64>last << 32) / p)) : v128.load32_splat(ws + second);
      for (; at < end; at += 16) {
        let x0 = v128.load(at);
        let x1 = v128.load(at + stride);
        let x2 = v128.load(at + 2 * stride);
        let x3 = v128.load(at + 3 * stride);
        let z = i32x4.add(i32x4.sub(x0, x1), P2);
        x0 = reduceOnce(i32x4.add(x0, x1), P2);
        x1 = mulShoup(z, wA, sA, P);
        z = i32x4.add(i32x4.sub(x2, x3), P2);
        x2 = reduceOnce(i32x4.add(x2, x3), P2);
        x3 = mulShoup(z, wB, sB, P);
        const y0 = i32x4.add(x0, x2);
        const y1 = i32x4.add(x1, x3);
        const y2 = mulShoup(i32x4.add(i32x4.sub(x0, x2), P2), wC, sC, P);
        const y3 = mulShoup(i32x4.add(i32x4.sub(x1, x3), P2), wC, sC, P);
        v128.store(at, final ? reduceOnce(mulShoup(y0, wN, sN, P), P) : reduceOnce(y0, P2));
        v128.store(at + stride, final ? reduceOnce(mulShoup(y1, wN, sN, P), P) : reduceOnce(y1, P2));
        v128.store(at + 2 * stride, final ? reduceOnce(y2, P) : y2);
        v128.store(at + 3 * stride, final ? reduceOnce(y3, P) : y3);
      }
    }
    t <<= 2;
    h >>= 2;
  }
}
