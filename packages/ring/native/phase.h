// From the packed bits of a response to scores: unpackBits, splitCentred, joinPhase, scaleToFloat
// and scaleToInteger of packages/ring/assembly/convert.ts, around transforms.

#pragma once

#include "rows.h"

namespace {

/** W values of `bits` bits at a time: each lies in one word, or across two neighbours. */
class Unpacking {
 public:
  Unpacking(const uint8_t* packed, uint32_t n, uint32_t bits) : at_(packed), left_(size_t{n} * bits / 8), step_(size_t{L::W} * bits / 8) {
    alignas(64) uint32_t first[L::W], next[L::W], right[L::W], left[L::W];
    for (uint32_t k = 0; k < L::W; k++) {
      const uint32_t bit = k * bits;
      first[k] = bit / 32, next[k] = bit / 32 + 1, right[k] = bit % 32, left[k] = 32 - bit % 32;
    }
    first_ = L::load(first), next_ = L::load(next), right_ = L::load(right), shiftUp_ = L::load(left);
    mask_ = L::splat(static_cast<uint32_t>((uint64_t{1} << bits) - 1));
  }

  U next() {
    U words;
    if (left_ >= 4 * L::W) {
      words = L::load(at_);
    } else {
      uint8_t rest[4 * L::W] = {};
      memcpy(rest, at_, left_);
      words = L::load(rest);
    }
    at_ += step_, left_ -= step_;
    // The word behind the last is none of the value's: what comes from there is masked away.
    const U low = L::shiftRightEach(L::permute(words, first_), right_);
    const U high = L::shiftLeftEach(L::permute(words, next_), shiftUp_);
    return L::bitAnd(L::bitOr(low, high), mask_);
  }

 private:
  const uint8_t* at_;
  size_t left_, step_;
  U first_, next_, right_, shiftUp_, mask_;
};

/**
 * c0·2^(bits1−bits0) + s·c1 modulo 2^bits1, centred: `take` gets W words of it at a time. c1 is cut
 * into halves whose products with s are exact modulo one prime.
 */
template <class F>
inline void phaseOf(const hers::Phase& job, Work& work, F take) {
  const Ring& ring = *job.ring;
  const Prime& m = ring.prime[0];
  const uint32_t n = ring.n;
  uint32_t* const low = work.poly(0);
  uint32_t* const high = low + n;
  const int cut = static_cast<int>(job.cut), top = static_cast<int>(job.bits1 - job.cut);
  const U p = L::splat(m.p), half = L::splat(m.p >> 1);
  Unpacking c1(job.packed1, n, job.bits1);
  for (size_t j = 0; j < n; j += L::W) {
    const U x = c1.next();
    const U l = L::shiftRightSigned(L::shiftLeft(x, 32 - cut), 32 - cut);
    L::store(low + j, embedLanes(l, p));
    if (top > 0) {
      const U h = L::shiftRightSigned(L::sub(x, l), cut);
      L::store(high + j, embedLanes(L::shiftRightSigned(L::shiftLeft(h, 32 - top), 32 - top), p));
    }
  }
  for (int part = 0; part < (top > 0 ? 2 : 1); part++) {
    uint32_t* const a = part == 0 ? low : high;
    transform(a, n, m);
    inverseOfProduct(a, a, job.secret, n, m);
  }
  const int up = static_cast<int>(job.bits1 - job.bits0), extend = static_cast<int>(32 - job.bits1);
  Unpacking c0(job.packed0, n, job.bits0);
  for (size_t j = 0; j < n; j += L::W) {
    U x = L::add(L::shiftLeft(c0.next(), up), centreLanes(L::load(low + j), p, half));
    if (top > 0) x = L::add(x, L::shiftLeft(centreLanes(L::load(high + j), p, half), cut));
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
