// The checksums of several pieces at the same time. One is a chain of multiplications, each of which
// waits for the one before, and its four lanes fill half of a vector: four together run at the speed
// of memory.

#pragma once

#include "variant.h"
#include "../../ring/lanes/xxh64.h"

#ifdef __AVX512DQ__
#include <immintrin.h>
#endif

namespace hers {
namespace {

#ifdef __AVX512DQ__

/** Of 2·pairs pieces; the lanes of two are a vector. */
template <int pairs>
inline void checksumPairs(const uint8_t* first, size_t stride, size_t length, uint64_t* out) {
  const __m512i p1 = _mm512_set1_epi64(static_cast<int64_t>(kXxhP1));
  const __m512i p2 = _mm512_set1_epi64(static_cast<int64_t>(kXxhP2));
  const __m256i start = _mm256_set_epi64x(static_cast<int64_t>(0 - kXxhP1), 0, static_cast<int64_t>(kXxhP2),
                                          static_cast<int64_t>(kXxhP1 + kXxhP2));
  __m512i lanes[pairs];
  for (int k = 0; k < pairs; k++) lanes[k] = _mm512_broadcast_i64x4(start);
  const auto round = [&](__m512i lane, __m512i words) __attribute__((always_inline)) {
    return _mm512_mullo_epi64(_mm512_rol_epi64(_mm512_add_epi64(lane, _mm512_mullo_epi64(words, p2)), 31), p1);
  };
  size_t at = 0;
  for (; at + 64 <= length; at += 64) {
    for (int k = 0; k < pairs; k++) {
      const uint8_t* const from = first + 2 * k * stride + at;
      const __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + stride);
      lanes[k] = round(lanes[k], _mm512_shuffle_i64x2(a, b, 0x44));
      lanes[k] = round(lanes[k], _mm512_shuffle_i64x2(a, b, 0xee));
    }
  }
  for (int k = 0; k < pairs && at + 32 <= length; k++) {
    const uint8_t* const from = first + 2 * k * stride + at;
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + stride));
    lanes[k] = round(lanes[k], _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1));
  }
  for (int k = 0; k < pairs; k++) {
    uint64_t ends[8];
    _mm512_storeu_si512(ends, lanes[k]);
    for (int i = 0; i < 2; i++) out[2 * k + i] = xxh64End(ends + 4 * i, first + (2 * k + i) * stride, length);
  }
}

#endif

/** Of `count` pieces of `length` bytes, each `stride` bytes after the one before. */
void checksums(const uint8_t* first, size_t stride, size_t count, size_t length, uint64_t* out) {
  size_t i = 0;
#ifdef __AVX512DQ__
  for (; i + 4 <= count; i += 4) checksumPairs<2>(first + i * stride, stride, length, out + i);
  for (; i + 2 <= count; i += 2) checksumPairs<1>(first + i * stride, stride, length, out + i);
#endif
  for (; i < count; i++) out[i] = xxh64(first + i * stride, length);
}

}  // namespace
}  // namespace hers
