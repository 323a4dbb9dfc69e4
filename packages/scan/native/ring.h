// What the kernels need to know about a ring R_Q = Z_Q[x]/(x^n + 1), Q a product of one or two
// primes below 2^30.
//
// Only plain data, without templates of the standard library: the variants are compiled for
// instruction sets that the machine may lack. If they shared an inline function with the rest of
// the program, the linker could pick the wrong copy.

#pragma once

#include <cstddef>
#include <cstdint>

namespace hers {

/** Words of a slot group: what the segment's layout calls lanes. */
constexpr size_t kGroup = 16;
/** Words of one row of a query in the kernel's layout: 16 of B, then 16 of A. */
constexpr size_t kQueryRow = 2 * kGroup;
/** How many products are summed between two folds: see multiply.h. */
constexpr size_t kFoldRows = 16;

/** The lines that so many rows take, where four are packed into three or where they are not. */
constexpr size_t linesOf(size_t rows, bool packed) { return packed ? rows - rows / 4 : rows; }

struct Modulus {
  uint32_t p;
  /** The largest multiple of p up to 2^32. */
  uint32_t foldBy;
  /** Rows that may follow the last fold before Montgomery's reduction. */
  uint32_t tailRows;
  /** Rows whose products add up to less than 2^64, and to what Montgomery's reduction takes. */
  size_t unfoldedRows, bareRows;
  /** −p^−1 mod 2^32. */
  uint32_t negativeInverse;
  /** round(2^(31+b)/p) for primes of b bits: the share of this prime in a switch of modulus. */
  uint32_t reciprocal;
  /**
   * The factors of the last stage of the inverse transform, each with its Shoup companion: n^−1 and
   * n^−1·ψ^−brv(1), times 2^32 which undoes Montgomery's reduction, times (Q/p)^−1 which the switch
   * of modulus asks for.
   */
  uint32_t scale, scaleShoup, last, lastShoup;
  /** ψ^−brv(i) for i below n, and the companions. */
  const uint32_t* inverses;
  const uint32_t* inversesShoup;
  /**
   * The twiddles of strides below W, spread over lanes: for every window of 2W words and every
   * stride W twiddles and W companions.
   */
  const uint32_t* spread;
};

struct Ring {
  uint32_t n;
  uint32_t primes;
  /** The bit length of every prime. */
  uint32_t bits;
  Modulus moduli[2];
};

}  // namespace hers
