// Products of integer polynomials modulo x^n + 1 by a complex transform in double precision, where
// all that counts are integers: after rounding it is what an exact transform gives.
//
// A real polynomial is known by its remainder modulo x^N − i, N = n/2: coefficient j of that is a_j
// + i·a_(j+N). The transform splits x^N − i as that of transform.h splits x^n + 1, with the roots
// of roots.h. Of x and y the product has the error
//
//   |error| < ‖x‖·‖y‖·((1 + ε)^(3k)·(1 + ε√5)^(3k+1)·(1 + β)^(3k) − 1),  N = 2^k, ε = 2^−53,
//
// with β the error of the roots, here below ε (R. Brent, C. Percival, P. Zimmermann, "Error bounds
// on complex floating-point multiplication", 2007, theorem 5.1; with a fused multiply-add √5 is 2).
// For coefficients of 32 bits, a ternary polynomial and n = 4096 that is 2^43·145·2^−53 = 0.14, and
// below 0.3 for n = 8192: nearest integers are right, whatever a store sends.
//
// Addition, multiplication and their fusion take the same time for all numbers but subnormal ones,
// and those are flushed to zero here. No branch and no address depends on data.

#pragma once

#include "arithmetic.h"

namespace {

using F = Lanes::F;

/** Subnormal numbers are zero while this lives, so that none takes longer. */
class Flushing {
 public:
  Flushing() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~Flushing() { _mm_setcsr(before_); }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  const unsigned before_;
};

struct Complex {
  F re, im;
};

inline Complex operator+(const Complex& a, const Complex& b) { return {L::addF(a.re, b.re), L::addF(a.im, b.im)}; }
inline Complex operator-(const Complex& a, const Complex& b) { return {L::subF(a.re, b.re), L::subF(a.im, b.im)}; }
inline Complex operator*(const Complex& a, const Complex& b) {
  return {L::minusProduct(L::mulF(a.re, b.re), a.im, b.im), L::plusProduct(L::mulF(a.re, b.im), a.im, b.re)};
}
/** By the conjugate of w. */
inline Complex back(const Complex& a, const Complex& w) {
  return {L::plusProduct(L::mulF(a.re, w.re), a.im, w.im), L::minusProduct(L::mulF(a.im, w.re), a.re, w.im)};
}

inline void forward(Complex& x, Complex& y, const Complex& w) {
  const Complex product = y * w;
  y = x - product;
  x = x + product;
}

inline void backward(Complex& x, Complex& y, const Complex& w) {
  const Complex difference = x - y;
  x = x + y;
  y = back(difference, w);
}

/** N points: real parts, then imaginary ones. */
class Points {
 public:
  Points(double* at, size_t n, const hers::Roots& roots)
      : count_(n / 2), re_(at), im_(at + n / 2), wRe_(roots.re), wIm_(roots.im), spread_(roots.spread) {}

  /** All points, transformed; then `use` for each window of them; then back. */
  template <class Use>
  void eachWindow(Use use) {
    const double* spread = spread_;
    const size_t windows = count_ / (2 * L::H);
    for (size_t window = 0; window < windows; window++, spread += kSpread) {
      const size_t at = 2 * L::H * window;
      Complex x = load(at), y = load(at + L::H);
      const Complex w = root(windows + window);
      forward(x, y, w);
      inwards<L::H / 2>(x, y, spread);
      if (!use(window, x, y)) continue;
      outwards<1>(x, y, spread + kSpread);
      backward(x, y, w);
      store(at, x);
      store(at + L::H, y);
    }
  }

  /** The strides N/2 … 2H. */
  void forwardOuter() {
    size_t t = count_ / 2, m = 1;  // the stride of the next stage, and its number of groups
    for (; t >= 4 * L::H; t /= 4, m *= 4) {
      const size_t half = t / 2;
      for (size_t i = 0; i < m; i++) {
        const Complex w1 = root(m + i), w2 = root(2 * (m + i)), w3 = root(2 * (m + i) + 1);
        for (size_t j = 2 * t * i; j < 2 * t * i + half; j += L::H) {
          Complex x0 = load(j), x1 = load(j + half), x2 = load(j + t), x3 = load(j + t + half);
          forward(x0, x2, w1);
          forward(x1, x3, w1);
          forward(x0, x1, w2);
          forward(x2, x3, w3);
          store(j, x0), store(j + half, x1), store(j + t, x2), store(j + t + half, x3);
        }
      }
    }
    for (; t > L::H; t /= 2, m *= 2) {
      for (size_t i = 0; i < m; i++) {
        const Complex w = root(m + i);
        for (size_t j = 2 * t * i; j < 2 * t * i + t; j += L::H) {
          Complex x = load(j), y = load(j + t);
          forward(x, y, w);
          store(j, x), store(j + t, y);
        }
      }
    }
  }

  /** The strides 2H … N/2. */
  void backwardOuter() {
    size_t t = 2 * L::H, h = count_ / (4 * L::H);
    // An odd number of stages is left where log2(h) is even.
    bool isOdd = false;
    for (size_t k = h; k > 0; k /= 2) isOdd = !isOdd;
    if (isOdd) {
      for (size_t i = 0; i < h; i++) {
        const Complex w = root(h + i);
        for (size_t j = 2 * t * i; j < 2 * t * i + t; j += L::H) {
          Complex x = load(j), y = load(j + t);
          backward(x, y, w);
          store(j, x), store(j + t, y);
        }
      }
      t *= 2, h /= 2;
    }
    for (; h >= 2; t *= 4, h /= 4) {
      for (size_t i = 0; i < h / 2; i++) {
        const Complex w0 = root(h + 2 * i), w1 = root(h + 2 * i + 1), w2 = root(h / 2 + i);
        for (size_t j = 4 * t * i; j < 4 * t * i + t; j += L::H) {
          Complex x0 = load(j), x1 = load(j + t), x2 = load(j + 2 * t), x3 = load(j + 3 * t);
          backward(x0, x1, w0);
          backward(x2, x3, w1);
          backward(x0, x2, w2);
          backward(x1, x3, w2);
          store(j, x0), store(j + t, x1), store(j + 2 * t, x2), store(j + 3 * t, x3);
        }
      }
    }
  }

 private:
  static constexpr size_t kStrides = L::H == 8 ? 3 : 2;
  static constexpr size_t kSpread = kStrides * 2 * L::H;

  Complex load(size_t at) const { return {L::loadF(re_ + at), L::loadF(im_ + at)}; }
  void store(size_t at, const Complex& x) {
    L::storeF(re_ + at, x.re);
    L::storeF(im_ + at, x.im);
  }
  Complex root(size_t k) const { return {L::splatF(wRe_[k]), L::splatF(wIm_[k])}; }

  template <int t>
  static void exchange(Complex& x, Complex& y) {
    L::exchangeF<t>(x.re, y.re);
    L::exchangeF<t>(x.im, y.im);
  }
  /** The strides t … 1 of a window. */
  template <int t>
  static void inwards(Complex& x, Complex& y, const double* spread) {
    exchange<t>(x, y);
    forward(x, y, {L::loadF(spread), L::loadF(spread + L::H)});
    if constexpr (t > 1) inwards<t / 2>(x, y, spread + 2 * L::H);
  }
  /** The strides t … H/2, from the end of its roots on. */
  template <int t>
  static void outwards(Complex& x, Complex& y, const double* end) {
    backward(x, y, {L::loadF(end - 2 * L::H), L::loadF(end - L::H)});
    exchange<t>(x, y);
    if constexpr (2 * t < L::H) outwards<2 * t>(x, y, end - 2 * L::H);
  }

  size_t count_;
  double *re_, *im_;
  const double *wRe_, *wIm_, *spread_;
};

}  // namespace
