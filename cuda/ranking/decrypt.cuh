// The device's code: one block of threads decrypts one response, checks it and writes a key for each
// slot, larger for better scores and zero for slots that do not count. Then the best keys are
// found.

#pragma once

#include <cstddef>
#include <cstdint>

#include "../scan/device.h"
#include "../scan/transform.cuh"

namespace hers_cuda {

constexpr int kHeadWords = 20, kBlockIdWord = 12, kFirstWord = 16, kCountWord = 17;
constexpr int kMostCanaries = 16;
/** Sums of scores under `exact` (packages/scheme/src/secret/score-sums.ts). */
constexpr uint32_t kCopies = 6;
/** Why a response is refused. */
constexpr uint32_t kWrongHead = 1, kNonsense = 2, kWrongCanary = 4, kWrongSums = 8;

/** A group of checksum canaries by the number of slots that are summed in it. */
struct GroupShape {
  uint32_t plus;
  double divisor, room;
};

/** Words of a row of sums: s and t of every copy, then the sums of vectors, as doubles. */
__host__ __device__ constexpr size_t sumWords(size_t dimension) { return 2 * kCopies * (dimension + 2); }

struct DecryptJob {
  /** Of the first response of the query, and words of each. */
  const uint32_t* responses;
  uint32_t words;
  /** Which response is the block's, by its number. */
  const uint32_t* responseOf;
  uint32_t head[kHeadWords];
  uint32_t bits0, bits1, cut;
  DeviceModulus modulus;
  const uint2* roots;
  /** With Shoup companions. */
  const uint2* secret;
  float factor, offset;
  double largest;
  /** `exact`: integer = sign·phase·step + shift, score = integer·slope. */
  double step, slope;
  int sign;
  long long shift;
  /** Of the gallery: records, and slots with those of all canaries. */
  const uint32_t* ids;
  const uint32_t* counts;
  const uint32_t* totals;
  const uint32_t* alive;
  const uint32_t* slots;
  const int32_t* values;
  uint32_t canaries, width;
  const int32_t* probe;
  double scale, canaryOffset, room;
  /** Checksum canaries: [block][n] slots in the order of their groups, and how many; or null. */
  const uint16_t* orders;
  const uint32_t* ordered;
  uint32_t group;
  const GroupShape* shapes;
  double period;
  /** `exact`: the weights of all copies, and for each block, if it has any, its sums. */
  const uint32_t* weights;
  const double* sums;
  const uint32_t* summed;
  uint32_t dimension;
  double square, largestInteger;
  /** [block][n]: the group of every record, of which only the best counts; or null. */
  const uint16_t* groups;
  bool distances;
  double floor;
  /** [block][n], and of every block the largest. */
  uint32_t* keys;
  uint32_t* best;
  uint32_t* refused;
};

/** Orders as the scores do; never zero. */
__device__ __forceinline__ uint32_t keyOf(float score, bool distances) {
  // Zero has two signs, and one key.
  const uint32_t bits = __float_as_uint(score == 0 ? 0.0f : score);
  const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
  return distances ? ~ascending : ascending;
}

__host__ __device__ inline uint32_t bitsOfKey(uint32_t key, bool distances) {
  const uint32_t ascending = distances ? ~key : key;
  return ascending >> 31 ? ascending & 0x7fffffffu : ~ascending;
}

/** Value `number` of those packed with so many bits. What follows the last one can be read. */
__device__ __forceinline__ uint32_t packedAt(const uint32_t* words, uint32_t number, uint32_t bits) {
  const uint32_t bit = number * bits;
  const uint32_t* const at = words + bit / 32;
  return __funnelshift_r(__ldg(at), __ldg(at + 1), bit % 32) & 0xffffffffu >> (32 - bits);
}

__device__ __forceinline__ int32_t extended(uint32_t x, uint32_t bits) { return static_cast<int32_t>(x << (32 - bits)) >> (32 - bits); }
__device__ __forceinline__ uint32_t embedded(int32_t x, uint32_t p) { return x < 0 ? x + p : x; }
/** A residue as the number between −p/2 and p/2. */
__device__ __forceinline__ uint32_t centred(uint32_t x, uint32_t p) { return x > p / 2 ? x - p : x; }

__device__ __forceinline__ uint32_t largestOfWarp(uint32_t x) {
#pragma unroll
  for (int with = 16; with > 0; with /= 2) x = max(x, __shfl_xor_sync(0xffffffff, x, with));
  return x;
}

__host__ __device__ constexpr int decryptThreads(int logN) { return (1 << logN) / kEach < 32 ? 32 : (1 << logN) / kEach; }

/** x·s: forward, times the secret, and back. Words are those of the last pass, before and after. */
template <int logN>
__device__ __forceinline__ void timesSecret(uint32_t (&x)[kEach], uint32_t* shared, uint32_t thread, bool busy, const DecryptJob& job) {
  constexpr int k2 = logN - 4 < 4 ? logN - 4 : 4, k3 = logN - 4 - k2;
  static_assert(k3 <= 4, "three passes are enough");
  const DeviceModulus& m = job.modulus;
  if constexpr (k3 > 0) {
    forwardStages<logN, 8, k3>(x, thread, m.p, job.roots);
    toShared<logN, 8, k3>(shared, x, thread);
    __syncthreads();
    fromShared<logN, 4, k2>(x, shared, thread);
  }
  // Where a thread reads words and writes them back, no other touches them in between.
  if (busy) {
    forwardStages<logN, 4, k2>(x, thread, m.p, job.roots);
    toShared<logN, 4, k2>(shared, x, thread);
  }
  __syncthreads();
  if (busy) {
    fromShared<logN, 0, 4>(x, shared, thread);
    forwardStages<logN, 0, 4>(x, thread, m.p, job.roots);
#pragma unroll
    for (int i = 0; i < kEach; i++) x[i] = mulShoup(x[i], __ldg(job.secret + kEach * thread + i), m.p);
    stages<logN, 0, 4>(x, thread, m);
    toShared<logN, 0, 4>(shared, x, thread);
  }
  __syncthreads();
  if (busy) {
    fromShared<logN, 4, k2>(x, shared, thread);
    stages<logN, 4, k2>(x, thread, m);
  }
  if constexpr (k3 > 0) {
    toShared<logN, 4, k2>(shared, x, thread);
    __syncthreads();
    fromShared<logN, 8, k3>(x, shared, thread);
    stages<logN, 8, k3>(x, thread, m);
  }
}

/** How many of `ordered` slots are checksum canaries: one for each group, the last may be short. */
__host__ __device__ __forceinline__ uint32_t groupsAmong(uint32_t ordered, uint32_t group) { return (ordered + group) / (group + 1); }

/** The number of the first slot of group c in the order, and how far its slots are apart there. */
struct GroupPlace {
  uint32_t at, step, size;
};
__device__ __forceinline__ GroupPlace placeOfGroup(uint32_t c, uint32_t ordered, uint32_t group) {
  const uint32_t whole = ordered / (group + 1);
  if (c < whole) return {c, whole, group};
  return {whole * (group + 1), 1, ordered - whole * (group + 1) - 1};
}

/** Whether the scores in `shared` fit the checksum canaries: `checksumsFit` of scheme. */
__device__ __forceinline__ bool groupFits(const DecryptJob& job, const uint16_t* order, const GroupPlace& place, const uint32_t* shared) {
  const GroupShape shape = job.shapes[place.size];
  const auto score = [&](uint32_t e) { return static_cast<double>(__uint_as_float(shared[padded(order[place.at + e * place.step])])); };
  double sum = __dmul_rn(-shape.divisor, score(0));
  uint32_t e = 1;
  for (; e <= shape.plus; e++) sum = __dadd_rn(sum, score(e));
  for (; e <= place.size; e++) sum = __dsub_rn(sum, score(e));
  // Half upwards, as Math.round does it.
  const double turns = __ddiv_rn(sum, job.period), below = floor(turns);
  const double nearest = __dsub_rn(turns, below) >= 0.5 ? below + 1 : below;
  const double off = __dsub_rn(sum, __dmul_rn(job.period, nearest));
  return (off < 0 ? -off : off) <= shape.room;
}

/** Whether the integers in `shared` add up: `scoreChecker` of scheme. All threads call it. */
__device__ __forceinline__ void checkSums(const DecryptJob& job, uint32_t number, uint32_t n, uint32_t total, const uint32_t* shared,
                                          unsigned long long (&both)[2 * kCopies], uint32_t* wrong) {
  const uint32_t thread = threadIdx.x, lane = thread % 32;
  const double* const sums = job.sums + size_t{number} * (sumWords(job.dimension) / 2);
  if (thread < 2 * kCopies) both[thread] = 0;
  for (uint32_t slot = thread; slot < total; slot += blockDim.x) {
    const double integer = static_cast<int32_t>(shared[padded(slot)]);
    if ((integer < 0 ? -integer : integer) > job.largestInteger) atomicOr(wrong, kWrongSums);
  }
  __syncthreads();
  for (uint32_t c = 0; c < kCopies; c++) {
    const uint32_t* const weights = job.weights + c * n;
    const double* const vector = sums + 2 * kCopies + c * job.dimension;
    // Whole numbers below 2^53 where everything is right; otherwise they may wrap.
    unsigned long long weighed = 0, slots = 0;
    for (uint32_t slot = thread; slot < total; slot += blockDim.x) {
      const uint32_t weight = __ldg(weights + slot);
      weighed += weight * static_cast<unsigned long long>(static_cast<long long>(static_cast<int32_t>(shared[padded(slot)])));
      slots += weight;
    }
    for (uint32_t i = thread; i < job.dimension; i += blockDim.x) {
      const long long product = static_cast<long long>(vector[i]) * job.probe[i];
      weighed -= static_cast<unsigned long long>(job.sign < 0 ? -product : product);
    }
#pragma unroll
    for (int with = 16; with > 0; with /= 2) {
      weighed += __shfl_xor_sync(0xffffffff, weighed, with);
      slots += __shfl_xor_sync(0xffffffff, slots, with);
    }
    if (lane == 0) atomicAdd(&both[2 * c], weighed), atomicAdd(&both[2 * c + 1], slots);
  }
  __syncthreads();
  if (thread < kCopies) {
    const double s = sums[thread], t = sums[kCopies + thread];
    const double expected = job.sign < 0 ? __dadd_rn(s, __dmul_rn(t, job.square)) : 0;
    const bool isRight = both[2 * thread] == static_cast<unsigned long long>(static_cast<long long>(expected)) &&
                         both[2 * thread + 1] == static_cast<unsigned long long>(t);
    if (!isRight) atomicOr(wrong, kWrongSums);
    both[2 * thread] = both[2 * thread + 1] = 0;
  }
}

/** Block `blockIdx.x` of the gallery. */
template <int logN, bool exact>
__global__ __launch_bounds__(decryptThreads(logN), logN == 12 ? 2 : 5) void decryptResponses(const DecryptJob job) {
  constexpr uint32_t n = 1u << logN, threads = n / kEach;
  constexpr int k2 = logN - 4 < 4 ? logN - 4 : 4, k3 = logN - 4 - k2;
  constexpr int lastS = k3 > 0 ? 8 : 4, lastK = k3 > 0 ? k3 : k2;
  constexpr uint32_t step = decryptThreads(logN), perThread = n / step;
  __shared__ uint32_t shared[n + n / 16];
  __shared__ uint32_t slots[kMostCanaries];
  /** Slots that are no record's, and how many of them are below each word. */
  __shared__ uint32_t own[n / 32], ownBelow[n / 32];
  __shared__ uint32_t most, bestKey, wrong;
  const uint32_t thread = threadIdx.x, number = blockIdx.x, lane = thread % 32;
  const bool busy = threads >= 32 || thread < threads;
  const uint32_t* const response = job.responses + size_t{job.responseOf[number]} * job.words;
  const uint32_t count = job.counts[number], total = job.totals[number];
  const uint16_t* const order = job.orders ? job.orders + size_t{number} * n : nullptr;
  const uint32_t ordered = order ? job.ordered[number] : 0, groups = order ? groupsAmong(ordered, job.group) : 0;
  if (thread == 0) most = 0, bestKey = 0, wrong = 0;
  for (uint32_t i = thread; i < n / 32; i += blockDim.x) own[i] = 0;
  if (thread < job.canaries) slots[thread] = job.slots[size_t{number} * job.canaries + thread];
  __syncthreads();
  if (thread < kHeadWords) {
    uint32_t expected = job.head[thread];
    if (thread >= kBlockIdWord && thread < kFirstWord) expected = job.ids[4 * size_t{number} + thread - kBlockIdWord];
    if (thread == kFirstWord) expected = 0;
    if (thread == kCountWord) expected = total;
    if (response[thread] != expected) atomicOr(&wrong, kWrongHead);
  }
  if (thread < job.canaries) atomicOr(&own[slots[thread] / 32], 1u << slots[thread] % 32);
  for (uint32_t c = thread; c < groups; c += blockDim.x) {
    const uint32_t slot = order[placeOfGroup(c, ordered, job.group).at];
    atomicOr(&own[slot / 32], 1u << slot % 32);
  }
  __syncthreads();
  for (uint32_t i = thread; i < n / 32; i += blockDim.x) {
    uint32_t below = 0;
    for (uint32_t w = 0; w < i; w++) below += __popc(own[w]);
    ownBelow[i] = below;
  }

  const uint32_t p = job.modulus.p;
  const uint32_t* const packed0 = response + kHeadWords;
  const uint32_t* const packed1 = packed0 + n / 32 * job.bits0;
  uint32_t sums[kEach];
#pragma unroll
  for (int i = 0; i < kEach; i++) sums[i] = 0;
  // C1 is cut where one product with the secret would not be exact.
  for (uint32_t low = 0; low < job.bits1; low += job.cut) {
    uint32_t x[kEach];
    if (busy) {
#pragma unroll
      for (int i = 0; i < kEach; i++) {
        const uint32_t word = packedAt(packed1, wordOf<logN, lastS, lastK>(thread, i), job.bits1);
        const int32_t below = extended(word, job.cut);
        const int32_t part = low == 0 ? below : extended(static_cast<int32_t>(word - below) >> job.cut, job.bits1 - job.cut);
        x[i] = embedded(part, p);
      }
    }
    timesSecret<logN>(x, shared, thread, busy, job);
#pragma unroll
    for (int i = 0; i < kEach; i++) sums[i] += centred(x[i], p) << low;
    __syncthreads();
  }

  uint32_t largest = 0;
  bool isWhole = true;
  if (busy) {
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const uint32_t slot = wordOf<logN, lastS, lastK>(thread, i);
      const uint32_t c0 = packedAt(packed0, slot, job.bits0);
      const int32_t phase = extended((c0 << (job.bits1 - job.bits0)) + sums[i], job.bits1);
      if constexpr (exact) {
        const double x = __dmul_rn(static_cast<double>(phase), job.step), nearest = rint(x), off = __dsub_rn(x, nearest);
        isWhole = isWhole && (off < 0 ? -off : off) <= job.largest;
        const double held = nearest < -2147483648.0 ? -2147483648.0 : nearest > 2147483647.0 ? 2147483647.0 : nearest;
        const long long integer = static_cast<long long>(held);
        shared[padded(slot)] = static_cast<uint32_t>(job.sign < 0 ? job.shift - integer : integer);
      } else {
        largest = max(largest, phase < 0 ? 0u - phase : phase);
        shared[padded(slot)] = __float_as_uint(__fadd_rn(__fmul_rn(static_cast<float>(phase), job.factor), job.offset));
      }
    }
  }
  if constexpr (exact) {
    if (!isWhole) atomicOr(&wrong, kNonsense);
    __syncthreads();
  } else {
    largest = largestOfWarp(largest);
    if (lane == 0) atomicMax(&most, largest);
    __syncthreads();
    if (thread == 0 && most > job.largest) atomicOr(&wrong, kNonsense);
  }

  // A warp for each canary.
  for (uint32_t l = thread / 32; l < job.canaries; l += blockDim.x / 32) {
    const int32_t* const values = job.values + (size_t{number} * job.canaries + l) * job.width;
    long long sum = 0;
    for (uint32_t i = lane; i < job.width; i += 32) sum += static_cast<long long>(values[i]) * job.probe[i];
#pragma unroll
    for (int with = 16; with > 0; with /= 2) sum += __shfl_xor_sync(0xffffffff, sum, with);
    if (lane == 0) {
      const uint32_t found = shared[padded(slots[l])];
      if constexpr (exact) {
        if (static_cast<int32_t>(found) != (job.sign < 0 ? job.shift - sum : sum)) atomicOr(&wrong, kWrongCanary);
      } else {
        const double expected = __dadd_rn(__dmul_rn(job.scale, static_cast<double>(sum)), job.canaryOffset);
        const double off = __dadd_rn(static_cast<double>(__uint_as_float(found)), -expected);
        if (!((off < 0 ? -off : off) <= job.room)) atomicOr(&wrong, kWrongCanary);
      }
    }
  }
  if constexpr (exact) {
    __shared__ unsigned long long both[2 * kCopies];
    if (job.summed && job.summed[number]) checkSums(job, number, n, total, shared, both, &wrong);
  } else {
    for (uint32_t c = thread; c < groups; c += blockDim.x) {
      if (!groupFits(job, order, placeOfGroup(c, ordered, job.group), shared)) atomicOr(&wrong, kWrongCanary);
    }
  }
  __syncthreads();

  // The records of a thread, and their keys.
  uint32_t keys[perThread];
#pragma unroll
  for (uint32_t i = 0; i < perThread; i++) {
    const uint32_t slot = thread + i * step;
    const uint32_t mask = own[slot / 32], bit = 1u << slot % 32;
    const uint32_t record = slot - ownBelow[slot / 32] - __popc(mask & (bit - 1));
    uint32_t key = 0;
    if (wrong == 0 && !(mask & bit) && record < count && (!job.alive || job.alive[size_t{number} * (n / 32) + record / 32] >> record % 32 & 1)) {
      const uint32_t found = shared[padded(slot)];
      float score = exact ? static_cast<float>(__dmul_rn(static_cast<double>(static_cast<int32_t>(found)), job.slope)) : __uint_as_float(found);
      // Noise can make the square of a small distance negative.
      if (job.distances) score = __fsqrt_rn(score > 0 ? score : 0.0f);
      const double goodness = job.distances ? -static_cast<double>(score) : static_cast<double>(score);
      if (goodness > job.floor) key = keyOf(score, job.distances);
    }
    keys[i] = key;
    shared[padded(slot)] = 0;
  }
  if (job.groups) {
    // The best key of every group, and of equal ones that of the lowest slot.
    __syncthreads();
    for (uint32_t i = thread; i < n; i += blockDim.x) shared[i] = 0;
    __syncthreads();
    const auto groupOf = [&](uint32_t i) {
      const uint32_t slot = thread + i * step;
      const uint32_t record = slot - ownBelow[slot / 32] - __popc(own[slot / 32] & ((1u << slot % 32) - 1));
      return keys[i] == 0 ? 0u : static_cast<uint32_t>(job.groups[size_t{number} * n + record]);
    };
    for (uint32_t i = 0; i < perThread; i++) {
      const uint32_t group = groupOf(i);
      if (group != 0) atomicMax(&shared[group - 1], keys[i]);
    }
    __syncthreads();
    for (uint32_t i = 0; i < perThread; i++) {
      const uint32_t group = groupOf(i);
      if (group != 0 && shared[group - 1] != keys[i]) keys[i] = 0;
    }
    __syncthreads();
    for (uint32_t i = thread; i < n; i += blockDim.x) shared[i] = n;
    __syncthreads();
    for (uint32_t i = 0; i < perThread; i++) {
      const uint32_t group = groupOf(i);
      if (group != 0) atomicMin(&shared[group - 1], thread + i * step);
    }
    __syncthreads();
    for (uint32_t i = 0; i < perThread; i++) {
      const uint32_t group = groupOf(i);
      if (group != 0 && shared[group - 1] != thread + i * step) keys[i] = 0;
    }
  }
  uint32_t better = 0;
#pragma unroll
  for (uint32_t i = 0; i < perThread; i++) {
    job.keys[size_t{number} * n + thread + i * step] = keys[i];
    better = max(better, keys[i]);
  }
  better = largestOfWarp(better);
  if (lane == 0) atomicMax(&bestKey, better);
  __syncthreads();
  if (thread == 0) {
    job.best[number] = bestKey;
    if (wrong) atomicOr(job.refused, wrong);
    most = bestKey = 0;
  }
}

// — canaries —

/** Moves a column: rows that are known already, from another gallery, and fresh ones. */
struct MoveJob {
  const uint32_t* known;
  const uint32_t* fresh;
  /** Where the row of each block is: among the known ones, or, with the top bit, the fresh ones. */
  const uint32_t* rows;
  uint32_t* out;
  /** Of a row. */
  size_t words;
};

__global__ void moveRows(const MoveJob job) {
  const uint32_t from = job.rows[blockIdx.x];
  const uint32_t* const row = (from >> 31 ? job.fresh : job.known) + (from & 0x7fffffffu) * job.words;
  for (size_t i = threadIdx.x; i < job.words; i += blockDim.x) job.out[blockIdx.x * job.words + i] = row[i];
}

// — the best of many keys —
//
// What is compared is key·2^32 + (2^32 − 1 − position), so that no two are equal and lower
// positions win. The limit-th largest is found digit by digit from the top: a histogram of the
// digit among those that begin alike, then the digit in which it is.

constexpr int kDigitBits = 11, kDigits = 1 << kDigitBits, kPasses = 6;
constexpr int kSelectThreads = 256;

struct Selection {
  unsigned long long prefix;
  /** Everything from here on is selected. */
  unsigned long long from;
  uint32_t left, found;
  uint32_t done;
  uint32_t digits[kDigits];
};

struct SelectJob {
  const uint32_t* keys;
  uint32_t blocks, perBlock;
  /** Blocks whose largest key is below *bound >> 32 have nothing to give; null: all are looked at. */
  const uint32_t* best;
  const unsigned long long* bound;
  Selection* selection;
};

__device__ __forceinline__ unsigned long long rankOf(uint32_t key, uint32_t position) {
  return static_cast<unsigned long long>(key) << 32 | ~position;
}

__device__ __forceinline__ bool mayGive(const SelectJob& job, uint32_t block) { return !job.best || job.best[block] >= *job.bound >> 32; }

__global__ void beginSelection(Selection* selection, uint32_t limit) {
  for (uint32_t i = threadIdx.x; i < kDigits; i += blockDim.x) selection->digits[i] = 0;
  if (threadIdx.x == 0) selection->prefix = selection->from = 0, selection->left = limit, selection->found = selection->done = 0;
}

/** Blocks of threads take turns with the blocks, or with a thousand keys where a block has one. */
__global__ void countDigits(const SelectJob job, int pass) {
  if (job.selection->done) return;
  __shared__ uint32_t counts[kDigits];
  for (uint32_t i = threadIdx.x; i < kDigits; i += blockDim.x) counts[i] = 0;
  __syncthreads();
  const int before = 64 - kDigitBits * pass, shift = before > kDigitBits ? before - kDigitBits : 0;
  const unsigned long long prefix = job.selection->prefix;
  const uint32_t mask = (1u << (before - shift)) - 1;
  const uint32_t run = job.perBlock == 1 ? 1024 : 1;
  for (uint32_t first = blockIdx.x * run; first < job.blocks; first += gridDim.x * run) {
    if (!mayGive(job, first)) continue;
    const uint32_t end = min(job.blocks, first + run) * job.perBlock;
    for (uint32_t position = first * job.perBlock + threadIdx.x; position < end; position += blockDim.x) {
      const uint32_t key = job.keys[position];
      const unsigned long long rank = rankOf(key, position);
      if (key != 0 && (pass == 0 || rank >> before == prefix)) atomicAdd(&counts[rank >> shift & mask], 1u);
    }
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kDigits; i += blockDim.x) {
    if (counts[i] != 0) atomicAdd(&job.selection->digits[i], counts[i]);
  }
}

/** One block of kSelectThreads threads. */
__global__ void pickDigit(Selection* selection, int pass) {
  if (selection->done) return;
  constexpr int each = kDigits / kSelectThreads;
  __shared__ uint32_t sums[kSelectThreads];
  uint32_t counts[each], sum = 0;
  for (int i = 0; i < each; i++) {
    counts[i] = selection->digits[threadIdx.x * each + i];
    selection->digits[threadIdx.x * each + i] = 0;
    sum += counts[i];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  // Those that threads further up have.
  uint32_t above = 0, all = 0;
  for (uint32_t i = 0; i < kSelectThreads; i++) {
    all += sums[i];
    if (i > threadIdx.x) above += sums[i];
  }
  const uint32_t left = selection->left;
  const int before = 64 - kDigitBits * pass, shift = before > kDigitBits ? before - kDigitBits : 0;
  __syncthreads();
  if (all <= left) {
    // Only in the first pass: all there are, and those have keys.
    if (threadIdx.x == 0) selection->from = 1ull << 32, selection->done = 1;
    return;
  }
  if (above >= left || above + sum < left) return;
  for (int i = each - 1; i >= 0; i--) {
    if (above + counts[i] < left) {
      above += counts[i];
      continue;
    }
    selection->prefix = selection->prefix << (before - shift) | (threadIdx.x * each + i);
    selection->left = left - above;
    if (counts[i] == left - above) selection->from = selection->prefix << shift, selection->done = 1;
    return;
  }
}

struct Ranked {
  uint32_t key, position;
  /** Its number among the records of the block: canaries are none. */
  uint32_t record;
};

__global__ void collectSelected(const SelectJob job, uint32_t limit, const DecryptJob of, Ranked* out) {
  const unsigned long long from = job.selection->from;
  for (uint32_t block = blockIdx.x; block < job.blocks; block += gridDim.x) {
    if (!mayGive(job, block)) continue;
    const uint32_t end = (block + 1) * job.perBlock;
    for (uint32_t position = block * job.perBlock + threadIdx.x; position < end; position += blockDim.x) {
      const uint32_t key = job.keys[position];
      if (key == 0 || rankOf(key, position) < from) continue;
      const uint32_t at = atomicAdd(&job.selection->found, 1u);
      if (at >= limit) continue;
      const uint32_t slot = position % job.perBlock, ordered = of.orders ? of.ordered[block] : 0;
      uint32_t record = slot;
      for (uint32_t l = 0; l < of.canaries; l++) record -= of.slots[size_t{block} * of.canaries + l] < slot;
      for (uint32_t c = 0; ordered > 0 && c < groupsAmong(ordered, of.group); c++) {
        record -= of.orders[size_t{block} * job.perBlock + placeOfGroup(c, ordered, of.group).at] < slot;
      }
      out[at] = {key, position, record};
    }
  }
}

}  // namespace hers_cuda
