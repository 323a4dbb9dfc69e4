// Negacyclic transforms (packages/scan/native/transform.h) in the registers of a block of threads,
// 16 words each, with exchanges through shared memory in between.

#pragma once

#include <cstdint>

#include "device.h"

namespace hers_cuda {

struct DeviceModulus {
  uint32_t p, negativeInverse;
  /** 2^32 mod p. */
  uint32_t foldBy;
  uint32_t reciprocal;
  uint2 scale, last;
  /** ψ^−brv(i) with its Shoup companion. */
  const uint2* inverses;
};

/** x·w mod p in [0, 2p) for any word x. */
__device__ __forceinline__ uint32_t mulShoup(uint32_t x, uint2 w, uint32_t p) { return x * w.x - __umulhi(x, w.y) * p; }
/** x − p where that does not wrap, else x. */
__device__ __forceinline__ uint32_t reduceOnce(uint32_t x, uint32_t p) { return min(x, x - p); }
/** One word is left out after every 16, so that strides of 16 hit different banks. */
__device__ __forceinline__ uint32_t padded(uint32_t i) { return i + i / 16; }

/** 16 words of a thread, or as many groups of 2^k as that is. */
constexpr int kEach = 16;

/**
 * The stages of strides 2^s … 2^(s+k−1) of the inverse transform (native/transform.h) for the words
 * of one thread: `x[g·2^k + m]` is word `base + m·2^s` of group g.
 */
template <int logN, int s, int k>
__device__ __forceinline__ void stages(uint32_t (&x)[kEach], uint32_t thread, const DeviceModulus& m) {
  constexpr uint32_t n = 1u << logN, threads = n / kEach;
  const uint32_t p = m.p, p2 = 2 * p;
#pragma unroll
  for (int g = 0; g < kEach >> k; g++) {
    const uint32_t high = (thread + g * threads) >> s;
#pragma unroll
    for (int q = 0; q < k; q++) {
      constexpr bool isLastPass = s + k == logN;
      const bool isLast = isLastPass && q == k - 1;
#pragma unroll
      for (int i = 0; i < 1 << k; i++) {
        if (i >> q & 1) continue;
        uint32_t& a = x[(g << k) + i];
        uint32_t& b = x[(g << k) + i + (1 << q)];
        const uint32_t sum = a + b, difference = a - b + p2;
        if (isLast) {
          a = reduceOnce(mulShoup(sum, m.scale, p), p);
          b = reduceOnce(mulShoup(difference, m.last, p), p);
        } else {
          const uint32_t twiddle = (n >> (s + q + 1)) + (high << (k - q - 1)) + (i >> (q + 1));
          a = reduceOnce(sum, p2);
          b = mulShoup(difference, __ldg(m.inverses + twiddle), p);
        }
      }
    }
  }
}

/**
 * The same stages of the forward transform, the largest stride first. Takes words below 4p, and
 * leaves such.
 */
template <int logN, int s, int k>
__device__ __forceinline__ void forwardStages(uint32_t (&x)[kEach], uint32_t thread, uint32_t p, const uint2* roots) {
  constexpr uint32_t n = 1u << logN, threads = n / kEach;
  const uint32_t p2 = 2 * p;
#pragma unroll
  for (int g = 0; g < kEach >> k; g++) {
    const uint32_t high = (thread + g * threads) >> s;
#pragma unroll
    for (int q = k - 1; q >= 0; q--) {
#pragma unroll
      for (int i = 0; i < 1 << k; i++) {
        if (i >> q & 1) continue;
        uint32_t& a = x[(g << k) + i];
        uint32_t& b = x[(g << k) + i + (1 << q)];
        const uint32_t twiddle = (n >> (s + q + 1)) + (high << (k - q - 1)) + (i >> (q + 1));
        const uint32_t left = reduceOnce(a, p2), right = mulShoup(b, __ldg(roots + twiddle), p);
        a = left + right;
        b = left - right + p2;
      }
    }
  }
}

template <int logN, int s, int k>
__device__ __forceinline__ uint32_t wordOf(uint32_t thread, int i) {
  const uint32_t group = thread + (i >> k) * ((1u << logN) / kEach);
  return (group >> s) << (s + k) | (i & ((1 << k) - 1)) << s | (group & ((1 << s) - 1));
}

template <int logN, int s, int k>
__device__ __forceinline__ void toShared(uint32_t* shared, const uint32_t (&x)[kEach], uint32_t thread) {
#pragma unroll
  for (int i = 0; i < kEach; i++) shared[padded(wordOf<logN, s, k>(thread, i))] = x[i];
}

template <int logN, int s, int k>
__device__ __forceinline__ void fromShared(uint32_t (&x)[kEach], const uint32_t* shared, uint32_t thread) {
#pragma unroll
  for (int i = 0; i < kEach; i++) x[i] = shared[padded(wordOf<logN, s, k>(thread, i))];
}

}  // namespace hers_cuda
