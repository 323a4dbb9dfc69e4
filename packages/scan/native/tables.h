// The tables of a ring, made once per kernel and parameter set.

#pragma once

#include <memory>
#include <vector>

#include "memory.h"
#include "ring.h"

namespace hers {

/** What packages/ring/src/modulus.ts computes for a prime. */
struct PrimeConstants {
  uint32_t p, scale, last, share, reciprocal;
  std::vector<uint32_t> inverses;
};

/** What the multiplication needs to know about a prime. Throws if sums could overflow. */
Modulus forMultiplying(uint32_t p);

/** A ring that owns its tables. */
class RingTables {
 public:
  RingTables(uint32_t n, const std::vector<PrimeConstants>& primes, uint32_t lanes);
  const Ring& ring() const { return ring_; }
  /** Words of a polynomial, and its slot groups. */
  size_t words() const { return size_t{ring_.n} * ring_.primes; }
  size_t groups() const { return words() / kGroup; }

 private:
  Ring ring_;
  std::vector<Aligned<uint32_t>> tables_;
};

}  // namespace hers
