// The code of expansion.h for vectors of any width.

#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "expansion.h"
#include "transform.h"

namespace {

using hers::Expansion;
using hers::ExpansionJob;
using hers::ExpansionPrime;
using hers::kBases;
using hers::kLeaves;

/** Two rows of 64-bit sums: of the words with even numbers, and of those with odd ones. */
struct Sum {
  U even, odd;
};

inline U add64(U a, U b) {
#ifdef __AVX512F__
  return _mm512_add_epi64(a, b);
#else
  return _mm256_add_epi64(a, b);
#endif
}

/** The same word in the high half of every 64 bits, and zeros below. */
inline U splatHigh(uint32_t x) {
#ifdef __AVX512F__
  return _mm512_set1_epi64(static_cast<long long>(static_cast<uint64_t>(x) << 32));
#else
  return _mm256_set1_epi64x(static_cast<long long>(static_cast<uint64_t>(x) << 32));
#endif
}

/** The words at from[0 … W−1], which lie in one vector. */
inline U permuted(const uint32_t* a, const uint16_t* from) {
#ifdef __AVX512F__
  const U lanes = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#else
  const U lanes = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#endif
  return L::permute(L::load(a + (from[0] & ~uint32_t{L::W - 1})), lanes);
}

inline Sum product(U x, U y) { return {L::mulEven(x, y), L::mulEven(L::odd(x), L::odd(y))}; }

inline Sum operator+(Sum a, Sum b) { return {add64(a.even, b.even), add64(a.odd, b.odd)}; }

/** Reductions of sums of products of one prime. */
struct Reducer {
  U p, p2, negated, high, high2;
  explicit Reducer(const ExpansionPrime& prime)
      : p(L::splat(prime.p)),
        p2(L::splat(2 * prime.p)),
        negated(L::splat(prime.negated)),
        high(splatHigh(prime.p)),
        high2(splatHigh(2 * prime.p)) {}
  /** Montgomery's reduction of sums below p·2^32. */
  U operator()(Sum s) const {
    const U even = add64(s.even, L::mulEven(L::mulEven(s.even, negated), p));
    const U odd = add64(s.odd, L::mulEven(L::mulEven(s.odd, negated), p));
    return reduceOnce(L::joinHigh(even, odd), p);
  }
  /** Of any sums whose high words are below 4p. */
  U any(Sum s) const {
    return (*this)({reduceOnce(reduceOnce(s.even, high2), high), reduceOnce(reduceOnce(s.odd, high2), high)});
  }
  U add(U a, U b) const { return reduceOnce(L::add(a, b), p); }
  U sub(U a, U b) const { return reduceOnce(L::sub(L::add(a, p), b), p); }
};

inline void forward(uint32_t* a, const ExpansionPrime& m, uint32_t n) { ntt(a, m.tables, n, m.p); }
inline void inverse(uint32_t* a, const ExpansionPrime& m, uint32_t n) { intt(a, m.tables, n, m.p, m.scale, m.last); }

/** Coefficients modulo one prime, centred, modulo another. */
inline void lift(uint32_t* out, const uint32_t* a, uint32_t from, uint32_t to, uint32_t n) {
  const U P = L::splat(to), half = L::splat(from / 2), whole = L::splat(from % to);
  const Factor one = factorOf(1, to);
  for (size_t i = 0; i < n; i += L::W) {
    const U x = L::load(a + i);
    const U residue = reduceOnce(mulShoup(x, one, P), P);
    // Words are below 2^30, so signed comparisons serve.
    const U moved = reduceOnce(L::sub(L::add(residue, P), whole), P);
    const M isAbove = L::greater(x, half);
    L::store(out + i, L::bitOr(L::where(isAbove, moved), L::bitXor(residue, L::where(isAbove, residue))));
  }
}

inline void scaleBy(uint32_t* out, const uint32_t* a, uint32_t factor, uint32_t p, uint32_t n) {
  const U P = L::splat(p);
  const Factor f = factorOf(factor, p);
  for (size_t i = 0; i < n; i += L::W) L::store(out + i, reduceOnce(mulShoup(L::load(a + i), f, P), P));
}

/** Aligned memory of words. */
class AlignedWords {
 public:
  explicit AlignedWords(size_t count) : at_(static_cast<uint32_t*>(std::aligned_alloc(64, (4 * count + 63) / 64 * 64))) {
    if (!at_) throw std::bad_alloc();
  }
  ~AlignedWords() { std::free(at_); }
  AlignedWords(AlignedWords&& other) noexcept : at_(other.at_) { other.at_ = nullptr; }
  AlignedWords(const AlignedWords&) = delete;
  AlignedWords& operator=(const AlignedWords&) = delete;
  uint32_t* operator[](size_t offset) const { return at_ + offset; }

 private:
  uint32_t* at_;
};

/** What one thread works in. */
struct ExpansionScratch {
  /** [digit][prime][n]; [q, p1][n], the body times p2; [leaf][half][prime][n]; [n]. */
  AlignedWords digits, body, leaves, spare;
  /** [mask][base][half][prime][n]: sums for the mask rows. */
  AlignedWords sums;
  explicit ExpansionScratch(const Expansion& e)
      : digits(6 * size_t{e.n}),
        body(2 * size_t{e.n}),
        leaves(size_t{kLeaves} * 6 * e.n),
        spare(2 * size_t{e.n}),
        sums(size_t{e.masks} * kBases * 6 * e.n) {
    memset(sums[0], 0, 4 * size_t{e.masks} * kBases * 6 * e.n);
  }
};

/** The digits of a mask modulo q and p1, and the body times p2. A node is [half][q, p1][n]. */
inline void decompose(const Expansion& e, const uint32_t* node, ExpansionScratch& s) {
  const size_t n = e.n;
  for (int j = 0; j < 2; j++) {
    const uint32_t* const mask = node + (2 + j) * n;
    memcpy(s.digits[(3 * j + j) * n], mask, 4 * n);
    memcpy(s.spare[0], mask, 4 * n);
    inverse(s.spare[0], e.prime[j], n);
    for (int l = 0; l < 3; l++) {
      if (l == j) continue;
      uint32_t* const digit = s.digits[(3 * j + l) * n];
      lift(digit, s.spare[0], e.prime[j].p, e.prime[l].p, n);
      forward(digit, e.prime[l], n);
    }
    scaleBy(s.body[j * n], node + j * n, e.prime[j].p2, e.prime[j].p, n);
  }
}

/** [half][prime][n] divided by p2 and rounded: [half][q, p1][n]. */
inline void down(const Expansion& e, uint32_t* raised, uint32_t* out, ExpansionScratch& s) {
  const size_t n = e.n;
  for (int half = 0; half < 2; half++) {
    uint32_t* const from = raised + 3 * half * n;
    inverse(from + 2 * n, e.prime[2], n);
    for (int l = 0; l < 2; l++) {
      const ExpansionPrime& m = e.prime[l];
      lift(s.spare[0], from + 2 * n, e.prime[2].p, m.p, n);
      forward(s.spare[0], m, n);
      const U P = L::splat(m.p);
      const Factor f = factorOf(m.p2Inverse, m.p);
      uint32_t* const to = out + (2 * half + l) * n;
      for (size_t i = 0; i < n; i += L::W) {
        const U x = L::sub(L::add(L::load(from + l * n + i), P), L::load(s.spare[i]));
        L::store(to + i, reduceOnce(mulShoup(x, f, P), P));
      }
    }
  }
}

/** Both children of a node, or the even one alone: `key` is two keys of [digit][half][prime][n]. */
inline void step(const Expansion& e, uint32_t k, const uint32_t* key, const uint32_t* node, uint32_t* even, uint32_t* odd, ExpansionScratch& s) {
  const size_t n = e.n;
  decompose(e, node, s);
  const uint16_t* const from = e.permutations + k * n;
  for (int l = 0; l < 3; l++) {
    const Reducer reduce(e.prime[l]);
    const uint32_t *const d0 = s.digits[l * n], *const d1 = s.digits[(3 + l) * n];
    const uint32_t* const body = l < 2 ? s.body[l * n] : nullptr;
    for (size_t i = 0; i < n; i += L::W) {
      const U x = L::load(d0 + i), y = L::load(d1 + i);
      const U tx = permuted(d0, from + i), ty = permuted(d1, from + i);
      for (int half = 0; half < 2; half++) {
        const auto at = [&](int which, int digit) { return L::load(key + ((12 * which + 6 * digit + 3 * half + l) * n + i)); };
        U plain = reduce(product(x, at(0, 0)) + product(y, at(0, 1)));
        U turned = reduce(product(tx, at(1, 0)) + product(ty, at(1, 1)));
        if (half == 0 && body) {
          plain = reduce.add(plain, L::load(body + i));
          turned = reduce.add(turned, permuted(body, from + i));
        }
        uint32_t* const to = s.leaves[(3 * half + l) * n + i];
        L::store(to, reduce.add(plain, turned));
        if (odd) L::store(to + 6 * n, reduce.sub(plain, turned));
      }
    }
  }
  down(e, s.leaves[0], even, s);
  if (!odd) return;
  down(e, s.leaves[6 * n], odd, s);
  const uint32_t* const monomials = e.monomials + 4 * (k - e.trace) * n;
  for (int half = 0; half < 2; half++)
    for (int l = 0; l < 2; l++) {
      const U P = L::splat(e.prime[l].p);
      uint32_t* const to = odd + (2 * half + l) * n;
      for (size_t i = 0; i < n; i += L::W) {
        const Factor f = {L::load(monomials + 2 * l * n + i), L::load(monomials + (2 * l + 1) * n + i)};
        L::store(to + i, reduceOnce(mulShoupEach(L::load(to + i), f, P), P));
      }
    }
}

/** The last levels of a node modulo prime l: leaves[leaf][half][l], raised, in NTT form. */
inline void lastLevels(const Expansion& e, const uint32_t* keys, int l, ExpansionScratch& s) {
  const size_t n = e.n;
  const Reducer reduce(e.prime[l]);
  const uint32_t *const d0 = s.digits[l * n], *const d1 = s.digits[(3 + l) * n];
  const uint32_t* const body = l < 2 ? s.body[l * n] : nullptr;
  const uint16_t* const permutations = e.permutations + size_t{e.steps} * n;
  const uint32_t* const monomials = e.lastMonomials + l * 3 * 4 * 2 * kLeaves;
  const size_t run = n / kLeaves;
  for (size_t eighth = 0; eighth < kLeaves; eighth++) {
    for (size_t i = eighth * run; i < (eighth + 1) * run; i += L::W) {
      U x[kLeaves], y[kLeaves];
      for (uint32_t c = 0; c < kLeaves; c++) {
        x[c] = permuted(d0, permutations + c * n + i);
        y[c] = permuted(d1, permutations + c * n + i);
      }
      for (int half = 0; half < 2; half++) {
        U leaf[kLeaves];
#pragma GCC unroll 8
        for (uint32_t c = 0; c < kLeaves; c++) {
          const uint32_t* const key = keys + (12 * c + 3 * half + l) * n + i;
          leaf[c] = reduce(product(x[c], L::load(key)) + product(y[c], L::load(key + 6 * n)));
          if (half == 0 && body) leaf[c] = reduce.add(leaf[c], permuted(body, permutations + c * n + i));
        }
#pragma GCC unroll 3
        for (uint32_t z = 0; z < 3; z++) {
          const uint32_t* at = monomials + z * 4 * 2 * kLeaves + eighth;
#pragma GCC unroll 8
          for (uint32_t c = 0; c < kLeaves; c++) {
            if (c >> z & 1) continue;
            const Factor f = {L::splat(at[0]), L::splat(at[kLeaves])};
            at += 2 * kLeaves;
            U& a = leaf[c];
            U& b = leaf[c | 1u << z];
            const U difference = L::sub(L::add(a, reduce.p), b);
            a = reduce.add(a, b);
            b = reduceOnce(mulShoup(difference, f, reduce.p), reduce.p);
          }
        }
#pragma GCC unroll 8
        for (uint32_t c = 0; c < kLeaves; c++) L::store(s.leaves[(6 * c + 3 * half + l) * n + i], leaf[c]);
      }
    }
  }
}

/**
 * From residues that the inverse transform has multiplied by the constants of the switch to y =
 * round(x·2^t/(p1·p2)), in place: modulo q, and, if that is wanted, the centred integer modulo p1
 * and p2.
 */
template <bool lifts>
inline void switchDown(const Expansion& e, uint32_t* xq, uint32_t* x1, uint32_t* x2, uint32_t t) {
  const uint32_t q = e.prime[0].p, p1 = e.prime[1].p, p2 = e.prime[2].p, m = 1u << t;
  const U Q = L::splat(q), P1 = L::splat(p1), P2 = L::splat(p2), half = L::splat(q / 2);
  const U R1 = L::splat(e.reciprocal1), R2 = L::splat(e.reciprocal2);
  const Factor i1 = factorOf(e.inverse1, q), i2 = factorOf(e.inverse2, q), mq = factorOf(m, q), m1 = factorOf(m, p1), m2 = factorOf(m, p2);
  const U whole1 = L::splat(static_cast<uint32_t>(uint64_t{m} * q % p1)), whole2 = L::splat(static_cast<uint32_t>(uint64_t{m} * q % p2));
  const U middle = L::splat(1u << 29), round = L::splat(1u << (29 - t));
  const auto into = [&](U h, M isAbove, U rest, const Factor& f, U P, U whole) {
    const U residue = reduceOnce(mulShoup(h, f, P), P);
    const U moved = reduceOnce(L::sub(L::add(residue, P), whole), P);
    const U chosen = L::bitOr(L::where(isAbove, moved), L::bitXor(residue, L::where(isAbove, residue)));
    return reduceOnce(L::add(chosen, embedLanes(rest, P)), P);
  };
  for (size_t i = 0; i < e.n; i += L::W) {
    const U a1 = L::load(x1 + i), a2 = L::load(x2 + i);
    const U f = L::add(mulHigh(L::shiftLeft(a1, 7), R1, R1), mulHigh(L::shiftLeft(a2, 7), R2, R2));
    // f is below 2^31, so that f + 2^29 has bit 31 clear or is at least 2^31: k is 0, 1 or 2.
    const U sum = L::add(f, middle);
    const U k = L::shiftRightEach(sum, L::splat(30));
    U h = reduceOnce(L::add(L::load(xq + i), k), Q);
    h = reduceOnce(L::sub(L::add(h, Q), reduceOnce(mulShoup(a1, i1, Q), Q)), Q);
    h = reduceOnce(L::sub(L::add(h, Q), reduceOnce(mulShoup(a2, i2, Q), Q)), Q);
    if (!lifts) {
      L::store(xq + i, h);
      continue;
    }
    const U rest = L::shiftRightSigned(L::add(L::sub(f, L::shiftLeft(k, 30)), round), 30 - t);
    const M isAbove = L::greater(h, half);
    L::store(xq + i, reduceOnce(L::add(reduceOnce(mulShoup(h, mq, Q), Q), embedLanes(rest, Q)), Q));
    L::store(x1 + i, into(h, isAbove, rest, m1, P1, whole1));
    L::store(x2 + i, into(h, isAbove, rest, m2, P2, whole2));
  }
}

inline void switchInverse(uint32_t* a, const ExpansionPrime& m, uint32_t n) {
  intt(a, m.tables, n, m.p, m.switchScale, m.switchLast);
}

/** Adds the leaves of a node, times the keys of their secrets, to the sums of a mask. */
inline void addMaskKeys(const Expansion& e, const uint32_t* keys, uint32_t leaves, uint32_t* sums, ExpansionScratch& s) {
  const size_t n = e.n;
  for (int l = 0; l < 3; l++) {
    const Reducer reduce(e.prime[l]);
    const uint32_t* key = keys + l * n * (kLeaves * kBases * 4);
    for (size_t i = 0; i < n; i += L::W) {
      // A line has sixteen words; vectors may be shorter.
      const uint32_t* const line = key + i / 16 * 16 * (kLeaves * kBases * 4) + i % 16;
      Sum acc[2 * kBases];
      for (auto& each : acc) each = {L::splat(0), L::splat(0)};
      for (uint32_t c = 0; c < leaves; c++) {
        const U x = L::load(s.leaves[(6 * c + l) * n + i]), y = L::load(s.leaves[(6 * c + 3 + l) * n + i]);
        const U xo = L::odd(x), yo = L::odd(y);
#pragma GCC unroll 6
        for (uint32_t k = 0; k < 2 * kBases; k++) {
          const uint32_t* const at = line + 16 * (kBases * 4 * c + 4 * (k / 2) + k % 2);
          const U own = L::load(at), both = L::load(at + 32);
          acc[k].even = add64(acc[k].even, add64(L::mulEven(x, own), L::mulEven(y, both)));
          acc[k].odd = add64(acc[k].odd, add64(L::mulEven(xo, L::odd(own)), L::mulEven(yo, L::odd(both))));
        }
      }
      for (uint32_t k = 0; k < 2 * kBases; k++) {
        uint32_t* const to = sums + (3 * k + l) * n + i;
        L::store(to, reduce.add(L::load(to), reduce.any(acc[k])));
      }
    }
  }
}

/** The last levels of one node: the rows of its coordinates, and their part in the mask rows. */
inline void finishNode(const ExpansionJob& job, uint32_t at, const uint32_t* node, ExpansionScratch& s) {
  const Expansion& e = *job.shape;
  const size_t n = e.n;
  decompose(e, node, s);
  const uint32_t leaves = at >= e.width ? 0 : (e.width - at + e.nodes - 1) / e.nodes;
  for (int l = 0; l < 3; l++) lastLevels(e, job.keys.last, l, s);
  for (uint32_t c = 0; c < leaves && c < kLeaves; c++) {
    for (int half = 0; half < 2; half++) {
      uint32_t* const x = s.leaves[(6 * c + 3 * half) * n];
      for (int l = 0; l < 3; l++) switchInverse(x + l * n, e.prime[l], n);
      switchDown<true>(e, x, x + n, x + 2 * n, e.wideBits);
      for (int l = 0; l < 3; l++) forward(x + l * n, e.prime[l], n);
      const size_t row = at + size_t{c} * e.nodes;
      memcpy((half ? job.masksOut : job.bodies) + row * n, x, 4 * n);
    }
  }
  const size_t group = 3 * n * (kLeaves * kBases * 4);
  addMaskKeys(e, job.keys.masks + at / e.masks * group, leaves, s.sums[at % e.masks * kBases * 6 * n], s);
}

/** f(i, scratch) for all i below count, by all threads. */
template <class F>
inline void inParallel(size_t count, std::vector<std::unique_ptr<ExpansionScratch>>& scratch, const F& f) {
  if (count == 1 || scratch.size() == 1) {
    for (size_t i = 0; i < count; i++) f(i, *scratch[0]);
    return;
  }
  std::atomic<size_t> next{0};
  const auto work = [&](ExpansionScratch& s) {
    for (size_t i = next++; i < count; i = next++) f(i, s);
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < scratch.size() && t < count; t++) threads.emplace_back(work, std::ref(*scratch[t]));
  work(*scratch[0]);
  for (auto& thread : threads) thread.join();
}

inline void expand(const ExpansionJob& job) {
  const Expansion& e = *job.shape;
  const size_t n = e.n, node = 4 * n;
  std::vector<std::unique_ptr<ExpansionScratch>> scratch;
  for (uint32_t t = 0; t < job.threads; t++) scratch.push_back(std::make_unique<ExpansionScratch>(e));
  AlignedWords tree(node * e.nodes), next(node * e.nodes);
  memcpy(tree[0], job.body, 8 * n);
  memcpy(tree[2 * n], job.mask, 8 * n);
  uint32_t *from = tree[0], *to = next[0];
  size_t count = 1;
  for (uint32_t k = 0; k < e.steps; k++) {
    const uint32_t* const key = k == 0 ? job.keys.first : job.keys.steps + size_t{k - 1} * 24 * n;
    const bool isTree = k >= e.trace;
    inParallel(count, scratch, [&](size_t i, ExpansionScratch& s) {
      step(e, k, key, from + i * node, to + i * node, isTree ? to + (count + i) * node : nullptr, s);
    });
    if (isTree) count *= 2;
    std::swap(from, to);
  }
  inParallel(e.nodes, scratch, [&](size_t i, ExpansionScratch& s) { finishNode(job, static_cast<uint32_t>(i), from + i * node, s); });

  AlignedWords x(3 * n), y(3 * n);
  for (uint32_t mask = 0; mask < e.masks; mask++)
    for (uint32_t base = 0; base < kBases; base++)
      for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t l = 0; l < 3; l++) {
          const size_t at = (((size_t{mask} * kBases + base) * 2 + half) * 3 + l) * n;
          memcpy(x[l * n], scratch[0]->sums[at], 4 * n);
          for (size_t t = 1; t < scratch.size(); t++) add(x[l * n], x[l * n], scratch[t]->sums[at], e.n, e.prime[l].p);
          switchInverse(x[l * n], e.prime[l], e.n);
        }
        const uint32_t end = base + 1 < kBases ? e.bases[base + 1] : e.digits;
        for (uint32_t k = e.bases[base]; k < end; k++) {
          for (uint32_t l = 0; l < 3; l++) {
            const uint32_t p = e.prime[l].p;
            const auto factor = static_cast<uint32_t>((uint64_t{1} << (e.digitBits * (k - e.bases[base]))) % p);
            scaleBy(y[l * n], x[l * n], factor, p, e.n);
          }
          switchDown<false>(e, y[0], y[n], y[2 * n], 0);
          forward(y[0], e.prime[0], e.n);
          const size_t row = e.width + size_t{mask} * e.digits + k;
          memcpy((half ? job.masksOut : job.bodies) + row * n, y[0], 4 * n);
        }
      }
}

/** The coefficients modulo p that were switched to 32 bits: y·p/2^32, rounded. */
inline void unswitch(uint32_t* out, const uint32_t* y, uint32_t p, size_t n) {
  const U P = L::splat(p), top = L::splat(31);
  for (size_t i = 0; i < n; i += L::W) {
    const U x = L::load(y + i);
    const U rounded = L::add(mulHigh(x, P, P), L::shiftRightEach(L::mulLow(x, P), top));
    L::store(out + i, reduceOnce(rounded, P));
  }
}

/** Result u adds its mask times key u to the shared mask and to all bodies. */
inline void pack(const hers::PackingJob& job) {
  const Expansion& e = *job.shape;
  const size_t n = e.n;
  const ExpansionPrime* const primes[2] = {&e.prime[0], &e.prime[2]};
  const uint32_t T = job.responses;
  AlignedWords masks(n * job.count), lifted(n * job.count), rest(n), plain(n);
  for (uint32_t u = 0; u < job.count; u++) {
    unswitch(masks[u * n], job.masks + u * n, e.prime[0].p, n);
    lift(lifted[u * n], masks[u * n], e.prime[0].p, e.prime[2].p, n);
    forward(masks[u * n], e.prime[0], n);
    forward(lifted[u * n], e.prime[2], n);
  }
  for (uint32_t o = 0; o <= job.count; o++) {
    const bool isMask = o == job.count;
    uint32_t* const out = job.out + o * n;
    for (int h = 0; h < 2; h++) {
      const Reducer reduce(*primes[h]);
      const uint32_t* const in = h ? lifted[0] : masks[0];
      const uint32_t* const keys = job.keys + ((isMask ? T : o) * 2 + h) * n;
      for (size_t i = 0; i < n; i += L::W) {
        Sum sum = {L::splat(0), L::splat(0)};
        for (uint32_t u = 0; u < job.count; u++) sum = sum + product(L::load(in + u * n + i), L::load(keys + u * 2 * (T + 1) * n + i));
        L::store((h ? rest[0] : out) + i, reduce.any(sum));
      }
    }
    inverse(out, e.prime[0], n);
    inverse(rest[0], e.prime[2], n);
    lift(plain[0], rest[0], e.prime[2].p, e.prime[0].p, n);
    const U P = L::splat(e.prime[0].p);
    const Factor f = factorOf(e.prime[0].p2Inverse, e.prime[0].p);
    for (size_t i = 0; i < n; i += L::W)
      L::store(out + i, reduceOnce(mulShoup(L::sub(L::add(L::load(out + i), P), L::load(plain[i])), f, P), P));
    if (isMask) continue;
    unswitch(plain[0], job.bodies + o * n, e.prime[0].p, n);
    add(out, out, plain[0], e.n, e.prime[0].p);
  }
}

}  // namespace
