// The inverse negacyclic transform: Gentleman-Sande butterflies, bit-reversed order in, natural
// order out (P. Longa, M. Naehrig, "Speeding up the number theoretic transform", 2016), with
// Shoup's multiplication by constants and residues kept lazily below 2p (D. Harvey, "Faster
// arithmetic for number-theoretic transforms", 2014). Its result is that of
// packages/ring/assembly/ntt.ts times the factor in `scale`.
//
// A window of 2W words goes through the strides 1 … W in registers: `unzip` pairs neighbours, and
// every `exchange` after that makes the pairs of the next stride, so that after the last one the
// words are back in their order. Lane k of stride t then holds word (k/t)·2t + k mod t of the
// window, hence its twiddle is number k/t, which the `spread` tables repeat t times. Larger strides
// are taken two at a time to halve the passes over memory.

#pragma once

#include "variant.h"

namespace {

using hers::Modulus;

using L = Lanes;
using U = Lanes::U;

/** x − p where that does not wrap, else x. */
inline U reduceOnce(U x, U p) { return L::min(x, L::sub(x, p)); }

/** High words of the products; `pairs`: the words of b come in pairs that are equal. */
template <bool pairs>
inline U mulHigh(U a, U b) {
  return L::joinHigh(L::mulEven(a, b), L::mulEven(L::odd(a), pairs ? b : L::odd(b)));
}

/** x·w mod p in [0, 2p) for any word x, where s = ⌊w·2^32/p⌋. */
template <bool pairs = true>
inline U mulShoup(U x, U w, U s, U p) {
  return L::sub(L::mulLow(x, w), L::mulLow(mulHigh<pairs>(x, s), p));
}

struct Lazy {
  U p, p2;
};

/** (x, y) → (x + y, (x − y)·w), all below 2p. */
template <bool pairs = true>
inline void butterfly(U& x, U& y, U w, U s, const Lazy& c) {
  const U z = L::add(L::sub(x, y), c.p2);
  x = reduceOnce(L::add(x, y), c.p2);
  y = mulShoup<pairs>(z, w, s, c.p);
}

/**
 * Two windows of each polynomial, and the twiddles of one stride. All four take turns, since a
 * butterfly waits for the one before it.
 */
struct Windows {
  U x[2][2], y[2][2];
};

struct Twiddles {
  U w[2], s[2];
};

template <bool pairs = true>
inline void butterflies(Windows& v, const Twiddles& by, const Lazy& c) {
  for (int k = 0; k < 2; k++) {
    butterfly<pairs>(v.x[k][0], v.y[k][0], by.w[k], by.s[k], c);
    butterfly<pairs>(v.x[k][1], v.y[k][1], by.w[k], by.s[k], c);
  }
}

/** The stages of stride t, 2t, … below W; the tables of one window are `stride` words. */
template <int t>
inline void smallStrides(Windows& v, const uint32_t* table, size_t stride, const Lazy& c) {
  const uint32_t* const second = table + stride;
  butterflies<(t > 1)>(v, {{L::load(table), L::load(second)}, {L::load(table + L::W), L::load(second + L::W)}}, c);
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
    butterflies(v, {{L::splat(w[0]), L::splat(w[1])}, {L::splat(s[0]), L::splat(s[1])}}, c);
    for (int k = 0; k < 2; k++) {
      const size_t x = at + 2 * W * static_cast<size_t>(k);
      L::store(out0 + x, v.x[k][0]);
      L::store(out0 + x + W, v.y[k][0]);
      L::store(out1 + x, v.x[k][1]);
      L::store(out1 + x + W, v.y[k][1]);
    }
  }
}

/** One stage of stride t with h twiddles. */
inline void stage(uint32_t* a, size_t t, size_t h, const Modulus& m, const Lazy& c) {
  for (size_t i = 0; i < h; i++) {
    const U w = L::splat(m.inverses[h + i]), s = L::splat(m.inversesShoup[h + i]);
    uint32_t* const from = a + 2 * t * i;
    for (size_t j = 0; j < t; j += L::W) {
      U x = L::load(from + j), y = L::load(from + t + j);
      butterfly(x, y, w, s, c);
      L::store(from + j, x);
      L::store(from + t + j, y);
    }
  }
}

/** The last stage alone: its factors hold n^−1, and residues come out reduced. */
inline void lastStage(uint32_t* a, size_t t, const Modulus& m, const Lazy& c) {
  const U w = L::splat(m.last), s = L::splat(m.lastShoup), v = L::splat(m.scale), r = L::splat(m.scaleShoup);
  for (size_t j = 0; j < t; j += L::W) {
    const U x = L::load(a + j), y = L::load(a + t + j);
    L::store(a + j, reduceOnce(mulShoup(L::add(x, y), v, r, c.p), c.p));
    L::store(a + t + j, reduceOnce(mulShoup(L::add(L::sub(x, y), c.p2), w, s, c.p), c.p));
  }
}

/** The stages of strides t and 2t; h twiddles in the first. When they are the last ones, h is 2. */
template <bool last>
inline void twoStages(uint32_t* a, size_t t, size_t h, const Modulus& m, const Lazy& c) {
  for (size_t i = 0; i < h / 2; i++) {
    const size_t first = h + 2 * i, second = h / 2 + i;
    const U w0 = L::splat(m.inverses[first]), s0 = L::splat(m.inversesShoup[first]);
    const U w1 = L::splat(m.inverses[first + 1]), s1 = L::splat(m.inversesShoup[first + 1]);
    const U w2 = L::splat(last ? m.last : m.inverses[second]), s2 = L::splat(last ? m.lastShoup : m.inversesShoup[second]);
    const U v = L::splat(m.scale), r = L::splat(m.scaleShoup);
    uint32_t* const from = a + 4 * t * i;
    for (size_t j = 0; j < t; j += L::W) {
      U x0 = L::load(from + j), x1 = L::load(from + t + j), x2 = L::load(from + 2 * t + j), x3 = L::load(from + 3 * t + j);
      butterfly(x0, x1, w0, s0, c);
      butterfly(x2, x3, w1, s1, c);
      if (last) {
        L::store(from + j, reduceOnce(mulShoup(L::add(x0, x2), v, r, c.p), c.p));
        L::store(from + t + j, reduceOnce(mulShoup(L::add(x1, x3), v, r, c.p), c.p));
        L::store(from + 2 * t + j, reduceOnce(mulShoup(L::add(L::sub(x0, x2), c.p2), w2, s2, c.p), c.p));
        L::store(from + 3 * t + j, reduceOnce(mulShoup(L::add(L::sub(x1, x3), c.p2), w2, s2, c.p), c.p));
      } else {
        butterfly(x0, x2, w2, s2, c);
        butterfly(x1, x3, w2, s2, c);
        L::store(from + j, x0);
        L::store(from + t + j, x1);
        L::store(from + 2 * t + j, x2);
        L::store(from + 3 * t + j, x3);
      }
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
  for (int half = 0; half < 2; half++) {
    uint32_t* const a = half ? out1 : out0;
    size_t t = 2 * L::W, h = n / (4 * L::W);
    if (h == 1) {
      lastStage(a, t, m, c);
      continue;
    }
    // An even number of stages is left from here on.
    bool even = true;
    for (size_t k = h; k > 0; k /= 2) even = !even;
    if (!even) {
      stage(a, t, h, m, c);
      t *= 2;
      h /= 2;
    }
    for (; h > 2; t *= 4, h /= 4) twoStages<false>(a, t, h, m, c);
    twoStages<true>(a, t, h, m, c);
  }
}

}  // namespace
