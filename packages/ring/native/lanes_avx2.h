// Vectors of eight 32-bit words (AVX2), and of four doubles.

#pragma once

#include "../lanes/words_avx2.h"

namespace {

struct Lanes : Words {
  /** One truth for each word. */
  using M = __m256i;

  static U widen(const int8_t* p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))); }
  static U widenUnsigned(const uint8_t* p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))); }
  /** Of unsigned words. */
  static U max(U a, U b) { return _mm256_max_epu32(a, b); }
  static U abs(U a) { return _mm256_abs_epi32(a); }
  static U bitOr(U a, U b) { return _mm256_or_si256(a, b); }
  static U shiftLeft(U a, int by) { return _mm256_sll_epi32(a, _mm_cvtsi32_si128(by)); }
  static U shiftRightSigned(U a, int by) { return _mm256_sra_epi32(a, _mm_cvtsi32_si128(by)); }
  /** Zero where it is shifted by 32 or more. */
  static U shiftLeftEach(U a, U by) { return _mm256_sllv_epi32(a, by); }
  static U shiftRightEach(U a, U by) { return _mm256_srlv_epi32(a, by); }
  /** Word from[i] mod W of a, at i. */
  static U permute(U a, U from) { return _mm256_permutevar8x32_epi32(a, from); }

  static U shiftRight64(U a, int by) { return _mm256_srl_epi64(a, _mm_cvtsi32_si128(by)); }

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
  /** The inverse of unzip. */
  static void zip(U& x, U& y) {
    const U low = _mm256_unpacklo_epi32(x, y), high = _mm256_unpackhi_epi32(x, y);
    x = _mm256_permute2x128_si256(low, high, 0x20);
    y = _mm256_permute2x128_si256(low, high, 0x31);
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
  /** Of the first half of the signed words, and of the second. */
  static F lowDoubles(U x) { return _mm256_cvtepi32_pd(_mm256_castsi256_si128(x)); }
  static F highDoubles(U x) { return _mm256_cvtepi32_pd(_mm256_extracti128_si256(x, 1)); }
  /** The low words of a, then those of b. */
  static U lowWords(F a, F b) {
    return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(_mm256_castpd_ps(a), _mm256_castpd_ps(b), 0x88)), 0xd8);
  }
  /** As `exchange`, of doubles. */
  template <int by>
  static void exchangeF(F& x, F& y) {
    U a = _mm256_castpd_si256(x), b = _mm256_castpd_si256(y);
    exchange<2 * by>(a, b);
    x = _mm256_castsi256_pd(a), y = _mm256_castsi256_pd(b);
  }
  static F toDoubles(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
  /** The floats with these numbers. */
  static F gather(const float* from, const uint16_t* at) {
    const __m128i index = _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    return _mm256_cvtps_pd(_mm_i32gather_ps(from, index, 4));
  }
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
  /** a ± b·c, rounded once. */
  static F plusProduct(F a, F b, F c) { return _mm256_fmadd_pd(b, c, a); }
  static F minusProduct(F a, F b, F c) { return _mm256_fnmadd_pd(b, c, a); }
  static F maxF(F a, F b) { return _mm256_max_pd(a, b); }
  static F minF(F a, F b) { return _mm256_min_pd(a, b); }
  static F absF(F a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
  /** Ties to even. */
  static F nearest(F a) { return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static void storeTruncated(int32_t* out, F x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvttpd_epi32(x)); }
};

}  // namespace
