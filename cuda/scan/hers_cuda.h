/* The server's side of a search on an NVIDIA GPU, behind a plain C interface, so that a library
 * made by nvcc can be opened at run time by a program that knows nothing of CUDA.
 *
 * Answers are those of the other kernels, byte for byte. Every function returns one of the states
 * below; where it is not HERS_CUDA_OK, `hersCudaMessage` says in one sentence what was wrong. One
 * context serves one call at a time; others wait. */

#ifndef HERS_CUDA_H
#define HERS_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Changes with every change of this file that a caller could notice. */
#define HERS_CUDA_INTERFACE 3

enum {
  HERS_CUDA_OK = 0,
  /* No driver, one that is too old, or no device. */
  HERS_CUDA_NO_DEVICE = 1,
  /* The device or the host has too little memory left. What was there before is still there. */
  HERS_CUDA_NO_MEMORY = 2,
  /* The device failed; the context is of no use any more, except to be closed. */
  HERS_CUDA_FAILED = 3,
  /* A part does not fit its checksum. */
  HERS_CUDA_DAMAGED = 4,
  HERS_CUDA_STOPPED = 5,
  HERS_CUDA_INVALID = 6
};

typedef struct HersCuda HersCuda;
typedef struct HersCudaRing HersCudaRing;
typedef struct HersCudaSegment HersCudaSegment;
typedef struct HersCudaResponses HersCudaResponses;
typedef struct HersCudaHost HersCudaHost;

/* What packages/ring/src/modulus.ts computes for a prime; n inverses. */
typedef struct {
  uint32_t p, scale, last, share, reciprocal;
  const uint32_t* inverses;
} HersCudaPrime;

/* What the header of a segment says (packages/scan/src/segment.ts). */
typedef struct {
  size_t rows, blocks;
  /* Four rows are packed into three lines. */
  int packed;
  /* 24 bytes for each block: its id, first and count. */
  const uint8_t* table;
  /* One for each slot group. */
  const uint64_t* checksums;
} HersCudaLayout;

typedef struct {
  uint32_t bits[2];
  /* 32 bytes, and the 80 that every response to this query begins with. */
  const uint8_t* seed;
  const uint8_t* head;
  /* B_1 … in NTT form, one after the other; and the uniform halves of the `givenCount` rows from
   * row `givenFirst` on, which are not expanded from the seed. */
  const uint32_t* rows;
  const uint32_t* given;
  size_t givenFirst, givenCount;
} HersCudaQuery;

/* Responses in pinned memory, which is used again when the call that was given them returns, unless
 * that takes it (hersCudaTake): for query q of `queries`, from `firstQuery` of the scan on, those of all `blocks`, one after the
 * other, begin at offsets[q] and have lengths[q] bytes each. Blocks are numbered through all
 * segments of the scan. */
typedef struct {
  const uint8_t* bytes;
  size_t firstBlock, blocks;
  uint32_t firstQuery, queries;
  const size_t* offsets;
  const size_t* lengths;
  /* For hersCudaTake. */
  void* lane;
} HersCudaBatch;

/* Milliseconds on the device: the expansion of the queries, and from there to the last response. */
typedef struct {
  double expand, scan;
} HersCudaTimes;

/* What a scan does; all of it, except for measurements. */
enum { HERS_CUDA_MULTIPLY = 1, HERS_CUDA_RESPOND = 2, HERS_CUDA_COPY = 4, HERS_CUDA_ALL = 7 };

typedef struct {
  HersCudaRing* ring;
  HersCudaSegment* const* segments;
  size_t segmentCount;
  const HersCudaQuery* queries;
  size_t queryCount;
  /* Of the uniform halves' stream. */
  uint32_t domain;
  uint32_t parts;
  /* Not zero: give up. Looked at between launches; may be null. */
  const volatile int* stop;
  /* Called in this thread while the next blocks are computed. Not zero: give up. */
  int (*deliver)(void* context, const HersCudaBatch* batch);
  void* context;
} HersCudaScan;

/* Marks what follows, so that nothing else is taken for it. */
#define HERS_CUDA_KEPT 0x6b657074

/* Responses that stay in the memory of the device: of query q, those of all `blocks`, one after the
 * other, begin at bytes + offsets[q] and have lengths[q] bytes each. `entries` is in the memory of
 * the host: 24 bytes for each block, its id, first and count. Valid until hersCudaForget. */
typedef struct {
  uint32_t mark;
  int device;
  const uint8_t* bytes;
  size_t blocks, queries;
  const size_t* offsets;
  const size_t* lengths;
  const uint8_t* entries;
} HersCudaKept;

typedef struct {
  char name[256];
  uint64_t memory, free;
  int major, minor, processors, driver, runtime;
} HersCudaDevice;

uint32_t hersCudaInterface(void);
/* What was wrong in the last call of this thread. */
const char* hersCudaMessage(void);

int hersCudaOpen(int device, HersCuda** out);
void hersCudaClose(HersCuda* cuda);
int hersCudaDescribe(HersCuda* cuda, HersCudaDevice* out);
/* Bytes read and written in a second by a copy of `bytes` within the device's memory. */
int hersCudaCopySpeed(HersCuda* cuda, size_t bytes, double* out);
/* Bytes in a second from pinned memory of the host to the device. */
int hersCudaLinkSpeed(HersCuda* cuda, size_t bytes, double* out);

int hersCudaCreateRing(HersCuda* cuda, uint32_t n, const HersCudaPrime* primes, size_t count, HersCudaRing** out);
void hersCudaFreeRing(HersCudaRing* ring);

/* Copies the data of a segment to the device, verifies it there and rearranges it. In the case of
 * damage *part is the first part that does not fit. `data` is not needed afterwards. It stays there,
 * or, `inTurns`, goes back to pinned memory of the host, from where every scan fetches it. What
 * stays leaves room for scans, and is refused (HERS_CUDA_NO_MEMORY) where there is none. */
int hersCudaLoad(HersCuda* cuda, HersCudaRing* ring, const HersCudaLayout* layout, const uint8_t* data, int inTurns, HersCudaSegment** out,
                 uint32_t* part);
/* For measurements: a segment of pseudo-random residues, made on the device. */
int hersCudaFill(HersCuda* cuda, HersCudaRing* ring, size_t rows, size_t blocks, int packed, uint32_t seed, int inTurns, HersCudaSegment** out);
/* Bytes of the device's memory, or of pinned memory. */
size_t hersCudaSegmentBytes(const HersCudaSegment* segment);
void hersCudaUnload(HersCudaSegment* segment);

/* All segments have as many rows as the first, and the ring's words. `times` may be null. */
int hersCudaScan(HersCuda* cuda, const HersCudaScan* scan, HersCudaTimes* times);

/* Within `deliver`: the memory of the batch, which stays as it is until it is given back, from any
 * thread, and perhaps after the context was closed. Null where so much is out that the batch has to
 * be copied. */
HersCudaHost* hersCudaTake(const HersCudaBatch* batch);
void hersCudaGive(HersCudaHost* host);

/* The same, and nothing is copied to the host: `parts` and `deliver` are not looked at. Forget
 * responses before the context is closed. */
int hersCudaKeep(HersCuda* cuda, const HersCudaScan* scan, HersCudaResponses** out, HersCudaTimes* times);
const HersCudaKept* hersCudaKept(const HersCudaResponses* responses);
void hersCudaForget(HersCudaResponses* responses);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
