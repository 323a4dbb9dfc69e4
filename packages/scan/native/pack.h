// From Q to 2^bits, and into a string of bits (packages/ring/assembly/convert.ts defines both).
//
// The share of a prime is y·T with T = round(2^(31+b)/p), where y already holds the factor (Q/p)^−1
// mod p from the transform; the sum over the primes is the coefficient scaled by 2^(31+b)/Q, of
// which the top bits are taken, rounded.
//
// 32 values of `bits` bits are `bits` whole words. Word j takes its lowest bits from the last value
// that begins at or before bit 32j, and the rest from those after it: an OR of at most 1 +
// ⌈31/bits⌉ values, shifted by amounts that depend on j alone. A `PackPlan` holds these amounts.

#pragma once

#include "transform.h"

namespace {

/** In place of the first prime's residues: n words of `bits` bits. */
inline void switchModulus(uint32_t* y0, const uint32_t* y1, const hers::Ring& ring, uint32_t bits) {
  using D = L::D;
  const int shift = static_cast<int>(31 + ring.bits - bits);
  const D round = L::splatD(uint64_t{1} << (shift - 1));
  const U mask = L::splat(static_cast<uint32_t>((uint64_t{1} << bits) - 1));
  const U t0 = L::splat(ring.moduli[0].reciprocal), t1 = L::splat(ring.moduli[1].reciprocal);
  for (size_t i = 0; i < ring.n; i += L::W) {
    const U x = L::load(y0 + i);
    D even = L::mulEven(x, t0), odd = L::mulEven(L::odd(x), t0);
    if (y1) {
      const U z = L::load(y1 + i);
      even = L::addD(even, L::mulEven(z, t1));
      odd = L::addD(odd, L::mulEven(L::odd(z), t1));
    }
    even = L::shiftRightD(L::addD(even, round), shift);
    odd = L::shiftRightD(L::addD(odd, round), shift);
    L::store(y0 + i, L::bitAnd(L::joinLow(even, odd), mask));
  }
}

/** For every machine, and every width. */
inline void packAny(uint8_t* out, const uint32_t* values, size_t n, const hers::PackPlan& plan) {
  uint64_t held = 0;
  uint32_t count = 0;
  for (size_t i = 0; i < n; i++) {
    held |= static_cast<uint64_t>(values[i]) << count;
    count += plan.bits;
    if (count >= 32) {
      for (int byte = 0; byte < 4; byte++) *out++ = static_cast<uint8_t>(held >> 8 * byte);
      held >>= 32;
      count -= 32;
    }
  }
}

#ifdef __AVX512F__

/** For a plan of so many vectors of words, and so many steps: its tables stay in registers. */
template <int vectors, int steps>
inline void packBy(uint8_t* out, const uint32_t* values, size_t n, const hers::PackPlan& plan) {
  U source[vectors][steps], shift[vectors][steps];
  for (int k = 0; k < vectors; k++) {
    for (int step = 0; step < steps; step++) {
      source[k][step] = L::load(plan.source + 32 * step + 16 * k);
      shift[k][step] = L::load(plan.shift + 32 * step + 16 * k);
    }
  }
  const uint32_t bits = plan.bits, left = bits - 16 * (vectors - 1);
  const __mmask16 last = static_cast<__mmask16>((1u << left) - 1);
  for (size_t i = 0; i < n; i += 32, out += 4 * bits) {
    const U low = L::load(values + i), high = L::load(values + i + 16);
    for (int k = 0; k < vectors; k++) {
      const auto value = [&](int step) { return _mm512_permutex2var_epi32(low, source[k][step], high); };
      U sum = _mm512_srlv_epi32(value(0), shift[k][0]);
      // A shift by 32 gives zero: nothing to add in this step.
      for (int step = 1; step < steps; step++) sum = _mm512_or_si512(sum, _mm512_sllv_epi32(value(step), shift[k][step]));
      if (k + 1 < vectors) L::store(out + 64 * k, sum);
      else _mm512_mask_storeu_epi32(out + 64 * k, last, sum);
    }
  }
}

inline void packBits(uint8_t* out, const uint32_t* values, size_t n, const hers::PackPlan& plan) {
  const bool two = plan.bits > 16;
  switch (plan.steps) {
    case 2:
      return packBy<2, 2>(out, values, n, plan);
    case 3:
      return two ? packBy<2, 3>(out, values, n, plan) : packBy<1, 3>(out, values, n, plan);
    case 4:
      return packBy<1, 4>(out, values, n, plan);
    case 5:
      return packBy<1, 5>(out, values, n, plan);
    default:
      return packAny(out, values, n, plan);
  }
}

#else

inline void packBits(uint8_t* out, const uint32_t* values, size_t n, const hers::PackPlan& plan) { packAny(out, values, n, plan); }

#endif

inline void respond(const hers::Respond& job) {
  const hers::Ring& ring = *job.ring;
  const size_t n = ring.n;
  for (size_t prime = 0; prime < ring.primes; prime++) {
    const uint32_t* sums = job.sums + prime * (n / hers::kGroup) * job.groupStride;
    inverse(job.work + 2 * prime * n, job.work + (2 * prime + 1) * n, sums, job.second, job.groupStride, n, ring.moduli[prime]);
  }
  for (int half = 0; half < 2 && job.out[half]; half++) {
    uint32_t* const y = job.work + half * n;
    switchModulus(y, ring.primes == 2 ? y + 2 * n : nullptr, ring, job.pack[half]->bits);
    packBits(job.out[half], y, n, *job.pack[half]);
  }
}

}  // namespace
