// Measures what the scan is compared with: reading the gallery, and a plaintext scan of float32
// vectors.

#pragma once

#include "loops.h"

namespace {

#if defined(__AVX512F__)

inline uint64_t sumOf(const uint64_t* words, size_t count) {
  __m512i s[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    for (int k = 0; k < 4; k++) s[k] = _mm512_add_epi64(s[k], _mm512_loadu_si512(words + i + 8 * k));
  }
  uint64_t total = _mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(s[0], s[1]), _mm512_add_epi64(s[2], s[3])));
  for (; i < count; i++) total += words[i];
  return total;
}

inline void dotsOf(const float* gallery, const float* query, size_t count, size_t d, float* scores) {
  for (size_t j = 0; j < count; j++, gallery += d) {
    __m512 s[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    size_t i = 0;
    for (; i + 64 <= d; i += 64) {
      for (int k = 0; k < 4; k++) s[k] = _mm512_fmadd_ps(_mm512_loadu_ps(gallery + i + 16 * k), _mm512_loadu_ps(query + i + 16 * k), s[k]);
    }
    for (; i + 16 <= d; i += 16) s[0] = _mm512_fmadd_ps(_mm512_loadu_ps(gallery + i), _mm512_loadu_ps(query + i), s[0]);
    float total = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
    for (; i < d; i++) total += gallery[i] * query[i];
    scores[j] = total;
  }
}

#elif defined(__AVX2__)

inline uint64_t sumOf(const uint64_t* words, size_t count) {
  __m256i s[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int k = 0; k < 4; k++) s[k] = _mm256_add_epi64(s[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + i + 4 * k)));
  }
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_add_epi64(_mm256_add_epi64(s[0], s[1]), _mm256_add_epi64(s[2], s[3])));
  uint64_t total = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  for (; i < count; i++) total += words[i];
  return total;
}

inline void dotsOf(const float* gallery, const float* query, size_t count, size_t d, float* scores) {
  for (size_t j = 0; j < count; j++, gallery += d) {
    __m256 s[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 32 <= d; i += 32) {
      for (int k = 0; k < 4; k++) s[k] = _mm256_fmadd_ps(_mm256_loadu_ps(gallery + i + 8 * k), _mm256_loadu_ps(query + i + 8 * k), s[k]);
    }
    const __m256 pairs = _mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3]));
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    half = _mm_add_ss(half, _mm_movehdup_ps(half));
    float total = _mm_cvtss_f32(half);
    for (; i < d; i++) total += gallery[i] * query[i];
    scores[j] = total;
  }
}

#else

inline uint64_t sumOf(const uint64_t* words, size_t count) {
  uint64_t s[4] = {0, 0, 0, 0};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int k = 0; k < 4; k++) s[k] += words[i + k];
  }
  for (; i < count; i++) s[0] += words[i];
  return s[0] + s[1] + s[2] + s[3];
}

inline void dotsOf(const float* gallery, const float* query, size_t count, size_t d, float* scores) {
  for (size_t j = 0; j < count; j++, gallery += d) {
    float s[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    size_t i = 0;
    for (; i + 8 <= d; i += 8) {
      for (int k = 0; k < 8; k++) s[k] += gallery[i + k] * query[i + k];
    }
    for (; i < d; i++) s[0] += gallery[i] * query[i];
    scores[j] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }
}

#endif

}  // namespace
