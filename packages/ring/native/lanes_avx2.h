// Vectors of eight 32-bit words (AVX2).

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Lanes {
  /** Words of a vector. */
  static constexpr int W = 8;
  using U = __m256i;
  /** One truth for each word. */
  using M = __m256i;

  static U load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store(void* p, U x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
  static U splat(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  static U iota() { return _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0); }
  static U widen(const int8_t* p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))); }
  static U widenUnsigned(const uint8_t* p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))); }
  static U add(U a, U b) { return _mm256_add_epi32(a, b); }
  static U sub(U a, U b) { return _mm256_sub_epi32(a, b); }
  /** Of unsigned words. */
  static U min(U a, U b) { return _mm256_min_epu32(a, b); }
  static U max(U a, U b) { return _mm256_max_epu32(a, b); }
  static U abs(U a) { return _mm256_abs_epi32(a); }
  static U mulLow(U a, U b) { return _mm256_mullo_epi32(a, b); }
  static U bitAnd(U a, U b) { return _mm256_and_si256(a, b); }
  static U bitOr(U a, U b) { return _mm256_or_si256(a, b); }
  static U bitXor(U a, U b) { return _mm256_xor_si256(a, b); }
  static U shiftLeft(U a, int by) { return _mm256_sll_epi32(a, _mm_cvtsi32_si128(by)); }
  static U shiftRightSigned(U a, int by) { return _mm256_sra_epi32(a, _mm_cvtsi32_si128(by)); }
  /** Zero where it is shifted by 32 or more. */
  static U shiftLeftEach(U a, U by) { return _mm256_sllv_epi32(a, by); }
  static U shiftRightEach(U a, U by) { return _mm256_srlv_epi32(a, by); }
  /** Word from[i] mod W of a, at i. */
  static U permute(U a, U from) { return _mm256_permutevar8x32_epi32(a, from); }
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
  static U shiftRight64(U a, int by) { return _mm256_srl_epi64(a, _mm_cvtsi32_si128(by)); }
  /** The words with odd numbers, moved to the even places; they stay in the odd ones, too. */
  static U odd(U a) { return _mm256_castps_si256(_mm256_movehdup_ps(_mm256_castsi256_ps(a))); }
  /** High, or low, words of products of even words and of odd ones, in the order of the words. */
  static U joinHigh(U even, U odd_) { return _mm256_blend_epi32(odd(even), odd_, 0xaa); }
  static U joinLow(U even, U odd_) {
    return _mm256_blend_epi32(even, _mm256_castps_si256(_mm256_moveldup_ps(_mm256_castsi256_ps(odd_))), 0xaa);
  }

  /** Of signed words. */
  static M greater(U a, U b) { return _mm256_cmpgt_epi32(a, b); }
  static M equal(U a, U b) { return _mm256_cmpeq_epi32(a, b); }
  static M both(M a, M b) { return _mm256_and_si256(a, b); }
  static M either(M a, M b) { return _mm256_or_si256(a, b); }
  static M butNot(M a, M b) { return _mm256_andnot_si256(b, a); }
  /** a where that is true, else zero. */
  static U where(M m, U a) { return _mm256_and_si256(m, a); }
  /** Of unsigned words. */
  static bool anyNotBelow(U a, U b) {
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a)) != 0;
  }
  static bool allBelow(U a, U b) { return !anyNotBelow(a, b); }

  /** W/t words, each t times. */
  template <int t>
  static U spread(const uint32_t* at) {
    if constexpr (t == 1) return load(at);
    if constexpr (t == 2)
      return _mm256_permutevar8x32_epi32(
          _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))),
          _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0));
    return _mm256_permutevar8x32_epi32(
        _mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))),
        _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0));
  }
  /** Of the 2W words in x and y, those with even numbers to x and those with odd ones to y. */
  static void unzip(U& x, U& y) {
    const __m256 a = _mm256_castsi256_ps(x), b = _mm256_castsi256_ps(y);
    x = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)), 0xd8);
    y = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8);
  }
  /** The inverse. */
  static void zip(U& x, U& y) {
    const U low = _mm256_unpacklo_epi32(x, y), high = _mm256_unpackhi_epi32(x, y);
    x = _mm256_permute2x128_si256(low, high, 0x20);
    y = _mm256_permute2x128_si256(low, high, 0x31);
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

  /** The set bits of every byte, from a table in a register: no address depends on them. */
  static U popcountBytes(U x) {
    const U counts = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const U low = _mm256_set1_epi8(15);
    return _mm256_add_epi8(
        _mm256_shuffle_epi8(counts, _mm256_and_si256(x, low)),
        _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16(x, 4), low)));
  }

  /** Signed words times factor plus offset, both rounded. */
  static void storeFloats(float* out, U x, float factor, float offset) {
    __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(x), _mm256_set1_ps(factor));
    asm("" : "+x"(product));
    _mm256_storeu_ps(out, _mm256_add_ps(product, _mm256_set1_ps(offset)));
  }

  /** H doubles. */
  using F = __m256d;
  static constexpr int H = 4;
  static F toDoubles(const int32_t* p) { return _mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static F toDoubles(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
  static F loadF(const double* p) { return _mm256_loadu_pd(p); }
  static void storeF(double* p, F x) { _mm256_storeu_pd(p, x); }
  static F splatF(double x) { return _mm256_set1_pd(x); }
  static F addF(F a, F b) { return _mm256_add_pd(a, b); }
  static F subF(F a, F b) { return _mm256_sub_pd(a, b); }
  /** Rounded: no compiler can contract it with an addition. */
  static F mulF(F a, F b) {
    F product = _mm256_mul_pd(a, b);
    asm("" : "+x"(product));
    return product;
  }
  static F maxF(F a, F b) { return _mm256_max_pd(a, b); }
  static F minF(F a, F b) { return _mm256_min_pd(a, b); }
  static F absF(F a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
  /** Ties to even. */
  static F nearest(F a) { return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static void storeTruncated(int32_t* out, F x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvttpd_epi32(x)); }
};

}  // namespace
