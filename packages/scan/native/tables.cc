#include "tables.h"

#include <stdexcept>

namespace hers {
namespace {

uint32_t shoup(uint32_t w, uint32_t p) { return static_cast<uint32_t>((static_cast<uint64_t>(w) << 32) / p); }

uint32_t multiply(uint64_t a, uint64_t b, uint32_t p) { return static_cast<uint32_t>(a * b % p); }

/**
 * −p^−1 mod 2^32 by Newton's iteration, which doubles the correct bits in each step; p·p ≡ 1 mod 8
 * begins it.
 */
uint32_t negativeInverse(uint32_t p) {
  uint32_t inverse = p;
  for (int step = 0; step < 4; step++) inverse *= 2 - p * inverse;
  return 0 - inverse;
}

constexpr uint64_t kTwo32 = uint64_t{1} << 32;

}  // namespace

Modulus forMultiplying(uint32_t p) {
  Modulus m = {};
  m.p = p;
  const uint64_t rest = kTwo32 % p;
  m.foldBy = static_cast<uint32_t>(kTwo32 - rest);
  // The bounds of multiply.h, for this prime.
  const uint64_t folded = (kTwo32 - 1) * (1 + rest);
  const uint64_t product = static_cast<uint64_t>(p - 1) * (p - 1);
  if ((UINT64_MAX - folded) / product < kFoldRows) throw std::range_error("sums modulo this prime would overflow");
  m.tailRows = static_cast<uint32_t>((kTwo32 * p - 1 - folded) / product);
  m.unfoldedRows = UINT64_MAX / product;
  m.bareRows = (kTwo32 * p - 1) / product;
  m.negativeInverse = negativeInverse(p);
  return m;
}

RingTables::RingTables(uint32_t n, const std::vector<PrimeConstants>& primes, uint32_t lanes) : ring_{} {
  ring_.n = n;
  ring_.primes = static_cast<uint32_t>(primes.size());
  for (uint32_t p = primes[0].p; p > 0; p >>= 1) ring_.bits++;
  for (size_t i = 0; i < primes.size(); i++) {
    const PrimeConstants& c = primes[i];
    Modulus& m = ring_.moduli[i];
    m = forMultiplying(c.p);
    const uint32_t p = m.p;
    m.reciprocal = c.reciprocal;
    const uint32_t factor = multiply(kTwo32 % p, c.share, p);
    m.scale = multiply(c.scale, factor, p);
    m.scaleShoup = shoup(m.scale, p);
    m.last = multiply(c.last, factor, p);
    m.lastShoup = shoup(m.last, p);

    Aligned<uint32_t> inverses(n), companions(n);
    for (uint32_t k = 0; k < n; k++) {
      inverses.get()[k] = c.inverses[k];
      companions.get()[k] = shoup(c.inverses[k], p);
    }
    size_t strides = 0;
    while ((1u << strides) < lanes) strides++;
    Aligned<uint32_t> spread(strides * n);
    uint32_t* at = spread.get();
    for (uint32_t window = 0; window < n / (2 * lanes); window++) {
      for (uint32_t t = 1; t < lanes; t *= 2) {
        for (uint32_t lane = 0; lane < lanes; lane++, at++) {
          const uint32_t number = n / (2 * t) + window * (lanes / t) + lane / t;
          at[0] = inverses.get()[number];
          at[lanes] = companions.get()[number];
        }
        at += lanes;
      }
    }
    m.inverses = inverses.get();
    m.inversesShoup = companions.get();
    m.spread = spread.get();
    tables_.push_back(std::move(inverses));
    tables_.push_back(std::move(companions));
    tables_.push_back(std::move(spread));
  }
}

}  // namespace hers
