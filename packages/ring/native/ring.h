// What a ring is to the native code: numbers that packages/ring/src/modulus.ts computes, and tables
// that lie in the WebAssembly memory of the ring.

#pragma once

#include <cstddef>
#include <cstdint>

namespace hers {

constexpr uint32_t kLeastN = 64, kMostN = 8192;

/** ⌊w·2^32/p⌋: Shoup's companion of a factor w. */
inline uint32_t shoup(uint32_t w, uint32_t p) { return static_cast<uint32_t>((static_cast<uint64_t>(w) << 32) / p); }

struct Prime {
  uint32_t p;
  /** Barrett's constants: see packages/ring/assembly/arithmetic.ts. */
  uint32_t mu, shift;
  /** n^−1, and n^−1 times the last twiddle of the inverse transform. */
  uint32_t scale, last;
  /** Four arrays of n words: roots, their companions, inverses of roots, and theirs. */
  const uint32_t* tables;
};

struct Ring {
  uint32_t n, primes;
  Prime prime[2];
  /** p0^−1 mod p1, where there are two. */
  uint32_t inverse;
  size_t words() const { return size_t{n} * primes; }
};

/** Where a sampled polynomial comes from. */
struct Source {
  const uint8_t* key;
  uint32_t domain, index;
};

/** Ternary secrets in NTT form, expanded when first needed and kept where there is room. */
struct Secrets {
  const uint8_t* key;
  uint32_t domain;
  /** Or null. */
  uint32_t* kept;
  uint8_t* isKept;
};

/**
 * b_i = lift_i·v_i + e_i − a·s_i modulo Q·2^wideBits, rounded to Q.
 * packages/ring/src/rows.ts says it plainly.
 */
struct BlockRows {
  const Ring* ring;
  uint32_t* out;
  const int32_t* values;
  size_t rows, count, first;
  /** For row i the residues of its lift modulo each prime, then its low word: primes + 1 words. */
  const uint32_t* lifts;
  const uint8_t* maskKey;
  uint32_t maskDomain, maskBitsDomain;
  const uint8_t* errorKey;
  uint32_t errorDomain;
  Secrets secrets;
  uint32_t wideBits;
};

/** The rows of a query: one for each value, then `digits` for the sum of secret times row. */
struct QueryRows {
  const Ring* ring;
  uint32_t* out;
  /** n words: the transform of the result secret modulo the first prime. */
  uint32_t* secretOut;
  const int32_t* values;
  size_t rows;
  const uint32_t* lifts;
  const uint8_t* maskKey;
  uint32_t maskDomain, maskBitsDomain;
  const uint8_t* errorKey;
  uint32_t errorDomain;
  const uint8_t* resultKey;
  uint32_t resultDomain;
  Secrets secrets;
  uint32_t wideBits, digitBits, digits;
};

/** Complex roots for the transform of points.h: RootTables makes them. */
struct Roots {
  /** w_k at k. */
  const double* re;
  const double* im;
  /**
   * For every window of two vectors and every stride t = lanes/2 … 1: the roots of its lanes, a
   * vector of real parts and one of imaginary parts.
   */
  const double* spread;
};

/** The phase of a packed pair: see Ring.phase in packages/ring/src/ring.ts. */
struct Phase {
  const Ring* ring;
  const uint8_t* packed0;
  const uint8_t* packed1;
  uint32_t bits0, bits1;
  Roots roots;
  /** n doubles: what secretPoints makes of the secret. */
  const double* points;
};

}  // namespace hers
