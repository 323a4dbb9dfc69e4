// The checksums of several pieces at the same time. One is a chain of multiplications, each of
// which waits for the one before, and its four lanes fill half of a vector: four together run at
// the speed of memory.

#pragma once

#include "variant.h"
#include "../../ring/lanes/xxh64.h"

#ifdef __AVX512DQ__
#include <immintrin.h>
#endif

namespace hers {
namespace {

#ifdef __AVX512DQ__

/** How far ahead each of four pieces is fetched, in bytes: processors follow fewer streams well. */
constexpr size_t kChecksumAhead = 2048;

/** The lanes of two checksums, to which lines come as they are multiplied. */
class Along {
 public:
  Along() {
    const __m256i start = _mm256_set_epi64x(static_cast<int64_t>(0 - kXxhP1), 0, static_cast<int64_t>(kXxhP2),
                                            static_cast<int64_t>(kXxhP1 + kXxhP2));
    lanes_ = _mm512_broadcast_i64x4(start);
  }
  void add(__m512i a, __m512i b) {
    lanes_ = round(lanes_, _mm512_shuffle_i64x2(a, b, 0x44));
    lanes_ = round(lanes_, _mm512_shuffle_i64x2(a, b, 0xee));
  }
  /** One more round, of 32 bytes each. */
  void addHalves(__m256i a, __m256i b) { lanes_ = round(lanes_, _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1)); }
  /** Of pieces of this length, `stride` bytes apart. */
  void end(const uint8_t* first, size_t stride, size_t length, uint64_t* out) const {
    uint64_t ends[8];
    _mm512_storeu_si512(ends, lanes_);
    for (size_t i = 0; i < 2; i++) out[i] = xxh64End(ends + 4 * i, first + i * stride, length);
  }

 private:
  static __m512i round(__m512i lanes, __m512i words) {
    const __m512i p1 = _mm512_set1_epi64(static_cast<int64_t>(kXxhP1)), p2 = _mm512_set1_epi64(static_cast<int64_t>(kXxhP2));
    return _mm512_mullo_epi64(_mm512_rol_epi64(_mm512_add_epi64(lanes, _mm512_mullo_epi64(words, p2)), 31), p1);
  }
  __m512i lanes_;
};

/** Of 2·pairs pieces; the lanes of two are a vector. */
template <int pairs>
inline void checksumPairs(const uint8_t* first, size_t stride, size_t length, uint64_t* out) {
  Along along[pairs];
  size_t at = 0;
  for (; at + 64 <= length; at += 64) {
    for (int k = 0; k < pairs; k++) {
      const uint8_t* const from = first + 2 * k * stride + at;
      along[k].add(_mm512_loadu_si512(from), _mm512_loadu_si512(from + stride));
      __builtin_prefetch(from + kChecksumAhead);
      __builtin_prefetch(from + stride + kChecksumAhead);
    }
  }
  for (int k = 0; k < pairs; k++) {
    const uint8_t* const from = first + 2 * k * stride + at;
    if (at + 32 <= length) {
      along[k].addHalves(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
                         _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + stride)));
    }
    along[k].end(first + 2 * k * stride, stride, length, out + 2 * k);
  }
}

constexpr bool kChecksAlong = true;

#else

constexpr bool kChecksAlong = false;

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
