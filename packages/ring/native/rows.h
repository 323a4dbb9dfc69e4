// The rows of a block and of a query in one pass each: packages/ring/src/rows.ts, which is slow and
// plain, defines what comes out.
//
// Rounding modulo Q·m, m = 2^t. An integer x is known by its residues and has to become round((x +
// Q·k)/m) modulo each prime, where k makes x + Q·k have the low bits that are given
// (packages/ring/assembly/wide.ts). That sum is x modulo every prime, so its quotient by m is (x −
// rest)·m^−1 modulo p, with the rest of the division known from low words alone. Nothing of 64 bits
// is needed, not even of two primes: of x itself only the low word and the side of Q/2 count, and
// with x = x0 + p0·t the latter is a comparison of (t, x0) with those of (Q − 1)/2.

#pragma once

#include "sample.h"
#include "transform.h"

namespace {

using hers::Prime;
using hers::Ring;

/** The centred integer of one or two residues, as far as it is needed. */
struct Centred {
  U low;
  M isPositive;
};

class Centring {
 public:
  explicit Centring(const Ring& ring) : isPair_(ring.primes == 2) {
    const uint32_t p0 = ring.prime[0].p;
    p0_ = L::splat(p0);
    uint64_t q = p0;
    if (isPair_) {
      const uint32_t p1 = ring.prime[1].p;
      q *= p1;
      p1_ = L::splat(p1);
      inverse_ = factorOf(ring.inverse, p1);
    }
    const uint64_t half = q >> 1;
    halfTop_ = L::splat(static_cast<uint32_t>(half / p0));
    halfLow_ = L::splat(static_cast<uint32_t>(half % p0));
    modulus_ = L::splat(static_cast<uint32_t>(q));
  }

  Centred operator()(U x0, U x1) const {
    U x = x0;
    M isOver;
    if (isPair_) {
      // x0 is below 2·p1, because the primes have one bit length.
      const U difference = L::sub(L::add(x1, p1_), reduceOnce(x0, p1_));
      const U top = reduceOnce(mulShoup(difference, inverse_, p1_), p1_);
      x = L::add(x0, L::mulLow(p0_, top));
      isOver = L::either(L::greater(top, halfTop_), L::both(L::equal(top, halfTop_), L::greater(x0, halfLow_)));
    } else {
      isOver = L::greater(x0, halfLow_);
    }
    const U low = L::sub(x, L::where(isOver, modulus_));
    // Zero only if every residue is.
    const U any = isPair_ ? L::bitOr(x0, x1) : x0;
    return {low, L::butNot(L::greater(any, L::splat(0)), isOver)};
  }

  U modulus() const { return modulus_; }

 private:
  bool isPair_;
  U p0_, p1_, halfTop_, halfLow_, modulus_;
  Factor inverse_;
};

/** round(x/2^t) mod p for integers modulo Q·2^t. */
class Rounding {
 public:
  Rounding(const Ring& ring, uint32_t t) : centre_(ring), count_(ring.primes) {
    const uint32_t m = 1u << t;
    m_ = L::splat(m), mask_ = L::splat(m - 1), half_ = L::splat(m / 2);
    for (uint32_t i = 0; i < count_; i++) {
      const uint32_t p = ring.prime[i].p;
      p_[i] = L::splat(p);
      // The inverse of 2 is (p + 1)/2.
      uint64_t inverse = 1;
      for (uint32_t k = 0; k < t; k++) inverse = inverse * ((p + 1) / 2) % p;
      inverse_[i] = factorOf(static_cast<uint32_t>(inverse), p);
    }
  }

  /** Reduced residues and low bits in; residues below 2p out. */
  void operator()(U (&x)[2], U bits) const {
    const Centred c = centre_(x[0], x[1]);
    const U k = L::bitAnd(L::sub(bits, c.low), mask_);
    const M isOver = L::either(L::greater(k, half_), L::both(L::equal(k, half_), c.isPositive));
    const U wide = L::add(c.low, L::mulLow(centre_.modulus(), L::sub(k, L::where(isOver, m_))));
    const U rest = L::bitAnd(wide, mask_);
    // Ties go to even: up where the quotient, rounded down, is odd.
    const M isOdd = L::equal(L::bitAnd(wide, m_), m_);
    const M isUp = L::either(L::greater(rest, half_), L::both(L::equal(rest, half_), isOdd));
    const U change = L::sub(L::where(isUp, m_), rest);
    for (uint32_t i = 0; i < count_; i++) x[i] = mulShoup(L::add(L::add(x[i], p_[i]), change), inverse_[i], p_[i]);
  }

  U mask() const { return mask_; }

 private:
  Centring centre_;
  uint32_t count_;
  U m_, mask_, half_, p_[2];
  Factor inverse_[2];
};

/** Reduced residues to words that are the centred residue modulo 2^32. */
inline U centreLanes(U x, U p, U half) { return L::sub(x, L::where(L::greater(x, half), p)); }

inline void transform(uint32_t* a, uint32_t n, const Prime& m) { ntt(a, m.tables, n, m.p); }
inline void inverse(uint32_t* a, uint32_t n, const Prime& m) { intt(a, m.tables, n, m.p, m.scale, m.last); }

/** The inverse of a·b, both reduced. */
inline void inverseOfProduct(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, const Prime& m) {
  multiply(out, a, b, n, m.p, m.mu, m.shift);
  inverse(out, n, m);
}

inline void uniformAll(uint32_t* out, const Ring& ring, const Source& source, Work& work) {
  for (uint32_t i = 0; i < ring.primes; i++) uniform(out + i * ring.n, ring.n, ring.prime[i].p, source, i, work);
}

/** The transform of a ternary secret modulo every prime; uses words(0). */
inline void ternaryTransform(uint32_t* out, const Ring& ring, const Source& source, Work& work) {
  ternary(work.words(0), ring.n, source, work);
  for (uint32_t i = 0; i < ring.primes; i++) {
    embed(out + i * ring.n, work.words(0), ring.n, ring.prime[i].p);
    transform(out + i * ring.n, ring.n, ring.prime[i]);
  }
}

/** Secret i: where it is kept, or in `into`. */
inline const uint32_t* secretAt(const hers::Secrets& secrets, size_t i, uint32_t* into, const Ring& ring, Work& work) {
  uint32_t* const at = secrets.kept ? secrets.kept + i * ring.words() : into;
  if (secrets.kept && secrets.isKept[i]) return at;
  ternaryTransform(at, ring, {secrets.key, secrets.domain, static_cast<uint32_t>(i)}, work);
  if (secrets.kept) secrets.isKept[i] = 1;
  return at;
}

/** The transform modulo the first prime of n words below 2^t; uses words(0). */
inline void maskLowTransform(uint32_t* out, const Ring& ring, uint32_t t, const Source& source, Work& work) {
  uniformBits(work.words(0), ring.n, t, source, work);
  embed(out, work.words(0), ring.n, ring.prime[0].p);
  transform(out, ring.n, ring.prime[0]);
}

inline void blockRows(const hers::BlockRows& job, Work& work) {
  const Ring& ring = *job.ring;
  const uint32_t n = ring.n;
  const size_t words = ring.words();
  uint32_t* const mask = work.poly(0);
  uint32_t* const secretSpace = work.poly(1);
  uint32_t* const product = work.poly(2);
  uint32_t* const maskLow = work.poly(3);
  uint32_t* const productLow = work.poly(4);
  uint32_t* const values = work.words(1);
  uniformAll(mask, ring, {job.maskKey, job.maskDomain, 0}, work);
  maskLowTransform(maskLow, ring, job.wideBits, {job.maskKey, job.maskBitsDomain, 0}, work);
  const Rounding round(ring, job.wideBits);
  const U p0 = L::splat(ring.prime[0].p), half0 = L::splat(ring.prime[0].p >> 1);
  for (size_t row = 0; row < job.rows; row++) {
    memcpy(values + job.first, job.values + row * job.count, 4 * job.count);
    noise(work.noise(), n, {job.errorKey, job.errorDomain, static_cast<uint32_t>(row)}, work);
    const uint32_t* const secret = secretAt(job.secrets, row, secretSpace, ring, work);
    uint32_t* const out = job.out + row * words;
    const uint32_t* const lift = job.lifts + row * (ring.primes + 1);
    U p[2], p2[2];
    Factor f[2];
    for (uint32_t i = 0; i < ring.primes; i++) {
      const uint32_t prime = ring.prime[i].p;
      p[i] = L::splat(prime), p2[i] = L::splat(2 * prime), f[i] = factorOf(lift[i], prime);
    }
    for (uint32_t i = 0; i < ring.primes; i++)
      inverseOfProduct(product + i * n, mask + i * n, secret + i * n, n, ring.prime[i]);
    // Exact modulo one prime.
    inverseOfProduct(productLow, maskLow, secret, n, ring.prime[0]);
    const U liftLow = L::splat(lift[ring.primes]);
    for (size_t j = 0; j < n; j += L::W) {
      const U value = L::load(values + j), error = L::widen(work.noise() + j);
      const U low = centreLanes(L::load(productLow + j), p0, half0);
      const U bits = L::bitAnd(L::sub(L::add(L::mulLow(value, liftLow), error), low), round.mask());
      U x[2] = {};
      for (uint32_t i = 0; i < ring.primes; i++) {
        const U message = L::add(mulShoup(embedLanes(value, p[i]), f[i], p[i]), embedLanes(error, p[i]));
        const U difference = L::sub(L::add(reduceOnce(message, p2[i]), p[i]), L::load(product + i * n + j));
        x[i] = reduceLazy(difference, p[i], p2[i]);
      }
      round(x, bits);
      for (uint32_t i = 0; i < ring.primes; i++) L::store(out + i * n + j, x[i]);
    }
    for (uint32_t i = 0; i < ring.primes; i++) transform(out + i * n, n, ring.prime[i]);
  }
}

inline uint32_t powerOfTwo(uint32_t exponent, uint32_t p) {
  uint64_t x = 1;
  for (uint32_t k = 0; k < exponent; k++) x = 2 * x % p;
  return static_cast<uint32_t>(x);
}

inline void queryRows(const hers::QueryRows& job, Work& work) {
  const Ring& ring = *job.ring;
  const uint32_t n = ring.n;
  const size_t words = ring.words();
  uint32_t* const result = work.poly(0);
  uint32_t* const secretSpace = work.poly(1);
  uint32_t* const sum = work.poly(2);
  uint32_t* const mask = work.poly(3);
  uint32_t* const product = work.poly(4);
  uint32_t* const productLow = work.poly(5);
  ternaryTransform(result, ring, {job.resultKey, job.resultDomain, 0}, work);
  memcpy(job.secretOut, result, 4 * size_t{n});
  memset(sum, 0, 4 * words);
  const auto error = [&](size_t row) { noise(work.noise(), n, {job.errorKey, job.errorDomain, static_cast<uint32_t>(row)}, work); };
  const auto embedNoise = [&](uint32_t* out, uint32_t p) {
    const U P = L::splat(p);
    for (size_t j = 0; j < n; j += L::W) L::store(out + j, embedLanes(L::widen(work.noise() + j), P));
  };
  const auto send = [&](uint32_t* out, size_t row) {
    uniformAll(mask, ring, {job.maskKey, job.maskDomain, static_cast<uint32_t>(row)}, work);
    for (uint32_t i = 0; i < ring.primes; i++) {
      const Prime& m = ring.prime[i];
      multiplySubtract(out + i * n, mask + i * n, result + i * n, n, m.p, m.mu, m.shift);
    }
  };
  for (size_t row = 0; row < job.rows; row++) {
    uint32_t* const out = job.out + row * words;
    const uint32_t* const lift = job.lifts + row * (ring.primes + 1);
    error(row);
    const uint32_t* const secret = secretAt(job.secrets, row, secretSpace, ring, work);
    for (uint32_t i = 0; i < ring.primes; i++) {
      const Prime& m = ring.prime[i];
      uint32_t* const at = out + i * n;
      embedNoise(at, m.p);
      // The message is a constant: all but the first coefficient are errors alone. The formula is
      // that of `encode`, because the time of a division depends on its operands.
      uint32_t first[L::W] = {static_cast<uint32_t>(job.values[row])};
      const U p = L::splat(m.p);
      L::store(at, L::add(mulShoup(embedLanes(L::load(first), p), factorOf(lift[i], m.p), p), L::load(at)));
      hers::wipe(first, sizeof first);
      transform(at, n, m);
      multiplyAdd(sum + i * n, secret + i * n, at, n, m.p, m.mu, m.shift);
    }
    send(out, row);
  }
  for (uint32_t k = 0; k < job.digits; k++) {
    const size_t row = job.rows + k;
    uint32_t* const out = job.out + row * words;
    error(row);
    const uint32_t exponent = k * job.digitBits;
    if (exponent >= job.wideBits) {
      for (uint32_t i = 0; i < ring.primes; i++) {
        const Prime& m = ring.prime[i];
        embedNoise(out + i * n, m.p);
        transform(out + i * n, n, m);
        scaleAdd(out + i * n, sum + i * n, powerOfTwo(exponent - job.wideBits, m.p), n, m.p);
      }
      send(out, row);
      continue;
    }
    // −a''·s + 2^exponent·U + e'' modulo Q·2^wideBits, rounded to Q.
    memcpy(product, sum, 4 * words);
    for (uint32_t i = 0; i < ring.primes; i++) inverse(product + i * n, n, ring.prime[i]);
    const Centring centre(ring);
    uint32_t* const low = work.words(1);
    for (size_t j = 0; j < n; j += L::W) {
      const U x1 = ring.primes == 2 ? L::load(product + n + j) : L::splat(0);
      L::store(low + j, centre(L::load(product + j), x1).low);
    }
    for (uint32_t i = 0; i < ring.primes; i++) {
      const uint32_t p = ring.prime[i].p;
      embedNoise(out + i * n, p);
      scaleAdd(out + i * n, product + i * n, powerOfTwo(exponent, p), n, p);
    }
    uniformAll(mask, ring, {job.maskKey, job.maskDomain, static_cast<uint32_t>(row)}, work);
    for (uint32_t i = 0; i < ring.primes; i++) {
      const Prime& m = ring.prime[i];
      inverseOfProduct(product + i * n, mask + i * n, result + i * n, n, m);
      subtract(out + i * n, out + i * n, product + i * n, n, m.p);
    }
    const Prime& m = ring.prime[0];
    maskLowTransform(mask, ring, job.wideBits, {job.maskKey, job.maskBitsDomain, static_cast<uint32_t>(row)}, work);
    inverseOfProduct(productLow, mask, result, n, m);
    const Rounding round(ring, job.wideBits);
    const U p0 = L::splat(m.p), half0 = L::splat(m.p >> 1);
    for (size_t j = 0; j < n; j += L::W) {
      const U message = L::add(L::shiftLeft(L::load(low + j), static_cast<int>(exponent)), L::widen(work.noise() + j));
      const U bits = L::bitAnd(L::sub(message, centreLanes(L::load(productLow + j), p0, half0)), round.mask());
      U x[2] = {L::load(out + j), ring.primes == 2 ? L::load(out + n + j) : L::splat(0)};
      round(x, bits);
      for (uint32_t i = 0; i < ring.primes; i++) L::store(out + i * n + j, x[i]);
    }
    for (uint32_t i = 0; i < ring.primes; i++) transform(out + i * n, n, ring.prime[i]);
  }
}

}  // namespace
