// The inverse negacyclic transform: that of packages/ring/lanes/transform.h, of two polynomials
// that lie in slot groups. Its result is that of packages/ring/assembly/ntt.ts times the factor in
// `scale`.
//
// A window of 2W words goes through the strides 1 … W in registers: `unzip` pairs neighbours, and
// every `exchange` after that makes the pairs of the next stride, so that after the last one the
// words are back in their order. Lane k of stride t then holds word (k/t)·2t + k mod t of the
// window, hence its twiddle is number k/t, which the `spread` tables repeat t times.

#pragma once

#include "../../ring/lanes/transform.h"
#include "variant.h"

namespace {

using hers::Modulus;

/**
 * Two windows of each polynomial, and the twiddles of one stride. All four take turns, since a
 * butterfly waits for the one before it.
 */
struct Windows {
  U x[2][2], y[2][2];
};

template <bool pairs = true>
inline void butterflies(Windows& v, const Factor (&by)[2], const Lazy& c) {
  for (int k = 0; k < 2; k++) {
    inverseButterfly<pairs>(v.x[k][0], v.y[k][0], by[k], c);
    inverseButterfly<pairs>(v.x[k][1], v.y[k][1], by[k], c);
  }
}

/** The stages of stride t, 2t, … below W; the tables of one window are `stride` words. */
template <int t>
inline void smallStrides(Windows& v, const uint32_t* table, size_t stride, const Lazy& c) {
  const uint32_t* const second = table + stride;
  butterflies<(t > 1)>(v, {{L::load(table), L::load(table + L::W)}, {L::load(second), L::load(second + L::W)}}, c);
  for (int k = 0; k < 2; k++) {
    L::exchange<t>(v.x[k][0], v.y[k][0]);
    L::exchange<t>(v.x[k][1], v.y[k][1]);
  }
  if constexpr (2 * t < L::W) smallStrides<2 * t>(v, table + 2 * L::W, stride, c);
}

/**
 * Strides 1 … W of both polynomials, from slot groups that lie `groupStride` words apart
 * to consecutive words.
 */
inline void windows(uint32_t* out0, uint32_t* out1, const uint32_t* in, size_t second, size_t groupStride, size_t n, const Modulus& m, const Lazy& c) {
  constexpr size_t W = L::W;
  size_t stride = 0;
  for (size_t t = 1; t < W; t *= 2) stride += 2 * W;
  const uint32_t* table = m.spread;
  const uint32_t* w = m.inverses + n / (2 * W);
  const uint32_t* s = m.inversesShoup + n / (2 * W);
  for (size_t at = 0; at < n; at += 4 * W, w += 2, s += 2, table += 2 * stride) {
    Windows v;
    for (int k = 0; k < 2; k++) {
      const size_t x = at + 2 * W * static_cast<size_t>(k), y = x + W;
      const uint32_t* a = in + x / hers::kGroup * groupStride + x % hers::kGroup;
      const uint32_t* b = in + y / hers::kGroup * groupStride + y % hers::kGroup;
      // The next residues lie beside these, and come from further away than the next window's
      // twiddles.
      const size_t next = second < hers::kQueryRow ? hers::kQueryRow : 2 * second;
      __builtin_prefetch(a + next);
      __builtin_prefetch(a + next + second);
      if (W == hers::kGroup) {
        __builtin_prefetch(b + next);
        __builtin_prefetch(b + next + second);
      }
      v.x[k][0] = L::load(a), v.x[k][1] = L::load(a + second);
      v.y[k][0] = L::load(b), v.y[k][1] = L::load(b + second);
      L::unzip(v.x[k][0], v.y[k][0]);
      L::unzip(v.x[k][1], v.y[k][1]);
    }
    smallStrides<1>(v, table, stride, c);
    butterflies(v, {factorAt(w, s, 0), factorAt(w, s, 1)}, c);
    for (int k = 0; k < 2; k++) {
      const size_t x = at + 2 * W * static_cast<size_t>(k);
      L::store(out0 + x, v.x[k][0]);
      L::store(out0 + x + W, v.y[k][0]);
      L::store(out1 + x, v.x[k][1]);
      L::store(out1 + x + W, v.y[k][1]);
    }
  }
}

/**
 * Two polynomials modulo one prime, `second` words apart: slot groups in, reduced coefficients out.
 * n is at least 4W.
 */
inline void inverse(uint32_t* out0, uint32_t* out1, const uint32_t* in, size_t second, size_t groupStride, size_t n, const Modulus& m) {
  const Lazy c = {L::splat(m.p), L::splat(2 * m.p)};
  windows(out0, out1, in, second, groupStride, n, m, c);
  const Factor scale = {L::splat(m.scale), L::splat(m.scaleShoup)}, last = {L::splat(m.last), L::splat(m.lastShoup)};
  for (int half = 0; half < 2; half++)
    backwardOuter(Residues{half ? out1 : out0, m.inverses, m.inversesShoup, c, scale, last}, n);
}

}  // namespace
