// Vectors of sixteen 32-bit words (AVX-512 F, DQ, BW and VL). lanes_avx2.h has the same interface,
// and says what is not obvious.

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Lanes {
  static constexpr int W = 16;
  using U = __m512i;
  using M = __mmask16;

  static U load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(void* p, U x) { _mm512_storeu_si512(p, x); }
  static U splat(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  static U iota() { return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0); }
  static U widen(const int8_t* p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static U widenUnsigned(const uint8_t* p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static U add(U a, U b) { return _mm512_add_epi32(a, b); }
  static U sub(U a, U b) { return _mm512_sub_epi32(a, b); }
  static U min(U a, U b) { return _mm512_min_epu32(a, b); }
  static U max(U a, U b) { return _mm512_max_epu32(a, b); }
  static U abs(U a) { return _mm512_abs_epi32(a); }
  static U mulLow(U a, U b) { return _mm512_mullo_epi32(a, b); }
  static U bitAnd(U a, U b) { return _mm512_and_si512(a, b); }
  static U bitOr(U a, U b) { return _mm512_or_si512(a, b); }
  static U bitXor(U a, U b) { return _mm512_xor_si512(a, b); }
  static U shiftLeft(U a, int by) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(by)); }
  static U shiftRightSigned(U a, int by) { return _mm512_sra_epi32(a, _mm_cvtsi32_si128(by)); }
  static U shiftLeftEach(U a, U by) { return _mm512_sllv_epi32(a, by); }
  static U shiftRightEach(U a, U by) { return _mm512_srlv_epi32(a, by); }
  static U permute(U a, U from) { return _mm512_permutexvar_epi32(from, a); }
  template <int by>
  static U rotate(U a) {
    return _mm512_rol_epi32(a, by);
  }

  static U mulEven(U a, U b) { return _mm512_mul_epu32(a, b); }
  static U shiftRight64(U a, int by) { return _mm512_srl_epi64(a, _mm_cvtsi32_si128(by)); }
  // A shuffle and not a shift: it has more ports.
  static U odd(U a) { return _mm512_castps_si512(_mm512_movehdup_ps(_mm512_castsi512_ps(a))); }
  static U joinHigh(U even, U odd_) {
    return _mm512_castps_si512(_mm512_mask_movehdup_ps(_mm512_castsi512_ps(odd_), 0x5555, _mm512_castsi512_ps(even)));
  }
  static U joinLow(U even, U odd_) {
    return _mm512_castps_si512(_mm512_mask_moveldup_ps(_mm512_castsi512_ps(even), 0xaaaa, _mm512_castsi512_ps(odd_)));
  }

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
  static void unzip(U& x, U& y) {
    const U evens = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const U odds = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    const U a = x;
    x = _mm512_permutex2var_epi32(a, evens, y);
    y = _mm512_permutex2var_epi32(a, odds, y);
  }
  static void zip(U& x, U& y) {
    const U low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const U high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    const U a = x;
    x = _mm512_permutex2var_epi32(a, low, y);
    y = _mm512_permutex2var_epi32(a, high, y);
  }
  template <int by>
  static void exchange(U& x, U& y) {
    const U a = x;
    if constexpr (by == 1) {
      x = _mm512_mask_shuffle_epi32(a, 0xaaaa, y, static_cast<_MM_PERM_ENUM>(0xa0));
      y = _mm512_mask_shuffle_epi32(y, 0x5555, a, static_cast<_MM_PERM_ENUM>(0xf5));
    } else if constexpr (by == 2) {
      x = _mm512_unpacklo_epi64(a, y);
      y = _mm512_unpackhi_epi64(a, y);
    } else if constexpr (by == 4) {
      x = _mm512_permutex2var_epi64(a, _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0), y);
      y = _mm512_permutex2var_epi64(a, _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2), y);
    } else {
      x = _mm512_shuffle_i64x2(a, y, 0x44);
      y = _mm512_shuffle_i64x2(a, y, 0xee);
    }
  }
  static void storeTransposed(U (&x)[16], uint32_t* out) {
    U t[16];
    for (int i = 0; i < 16; i += 4) {
      const U ab0 = _mm512_unpacklo_epi32(x[i], x[i + 1]), ab1 = _mm512_unpackhi_epi32(x[i], x[i + 1]);
      const U cd0 = _mm512_unpacklo_epi32(x[i + 2], x[i + 3]), cd1 = _mm512_unpackhi_epi32(x[i + 2], x[i + 3]);
      t[i] = _mm512_unpacklo_epi64(ab0, cd0);
      t[i + 1] = _mm512_unpackhi_epi64(ab0, cd0);
      t[i + 2] = _mm512_unpacklo_epi64(ab1, cd1);
      t[i + 3] = _mm512_unpackhi_epi64(ab1, cd1);
    }
    // t[4q + r] holds, in 128-bit lane l, words 4q … 4q + 3 of block 4l + r.
    for (int r = 0; r < 4; r++) {
      const U low0 = _mm512_shuffle_i32x4(t[r], t[4 + r], 0x44), low1 = _mm512_shuffle_i32x4(t[8 + r], t[12 + r], 0x44);
      const U high0 = _mm512_shuffle_i32x4(t[r], t[4 + r], 0xee), high1 = _mm512_shuffle_i32x4(t[8 + r], t[12 + r], 0xee);
      store(out + 16 * r, _mm512_shuffle_i32x4(low0, low1, 0x88));
      store(out + 16 * (4 + r), _mm512_shuffle_i32x4(low0, low1, 0xdd));
      store(out + 16 * (8 + r), _mm512_shuffle_i32x4(high0, high1, 0x88));
      store(out + 16 * (12 + r), _mm512_shuffle_i32x4(high0, high1, 0xdd));
    }
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
  static F toDoubles(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
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
  static F maxF(F a, F b) { return _mm512_max_pd(a, b); }
  static F minF(F a, F b) { return _mm512_min_pd(a, b); }
  static F absF(F a) { return _mm512_abs_pd(a); }
  static F nearest(F a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static void storeTruncated(int32_t* out, F x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvttpd_epi32(x)); }
};

}  // namespace
