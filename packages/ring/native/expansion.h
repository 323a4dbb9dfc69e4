// Expansion of open queries and packing of their responses (packages/scheme/README.md §9), as
// packages/scheme/testing/slow-open.ts says it plainly. Nothing here is secret.
//
// Keys are in Montgomery form. A sum of up to sixteen products of residues below 2^30 fits in 64
// bits; its high word is below four times the prime and is reduced before the sum is. So every sum
// of this file is exact for all residues up to p − 1.

#pragma once

#include <cstddef>
#include <cstdint>

namespace hers {

constexpr uint32_t kLeaves = 8, kBases = 3, kMostResponses = 16;

struct ExpansionPrime {
  uint32_t p;
  /** −p^−1 mod 2^32. */
  uint32_t negated;
  /** n^−1, and n^−1 times the last twiddle of the inverse transform. */
  uint32_t scale, last;
  /** The same times the constant that a switch of modulus begins with. */
  uint32_t switchScale, switchLast;
  /** p2 and its inverse; of p2 itself zero. */
  uint32_t p2, p2Inverse;
  /** Four arrays of n words: roots, their companions, inverses of roots, and theirs. */
  const uint32_t* tables;
};

struct Expansion {
  uint32_t n, width;
  /** Steps before the last levels; of these, so many are of the trace. */
  uint32_t steps, trace;
  uint32_t nodes, masks, digits, digitBits, wideBits;
  /** Digit k is made from this base, times 2^(digitBits·(k − bases[…])). */
  uint32_t bases[kBases];
  ExpansionPrime prime[3];
  /** p1^−1 and p2^−1 mod q, round(2^55/p1) and round(2^55/p2). */
  uint32_t inverse1, inverse2, reciprocal1, reciprocal2;
  /** [step][n], then [leaf][n]: where the residues of an automorphism come from. */
  const uint16_t* permutations;
  /** [step − trace][q, p1][factors, companions][n]: x^−2^step. */
  const uint32_t* monomials;
  /** [q, p1, p2][level][pair][factor, companion][eighth]: those of the last levels. */
  const uint32_t* lastMonomials;
};

/** Keys of two switches, of step 0, and of the rest: [digit][half][prime][n] each. */
struct ExpansionKeys {
  const uint32_t* first;
  const uint32_t* steps;
  const uint32_t* last;
  /** [group][prime][line of 16][leaf][base][b, a of s_j; b, a of s_j·s][16]. */
  const uint32_t* masks;
};

struct ExpansionJob {
  const Expansion* shape;
  ExpansionKeys keys;
  /** Modulo q and p1, in NTT form. */
  const uint32_t* body;
  const uint32_t* mask;
  /** Rows, modulo q in NTT form. */
  uint32_t* bodies;
  uint32_t* masksOut;
  uint32_t threads;
};

/** Results of up to T blocks; keys are [u][bodies 0 … T−1, mask][q, p2][n] in Montgomery form. */
struct PackingJob {
  const Expansion* shape;
  const uint32_t* keys;
  uint32_t responses, count;
  /** [result][n], coefficients modulo q that were switched to 32 bits. */
  const uint32_t* bodies;
  const uint32_t* masks;
  /** [body, mask last][n] modulo q, in coefficient form. */
  uint32_t* out;
};

struct ExpansionVariant {
  const char* name;
  void (*expand)(const ExpansionJob&);
  void (*pack)(const PackingJob&);
};

#ifdef HERS_X86
extern const ExpansionVariant kExpansionAvx2;
extern const ExpansionVariant kExpansionAvx512;
#endif

}  // namespace hers
