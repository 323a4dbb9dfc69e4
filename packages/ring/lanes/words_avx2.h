// Vectors of eight 32-bit words (AVX2): what the native code of ring and of scan have in common.

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Words {
  /** Words of a vector. */
  static constexpr int W = 8;
  using U = __m256i;

  static U load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store(void* p, U x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
  static U splat(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  static U iota() { return _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0); }
  static U add(U a, U b) { return _mm256_add_epi32(a, b); }
  static U sub(U a, U b) { return _mm256_sub_epi32(a, b); }
  /** Of unsigned words. */
  static U min(U a, U b) { return _mm256_min_epu32(a, b); }
  static U mulLow(U a, U b) { return _mm256_mullo_epi32(a, b); }
  static U bitAnd(U a, U b) { return _mm256_and_si256(a, b); }
  static U bitXor(U a, U b) { return _mm256_xor_si256(a, b); }
  template <int by>
  static U rotate(U a) {
    if constexpr (by == 16 || by == 8) {
      const __m128i mask = by == 16 ? _mm_set_epi8(13, 12, 15, 14, 9, 8, 11, 10, 5, 4, 7, 6, 1, 0, 3, 2)
                                    : _mm_set_epi8(14, 13, 12, 15, 10, 9, 8, 11, 6, 5, 4, 7, 2, 1, 0, 3);
      return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(mask));
    }
    return _mm256_or_si256(_mm256_slli_epi32(a, by), _mm256_srli_epi32(a, 32 - by));
  }
  /** The products of the words with even numbers, as 64 bits each; the others are ignored. */
  static U mulEven(U a, U b) { return _mm256_mul_epu32(a, b); }
  /** The words with odd numbers, moved to the even places; they stay in the odd ones, too. */
  static U odd(U a) { return _mm256_castps_si256(_mm256_movehdup_ps(_mm256_castsi256_ps(a))); }
  /** High, or low, words of products of even words and of odd ones, in the order of the words. */
  static U joinHigh(U even, U odd_) { return _mm256_blend_epi32(odd(even), odd_, 0xaa); }
  static U joinLow(U even, U odd_) {
    return _mm256_blend_epi32(even, _mm256_castps_si256(_mm256_moveldup_ps(_mm256_castsi256_ps(odd_))), 0xaa);
  }
  /** Of the 2W words in x and y, those with even numbers to x and those with odd ones to y. */
  static void unzip(U& x, U& y) {
    const __m256 a = _mm256_castsi256_ps(x), b = _mm256_castsi256_ps(y);
    x = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)), 0xd8);
    y = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8);
  }
  /** Every second run of `by` words of x changes places with the run of y before it. */
  template <int by>
  static void exchange(U& x, U& y) {
    const U a = x;
    if constexpr (by == 1) {
      x = _mm256_blend_epi32(a, _mm256_slli_epi64(y, 32), 0xaa);
      y = _mm256_blend_epi32(_mm256_srli_epi64(a, 32), y, 0xaa);
    } else if constexpr (by == 2) {
      x = _mm256_unpacklo_epi64(a, y);
      y = _mm256_unpackhi_epi64(a, y);
    } else {
      x = _mm256_permute2x128_si256(a, y, 0x20);
      y = _mm256_permute2x128_si256(a, y, 0x31);
    }
  }
  /** x[i] holds word i of W blocks; they are stored one block of 16 words after the other. */
  static void storeTransposed(U (&x)[16], uint32_t* out) {
    U t[16];
    for (int i = 0; i < 16; i += 4) {
      const U ab0 = _mm256_unpacklo_epi32(x[i], x[i + 1]), ab1 = _mm256_unpackhi_epi32(x[i], x[i + 1]);
      const U cd0 = _mm256_unpacklo_epi32(x[i + 2], x[i + 3]), cd1 = _mm256_unpackhi_epi32(x[i + 2], x[i + 3]);
      t[i] = _mm256_unpacklo_epi64(ab0, cd0);
      t[i + 1] = _mm256_unpackhi_epi64(ab0, cd0);
      t[i + 2] = _mm256_unpacklo_epi64(ab1, cd1);
      t[i + 3] = _mm256_unpackhi_epi64(ab1, cd1);
    }
    // t[4q + r] holds, in 128-bit lane l, words 4q … 4q + 3 of block 4l + r.
    for (int r = 0; r < 4; r++) {
      for (int q = 0; q < 16; q += 8) {
        store(out + 16 * r + q, _mm256_permute2x128_si256(t[q + r], t[q + 4 + r], 0x20));
        store(out + 16 * (4 + r) + q, _mm256_permute2x128_si256(t[q + r], t[q + 4 + r], 0x31));
      }
    }
  }
};

}  // namespace
