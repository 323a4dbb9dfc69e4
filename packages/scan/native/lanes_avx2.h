// Vectors of eight 32-bit words (AVX2). The interface is that of lanes_generic.h, where it is
// described.

#pragma once

#include "../../ring/lanes/words_avx2.h"

namespace {

struct Lanes : Words {
  using D = __m256i;

  // Sixteen registers are not enough for it.
  static U keep(U x) { return x; }

  static D zero() { return _mm256_setzero_si256(); }
  static D splatD(uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
  static D loadD(const uint64_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
  static void storeD(uint64_t* p, D x) { _mm256_store_si256(reinterpret_cast<__m256i*>(p), x); }
  static D addD(D a, D b) { return _mm256_add_epi64(a, b); }
  static D subD(D a, D b) { return _mm256_sub_epi64(a, b); }
  static D shiftRightD(D a, int by) { return _mm256_srl_epi64(a, _mm_cvtsi32_si128(by)); }
  struct Split {
    U even, odd;
  };
  static Split split(U a) { return {a, odd(a)}; }
  static Split splitShort(U a) { return split(a); }
  static Split splitLow(U a) { return split(_mm256_and_si256(a, splat(0xffffff))); }
  static Split splitTop(U a, U b, U c) {
    const U middle = _mm256_and_si256(_mm256_srli_epi32(b, 16), splat(0xff00));
    const U high = _mm256_and_si256(_mm256_srli_epi32(c, 8), splat(0xff0000));
    return split(_mm256_or_si256(_mm256_or_si256(_mm256_srli_epi32(a, 24), middle), high));
  }
  static D addShort(D sum, U a, U b) { return addD(sum, mulEven(a, b)); }
  static constexpr size_t kPackedBlocks = 1;
};

}  // namespace
