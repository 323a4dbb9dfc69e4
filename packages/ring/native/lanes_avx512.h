// Vectors of sixteen 32-bit words (AVX-512 F, DQ, BW and VL). lanes_avx2.h has the same interface,
// and says what is not obvious.

#pragma once

#include "../lanes/words_avx512.h"

namespace {

struct Lanes : Words {
  using M = __mmask16;

  static U widen(const int8_t* p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static U widenUnsigned(const uint8_t* p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static U max(U a, U b) { return _mm512_max_epu32(a, b); }
  static U abs(U a) { return _mm512_abs_epi32(a); }
  static U bitOr(U a, U b) { return _mm512_or_si512(a, b); }
  static U shiftLeft(U a, int by) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(by)); }
  static U shiftRightSigned(U a, int by) { return _mm512_sra_epi32(a, _mm_cvtsi32_si128(by)); }
  static U shiftLeftEach(U a, U by) { return _mm512_sllv_epi32(a, by); }
  static U shiftRightEach(U a, U by) { return _mm512_srlv_epi32(a, by); }
  static U permute(U a, U from) { return _mm512_permutexvar_epi32(from, a); }

  static U shiftRight64(U a, int by) { return _mm512_srl_epi64(a, _mm_cvtsi32_si128(by)); }

  static M greater(U a, U b) { return _mm512_cmpgt_epi32_mask(a, b); }
  static M equal(U a, U b) { return _mm512_cmpeq_epi32_mask(a, b); }
  static M both(M a, M b) { return static_cast<M>(a & b); }
  static M either(M a, M b) { return static_cast<M>(a | b); }
  static M butNot(M a, M b) { return static_cast<M>(a & ~b); }
  static U where(M m, U a) { return _mm512_maskz_mov_epi32(m, a); }
  static bool allBelow(U a, U b) { return _mm512_cmplt_epu32_mask(a, b) == 0xffff; }
  static bool anyNotBelow(U a, U b) { return _mm512_cmpge_epu32_mask(a, b) != 0; }

  template <int t>
  static U spread(const uint32_t* at) {
    if constexpr (t == 1) return load(at);
    if constexpr (t == 2)
      return _mm512_permutexvar_epi32(
          _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0),
          _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))));
    if constexpr (t == 4)
      return _mm512_permutexvar_epi32(
          _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0),
          _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))));
    return _mm512_permutexvar_epi32(
        _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        _mm512_castsi128_si512(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
  }
  static void zip(U& x, U& y) {
    const U low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const U high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    const U a = x;
    x = _mm512_permutex2var_epi32(a, low, y);
    y = _mm512_permutex2var_epi32(a, high, y);
  }

  static U popcountBytes(U x) {
    const U counts = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const U low = _mm512_set1_epi8(15);
    return _mm512_add_epi8(
        _mm512_shuffle_epi8(counts, _mm512_and_si512(x, low)),
        _mm512_shuffle_epi8(counts, _mm512_and_si512(_mm512_srli_epi16(x, 4), low)));
  }

  static void storeFloats(float* out, U x, float factor, float offset) {
    __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(x), _mm512_set1_ps(factor));
    asm("" : "+v"(product));
    _mm512_storeu_ps(out, _mm512_add_ps(product, _mm512_set1_ps(offset)));
  }

  // Doubles, half a vector of words at a time.
  using F = __m512d;
  static constexpr int H = 8;
  static F toDoubles(const int32_t* p) { return _mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F lowDoubles(U x) { return _mm512_cvtepi32_pd(_mm512_castsi512_si256(x)); }
  static F highDoubles(U x) { return _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(x, 1)); }
  static U lowWords(F a, F b) {
    const U evens = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_epi32(_mm512_castpd_si512(a), evens, _mm512_castpd_si512(b));
  }
  template <int by>
  static void exchangeF(F& x, F& y) {
    U a = _mm512_castpd_si512(x), b = _mm512_castpd_si512(y);
    exchange<2 * by>(a, b);
    x = _mm512_castsi512_pd(a), y = _mm512_castsi512_pd(b);
  }
  static F toDoubles(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
  static F gather(const float* from, const uint16_t* at) {
    const __m256i index = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    return _mm512_cvtps_pd(_mm256_i32gather_ps(from, index, 4));
  }
  static F loadF(const double* p) { return _mm512_loadu_pd(p); }
  static void storeF(double* p, F x) { _mm512_storeu_pd(p, x); }
  static F splatF(double x) { return _mm512_set1_pd(x); }
  static F addF(F a, F b) { return _mm512_add_pd(a, b); }
  static F subF(F a, F b) { return _mm512_sub_pd(a, b); }
  static F mulF(F a, F b) {
    F product = _mm512_mul_pd(a, b);
    asm("" : "+v"(product));
    return product;
  }
  static F plusProduct(F a, F b, F c) { return _mm512_fmadd_pd(b, c, a); }
  static F minusProduct(F a, F b, F c) { return _mm512_fnmadd_pd(b, c, a); }
  static F maxF(F a, F b) { return _mm512_max_pd(a, b); }
  static F minF(F a, F b) { return _mm512_min_pd(a, b); }
  static F absF(F a) { return _mm512_abs_pd(a); }
  static F nearest(F a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static void storeTruncated(int32_t* out, F x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvttpd_epi32(x)); }
};

}  // namespace
