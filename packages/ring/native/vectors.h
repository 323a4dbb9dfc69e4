// Vectors of floats to rounded integers, and words to three bytes: packages/ring/src/vectors.ts,
// which is slow and plain, defines what comes out. Products and sums are rounded one by one and in
// its order.

#pragma once

#include <cstring>

#include "arithmetic.h"

namespace {

constexpr size_t kTile = 16;

/** Coordinate i + h of vector j + k to tile[h][k]. What a tile does not fill, it leaves. */
inline void transposeTile(float (&tile)[kTile][kTile], const float* from, size_t stride, size_t wide, size_t high) {
  if (wide < kTile || high < kTile) {
    for (size_t k = 0; k < wide; k++)
      for (size_t h = 0; h < high; h++) tile[h][k] = from[k * stride + h];
    return;
  }
  for (size_t k = 0; k < kTile; k += 8) {
    for (size_t h = 0; h < kTile; h += 8) {
      const float* const at = from + k * stride + h;
      __m256 a[8], b[8];
      for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(at + i * stride);
      for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
      }
      for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
      }
      for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(&tile[h + i][k], _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(&tile[h + i + 4][k], _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
      }
    }
  }
}

/** Calls f(j, wide, i, high, tile) for all tiles of vectors, coordinates ascending. */
template <class F>
inline void eachTile(const float* data, size_t count, size_t dimension, F f) {
  float tile[kTile][kTile] = {};
  for (size_t j = 0; j < count; j += kTile) {
    const size_t wide = count - j < kTile ? count - j : kTile;
    for (size_t i = 0; i < dimension; i += kTile) {
      const size_t high = dimension - i < kTile ? dimension - i : kTile;
      transposeTile(tile, data + j * dimension + i, dimension, wide, high);
      f(j, wide, i, high, tile);
    }
  }
  hers::wipe(tile, sizeof tile);
}

inline void squareSums(double* out, const float* data, size_t count, size_t dimension) {
  double sums[kTile] = {};
  eachTile(data, count, dimension, [&](size_t j, size_t wide, size_t i, size_t high, const float (&tile)[kTile][kTile]) {
    if (i == 0) memset(sums, 0, sizeof sums);
    for (size_t h = 0; h < high; h++) {
      for (size_t k = 0; k < kTile; k += L::H) {
        const auto x = L::toDoubles(tile[h] + k);
        L::storeF(sums + k, L::addF(L::loadF(sums + k), L::mulF(x, x)));
      }
    }
    memcpy(out + j, sums, sizeof(double) * wide);
  });
}

inline void roundVectors(int32_t* out, double* squares, const float* data, const double* factors, double steps, size_t count, size_t dimension) {
  constexpr double kRounder = 6755399441055744.0;  // 1.5·2^52
  const auto rounder = L::splatF(kRounder), step = L::splatF(steps);
  double factor[kTile], sums[kTile] = {};
  eachTile(data, count, dimension, [&](size_t j, size_t wide, size_t i, size_t high, const float (&tile)[kTile][kTile]) {
    if (i == 0)
      for (size_t k = 0; k < kTile; k++) factor[k] = k < wide ? factors[j + k] : 0, sums[k] = 0;
    for (size_t h = 0; h < high; h++) {
      int32_t rounded[kTile];
      for (size_t k = 0; k < kTile; k += L::H) {
        const auto x = L::mulF(L::mulF(L::toDoubles(tile[h] + k), L::loadF(factor + k)), step);
        const auto nearest = L::subF(L::addF(x, rounder), rounder);
        L::storeF(sums + k, L::addF(L::loadF(sums + k), L::mulF(nearest, nearest)));
        L::storeTruncated(rounded + k, nearest);
      }
      memcpy(out + (i + h) * count + j, rounded, sizeof(int32_t) * wide);
    }
    memcpy(squares + j, sums, sizeof(double) * wide);
  });
}

inline void packThree(uint8_t* out, const uint32_t* words, size_t count) {
  const __m128i order = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  size_t i = 0;
  // Sixteen bytes are written and twelve count, so two fours from the end it stops.
  for (; i + 8 <= count; i += 4)
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(out + 3 * i),
        _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words + i)), order));
  for (; i < count; i++)
    for (int byte = 0; byte < 3; byte++) out[3 * i + byte] = static_cast<uint8_t>(words[i] >> 8 * byte);
}

inline void unpackThree(uint32_t* out, const uint8_t* bytes, size_t count) {
  const __m128i order = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  size_t i = 0;
  for (; i + 8 <= count; i += 4)
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(out + i),
        _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 3 * i)), order));
  for (; i < count; i++) out[i] = bytes[3 * i] | bytes[3 * i + 1] << 8 | static_cast<uint32_t>(bytes[3 * i + 2]) << 16;
}

}  // namespace
