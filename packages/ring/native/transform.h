// The negacyclic transform, forward and inverse: that of packages/ring/assembly/ntt.ts, where its
// sources are, with the same tables and the same lazy residues.
//
// Strides above W are taken two at a time. A window of 2W words goes through the strides W … 1, or
// back, in registers: every `exchange` makes the pairs of the next stride, lane k of which belongs
// to group k/t of the window, hence `spread`. No branch and no address depends on data.

#pragma once

#include "arithmetic.h"

namespace {

struct Lazy {
  U p, p2;
};

/** (x, y) → (x + w·y, x − w·y): below 4p in, below 4p out. */
inline void forwardButterfly(U& x, U& y, U product, const Lazy& c) {
  const U a = reduceOnce(x, c.p2);
  x = L::add(a, product);
  y = L::add(L::sub(a, product), c.p2);
}

/** The stages of strides t, t/2 … 1 within windows; `m` is the number of groups of stride t. */
template <int t>
inline void forwardWindow(U& x, U& y, const uint32_t* w, const uint32_t* s, size_t m, size_t window, const Lazy& c) {
  L::exchange<t>(x, y);
  const size_t at = m + window * (L::W / t);
  const Factor f = {L::spread<t>(w + at), L::spread<t>(s + at)};
  forwardButterfly(x, y, t == 1 ? mulShoupEach(y, f, c.p) : mulShoup(y, f, c.p), c);
  if constexpr (t > 1) forwardWindow<t / 2>(x, y, w, s, 2 * m, window, c);
}

/** The stages of strides n/2 … 2W; returns the number of groups of stride W. */
inline size_t forwardOuter(uint32_t* a, const uint32_t* w, const uint32_t* s, size_t n, const Lazy& c) {
  constexpr size_t W = L::W;
  size_t t = n / 2, m = 1;  // the stride of the next stage, and its number of groups
  for (; t >= 4 * W; t /= 4, m *= 4) {
    const size_t half = t / 2;
    for (size_t i = 0; i < m; i++) {
      const Factor f1 = {L::splat(w[m + i]), L::splat(s[m + i])};
      const Factor f2 = {L::splat(w[2 * (m + i)]), L::splat(s[2 * (m + i)])};
      const Factor f3 = {L::splat(w[2 * (m + i) + 1]), L::splat(s[2 * (m + i) + 1])};
      uint32_t* const from = a + 2 * t * i;
      for (size_t j = 0; j < half; j += W) {
        U x0 = L::load(from + j), x1 = L::load(from + half + j), x2 = L::load(from + t + j), x3 = L::load(from + t + half + j);
        forwardButterfly(x0, x2, mulShoup(x2, f1, c.p), c);
        forwardButterfly(x1, x3, mulShoup(x3, f1, c.p), c);
        forwardButterfly(x0, x1, mulShoup(x1, f2, c.p), c);
        forwardButterfly(x2, x3, mulShoup(x3, f3, c.p), c);
        L::store(from + j, x0);
        L::store(from + half + j, x1);
        L::store(from + t + j, x2);
        L::store(from + t + half + j, x3);
      }
    }
  }
  for (; t > W; t /= 2, m *= 2) {
    for (size_t i = 0; i < m; i++) {
      const Factor f = {L::splat(w[m + i]), L::splat(s[m + i])};
      uint32_t* const from = a + 2 * t * i;
      for (size_t j = 0; j < t; j += W) {
        U x = L::load(from + j), y = L::load(from + t + j);
        forwardButterfly(x, y, mulShoup(y, f, c.p), c);
        L::store(from + j, x);
        L::store(from + t + j, y);
      }
    }
  }
  return m;
}

/** The strides W … 1 of a window: x gets residues with even numbers, reduced, y the others. */
inline void forwardInner(U& x, U& y, const uint32_t* w, const uint32_t* s, size_t m, size_t window, const Lazy& c) {
  const Factor f = {L::splat(w[m + window]), L::splat(s[m + window])};
  forwardButterfly(x, y, mulShoup(y, f, c.p), c);
  forwardWindow<L::W / 2>(x, y, w, s, 2 * m, window, c);
  x = reduceLazy(x, c.p, c.p2);
  y = reduceLazy(y, c.p, c.p2);
}

/** In place; input below 4p, output reduced. */
inline void ntt(uint32_t* a, const uint32_t* tables, uint32_t n, uint32_t p) {
  constexpr size_t W = L::W;
  const Lazy c = {L::splat(p), L::splat(2 * p)};
  const uint32_t* const w = tables;
  const uint32_t* const s = tables + n;
  const size_t m = forwardOuter(a, w, s, n, c);
  for (size_t window = 0; window < m; window++) {
    uint32_t* const from = a + 2 * W * window;
    U x = L::load(from), y = L::load(from + W);
    forwardInner(x, y, w, s, m, window, c);
    L::zip(x, y);
    L::store(from, x);
    L::store(from + W, y);
  }
}

/** (x, y) → (x + y, (x − y)·w), all below 2p. */
inline void inverseButterfly(U& x, U& y, const Factor& f, const Lazy& c) {
  const U z = L::add(L::sub(x, y), c.p2);
  x = reduceOnce(L::add(x, y), c.p2);
  y = mulShoup(z, f, c.p);
}

/** The stages of strides t, 2t … W/2 within windows; `h` is the number of groups of stride t. */
template <int t>
inline void inverseWindow(U& x, U& y, const uint32_t* w, const uint32_t* s, size_t h, size_t window, const Lazy& c) {
  const size_t at = h + window * (L::W / t);
  const Factor f = {L::spread<t>(w + at), L::spread<t>(s + at)};
  const U z = L::add(L::sub(x, y), c.p2);
  x = reduceOnce(L::add(x, y), c.p2);
  y = t == 1 ? mulShoupEach(z, f, c.p) : mulShoup(z, f, c.p);
  L::exchange<t>(x, y);
  if constexpr (2 * t < L::W) inverseWindow<2 * t>(x, y, w, s, h / 2, window, c);
}

/** The strides 1 … W of a window, from residues with even numbers and those with odd ones. */
inline void inverseInner(U& x, U& y, const uint32_t* w, const uint32_t* s, size_t n, size_t window, const Lazy& c) {
  inverseWindow<1>(x, y, w, s, n / 2, window, c);
  const size_t at = n / (2 * L::W) + window;
  inverseButterfly(x, y, {L::splat(w[at]), L::splat(s[at])}, c);
}

/**
 * The stages of strides 2W … n/2; output reduced. `scale` is n^−1 mod p and `last` is n^−1 times
 * the twiddle of the last stage.
 */
inline void inverseOuter(uint32_t* a, const uint32_t* w, const uint32_t* s, size_t n, uint32_t p, uint32_t scale, uint32_t last, const Lazy& c) {
  constexpr size_t W = L::W;
  size_t t = 2 * W, h = n / (4 * W);  // the stride of the next stage, and its number of groups
  const Factor fN = factorOf(scale, p), fC = factorOf(last, p);
  // An odd number of stages is left where log2(h) is even.
  bool isOdd = false;
  for (size_t k = h; k > 0; k /= 2) isOdd = !isOdd;
  if (h == 1) {
    for (size_t j = 0; j < t; j += W) {
      const U x = L::load(a + j), y = L::load(a + t + j);
      L::store(a + j, reduceOnce(mulShoup(L::add(x, y), fN, c.p), c.p));
      L::store(a + t + j, reduceOnce(mulShoup(L::add(L::sub(x, y), c.p2), fC, c.p), c.p));
    }
    return;
  }
  if (isOdd) {
    for (size_t i = 0; i < h; i++) {
      const Factor f = {L::splat(w[h + i]), L::splat(s[h + i])};
      uint32_t* const from = a + 2 * t * i;
      for (size_t j = 0; j < t; j += W) {
        U x = L::load(from + j), y = L::load(from + t + j);
        inverseButterfly(x, y, f, c);
        L::store(from + j, x);
        L::store(from + t + j, y);
      }
    }
    t *= 2, h /= 2;
  }
  for (; h >= 2; t *= 4, h /= 4) {
    const bool isLast = h == 2;
    for (size_t i = 0; i < h / 2; i++) {
      const Factor f0 = {L::splat(w[h + 2 * i]), L::splat(s[h + 2 * i])};
      const Factor f1 = {L::splat(w[h + 2 * i + 1]), L::splat(s[h + 2 * i + 1])};
      const Factor f2 = isLast ? fC : Factor{L::splat(w[h / 2 + i]), L::splat(s[h / 2 + i])};
      uint32_t* const from = a + 4 * t * i;
      for (size_t j = 0; j < t; j += W) {
        U x0 = L::load(from + j), x1 = L::load(from + t + j), x2 = L::load(from + 2 * t + j), x3 = L::load(from + 3 * t + j);
        inverseButterfly(x0, x1, f0, c);
        inverseButterfly(x2, x3, f1, c);
        if (isLast) {
          L::store(from + j, reduceOnce(mulShoup(L::add(x0, x2), fN, c.p), c.p));
          L::store(from + t + j, reduceOnce(mulShoup(L::add(x1, x3), fN, c.p), c.p));
          L::store(from + 2 * t + j, reduceOnce(mulShoup(L::add(L::sub(x0, x2), c.p2), f2, c.p), c.p));
          L::store(from + 3 * t + j, reduceOnce(mulShoup(L::add(L::sub(x1, x3), c.p2), f2, c.p), c.p));
        } else {
          inverseButterfly(x0, x2, f2, c);
          inverseButterfly(x1, x3, f2, c);
          L::store(from + j, x0);
          L::store(from + t + j, x1);
          L::store(from + 2 * t + j, x2);
          L::store(from + 3 * t + j, x3);
        }
      }
    }
  }
}

/** In place; input below 2p, output reduced. */
inline void intt(uint32_t* a, const uint32_t* tables, uint32_t n, uint32_t p, uint32_t scale, uint32_t last) {
  constexpr size_t W = L::W;
  const Lazy c = {L::splat(p), L::splat(2 * p)};
  const uint32_t* const w = tables + 2 * size_t{n};
  const uint32_t* const s = w + n;
  for (size_t window = 0; window < n / (2 * W); window++) {
    uint32_t* const from = a + 2 * W * window;
    U x = L::load(from), y = L::load(from + W);
    L::unzip(x, y);
    inverseInner(x, y, w, s, n, window, c);
    L::store(from, x);
    L::store(from + W, y);
  }
  inverseOuter(a, w, s, n, p, scale, last, c);
}

}  // namespace
