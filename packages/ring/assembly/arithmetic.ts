// Residues modulo one prime p < 2^30, four lanes at a time. Lanes are unsigned 32-bit words.
//
// A residue is "reduced" in [0, p); transforms keep them lazily in [0, 4p), which fits because 4p <
// 2^32.

/** High words of the four 64-bit products a·b. */
@inline
export function mulHigh(a: v128, b: v128): v128 {
  return v128.shuffle<u32>(i64x2.extmul_low_i32x4_u(a, b), i64x2.extmul_high_i32x4_u(a, b), 1, 3, 5, 7);
}

/** x − p where that does not wrap, else x: one conditional subtraction without a branch. */
@inline
export function reduceOnce(x: v128, p: v128): v128 {
  return i32x4.min_u(x, i32x4.sub(x, p));
}

/**
 * Shoup's multiplication by a constant w with wShoup = ⌊w·2^32/p⌋: x·w mod p in [0, 2p) for any
 * 32-bit x (D. Harvey, "Faster arithmetic for number-theoretic transforms", 2014).
 */
@inline
export function mulShoup(x: v128, w: v128, wShoup: v128, p: v128): v128 {
  return i32x4.sub(i32x4.mul(x, w), i32x4.mul(mulHigh(x, wShoup), p));
}

/**
 * Barrett's product of reduced x and y, in [0, 5p/2). With b the bit length of p, shift = b − 2
 * and mu = ⌊2^(b+30)/p⌋: the quotient estimate ⌊⌊xy/2^shift⌋·mu/2^32⌋ is at most the
 * true quotient and less than 5/2 below it.
 */
@inline
export function mulBarrett(x: v128, y: v128, p: v128, mu: v128, shift: i32): v128 {
  const low = i64x2.extmul_low_i32x4_u(x, y);
  const high = i64x2.extmul_high_i32x4_u(x, y);
  const top = v128.shuffle<u32>(i64x2.shr_u(low, shift), i64x2.shr_u(high, shift), 0, 2, 4, 6);
  const product = v128.shuffle<u32>(low, high, 0, 2, 4, 6);
  return i32x4.sub(product, i32x4.mul(mulHigh(top, mu), p));
}

/** A value in [0, 4p) to its reduced residue. */
@inline
export function reduceLazy(x: v128, p: v128, p2: v128): v128 {
  return reduceOnce(reduceOnce(x, p2), p);
}

/** Signed lanes with |x| < p to reduced residues. */
@inline
export function embedLanes(x: v128, p: v128): v128 {
  return i32x4.add(x, v128.and(i32x4.shr_s(x, 31), p));
}

/** Reduced residues to signed lanes in (−p/2, p/2]. */
@inline
export function centreLanes(x: v128, p: v128, half: v128): v128 {
  return i32x4.sub(x, v128.and(i32x4.gt_u(x, half), p));
}
