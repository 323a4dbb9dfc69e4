// Residues modulo one prime p < 2^30, and operations on whole polynomials. The formulas are those
// of packages/ring/assembly/arithmetic.ts and pointwise.ts, with wider vectors.

#pragma once

#include "../lanes/transform.h"
#include "ring.h"

namespace {

using M = Lanes::M;

/** A value in [0, 4p) to its reduced residue. */
inline U reduceLazy(U x, U p, U p2) { return reduceOnce(reduceOnce(x, p2), p); }

/** Signed words with |x| < p to reduced residues. */
inline U embedLanes(U x, U p) { return L::add(x, L::bitAnd(L::shiftRightSigned(x, 31), p)); }

inline Factor factorOf(uint32_t w, uint32_t p) { return {L::splat(w), L::splat(hers::shoup(w, p))}; }

struct Barrett {
  U p, p2, mu;
  int shift;
  Barrett(uint32_t p_, uint32_t mu_, uint32_t shift_)
      : p(L::splat(p_)), p2(L::splat(2 * p_)), mu(L::splat(mu_)), shift(static_cast<int>(shift_)) {}
  /** The product of reduced x and y, in [0, 5p/2). */
  U operator()(U x, U y) const {
    const U even = L::mulEven(x, y), odd = L::mulEven(L::odd(x), L::odd(y));
    const U top = L::joinLow(L::shiftRight64(even, shift), L::shiftRight64(odd, shift));
    return L::sub(L::joinLow(even, odd), L::mulLow(mulHigh(top, mu, mu), p));
  }
};

inline void add(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p) {
  const U P = L::splat(p);
  for (size_t i = 0; i < n; i += L::W) L::store(out + i, reduceOnce(L::add(L::load(a + i), L::load(b + i)), P));
}

inline void subtract(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p) {
  const U P = L::splat(p);
  for (size_t i = 0; i < n; i += L::W)
    L::store(out + i, reduceOnce(L::sub(L::add(L::load(a + i), P), L::load(b + i)), P));
}

inline void multiply(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p, uint32_t mu, uint32_t shift) {
  const Barrett product(p, mu, shift);
  for (size_t i = 0; i < n; i += L::W)
    L::store(out + i, reduceLazy(product(L::load(a + i), L::load(b + i)), product.p, product.p2));
}

/** out += a·b. */
inline void multiplyAdd(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p, uint32_t mu, uint32_t shift) {
  const Barrett product(p, mu, shift);
  for (size_t i = 0; i < n; i += L::W)
    L::store(out + i, reduceLazy(L::add(L::load(out + i), product(L::load(a + i), L::load(b + i))), product.p, product.p2));
}

/** out −= a·b. The product is below 5p/2, so 3p keeps the difference within [0, 4p). */
inline void multiplySubtract(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p, uint32_t mu, uint32_t shift) {
  const Barrett product(p, mu, shift);
  const U P3 = L::splat(3 * p);
  for (size_t i = 0; i < n; i += L::W) {
    const U x = L::sub(L::add(L::load(out + i), P3), product(L::load(a + i), L::load(b + i)));
    L::store(out + i, reduceLazy(x, product.p, product.p2));
  }
}

/** out += a·w for one residue w. */
inline void scaleAdd(uint32_t* out, const uint32_t* a, uint32_t w, uint32_t n, uint32_t p) {
  const U P = L::splat(p), P2 = L::splat(2 * p);
  const Factor f = factorOf(w, p);
  for (size_t i = 0; i < n; i += L::W)
    L::store(out + i, reduceLazy(L::add(L::load(out + i), mulShoup(L::load(a + i), f, P)), P, P2));
}

/** out = values·w + noise for signed words of magnitude below p. */
inline void encode(uint32_t* out, const uint32_t* values, const uint32_t* noise, uint32_t w, uint32_t n, uint32_t p) {
  const U P = L::splat(p), P2 = L::splat(2 * p);
  const Factor f = factorOf(w, p);
  for (size_t i = 0; i < n; i += L::W) {
    const U value = mulShoup(embedLanes(L::load(values + i), P), f, P);
    L::store(out + i, reduceLazy(L::add(value, embedLanes(L::load(noise + i), P)), P, P2));
  }
}

/** Signed words of magnitude below p to residues. */
inline void embed(uint32_t* out, const uint32_t* values, uint32_t n, uint32_t p) {
  const U P = L::splat(p);
  for (size_t i = 0; i < n; i += L::W) L::store(out + i, embedLanes(L::load(values + i), P));
}

inline bool isReduced(const uint32_t* a, uint32_t n, uint32_t p) {
  const U P = L::splat(p);
  bool ok = true;
  for (size_t i = 0; i < n; i += L::W) ok &= !L::anyNotBelow(L::load(a + i), P);
  return ok;
}

}  // namespace
