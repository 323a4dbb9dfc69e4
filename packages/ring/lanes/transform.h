// What the negacyclic transforms of ring and of scan have in common, and the complex one of ring:
// Cooley-Tukey butterflies forward and Gentleman-Sande butterflies back, bit-reversed order in
// between (P. Longa, M. Naehrig, "Speeding up the number theoretic transform", 2016), with Shoup's
// multiplication by constants and residues kept lazily below 2p, or 4p on the way forward (D. Harvey,
// "Faster arithmetic for number-theoretic transforms", 2014).
//
// Strides up to that of a vector stay in registers, and each transform takes them in its own way;
// larger ones are taken two at a time here, to halve the passes over memory. No branch and no
// address depends on data.
//
// To be included behind the vectors, whose interface packages/scan/native/lanes_generic.h describes.

#pragma once

#include <cstddef>
#include <cstdint>

namespace {

using L = Lanes;
using U = Lanes::U;

/** x − p where that does not wrap, else x. */
inline U reduceOnce(U x, U p) { return L::min(x, L::sub(x, p)); }

/** High words of the products; `bOdd` holds the odd words of b in the even places. */
inline U mulHigh(U a, U b, U bOdd) { return L::joinHigh(L::mulEven(a, b), L::mulEven(L::odd(a), bOdd)); }

/** A factor with its companion ⌊w·2^32/p⌋. */
struct Factor {
  U w, s;
};

inline Factor factorAt(const uint32_t* w, const uint32_t* s, size_t i) { return {L::splat(w[i]), L::splat(s[i])}; }

/** x·w mod p in [0, 2p) for any word x, where each pair of words shares its factor. */
inline U mulShoup(U x, const Factor& f, U p) { return L::sub(L::mulLow(x, f.w), L::mulLow(mulHigh(x, f.s, f.s), p)); }

/** The same with a factor of its own for every word. */
inline U mulShoupEach(U x, const Factor& f, U p) {
  return L::sub(L::mulLow(x, f.w), L::mulLow(mulHigh(x, f.s, L::odd(f.s)), p));
}

struct Lazy {
  U p, p2;
};

/** (x, y) → (x + w·y, x − w·y), given w·y: below 4p in, below 4p out. */
inline void forwardButterfly(U& x, U& y, U product, const Lazy& c) {
  const U a = reduceOnce(x, c.p2);
  x = L::add(a, product);
  y = L::add(L::sub(a, product), c.p2);
}

/** (x, y) → (x + y, (x − y)·w), all below 2p; `pairs`: each pair of words shares its factor. */
template <bool pairs = true>
inline void inverseButterfly(U& x, U& y, const Factor& f, const Lazy& c) {
  const U z = L::add(L::sub(x, y), c.p2);
  x = reduceOnce(L::add(x, y), c.p2);
  y = pairs ? mulShoup(z, f, c.p) : mulShoupEach(z, f, c.p);
}

/** A polynomial, twiddles by number with their companions, and the factors of the last stage. */
struct Residues {
  uint32_t* a;
  const uint32_t *w, *s;
  Lazy c;
  /** n^−1 mod p, or what takes its place, and that times the twiddle of the last stage. */
  Factor scale = {}, final = {};

  static constexpr size_t kLanes = L::W;
  U load(size_t j) const { return L::load(a + j); }
  void store(size_t j, U x) const { L::store(a + j, x); }
  Factor root(size_t k) const { return factorAt(w, s, k); }
  void forward(U& x, U& y, const Factor& f) const { forwardButterfly(x, y, mulShoup(y, f, c.p), c); }
  void backward(U& x, U& y, const Factor& f) const { inverseButterfly(x, y, f, c); }
  /** The factors take the place of the root, and residues come out reduced. */
  void last(U& x, U& y, const Factor&) const {
    const U z = L::add(L::sub(x, y), c.p2);
    x = reduceOnce(mulShoup(L::add(x, y), scale, c.p), c.p);
    y = reduceOnce(mulShoup(z, final, c.p), c.p);
  }
};

/** The stages of strides n/2 … 2·lanes; returns the number of groups of the next stride. */
template <class T>
inline size_t forwardOuter(T a, size_t n) {
  size_t t = n / 2, m = 1;  // the stride of the next stage, and its number of groups
  for (; t >= 4 * T::kLanes; t /= 4, m *= 4) {
    const size_t half = t / 2;
    for (size_t i = 0; i < m; i++) {
      const auto w1 = a.root(m + i), w2 = a.root(2 * (m + i)), w3 = a.root(2 * (m + i) + 1);
      for (size_t j = 2 * t * i; j < 2 * t * i + half; j += T::kLanes) {
        auto x0 = a.load(j), x1 = a.load(j + half), x2 = a.load(j + t), x3 = a.load(j + t + half);
        a.forward(x0, x2, w1);
        a.forward(x1, x3, w1);
        a.forward(x0, x1, w2);
        a.forward(x2, x3, w3);
        a.store(j, x0), a.store(j + half, x1), a.store(j + t, x2), a.store(j + t + half, x3);
      }
    }
  }
  for (; t > T::kLanes; t /= 2, m *= 2) {
    for (size_t i = 0; i < m; i++) {
      const auto w = a.root(m + i);
      for (size_t j = 2 * t * i; j < 2 * t * i + t; j += T::kLanes) {
        auto x = a.load(j), y = a.load(j + t);
        a.forward(x, y, w);
        a.store(j, x), a.store(j + t, y);
      }
    }
  }
  return m;
}

/** The stage of stride t, of h groups. */
template <bool isLast, class T>
inline void backwardStage(const T& a, size_t t, size_t h) {
  for (size_t i = 0; i < h; i++) {
    const auto w = a.root(h + i);
    for (size_t j = 2 * t * i; j < 2 * t * i + t; j += T::kLanes) {
      auto x = a.load(j), y = a.load(j + t);
      if (isLast) a.last(x, y, w);
      else a.backward(x, y, w);
      a.store(j, x), a.store(j + t, y);
    }
  }
}

/** Those of strides t and 2t; the first has h groups. */
template <bool isLast, class T>
inline void backwardStages(const T& a, size_t t, size_t h) {
  for (size_t i = 0; i < h / 2; i++) {
    const auto w0 = a.root(h + 2 * i), w1 = a.root(h + 2 * i + 1), w2 = a.root(h / 2 + i);
    for (size_t j = 4 * t * i; j < 4 * t * i + t; j += T::kLanes) {
      auto x0 = a.load(j), x1 = a.load(j + t), x2 = a.load(j + 2 * t), x3 = a.load(j + 3 * t);
      a.backward(x0, x1, w0);
      a.backward(x2, x3, w1);
      if (isLast) {
        a.last(x0, x2, w2);
        a.last(x1, x3, w2);
      } else {
        a.backward(x0, x2, w2);
        a.backward(x1, x3, w2);
      }
      a.store(j, x0), a.store(j + t, x1), a.store(j + 2 * t, x2), a.store(j + 3 * t, x3);
    }
  }
}

/** The stages of strides 2·lanes … n/2. */
template <class T>
inline void backwardOuter(T a, size_t n) {
  size_t t = 2 * T::kLanes, h = n / (4 * T::kLanes);  // the stride of the next stage, and its number of groups
  if (h == 1) return backwardStage<true>(a, t, h);
  // An odd number of stages is left where log2(h) is even.
  bool isOdd = false;
  for (size_t k = h; k > 0; k /= 2) isOdd = !isOdd;
  if (isOdd) {
    backwardStage<false>(a, t, h);
    t *= 2, h /= 2;
  }
  for (; h > 2; t *= 4, h /= 4) backwardStages<false>(a, t, h);
  backwardStages<true>(a, t, h);
}

}  // namespace
