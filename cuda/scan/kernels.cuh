// The device's code.
//
// Layout. A segment is rearranged when it is loaded:
//
//     gallery[block][tile of 32 slots][line][32]      query[tile][row][pair of queries][32][4]
//
// so that what one warp goes through is contiguous, one slot for each thread. Rows of a query are
// filled up with zeros to a multiple of kRows, so the loops over rows have no ends to look after:
// what a tile's last lines are followed by is multiplied by zero.

#pragma once

#include <cstddef>
#include <cstdint>

#include "device.h"
#include "transform.cuh"

namespace hers_cuda {

constexpr int kTile = 32;
/** Rows that go through shared memory together; a multiple of four, for packed rows. */
constexpr int kRows = 4;
/** Sums are folded every 16 rows: packages/scan/native/multiply.h has the bounds. */
constexpr int kFoldChunks = 16 / kRows;
constexpr int kMostQueries = 8;
constexpr int kHeadWords = 20, kEntryWords = 6, kBlockIdWord = 12;

/** Lines of kRows rows. */
__host__ __device__ constexpr int linesOfRows(bool packed) { return packed ? kRows / 4 * 3 : kRows; }

struct DeviceRing {
  uint32_t n, primes, bits;
  DeviceModulus moduli[2];
};

/** Where a block's lines and its entry in the table are. */
struct DeviceBlock {
  const uint32_t* lines;
  const uint32_t* entry;
};

struct DeviceSegment {
  const uint32_t* lines;
  const uint32_t* table;
  uint64_t stride;
  uint32_t first, blocks;
};

// — loading —

__device__ __forceinline__ uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }
constexpr uint64_t kP1 = 0x9e3779b185ebca87, kP2 = 0xc2b2ae3d27d4eb4f, kP3 = 0x165667b19e3779f9;
constexpr uint64_t kP4 = 0x85ebca77c2b2ae63, kP5 = 0x27d4eb2f165667c5;
__device__ __forceinline__ uint64_t xxhRound(uint64_t lane, uint64_t word) { return rotate(lane + word * kP2, 31) * kP1; }
__device__ __forceinline__ uint64_t xxhMerge(uint64_t hash, uint64_t lane) { return (hash ^ xxhRound(0, lane)) * kP1 + kP4; }

/**
 * XXH64 of a multiple of eight bytes, at least 32, by four threads that lie side by side in a warp;
 * all of them return it. The chain of a lane is what takes the time, so words are fetched ahead.
 */
__device__ __forceinline__ uint64_t xxh64(const uint64_t* at, size_t words, int lane) {
  uint64_t sum = lane < 2 ? (lane == 0 ? kP1 + kP2 : kP2) : (lane == 2 ? 0 : 0 - kP1);
  const size_t stripes = words / 4;
  constexpr int kAhead = 8;
  uint64_t now[kAhead], next[kAhead];
  const auto load = [&](uint64_t (&into)[kAhead], size_t from) {
#pragma unroll
    for (int i = 0; i < kAhead; i++) into[i] = from + i < stripes ? at[4 * (from + i) + lane] : 0;
  };
  load(now, 0);
  for (size_t stripe = 0; stripe < stripes; stripe += kAhead) {
    load(next, stripe + kAhead);
#pragma unroll
    for (int i = 0; i < kAhead; i++) {
      if (stripe + i < stripes) sum = xxhRound(sum, now[i]);
      now[i] = next[i];
    }
  }
  uint64_t lanes[4];
#pragma unroll
  for (int i = 0; i < 4; i++) lanes[i] = __shfl_sync(0xffffffff, sum, i, 4);
  uint64_t hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
#pragma unroll
  for (int i = 0; i < 4; i++) hash = xxhMerge(hash, lanes[i]);
  hash += 8 * words;
  for (size_t i = 4 * stripes; i < words; i++) hash = rotate(hash ^ xxhRound(0, at[i]), 27) * kP1 + kP4;
  hash = (hash ^ hash >> 33) * kP2;
  hash = (hash ^ hash >> 29) * kP3;
  return hash ^ hash >> 32;
}

/** *bad becomes the first part that does not fit its checksum. */
__global__ void verifyParts(const uint64_t* data, size_t partWords, uint32_t parts, const uint64_t* checksums, uint32_t* bad) {
  const uint32_t number = (blockIdx.x * blockDim.x + threadIdx.x) / 4;
  const uint32_t part = min(number, parts - 1);
  const uint64_t hash = xxh64(data + part * partWords, partWords, threadIdx.x % 4);
  if (number < parts && threadIdx.x % 4 == 0 && hash != checksums[part]) atomicMin(bad, part);
}

/** From a segment's order, [slot group][panel][block][line][16], to the device's. */
__global__ void rearrange(uint4* out, const uint4* in, uint32_t words, uint32_t lines, uint32_t panelLines, uint32_t blocks) {
  const size_t total = size_t{blocks} * words / 4 * lines;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < total; i += size_t{gridDim.x} * blockDim.x) {
    const uint32_t quarter = i % (kTile / 4);
    const size_t rest = i / (kTile / 4);
    const uint32_t line = rest % lines;
    const uint32_t tile = rest / lines % (words / kTile);
    const uint32_t block = rest / lines / (words / kTile);
    const uint32_t group = 2 * tile + quarter / 4, panel = line / panelLines;
    const uint32_t inPanel = min(panelLines, lines - panel * panelLines);
    const size_t lineAt = (size_t{group} * lines + size_t{panel} * panelLines) * blocks + size_t{block} * inPanel + line % panelLines;
    out[i] = in[4 * lineAt + quarter % 4];
  }
}

__device__ __forceinline__ uint32_t pseudoRandom(uint64_t i, uint32_t seed, uint32_t p) {
  uint64_t x = (i + (uint64_t{seed} << 40)) * 0x9E3779B97F4A7C15;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9;
  return static_cast<uint32_t>((x >> 32) % p);
}

/** Pseudo-random residues: every bit pattern of a packed line is one. */
__global__ void fillLines(uint32_t* out, size_t perBlock, size_t total, uint32_t lines, uint32_t seed, bool packed, DeviceRing ring) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < total; i += size_t{gridDim.x} * blockDim.x) {
    const uint32_t prime = i % perBlock / lines / ring.n;
    const uint32_t p = ring.moduli[prime].p;
    const uint32_t low = pseudoRandom(i, seed, p);
    out[i] = packed ? low | pseudoRandom(i, seed + 1, 0xff) << 24 : low;
  }
}

// — queries —

struct QueryLaid {
  uint32_t* at;
  uint32_t rows, paddedRows;
  /** Of the tile: 1, 2, 4 or 8. */
  uint32_t wide;
  /** For tensor cores: tensor.cuh has the layout. */
  bool forTensors;

  /** Half 0 is B, and 1 is A. */
  __device__ __forceinline__ uint32_t* word(uint32_t slot, uint32_t row, uint32_t query, uint32_t half) const {
    const uint32_t number = 2 * query + half;
    if (forTensors) {
      const size_t quad = (size_t{slot / kTile} * paddedRows / kRows + row / kRows) * (kTile / 4) + slot % kTile / 4;
      return at + ((quad * (wide / 4) + number / 8) * 32 + number % 8 * kRows + row % kRows) * 4 + slot % 4;
    }
    const uint32_t perLane = wide == 1 ? 2 : 4;
    const size_t pairs = size_t{slot / kTile} * paddedRows + row;
    return at + ((pairs * (2 * wide / perLane) + number / perLane) * kTile + slot % kTile) * perLane + number % perLane;
  }
};

struct QuerySource {
  const uint32_t* rows;
  const uint32_t* given;
  uint32_t givenFirst, givenCount;
  uint32_t seed[8];
};

template <int a, int b, int c, int d>
__device__ __forceinline__ void quarterRound(uint32_t (&x)[16]) {
  x[a] += x[b], x[d] = __funnelshift_l(x[d] ^ x[a], x[d] ^ x[a], 16);
  x[c] += x[d], x[b] = __funnelshift_l(x[b] ^ x[c], x[b] ^ x[c], 12);
  x[a] += x[b], x[d] = __funnelshift_l(x[d] ^ x[a], x[d] ^ x[a], 8);
  x[c] += x[d], x[b] = __funnelshift_l(x[b] ^ x[c], x[b] ^ x[c], 7);
}

__device__ __forceinline__ void chacha(uint32_t (&x)[16], const uint32_t (&seed)[8], uint32_t counter, uint32_t domain, uint32_t index, uint32_t third) {
  uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
#pragma unroll
  for (int i = 0; i < 8; i++) start[4 + i] = seed[i];
  start[12] = counter, start[13] = domain, start[14] = index, start[15] = third;
#pragma unroll
  for (int i = 0; i < 16; i++) x[i] = start[i];
  for (int round = 0; round < 10; round++) {
    quarterRound<0, 4, 8, 12>(x);
    quarterRound<1, 5, 9, 13>(x);
    quarterRound<2, 6, 10, 14>(x);
    quarterRound<3, 7, 11, 15>(x);
    quarterRound<0, 5, 10, 15>(x);
    quarterRound<1, 6, 11, 12>(x);
    quarterRound<2, 7, 8, 13>(x);
    quarterRound<3, 4, 9, 14>(x);
  }
#pragma unroll
  for (int i = 0; i < 16; i++) x[i] += start[i];
}

constexpr int kExpandThreads = 128;

/**
 * One row of one query modulo one prime: block (row, prime). Words of the stream that are not below
 * p are left out, so each thread must know how many the threads before it keep.
 */
__global__ __launch_bounds__(kExpandThreads) void expandRow(QueryLaid laid, uint32_t query, QuerySource source, uint32_t domain, DeviceRing ring) {
  const uint32_t row = blockIdx.x, prime = blockIdx.y, n = ring.n, words = n * ring.primes;
  const uint32_t p = ring.moduli[prime].p, mask = 0xffffffffu >> __clz(p);
  const bool isRow = row < laid.rows;
  for (uint32_t i = threadIdx.x; i < n; i += kExpandThreads) {
    const uint32_t slot = prime * n + i;
    *laid.word(slot, row, query, 0) = isRow ? source.rows[size_t{row} * words + slot] : 0;
  }
  // Rows before the first that is given wrap around.
  const uint32_t given = row - source.givenFirst;
  if (!isRow || given < source.givenCount) {
    for (uint32_t i = threadIdx.x; i < n; i += kExpandThreads) {
      const uint32_t slot = prime * n + i;
      *laid.word(slot, row, query, 1) = isRow ? source.given[size_t{given} * words + slot] : 0;
    }
    return;
  }
  __shared__ uint32_t counts[kExpandThreads / 32];
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t done = 0;
  for (uint32_t counter = threadIdx.x; done < n; counter += kExpandThreads) {
    uint32_t x[16], kept = 0;
    chacha(x, source.seed, counter, domain, row, prime);
#pragma unroll
    for (int i = 0; i < 16; i++) kept += (x[i] & mask) < p;
    uint32_t sum = kept;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const uint32_t other = __shfl_up_sync(0xffffffff, sum, by);
      if (lane >= by) sum += other;
    }
    if (lane == 31) counts[warp] = sum;
    __syncthreads();
    uint32_t at = done + sum - kept;
    for (int i = 0; i < kExpandThreads / 32; i++) {
      if (i < warp) at += counts[i];
      done += counts[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const uint32_t word = x[i] & mask;
      if (word < p) {
        if (at < n) *laid.word(prime * n + at, row, query, 1) = word;
        at++;
      }
    }
  }
}

/** Queries that fill up a tile multiply by zero. */
__global__ void clearQuery(QueryLaid laid, uint32_t query, uint32_t words) {
  const uint32_t row = blockIdx.x;
  for (uint32_t slot = threadIdx.x; slot < words; slot += blockDim.x) {
    *laid.word(slot, row, query, 0) = 0;
    *laid.word(slot, row, query, 1) = 0;
  }
}

/** One block of threads for each segment. */
__global__ void locateBlocks(DeviceBlock* out, const DeviceSegment* segments) {
  const DeviceSegment segment = segments[blockIdx.x];
  for (uint32_t i = threadIdx.x; i < segment.blocks; i += blockDim.x) {
    out[segment.first + i] = {segment.lines + i * segment.stride, segment.table + i * kEntryWords};
  }
}

// — the multiply-accumulate —

struct MultiplyJob {
  const DeviceBlock* blocks;
  const uint32_t* query;
  /** [query][block][2][words]: C0·2^−32 and C1·2^−32 modulo p, below 2p. */
  uint32_t* out;
  uint32_t blockCount, queries, words, lines, chunks;
  DeviceRing ring;
};

#ifdef HERS_EMULATED
/** Done at once: nobody can tell, since whoever reads it waits for it. */
inline void copyAsync(void* shared, const void* global) { memcpy(shared, global, 16); }
inline void commitCopies() {}
template <int left>
void waitForCopies() {}
#else
__device__ __forceinline__ void copyAsync(void* shared, const void* global) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global));
}
__device__ __forceinline__ void commitCopies() { asm volatile("cp.async.commit_group;"); }
template <int left>
__device__ __forceinline__ void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
#endif

/**
 * How the work is cut for Q queries: each thread keeps the sums of one slot of `blocks` blocks, for
 * all queries; `warps` warps share what is fetched of the queries, `stages` chunks of kRows rows
 * are on their way.
 */
template <int Q>
struct Shape {
  static constexpr int blocks = Q == 4 ? 8 : 4;
  static constexpr int warps = 4;
  static constexpr int stages = 4;
  /** Blocks of threads that share a multiprocessor. */
  static constexpr int resident = Q <= 2 ? 4 : 2;
  static constexpr int threads = 32 * warps;
  static constexpr int blocksOfAll = blocks * warps;
  __host__ __device__ static constexpr int stageWords(bool packed) { return blocksOfAll * linesOfRows(packed) * kTile + kRows * 2 * Q * kTile; }
  __host__ __device__ static constexpr int sharedBytes(bool packed) { return 4 * stages * stageWords(packed); }
};

template <int Q, bool packed>
__global__ __launch_bounds__(Shape<Q>::threads, Shape<Q>::resident) void multiply(const MultiplyJob job) {
  using S = Shape<Q>;
  constexpr int B = S::blocks, L = linesOfRows(packed), stages = S::stages;
  constexpr int perLane = Q == 1 ? 2 : 4, vectors = 2 * Q / perLane;
  constexpr int queryWords = kRows * 2 * Q * kTile, galleryWords = S::blocksOfAll * L * kTile;
  constexpr int copies = B * L / 4;
  static_assert(B * L % 4 == 0, "each copy of a warp is 512 bytes");
  HERS_DYNAMIC_SHARED(shared);
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t tile = blockIdx.x, first = blockIdx.y * S::blocksOfAll + warp * B;

  // Blocks past the last are the last once more, and their sums are not kept.
  const uint32_t* from[copies];
#pragma unroll
  for (int i = 0; i < copies; i++) {
    const uint32_t unit = i * 32 + lane, block = unit / (L * kTile / 4), within = unit % (L * kTile / 4);
    const uint32_t number = min(first + block, job.blockCount - 1);
    from[i] = job.blocks[number].lines + size_t{tile} * job.lines * kTile + 4 * within;
  }
  const uint32_t* query = job.query + size_t{tile} * job.chunks * queryWords;
  const auto fetch = [&](uint32_t chunk, uint32_t stage) {
    uint32_t* const to = shared + stage * S::stageWords(packed);
#pragma unroll
    for (int i = 0; i < copies; i++) {
      copyAsync(to + warp * B * L * kTile + 4 * (i * 32 + lane), from[i] + size_t{chunk} * L * kTile);
    }
#pragma unroll
    for (int at = 0; at < queryWords / 4; at += S::threads) {
      const int unit = at + threadIdx.x;
      if (queryWords / 4 % S::threads == 0 || unit < queryWords / 4) {
        copyAsync(to + galleryWords + 4 * unit, query + size_t{chunk} * queryWords + 4 * unit);
      }
    }
  };

  uint64_t sums[B][2 * Q];
#pragma unroll
  for (int b = 0; b < B; b++) {
#pragma unroll
    for (int i = 0; i < 2 * Q; i++) sums[b][i] = 0;
  }
  const DeviceModulus& m = job.ring.moduli[tile * kTile >= job.ring.n ? 1 : 0];
  const uint32_t foldBy = m.foldBy;
  const auto fold = [&]() {
#pragma unroll
    for (int b = 0; b < B; b++) {
#pragma unroll
      for (int i = 0; i < 2 * Q; i++) sums[b][i] = uint64_t{static_cast<uint32_t>(sums[b][i])} + uint64_t{static_cast<uint32_t>(sums[b][i] >> 32)} * foldBy;
    }
  };

#pragma unroll
  for (int stage = 0; stage < stages - 1; stage++) {
    if (stage < job.chunks) fetch(stage, stage);
    commitCopies();
  }
  // A fold within the inner loop would make the compiler copy all sums where its paths meet.
  for (uint32_t chunk = 0, stage = 0; chunk < job.chunks;) {
    const uint32_t until = packed ? job.chunks : min(job.chunks, chunk + kFoldChunks);
    for (; chunk < until; chunk++) {
      waitForCopies<stages - 2>();
      __syncthreads();
      // The stage that all threads are done with since the barrier.
      const uint32_t free = stage == 0 ? stages - 1 : stage - 1;
      if (chunk + stages - 1 < job.chunks) fetch(chunk + stages - 1, free);
      commitCopies();

      const uint32_t* const gallery = shared + stage * S::stageWords(packed) + warp * B * L * kTile + lane;
      const uint32_t* const slice = shared + stage * S::stageWords(packed) + galleryWords + lane * perLane;
      uint32_t lines[packed ? B : 1][3];
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        uint32_t g[B];
#pragma unroll
        for (int b = 0; b < B; b++) {
          if constexpr (packed) {
            if (r % 4 < 3) {
              lines[b][r % 4] = gallery[(b * L + r / 4 * 3 + r % 4) * kTile];
              g[b] = lines[b][r % 4] & 0xffffff;
            } else {
              g[b] = lines[b][0] >> 24 | (lines[b][1] >> 24) << 8 | (lines[b][2] >> 24) << 16;
            }
          } else {
            g[b] = gallery[(b * L + r) * kTile];
          }
        }
#pragma unroll
        for (int v = 0; v < vectors; v++) {
          uint32_t y[perLane];
          const uint32_t* const at = slice + (r * vectors + v) * kTile * perLane;
          if constexpr (perLane == 2) {
            const uint2 two = *reinterpret_cast<const uint2*>(at);
            y[0] = two.x, y[1] = two.y;
          } else {
            const uint4 four = *reinterpret_cast<const uint4*>(at);
            y[0] = four.x, y[1] = four.y, y[2] = four.z, y[3] = four.w;
          }
#pragma unroll
          for (int b = 0; b < B; b++) {
#pragma unroll
            for (int i = 0; i < perLane; i++) sums[b][v * perLane + i] += uint64_t{g[b]} * y[i];
          }
        }
      }
      stage = stage + 1 == stages ? 0 : stage + 1;
      }
    fold();
  }

#pragma unroll
  for (int b = 0; b < B; b++) {
    if (first + b >= job.blockCount) break;
#pragma unroll
    for (int i = 0; i < 2 * Q; i++) {
      const uint64_t sum = sums[b][i];
      const uint32_t factor = static_cast<uint32_t>(sum) * m.negativeInverse;
      const uint32_t residue = static_cast<uint32_t>((sum + uint64_t{factor} * m.p) >> 32);
      if (i / 2 < job.queries) {
        job.out[((size_t{job.blockCount} * (i / 2) + first + b) * 2 + i % 2) * job.words + tile * kTile + lane] = residue;
      }
    }
  }
}

// — responses —

struct ResponseShape {
  uint32_t bits[2];
  /** Words of a response, and where those of the first block begin. */
  uint32_t words;
  uint64_t at;
};

struct RespondJob {
  const DeviceBlock* blocks;
  const uint32_t* sums;
  /** [query][20] */
  const uint32_t* heads;
  uint32_t* out;
  uint32_t blockCount;
  DeviceRing ring;
  ResponseShape shapes[kMostQueries];
};

constexpr int respondThreads(int logN) { return (1 << logN) / kEach < 32 ? 32 : (1 << logN) / kEach; }

/** One half (C0 or C1) of one response: block (block, half, query). */
template <int logN, int primes>
__global__ __launch_bounds__(respondThreads(logN)) void respond(const RespondJob job) {
  constexpr uint32_t n = 1u << logN, threads = n / kEach;
  // Two passes, or three where n is large: each takes four stages, and the last what is left.
  constexpr int k2 = logN - 4 < 4 ? logN - 4 : 4, k3 = logN - 4 - k2;
  static_assert(k3 <= 4, "three passes are enough");
  __shared__ uint32_t shared[n + n / 16];
  __shared__ uint32_t firsts[32];
  const uint32_t thread = threadIdx.x, block = blockIdx.x, half = blockIdx.y, query = blockIdx.z;
  // Small rings leave some threads of the only warp with nothing to do.
  const bool busy = threads >= 32 || thread < threads;
  const ResponseShape& shape = job.shapes[query];
  const uint32_t bits = shape.bits[half];
  uint32_t* const response = job.out + shape.at + size_t{block} * shape.words;
  if (thread < bits) firsts[thread] = 32 * thread / bits;

  uint64_t scaled[kEach];
#pragma unroll
  for (int prime = 0; prime < primes; prime++) {
    const DeviceModulus& m = job.ring.moduli[prime];
    const uint32_t* const in = job.sums + ((size_t{job.blockCount} * query + block) * 2 + half) * (primes * n) + prime * n;
    uint32_t x[kEach];
    if (busy) {
#pragma unroll
      for (int i = 0; i < kEach; i += 4) {
        const uint4 four = __ldcs(reinterpret_cast<const uint4*>(in + kEach * thread + i));
        x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
      }
      stages<logN, 0, 4>(x, thread, m);
    }
    // What the other prime left there has been read.
    if (prime > 0) __syncthreads();
    if (busy) toShared<logN, 0, 4>(shared, x, thread);
    __syncthreads();
    if (busy) {
      fromShared<logN, 4, k2>(x, shared, thread);
      stages<logN, 4, k2>(x, thread, m);
    }
    if constexpr (k3 > 0) {
      __syncthreads();
      toShared<logN, 4, k2>(shared, x, thread);
      __syncthreads();
      fromShared<logN, 8, k3>(x, shared, thread);
      stages<logN, 8, k3>(x, thread, m);
    }
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const uint64_t share = uint64_t{x[i]} * m.reciprocal;
      scaled[i] = prime == 0 ? share : scaled[i] + share;
    }
  }

  const int shift = 31 + job.ring.bits - bits;
  const uint32_t mask = 0xffffffffu >> (32 - bits);
  __syncthreads();
  if (busy) {
    uint32_t x[kEach];
#pragma unroll
    for (int i = 0; i < kEach; i++) x[i] = static_cast<uint32_t>((scaled[i] + (uint64_t{1} << (shift - 1))) >> shift) & mask;
    if constexpr (k3 > 0) toShared<logN, 8, k3>(shared, x, thread);
    else toShared<logN, 4, k2>(shared, x, thread);
  }
  __syncthreads();

  // 32 values make `bits` words. A word begins within the last value that begins at or before it.
  uint32_t* const out = response + kHeadWords + (half ? n / 32 * shape.bits[0] : 0);
  const uint32_t stepGroups = blockDim.x / bits, stepWords = blockDim.x % bits;
  uint32_t group = thread / bits, word = thread % bits;
  for (uint32_t at = thread; at < n / 32 * bits; at += blockDim.x) {
    uint32_t value = firsts[word];
    uint32_t held = shared[padded(32 * group + value)] >> (32 * word - value * bits);
    for (int begins = (value + 1) * bits - 32 * word; begins < 32; begins += bits) {
      if (++value == 32) break;
      held |= shared[padded(32 * group + value)] << begins;
    }
    out[at] = held;
    group += stepGroups, word += stepWords;
    if (word >= bits) word -= bits, group++;
  }
  if (half == 0 && thread < kHeadWords) {
    const uint32_t* const entry = job.blocks[block].entry;
    const bool isEntry = thread >= kBlockIdWord && thread < kBlockIdWord + kEntryWords;
    response[thread] = isEntry ? entry[thread - kBlockIdWord] : job.heads[query * kHeadWords + thread];
  }
}

/** The checksums of all responses, by four threads each: block (some responses, query). */
__global__ void seal(const RespondJob job) {
  const ResponseShape& shape = job.shapes[blockIdx.y];
  const uint32_t number = (blockIdx.x * blockDim.x + threadIdx.x) / 4;
  uint64_t* const response = reinterpret_cast<uint64_t*>(job.out + shape.at + size_t{min(number, job.blockCount - 1)} * shape.words);
  const uint64_t hash = xxh64(response, shape.words / 2 - 1, threadIdx.x % 4);
  if (number < job.blockCount && threadIdx.x % 4 == 0) response[shape.words / 2 - 1] = hash;
}

}  // namespace hers_cuda
