// The negacyclic transform, forward and inverse: that of packages/ring/assembly/ntt.ts, where its
// sources are, with the same tables and the same lazy residues.
//
// A window of 2W words goes through the strides W … 1, or back, in registers: every `exchange`
// makes the pairs of the next stride, lane k of which belongs to group k/t of the window, hence
// `spread`. No branch and no address depends on data.

#pragma once

#include "arithmetic.h"

namespace {

/** The stages of strides t, t/2 … 1 within windows; `m` is the number of groups of stride t. */
template <int t>
inline void forwardWindow(U& x, U& y, const uint32_t* w, const uint32_t* s, size_t m, size_t window, const Lazy& c) {
  L::exchange<t>(x, y);
  const size_t at = m + window * (L::W / t);
  const Factor f = {L::spread<t>(w + at), L::spread<t>(s + at)};
  forwardButterfly(x, y, t == 1 ? mulShoupEach(y, f, c.p) : mulShoup(y, f, c.p), c);
  if constexpr (t > 1) forwardWindow<t / 2>(x, y, w, s, 2 * m, window, c);
}

/** The strides W … 1 of a window: x gets residues with even numbers, reduced, y the others. */
inline void forwardInner(U& x, U& y, const uint32_t* w, const uint32_t* s, size_t m, size_t window, const Lazy& c) {
  forwardButterfly(x, y, mulShoup(y, factorAt(w, s, m + window), c.p), c);
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
  const size_t m = forwardOuter(Residues{a, w, s, c}, n);
  for (size_t window = 0; window < m; window++) {
    uint32_t* const from = a + 2 * W * window;
    U x = L::load(from), y = L::load(from + W);
    forwardInner(x, y, w, s, m, window, c);
    L::zip(x, y);
    L::store(from, x);
    L::store(from + W, y);
  }
}

/** The stages of strides t, 2t … W/2 within windows; `h` is the number of groups of stride t. */
template <int t>
inline void inverseWindow(U& x, U& y, const uint32_t* w, const uint32_t* s, size_t h, size_t window, const Lazy& c) {
  const size_t at = h + window * (L::W / t);
  inverseButterfly<(t > 1)>(x, y, {L::spread<t>(w + at), L::spread<t>(s + at)}, c);
  L::exchange<t>(x, y);
  if constexpr (2 * t < L::W) inverseWindow<2 * t>(x, y, w, s, h / 2, window, c);
}

/** The strides 1 … W of a window, from residues with even numbers and those with odd ones. */
inline void inverseInner(U& x, U& y, const uint32_t* w, const uint32_t* s, size_t n, size_t window, const Lazy& c) {
  inverseWindow<1>(x, y, w, s, n / 2, window, c);
  inverseButterfly(x, y, factorAt(w, s, n / (2 * L::W) + window), c);
}

/** In place; input below 2p, output reduced. `scale` and `last` are factors of the last stage. */
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
  backwardOuter(Residues{a, w, s, c, factorOf(scale, p), factorOf(last, p)}, n);
}

}  // namespace
