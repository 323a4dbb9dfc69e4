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

/** N points: real parts, then imaginary ones. */
class Points {
 public:
  Points(double* at, size_t n, const hers::Roots& roots)
      : count_(n / 2), re_(at), im_(at + n / 2), wRe_(roots.re), wIm_(roots.im), spread_(roots.spread) {}

  /** All points, transformed; then `use` for each window of them; then back. */
  template <class Use>
  void eachWindow(Use use) const {
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

  void forwardOuter() const { ::forwardOuter(*this, count_); }
  void backwardOuter() const { ::backwardOuter(*this, count_); }

  // What those ask of it.
  static constexpr size_t kLanes = L::H;
  Complex load(size_t at) const { return {L::loadF(re_ + at), L::loadF(im_ + at)}; }
  void store(size_t at, const Complex& x) const {
    L::storeF(re_ + at, x.re);
    L::storeF(im_ + at, x.im);
  }
  Complex root(size_t k) const { return {L::splatF(wRe_[k]), L::splatF(wIm_[k])}; }
  void forward(Complex& x, Complex& y, const Complex& w) const {
    const Complex product = y * w;
    y = x - product;
    x = x + product;
  }
  void backward(Complex& x, Complex& y, const Complex& w) const {
    const Complex difference = x - y;
    x = x + y;
    y = back(difference, w);
  }
  void last(Complex& x, Complex& y, const Complex& w) const { backward(x, y, w); }

 private:
  static constexpr size_t kStrides = L::H == 8 ? 3 : 2;
  static constexpr size_t kSpread = kStrides * 2 * L::H;

  template <int t>
  static void exchange(Complex& x, Complex& y) {
    L::exchangeF<t>(x.re, y.re);
    L::exchangeF<t>(x.im, y.im);
  }
  /** The strides t … 1 of a window. */
  template <int t>
  void inwards(Complex& x, Complex& y, const double* spread) const {
    exchange<t>(x, y);
    forward(x, y, {L::loadF(spread), L::loadF(spread + L::H)});
    if constexpr (t > 1) inwards<t / 2>(x, y, spread + 2 * L::H);
  }
  /** The strides t … H/2, from the end of its roots on. */
  template <int t>
  void outwards(Complex& x, Complex& y, const double* end) const {
    backward(x, y, {L::loadF(end - 2 * L::H), L::loadF(end - L::H)});
    exchange<t>(x, y);
    if constexpr (2 * t < L::H) outwards<2 * t>(x, y, end - 2 * L::H);
  }

  size_t count_;
  double *re_, *im_;
  const double *wRe_, *wIm_, *spread_;
};

}  // namespace
