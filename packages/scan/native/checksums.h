// The checksums of two parts at the same time. One is a chain of multiplications, each of which
// waits for the one before, and its four lanes fill half of a vector: two together run at the speed
// of memory.

#pragma once

#include "variant.h"
#include "../../ring/lanes/xxh64.h"

#ifdef __AVX512DQ__
#include <immintrin.h>
#endif

namespace hers {
namespace {

/** Of `length` bytes each, a multiple of 32. */
void checksums(const uint8_t* first, const uint8_t* second, size_t length, uint64_t* out) {
#ifdef __AVX512DQ__
  const __m512i p1 = _mm512_set1_epi64(static_cast<int64_t>(kXxhP1));
  const __m512i p2 = _mm512_set1_epi64(static_cast<int64_t>(kXxhP2));
  const __m256i start = _mm256_set_epi64x(static_cast<int64_t>(0 - kXxhP1), 0, static_cast<int64_t>(kXxhP2),
                                          static_cast<int64_t>(kXxhP1 + kXxhP2));
  __m512i lanes = _mm512_broadcast_i64x4(start);
  for (size_t at = 0; at < length; at += 32) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first + at));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second + at));
    const __m512i words = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
    const __m512i added = _mm512_add_epi64(lanes, _mm512_mullo_epi64(words, p2));
    lanes = _mm512_mullo_epi64(_mm512_rol_epi64(added, 31), p1);
  }
  uint64_t ends[8];
  _mm512_storeu_si512(ends, lanes);
  out[0] = xxh64End(ends, length);
  out[1] = xxh64End(ends + 4, length);
#else
  out[0] = xxh64(first, length);
  out[1] = xxh64(second, length);
#endif
}

}  // namespace
}  // namespace hers
