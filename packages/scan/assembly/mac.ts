// The multiply-accumulate of the scan (packages/scheme/README.md §2, packages/scan/README.md):
// C0 += G·B and C1 += G·A over the rows of a panel, 16 slots of many blocks at a time.
//
// Sums are 64-bit. After every 16 rows each is folded: 2^32 ≡ c (mod p), so
// a ← (a mod 2^32) + (a >> 32)·c keeps its residue, and then a ≤ (2^32 − 1)(1 + c). Sixteen
// products of reduced residues may follow without a carry out of 64 bits when
//
//     (2^32 − 1)(1 + c) + 16(p − 1)² < 2^64.                                            (1)
//
// For p = 2^30 − δ with 4δ < p: c = 4δ and 16(p − 1)² = 2^64 − 2^35(δ + 1) + 16(δ + 1)², so (1)
// asks for 2^32(1 + 4δ) + 16(δ + 1)² ≤ 2^35(δ + 1), where the left side is about half of the right
// one as long as δ is small against 2^30. Random residues practically never come near the bound:
// the tests take every residue p − 1.
//
// src/wasm/wasm-memory.ts checks (1) for each prime before it is used. Sums of packed rows, whose
// residues have three bytes, are not folded: up to 2^16 products of 48 bits fit.
//
// At the end a = h·2^32 + l becomes l·1 + h·c modulo p, lazily, below 2p as the inverse transform
// takes it: each of the two by Shoup's product, which is below 2p for any word.
//
// Two rows of eight slots in one turn measured fastest: eight sums and their operands just fit the
// sixteen registers of x86-64. Each product of two lanes costs three instructions there (two
// unpacks, one multiplication), which bounds the speed, not memory.

import { mulShoup, reduceOnce } from '../../ring/assembly/arithmetic';

@inline
function fold(a: v128, low: v128, c: v128): v128 {
  return i64x2.add(v128.and(a, low), i64x2.extmul_low_i32x4_u(v128.shuffle<u32>(a, a, 1, 3, 1, 3), c));
}
@inline
function addLow(sum: v128, x: v128, y: v128): v128 {
  return i64x2.add(sum, i64x2.extmul_low_i32x4_u(x, y));
}
@inline
function addHigh(sum: v128, x: v128, y: v128): v128 {
  return i64x2.add(sum, i64x2.extmul_high_i32x4_u(x, y));
}

/**
 * One run of a panel: `data` is [block][row][16 lanes] with `rows` rows, `slice` the first of these
 * rows in the slices of query 0, those of the next query `queryBytes` further. Adds to `sums`,
 * [block][query][256 bytes], which are folded before and after; `first` starts them at zero.
 */
export function accumulate(
  data: usize, slice: usize, sums: usize, blocks: i32, rows: i32, queries: i32, queryBytes: usize, c: u32, first: i32,
): void {
  const low = i64x2.splat(0xffffffff);
  const C = i32x4.splat(c);
  const zero = i64x2.splat(0);
  for (let block = 0; block < blocks; block++) {
    let part = slice;
    for (let query = 0; query < queries; query++) {
      for (let lanes: usize = 0; lanes < 64; lanes += 32) {
        let g = data + lanes;
        let q = part + lanes;
        let b0 = zero, b1 = zero, a0 = zero, a1 = zero, b2 = zero, b3 = zero, a2 = zero, a3 = zero;
        if (!first) {
          b0 = v128.load(sums);
          b1 = v128.load(sums, 16);
          a0 = v128.load(sums, 32);
          a1 = v128.load(sums, 48);
          b2 = v128.load(sums, 64);
          b3 = v128.load(sums, 80);
          a2 = v128.load(sums, 96);
          a3 = v128.load(sums, 112);
        }
        let left = rows;
        while (left > 0) {
          let turn = min(left, 16);
          left -= turn;
          for (; turn >= 2; turn -= 2) {
            let x = v128.load(g), y = v128.load(q), z = v128.load(q, 64);
            b0 = addLow(b0, x, y); b1 = addHigh(b1, x, y); a0 = addLow(a0, x, z); a1 = addHigh(a1, x, z);
            x = v128.load(g, 16); y = v128.load(q, 16); z = v128.load(q, 80);
            b2 = addLow(b2, x, y); b3 = addHigh(b3, x, y); a2 = addLow(a2, x, z); a3 = addHigh(a3, x, z);
            x = v128.load(g, 64); y = v128.load(q, 128); z = v128.load(q, 192);
            b0 = addLow(b0, x, y); b1 = addHigh(b1, x, y); a0 = addLow(a0, x, z); a1 = addHigh(a1, x, z);
            x = v128.load(g, 80); y = v128.load(q, 144); z = v128.load(q, 208);
            b2 = addLow(b2, x, y); b3 = addHigh(b3, x, y); a2 = addLow(a2, x, z); a3 = addHigh(a3, x, z);
            g += 128;
            q += 256;
          }
          if (turn) {
            let x = v128.load(g), y = v128.load(q), z = v128.load(q, 64);
            b0 = addLow(b0, x, y); b1 = addHigh(b1, x, y); a0 = addLow(a0, x, z); a1 = addHigh(a1, x, z);
            x = v128.load(g, 16); y = v128.load(q, 16); z = v128.load(q, 80);
            b2 = addLow(b2, x, y); b3 = addHigh(b3, x, y); a2 = addLow(a2, x, z); a3 = addHigh(a3, x, z);
          }
          b0 = fold(b0, low, C); b1 = fold(b1, low, C); a0 = fold(a0, low, C); a1 = fold(a1, low, C);
          b2 = fold(b2, low, C); b3 = fold(b3, low, C); a2 = fold(a2, low, C); a3 = fold(a3, low, C);
        }
        v128.store(sums, b0);
        v128.store(sums, b1, 16);
        v128.store(sums, a0, 32);
        v128.store(sums, a1, 48);
        v128.store(sums, b2, 64);
        v128.store(sums, b3, 80);
        v128.store(sums, a2, 96);
        v128.store(sums, a3, 112);
        sums += 128;
      }
      part += queryBytes;
    }
    data += <usize>rows << 6;
  }
}

/**
 * The same for packed rows (packages/scan/src/segment.ts): four rows are three lines, and nothing
 * is folded.
 */
export function accumulatePacked(
  data: usize, slice: usize, sums: usize, blocks: i32, rows: i32, queries: i32, queryBytes: usize, first: i32,
): void {
  const low = i32x4.splat(0xffffff);
  const byte1 = i32x4.splat(0xff00);
  const byte2 = i32x4.splat(0xff0000);
  const zero = i64x2.splat(0);
  for (let block = 0; block < blocks; block++) {
    let part = slice;
    for (let query = 0; query < queries; query++) {
      for (let lanes: usize = 0; lanes < 64; lanes += 16) {
        let g = data + lanes;
        let q = part + lanes;
        let b0 = zero, b1 = zero, a0 = zero, a1 = zero;
        if (!first) {
          b0 = v128.load(sums);
          b1 = v128.load(sums, 16);
          a0 = v128.load(sums, 32);
          a1 = v128.load(sums, 48);
        }
        let left = rows;
        for (; left >= 4; left -= 4) {
          const u = v128.load(g), v = v128.load(g, 64), w = v128.load(g, 128);
          let x = v128.and(u, low), y = v128.load(q), z = v128.load(q, 64);
          b0 = addLow(b0, x, y); b1 = addHigh(b1, x, y); a0 = addLow(a0, x, z); a1 = addHigh(a1, x, z);
          x = v128.and(v, low); y = v128.load(q, 128); z = v128.load(q, 192);
          b0 = addLow(b0, x, y); b1 = addHigh(b1, x, y); a0 = addLow(a0, x, z); a1 = addHigh(a1, x, z);
          x = v128.and(w, low); y = v128.load(q, 256); z = v128.load(q, 320);
          b0 = addLow(b0, x, y); b1 = addHigh(b1, x, y); a0 = addLow(a0, x, z); a1 = addHigh(a1, x, z);
          x = v128.or(i32x4.shr_u(u, 24), v128.and(i32x4.shr_u(v, 16), byte1));
          x = v128.or(x, v128.and(i32x4.shr_u(w, 8), byte2));
          y = v128.load(q, 384); z = v128.load(q, 448);
          b0 = addLow(b0, x, y); b1 = addHigh(b1, x, y); a0 = addLow(a0, x, z); a1 = addHigh(a1, x, z);
          g += 192;
          q += 512;
        }
        for (; left > 0; left--) {
          const x = v128.load(g), y = v128.load(q), z = v128.load(q, 64);
          b0 = addLow(b0, x, y); b1 = addHigh(b1, x, y); a0 = addLow(a0, x, z); a1 = addHigh(a1, x, z);
          g += 64;
          q += 128;
        }
        v128.store(sums, b0);
        v128.store(sums, b1, 16);
        v128.store(sums, a0, 32);
        v128.store(sums, a1, 48);
        sums += 64;
      }
      part += queryBytes;
    }
    data += <usize>(rows - (rows >> 2)) << 6;
  }
}

/** Four sums to four residues below 2p. */
@inline
function residues(s0: v128, s1: v128, p: v128, p2: v128, one: v128, oneShoup: v128, c: v128, cShoup: v128): v128 {
  const l = v128.shuffle<u32>(s0, s1, 0, 2, 4, 6);
  const h = v128.shuffle<u32>(s0, s1, 1, 3, 5, 7);
  return reduceOnce(i32x4.add(mulShoup(l, one, oneShoup, p), mulShoup(h, c, cShoup, p)), p2);
}

/**
 * The finished sums of one slot group to residues below 2p: `count` pairs (block, query) of 256
 * bytes each. C0 of the first pair goes to `out`, its C1 `polyBytes` further, the next pair after
 * both.
 */
export function reduce(sums: usize, out: usize, count: i32, polyBytes: usize, p: u32, c: u32): void {
  const P = i32x4.splat(p);
  const P2 = i32x4.splat(2 * p);
  const C = i32x4.splat(c);
  const CS = i32x4.splat(<u32>((<u64>c << 32) / p));
  const ONE = i32x4.splat(1);
  const ONES = i32x4.splat(<u32>((<u64>1 << 32) / p));
  for (let pair = 0; pair < count; pair++) {
    for (let lanes: usize = 0; lanes < 64; lanes += 16) {
      const at = out + lanes;
      v128.store(at, residues(v128.load(sums), v128.load(sums, 16), P, P2, ONE, ONES, C, CS));
      v128.store(at + polyBytes, residues(v128.load(sums, 32), v128.load(sums, 48), P, P2, ONE, ONES, C, CS));
      sums += 64;
    }
    out += 2 * polyBytes;
  }
}

// The query as it is scanned: slices [slot group][row][B, A][16 lanes], so that what one group
// needs is contiguous over the rows.

/**
 * Moves `count` rows of B and of A (`words` residues each) to their places in the slices of a query
 * of `rows` rows; `out` points to the first of these rows in the slice of group 0. A few rows at a
 * time make runs longer than a cache line.
 */
export function interleave(out: usize, b: usize, a: usize, count: i32, words: i32, rows: i32): void {
  const rowBytes = <usize>words << 2;
  const sliceBytes = <usize>rows << 7;
  for (let group: usize = 0; group < rowBytes; group += 64) {
    let to = out;
    let fromB = b + group;
    let fromA = a + group;
    for (let row = 0; row < count; row++) {
      v128.store(to, v128.load(fromB));
      v128.store(to, v128.load(fromB, 16), 16);
      v128.store(to, v128.load(fromB, 32), 32);
      v128.store(to, v128.load(fromB, 48), 48);
      v128.store(to, v128.load(fromA), 64);
      v128.store(to, v128.load(fromA, 16), 80);
      v128.store(to, v128.load(fromA, 32), 96);
      v128.store(to, v128.load(fromA, 48), 112);
      to += 128;
      fromB += rowBytes;
      fromA += rowBytes;
    }
    out += sliceBytes;
  }
}

/** For rows that come as they are. */
export function copyWords(out: usize, from: usize, count: i32): void {
  memory.copy(out, from, <usize>count << 2);
}
