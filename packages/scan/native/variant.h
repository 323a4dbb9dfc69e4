// The code for one instruction set: every heavy loop, behind plain function pointers. Four files
// implement it from the same templates.
//
// What a block is multiplied by are *columns*: the body B of a query, or its mask A, the uniform
// half. They come in pairs, as a query has one of each; where several queries have the same mask,
// it is one column, and others are pairs of two bodies.

#pragma once

#include "ring.h"

namespace hers {

/**
 * Where the gallery is fetched to while one query is multiplied, or two: into all caches; to L1
 * alone, past the others; or to L2, from where the processor takes it by itself.
 */
enum class Fetching { kAll, kOnce, kToL2 };

/** One part of a segment against a number of pairs of columns. */
struct Multiply {
  /** [row panel][block][line of the panel][16] */
  const uint32_t* part;
  /**
   * The first pair's [row][2][16] of this slot group; the next pair's is `queryStride` words
   * further.
   */
  const uint32_t* query;
  size_t queryStride;
  /** `queries` counts pairs. */
  size_t rows, blocks, queries, panelRows;
  /** Whether the last pair is one column, and what would be of the second is of no meaning. */
  bool isLastLone;
  /** Whether four rows are packed into three lines, and products so short that none is folded. */
  bool packed;
  const Modulus* modulus;
  /** [pair][block][2][16]: the sums of both columns times 2^−32 modulo p, below 2p. */
  uint32_t* out;
  /** Room for [pair][block][32] sums, aligned to 64 bytes. */
  uint64_t* sums;
  Fetching fetching;
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

/** What two columns and a block add up to, or one column and two blocks, to packed bits. */
struct Respond {
  const Ring* ring;
  /**
   * Slot group g of the first is at sums + g·groupStride, of the second `second` words further; as
   * `Multiply` left them.
   */
  const uint32_t* sums;
  size_t second, groupStride;
  /** Room for 2·n·primes words, aligned to 64 bytes. */
  uint32_t* work;
  const PackPlan* pack[2];
  /** The second is null where nobody asks for it. */
  uint8_t* out[2];
};

/**
 * Rows `first` … of a pair of columns, from rows of residues and a seed to [slot
 * group][row][2][16].
 */
struct Expand {
  const Ring* ring;
  /** The body that is the first column, and the one that is the second; null: it is a mask. */
  const uint32_t* rows;
  const uint32_t* second;
  const uint8_t* seed;
  uint32_t domain;
  /** Those rows of the mask that are not expanded. */
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
