// Vectors of sixteen 32-bit words (AVX-512 F, DQ, BW and VL): what the native code of ring and of
// scan have in common. words_avx2.h has the same interface, and says what is not obvious.

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Words {
  static constexpr int W = 16;
  using U = __m512i;

  static U load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(void* p, U x) { _mm512_storeu_si512(p, x); }
  static U splat(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  static U iota() { return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0); }
  static U add(U a, U b) { return _mm512_add_epi32(a, b); }
  static U sub(U a, U b) { return _mm512_sub_epi32(a, b); }
  static U min(U a, U b) { return _mm512_min_epu32(a, b); }
  static U mulLow(U a, U b) { return _mm512_mullo_epi32(a, b); }
  static U bitAnd(U a, U b) { return _mm512_and_si512(a, b); }
  static U bitXor(U a, U b) { return _mm512_xor_si512(a, b); }
  template <int by>
  static U rotate(U a) {
    return _mm512_rol_epi32(a, by);
  }
  static U mulEven(U a, U b) { return _mm512_mul_epu32(a, b); }
  // A shuffle and not a shift: it has more ports.
  static U odd(U a) { return _mm512_castps_si512(_mm512_movehdup_ps(_mm512_castsi512_ps(a))); }
  static U joinHigh(U even, U odd_) {
    return _mm512_castps_si512(_mm512_mask_movehdup_ps(_mm512_castsi512_ps(odd_), 0x5555, _mm512_castsi512_ps(even)));
  }
  static U joinLow(U even, U odd_) {
    return _mm512_castps_si512(_mm512_mask_moveldup_ps(_mm512_castsi512_ps(even), 0xaaaa, _mm512_castsi512_ps(odd_)));
  }
  static void unzip(U& x, U& y) {
    const U evens = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const U odds = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    const U a = x;
    x = _mm512_permutex2var_epi32(a, evens, y);
    y = _mm512_permutex2var_epi32(a, odds, y);
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
};

}  // namespace
