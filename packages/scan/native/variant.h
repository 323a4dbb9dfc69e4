// The code for one instruction set: every heavy loop, behind plain function pointers. Four files
// implement it from the same templates.

#pragma once

#include "ring.h"

namespace hers {

/** One part of a segment against a number of queries. */
struct Multiply {
  /** [row panel][block][line of the panel][16] */
  const uint32_t* part;
  /**
   * The first query's [row][2][16] of this slot group; the next query's is `queryStride` words
   * further.
   */
  const uint32_t* query;
  size_t queryStride;
  size_t rows, blocks, queries, panelRows;
  /** Whether four rows are packed into three lines, and products so short that none is folded. */
  bool packed;
  const Modulus* modulus;
  /** [query][block][2][16]: C0·2^−32 and C1·2^−32 modulo p, below 2p. */
  uint32_t* out;
  /** Room for [query][block][32] sums, aligned to 64 bytes. */
  uint64_t* sums;
  /** Whether the L1 cache has 48 KB or more. */
  bool largeL1;
  /**
   * Null; or, if the variant `checksAlong`, for one query and rows that are not packed: this part
   * and the one after it are multiplied, and their XXH64 goes here, unless it was told to stop.
   * The second part's query and sums follow the first one's, its results are `outStride` words
   * further.
   */
  uint64_t* checksums;
  size_t outStride;
  /** Not zero: stop. */
  const int* stop;
};

/** Where each of the `bits` words that 32 values of `bits` bits make up comes from; see pack.h. */
struct PackPlan {
  uint32_t bits;
  uint32_t steps;
  /**
   * steps × 32 of each: from which value, and by how much it is shifted: to the right in the first
   * step, to the left in the others.
   */
  const uint32_t* source;
  const uint32_t* shift;
};

/** One block's C0 and C1 to packed bits. */
struct Respond {
  const Ring* ring;
  /**
   * Slot group g of C0 is at sums + g·groupStride, of C1 16 words further; as `Multiply` left them.
   */
  const uint32_t* sums;
  size_t groupStride;
  /** Room for 2·n·primes words, aligned to 64 bytes. */
  uint32_t* work;
  const PackPlan* pack[2];
  uint8_t* out[2];
};

/** Rows `first` … of one query, from rows of residues and the seed to [slot group][row][2][16]. */
struct Expand {
  const Ring* ring;
  const uint32_t* rows;
  const uint8_t* seed;
  uint32_t domain;
  /** The uniform halves of these rows, which are not expanded. */
  const uint32_t* given;
  size_t givenFirst, givenCount;
  size_t first, count, total;
  uint32_t* out;
  /** Room for kExpandRows·n words. */
  uint32_t* work;
};

constexpr size_t kExpandRows = 8;

struct Variant {
  const char* name;
  /** Lanes of its vectors, for which the ring's `spread` tables are made. */
  uint32_t lanes;
  void (*multiply)(const Multiply&);
  void (*respond)(const Respond&);
  void (*expand)(const Expand&);
  /** XXH64 of `count` pieces of this length, each `stride` bytes after the one before. */
  void (*checksums)(const uint8_t* first, size_t stride, size_t count, size_t length, uint64_t* out);
  /** Whether `multiply` can compute those of two parts on its way. */
  bool checksAlong;
};

/** How many checksums are best computed together. */
constexpr size_t kChecksums = 4;

extern const Variant kGeneric;
#ifdef HERS_X86
extern const Variant kAvx2;
extern const Variant kAvx512;
extern const Variant kAvx512Ifma;
#endif

}  // namespace hers
