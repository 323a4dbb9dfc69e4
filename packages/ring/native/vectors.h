// Vectors of floats to rounded integers, words to three bytes, and what checking a response by its
// canaries takes: packages/ring/src/vectors.ts, which is slow and plain, defines what comes out.
// Products and sums are rounded one by one and in its order, or are whole and exact in any.

#pragma once

#include <cstring>

#include "arithmetic.h"
#include "work.h"

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

// — checking a response by its canaries —


/** ⟨values_l, probe⟩ of whole numbers, for each of `count` rows. */
inline void products(double* out, const int32_t* values, const double* probe, size_t count, size_t width) {
  for (size_t l = 0; l < count; l++) {
    const int32_t* const row = values + l * width;
    auto a = L::splatF(0), b = L::splatF(0);
    size_t i = 0;
    for (; i + 2 * L::H <= width; i += 2 * L::H) {
      a = L::plusProduct(a, L::toDoubles(row + i), L::loadF(probe + i));
      b = L::plusProduct(b, L::toDoubles(row + i + L::H), L::loadF(probe + i + L::H));
    }
    double parts[L::H], sum = 0;
    L::storeF(parts, L::addF(a, b));
    for (const double part : parts) sum += part;
    for (; i < width; i++) sum += row[i] * probe[i];
    out[l] = sum;
    hers::wipe(parts, sizeof parts);
  }
}

/** Moves what follows each of the ascending slots down, over all of them. */
inline void closeGaps(uint32_t* values, size_t length, const uint32_t* slots, size_t count) {
  for (size_t l = 0; l < count; l++) {
    const size_t from = slots[l] + size_t{1}, end = l + 1 < count ? slots[l + 1] : length;
    // Runs are short, so that a call of memmove would take longer. Upwards, because it moves down.
    uint32_t* to = values + slots[l] - l;
    size_t i = from;
    for (; i + L::W <= end; i += L::W, to += L::W) L::store(to, L::load(values + i));
    for (; i < end; i++) *to++ = values[i];
  }
}

/** The weighted sums of `step` groups that lie side by side in `order`: see Checksums in scheme. */
inline void groupSums(double* out, const float* scores, const uint16_t* order, size_t step, size_t size, size_t plus, double divisor) {
  size_t c = 0;
  for (; c + L::H <= step; c += L::H) {
    const uint16_t* at = order + c;
    auto sum = L::mulF(L::splatF(-divisor), L::gather(scores, at));
    size_t e = 1;
    for (; e <= plus; e++) sum = L::addF(sum, L::gather(scores, at += step));
    for (; e <= size; e++) sum = L::subF(sum, L::gather(scores, at += step));
    L::storeF(out + c, sum);
  }
  for (; c < step; c++) {
    const uint16_t* at = order + c;
    double sum = -divisor * scores[*at];
    asm("" : "+x"(sum));  // rounded: no compiler can contract it with an addition
    size_t e = 1;
    for (; e <= plus; e++) sum += scores[*(at += step)];
    for (; e <= size; e++) sum -= scores[*(at += step)];
    out[c] = sum;
  }
}

}  // namespace
