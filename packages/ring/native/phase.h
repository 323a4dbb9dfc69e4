// From the packed bits of a response to scores: unpackBits, splitCentred, joinPhase, scaleToFloat
// and scaleToInteger of packages/ring/assembly/convert.ts. WebAssembly computes the product in two
// halves modulo a prime; here it is one, of doubles (points.h). Both are exact.

#pragma once

#include "points.h"
#include "rows.h"

namespace {

/** W values of `bits` bits at a time: each lies in one word, or across two neighbours. */
class Unpacking {
 public:
  Unpacking(const uint8_t* packed, uint32_t n, uint32_t bits) : packed_(packed), bytes_(size_t{n} * bits / 8), bits_(bits) {
    alignas(64) uint32_t first[L::W], next[L::W], right[L::W], left[L::W];
    for (uint32_t k = 0; k < L::W; k++) {
      const uint32_t bit = k * bits;
      first[k] = bit / 32, next[k] = bit / 32 + 1, right[k] = bit % 32, left[k] = 32 - bit % 32;
    }
    first_ = L::load(first), next_ = L::load(next), right_ = L::load(right), shiftUp_ = L::load(left);
  }

  /** From value j on, a multiple of W. What is above the bits is of other values. */
  U at(size_t j) const {
    const size_t from = j / 8 * bits_;
    U words;
    if (bytes_ - from >= 4 * L::W) {
      words = L::load(packed_ + from);
    } else {
      uint8_t rest[4 * L::W] = {};
      memcpy(rest, packed_ + from, bytes_ - from);
      words = L::load(rest);
    }
    const U low = L::shiftRightEach(L::permute(words, first_), right_);
    const U high = L::shiftLeftEach(L::permute(words, next_), shiftUp_);
    return L::bitOr(low, high);
  }

 private:
  const uint8_t* packed_;
  size_t bytes_, bits_;
  U first_, next_, right_, shiftUp_;
};

/** The transform of a ternary secret, whose transform modulo the first prime is given; over N. */
inline void secretPoints(double* out, const uint32_t* secret, const Ring& ring, const hers::Roots& roots, Work& work) {
  const Prime& m = ring.prime[0];
  const size_t n = ring.n;
  uint32_t* const ternary = work.words(0);
  double* const at = reinterpret_cast<double*>(work.poly(0));
  memcpy(ternary, secret, 4 * n);
  inverse(ternary, ring.n, m);
  const U p = L::splat(m.p), half = L::splat(m.p >> 1);
  const F scale = L::splatF(2.0 / static_cast<double>(n));
  for (size_t j = 0; j < n; j += L::W) {
    const U x = centreLanes(L::load(ternary + j), p, half);
    L::storeF(at + j, L::mulF(L::lowDoubles(x), scale));
    L::storeF(at + j + L::H, L::mulF(L::highDoubles(x), scale));
  }
  const Flushing flushing;
  Points points(at, n, roots);
  points.forwardOuter();
  points.eachWindow([&](size_t window, const Complex& x, const Complex& y) {
    double* const to = out + 4 * L::H * window;
    L::storeF(to, x.re), L::storeF(to + L::H, x.im), L::storeF(to + 2 * L::H, y.re), L::storeF(to + 3 * L::H, y.im);
    return false;
  });
}

/** n numbers, the integers next to which are the coefficients of s·c1. */
inline double* productOf(const hers::Phase& job, Work& work) {
  const size_t n = job.ring->n;
  const int extend = static_cast<int>(32 - job.bits1);
  double* const at = reinterpret_cast<double*>(work.poly(0));
  const Unpacking c1(job.packed1, job.ring->n, job.bits1);
  for (size_t j = 0; j < n; j += L::W) {
    const U x = L::shiftRightSigned(L::shiftLeft(c1.at(j), extend), extend);
    L::storeF(at + j, L::lowDoubles(x));
    L::storeF(at + j + L::H, L::highDoubles(x));
  }
  const Flushing flushing;
  Points points(at, n, job.roots);
  points.forwardOuter();
  points.eachWindow([&](size_t window, Complex& x, Complex& y) {
    const double* const s = job.points + 4 * L::H * window;
    x = x * Complex{L::loadF(s), L::loadF(s + L::H)};
    y = y * Complex{L::loadF(s + 2 * L::H), L::loadF(s + 3 * L::H)};
    return true;
  });
  points.backwardOuter();
  return at;
}

/** c0·2^(bits1−bits0) + s·c1 modulo 2^bits1, centred: `take` gets W words of it at a time. */
template <class F>
inline void phaseOf(const hers::Phase& job, Work& work, F take) {
  const double* const at = productOf(job, work);
  const int up = static_cast<int>(job.bits1 - job.bits0), extend = static_cast<int>(32 - job.bits1);
  // The low word of x + 1.5·2^52 is that of the integer next to x, below 2^51 in magnitude.
  const auto rounder = L::splatF(6755399441055744.0);
  const Unpacking c0(job.packed0, job.ring->n, job.bits0);
  for (size_t j = 0; j < job.ring->n; j += L::W) {
    const U product = L::lowWords(L::addF(L::loadF(at + j), rounder), L::addF(L::loadF(at + j + L::H), rounder));
    const U x = L::add(L::shiftLeft(c0.at(j), up), product);
    take(j, L::shiftRightSigned(L::shiftLeft(x, extend), extend));
  }
}

inline double scores(float* out, const hers::Phase& job, float factor, float offset, Work& work) {
  U most = L::splat(0);
  phaseOf(job, work, [&](size_t j, U x) {
    most = L::max(most, L::abs(x));
    L::storeFloats(out + j, x, factor, offset);
  });
  uint32_t words[L::W], largest = 0;
  L::store(words, most);
  for (const uint32_t word : words) largest = word > largest ? word : largest;
  return largest;
}

inline double integers(int32_t* out, const hers::Phase& job, double factor, Work& work) {
  const auto f = L::splatF(factor), least = L::splatF(-2147483648.0), greatest = L::splatF(2147483647.0);
  auto most = L::splatF(0);
  phaseOf(job, work, [&](size_t j, U words) {
    // In place: what is stored last is what was asked for.
    L::store(out + j, words);
    for (size_t at = j; at < j + L::W; at += L::H) {
      const auto x = L::mulF(L::toDoubles(out + at), f), nearest = L::nearest(x);
      most = L::maxF(most, L::absF(L::subF(x, nearest)));
      L::storeTruncated(out + at, L::minF(L::maxF(nearest, least), greatest));
    }
  });
  double parts[L::H], residual = 0;
  L::storeF(parts, most);
  for (const double part : parts) residual = part > residual ? part : residual;
  return residual;
}

}  // namespace
