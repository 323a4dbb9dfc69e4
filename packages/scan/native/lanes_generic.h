// Vectors of four 32-bit words in the C++ extensions that GCC and Clang share, for any
// little-endian machine. The interface of all three kinds of vectors is described here; the
// templates (multiply.h, transform.h, …) are written once over it.
//
// Everything is in an anonymous namespace: each variant is compiled with its own flags, and the
// linker must not merge functions of two variants.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the order of words in a doubleword, and the file format, are little-endian");

namespace {

struct Lanes {
  static constexpr int W = 4;
  /** W words; and W/2 doublewords. One can be cast to the other. */
  typedef uint32_t U __attribute__((vector_size(16)));
  typedef uint64_t D __attribute__((vector_size(16)));

  static U load(const void* p) {
    U x;
    memcpy(&x, p, sizeof x);
    return x;
  }
  static void store(void* p, U x) { memcpy(p, &x, sizeof x); }
  /** The same, in a register where there are enough of them. */
  static U keep(U x) { return x; }
  static U splat(uint32_t x) { return U{x, x, x, x}; }
  /** 0, 1, 2, … */
  static U iota() { return U{0, 1, 2, 3}; }
  static U add(U a, U b) { return a + b; }
  static U sub(U a, U b) { return a - b; }
  static U min(U a, U b) {
    const U mask = reinterpret_cast<U>(a < b);
    return (a & mask) | (b & ~mask);
  }
  static U mulLow(U a, U b) { return a * b; }
  static U bitAnd(U a, U b) { return a & b; }
  static U bitXor(U a, U b) { return a ^ b; }
  template <int by>
  static U rotate(U a) {
    return a << by | a >> (32 - by);
  }

  static D zero() { return D{}; }
  static D splatD(uint64_t x) { return D{x, x}; }
  /** Aligned to the size of a vector. */
  static D loadD(const uint64_t* p) {
    D x;
    memcpy(&x, p, sizeof x);
    return x;
  }
  static void storeD(uint64_t* p, D x) { memcpy(p, &x, sizeof x); }
  static D addD(D a, D b) { return a + b; }
  static D subD(D a, D b) { return a - b; }
  static D shiftRightD(D a, int by) { return a >> static_cast<uint64_t>(by); }
  /**
   * The products of the words with even numbers, which are the low words of doublewords; the others
   * are ignored.
   */
  static D mulEven(U a, U b) {
#if defined(__SSE2__)
    return reinterpret_cast<D>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#elif defined(__ARM_NEON)
    return reinterpret_cast<D>(vmull_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(a)), vmovn_u64(reinterpret_cast<uint64x2_t>(b))));
#else
    return D{uint64_t{a[0]} * b[0], uint64_t{a[2]} * b[2]};
#endif
  }
  static D mulEven(D a, U b) { return mulEven(reinterpret_cast<U>(a), b); }
  /**
   * The words with odd numbers, or high words, moved to the even places; what is left in the odd
   * ones is undefined.
   */
  static U odd(U a) { return odd(reinterpret_cast<D>(a)); }
  static U odd(D a) { return reinterpret_cast<U>(a >> 32); }
  /** Words with even numbers, and those with odd ones moved to their places. */
  struct Split {
    U even, odd;
  };
  static Split split(U a) { return {a, odd(a)}; }
  /**
   * For packed rows, of residues below 2^24. The words as they are; the low three bytes of each;
   * and the top bytes of three, the first one's lowest.
   */
  static Split splitShort(U a) { return split(a); }
  static Split splitLow(U a) { return split(a & splat(0xffffff)); }
  static Split splitTop(U a, U b, U c) { return split(a >> 24 | (b >> 16 & splat(0xff00)) | (c >> 8 & splat(0xff0000))); }
  /** sum + the products of what these gave. */
  static D addShort(D sum, U a, U b) { return sum + mulEven(a, b); }
  /** How many blocks with packed rows share what is loaded of one query. */
  static constexpr size_t kPackedBlocks = 1;
  /** High, or low, words of both, the first ones in the even places. */
  static U joinHigh(D even, D odd) { return reinterpret_cast<U>((even >> 32) | (odd & splatD(0xffffffff00000000))); }
  static U joinLow(D even, D odd) { return reinterpret_cast<U>((even & splatD(0xffffffff)) | (odd << 32)); }

  /** Of the 2W words in x and y, those with even numbers to x and those with odd ones to y. */
  static void unzip(U& x, U& y) {
    const U a = x, b = y;
    x = U{a[0], a[2], b[0], b[2]};
    y = U{a[1], a[3], b[1], b[3]};
  }
  /** Every second run of `by` words of x changes places with the run of y before it. */
  template <int by>
  static void exchange(U& x, U& y) {
    const U a = x, b = y;
    x = by == 1 ? U{a[0], b[0], a[2], b[2]} : U{a[0], a[1], b[0], b[1]};
    y = by == 1 ? U{a[1], b[1], a[3], b[3]} : U{a[2], a[3], b[2], b[3]};
  }
  /** x[i] holds word i of W blocks; they are stored one block of 16 words after the other. */
  static void storeTransposed(U (&x)[16], uint32_t* out) {
    for (int block = 0; block < W; block++)
      for (int i = 0; i < 16; i++) out[16 * block + i] = x[i][block];
  }
};

}  // namespace
