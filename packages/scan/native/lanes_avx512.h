// Vectors of sixteen 32-bit words (AVX-512 F, DQ, BW, VL; with IFMA, where it is compiled for it).
// The interface is that of lanes_generic.h, where it is described.

#pragma once

#include "../../ring/lanes/words_avx512.h"

namespace {

struct Lanes : Words {
  using D = __m512i;

  static U keep(U x) {
    asm("" : "+v"(x));
    return x;
  }

  static D zero() { return _mm512_setzero_si512(); }
  static D splatD(uint64_t x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
  static D loadD(const uint64_t* p) { return _mm512_load_si512(p); }
  static void storeD(uint64_t* p, D x) { _mm512_store_si512(p, x); }
  static D addD(D a, D b) { return _mm512_add_epi64(a, b); }
  static D subD(D a, D b) { return _mm512_sub_epi64(a, b); }
  static D shiftRightD(D a, int by) { return _mm512_srl_epi64(a, _mm_cvtsi32_si128(by)); }
  struct Split {
    U even, odd;
  };
  static Split split(U a) { return {a, odd(a)}; }
  /** The top bytes of three words as those of one, above a byte of anything. */
  static U gatherTop(U a, U b, U c) {
    // 0xca: where the first has ones the second, else the third.
    const U two = _mm512_ternarylogic_epi32(splat(0xff000000), c, _mm512_srli_epi32(b, 8), 0xca);
    return _mm512_ternarylogic_epi32(splat(0xffff0000), two, _mm512_srli_epi32(a, 16), 0xca);
  }
#ifdef __AVX512IFMA__
  // One instruction multiplies and adds 52 bits of every doubleword, so high words must be zero.
  static Split splitShort(U a) { return {_mm512_and_si512(a, splatD(0xffffffff)), _mm512_srli_epi64(a, 32)}; }
  static Split splitLow(U a) {
    const __m128i odds = _mm_set_epi8(-1, -1, -1, -1, -1, 14, 13, 12, -1, -1, -1, -1, -1, 6, 5, 4);
    return {_mm512_and_si512(a, splatD(0xffffff)), _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(odds))};
  }
  static Split splitTop(U a, U b, U c) {
    const __m128i evens = _mm_set_epi8(-1, -1, -1, -1, -1, 11, 10, 9, -1, -1, -1, -1, -1, 3, 2, 1);
    const U all = gatherTop(a, b, c);
    return {_mm512_shuffle_epi8(all, _mm512_broadcast_i32x4(evens)), _mm512_srli_epi64(all, 40)};
  }
  static D addShort(D sum, U a, U b) { return _mm512_madd52lo_epu64(sum, a, b); }
  static constexpr size_t kPackedBlocks = 4;
#else
  static Split splitShort(U a) { return split(a); }
  static Split splitLow(U a) { return split(_mm512_and_si512(a, splat(0xffffff))); }
  static Split splitTop(U a, U b, U c) { return split(_mm512_srli_epi32(gatherTop(a, b, c), 8)); }
  static D addShort(D sum, U a, U b) { return addD(sum, mulEven(a, b)); }
  static constexpr size_t kPackedBlocks = 1;
#endif
};

}  // namespace
