/* Decryption and ranking on an NVIDIA GPU, behind a plain C interface: responses that a scan has
 * left in the memory of the device (HersCudaKept of cuda/scan/hers_cuda.h) become the best
 * few scores, without anything per block on the host. It knows of a scan nothing but that.
 *
 * States are those of hers_cuda.h, and those below. What is secret is wiped from the device: what
 * belongs to a query when the call ends, canaries with their gallery. */

#ifndef HERS_DECRYPT_H
#define HERS_DECRYPT_H

#include "../scan/hers_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define HERS_DECRYPT_INTERFACE 2

enum {
  /* A response is for another query, block or key, or says something else about itself. */
  HERS_DECRYPT_HEAD = 32,
  /* Something decrypts to values that no score can have. */
  HERS_DECRYPT_NONSENSE = 33,
  /* A canary has another score than it must have, or scores do not fit a checksum canary. */
  HERS_DECRYPT_CANARY = 34,
  /* There is a response for a block that is not in the gallery, or a second one for a block. */
  HERS_DECRYPT_UNKNOWN = 35,
  HERS_DECRYPT_TWICE = 36,
  /* There is none for a block that is. */
  HERS_DECRYPT_MISSING = 37,
  /* The scores of a block do not add up to what they must. */
  HERS_DECRYPT_SUMS = 38
};

typedef struct HersDecrypt HersDecrypt;
typedef struct HersDecryptGallery HersDecryptGallery;
typedef struct HersDecryptGroups HersDecryptGroups;

/* The first prime of a ring (packages/ring/src/modulus.ts); n roots and n inverses. */
typedef struct {
  uint32_t n, p, scale, last;
  const uint32_t* roots;
  const uint32_t* inverses;
} HersDecryptRing;

/* What the key holder knows of the blocks of a gallery, in the order of their numbers. */
typedef struct {
  size_t blocks;
  /* 16 bytes each. */
  const uint8_t* ids;
  /* Records of each, and slots with those of its canaries. */
  const uint32_t* counts;
  const uint32_t* totals;
  uint32_t canaries, width;
  /* Slots that a checksum canary sums up; zero where there are none. */
  uint32_t group;
  /* `exact`: 6·n weights of scores, and the dimension of the sums of vectors; or null. */
  const uint32_t* weights;
  uint32_t dimension;
  /* For each block the number of its row in `before`, where its canaries are known already; or
   * UINT32_MAX: then they are the next ones below. May be null if there is no gallery before. */
  const uint32_t* known;
  /* Canaries: their slots, ascending, and their coordinates. */
  size_t fresh;
  const uint32_t* slots;
  const int32_t* values;
  /* With checksum canaries: n slots in the order of their groups, of which `ordered` are used. */
  const uint16_t* orders;
  const uint32_t* ordered;
  /* With weights: whether the sums of a block are known, and then 6·(2 + dimension) of them. */
  const uint32_t* summed;
  const double* sums;
  /* Records that count: bit j & 31 of word j >> 5 for record j, n / 32 words a block. Null: all. */
  const uint32_t* alive;
} HersDecryptBlocks;

typedef struct {
  /* The first 80 bytes of its responses; id, first and count of the block are not looked at. */
  const uint8_t* head;
  uint32_t bits[2];
  /* Bits of C1 that one transform takes; those that are left take another. */
  uint32_t cut;
  /* The transform of the query's secret. */
  const uint32_t* secret;
  /* score = phase·factor + offset. */
  float factor, offset;
  /* |phase| is at most this; or, with `exact`, the distance from an integer. */
  double largest;
  /* Not zero: integer = sign·phase·step + shift, and score = integer·slope. */
  int exact;
  double step, slope, shift;
  int sign;
  /* Of sums: ‖probe‖² where distances are summed, and what no |integer| exceeds. */
  double square, largestInteger;
  /* Of checksum canaries: for groups of 0 … `group` slots how many have the sign +, the divisor, and
   * what a sum may be off by; sums that differ by the period are the same. */
  const uint32_t* plus;
  const double* divisors;
  const double* rooms;
  double period;
  /* What canaries must have: scale·⟨values, probe⟩ + canaryOffset, give or take `room`. */
  const int32_t* probe;
  double scale, canaryOffset, room;
  /* Scores are squares of distances, and small ones are better. */
  int distances;
  /* Only scores above this count, or, of distances, only those whose negative is. */
  double floor;
  uint32_t limit;
  /* As `alive`, for this query alone; null: that of the gallery. */
  const uint32_t* chosen;
} HersDecryptQuery;

typedef struct {
  uint32_t block, record;
  float score;
} HersDecryptCandidate;

/* Milliseconds on the device. */
typedef struct {
  double decrypt, select;
} HersDecryptTimes;

uint32_t hersDecryptInterface(void);
const char* hersDecryptMessage(void);

int hersDecryptOpen(int device, const HersDecryptRing* ring, HersDecrypt** out);
void hersDecryptClose(HersDecrypt* decrypt);

/* `before` may be null; it stays as it is. */
int hersDecryptLoad(HersDecrypt* decrypt, const HersDecryptBlocks* blocks, const HersDecryptGallery* before, HersDecryptGallery** out);
/* Wipes it. */
void hersDecryptUnload(HersDecryptGallery* gallery);

/* The group of every record: n codes a block, from 1 to n; those of 0 are groups of one. */
int hersDecryptLoadGroups(HersDecryptGallery* gallery, const uint16_t* codes, HersDecryptGroups** out);
/* Wipes them. */
void hersDecryptUnloadGroups(HersDecryptGroups* groups);

/* Ranks the responses of query number `query`: of all blocks that they are for, or of the `chosen`
 * ones among them. Writes at most `limit` candidates, best first, and of equal ones those of lower
 * blocks and slots first. With groups, of each block only the best of every group counts. `groups` and
 * `times` may be null. */
int hersDecryptRank(HersDecryptGallery* gallery, const HersDecryptGroups* groups, const HersCudaKept* responses, size_t query,
                    const uint32_t* chosen, size_t chosenCount, const HersDecryptQuery* about, HersDecryptCandidate* out, uint32_t* count, HersDecryptTimes* times);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
