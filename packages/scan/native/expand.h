// A pair of columns (variant.h) from the wire to the kernel's layout [slot group][row][2][16]. A
// mask is expanded from its seed.
//
// The seed is a key of ChaCha20. A residue is the next word of the stream of (domain, row, prime),
// cut to the bit length of p, that is below p (packages/ring/assembly/sample.ts).

#pragma once

#include <cstring>

#include "../../ring/lanes/chacha.h"
#include "transform.h"

namespace {

inline uint32_t littleEndian(const uint8_t* at) {
  return at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24;
}

inline void uniform(uint32_t* out, size_t n, uint32_t p, const uint8_t* key, uint32_t domain, uint32_t index, uint32_t third) {
  uint32_t state[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  for (int i = 0; i < 8; i++) state[4 + i] = littleEndian(key + 4 * i);
  state[13] = domain, state[14] = index, state[15] = third;
  uint32_t mask = p;
  for (int by = 1; by < 32; by *= 2) mask |= mask >> by;
  uint32_t words[16 * L::W];
  uint32_t* const end = out + n;
  for (; out < end; state[12] += L::W) {
    keystream(words, state);
    for (size_t i = 0; i < 16 * L::W && out < end; i += 16) {
      uint32_t taken[16];
      bool all = end - out >= 16;
      for (int j = 0; j < 16; j++) taken[j] = words[i + j] & mask;
      uint32_t most = 0;
      for (int j = 0; j < 16; j++) most = taken[j] > most ? taken[j] : most;
      all = all && most < p;
      if (all) {
        memcpy(out, taken, sizeof taken);
        out += 16;
        continue;
      }
      for (int j = 0; j < 16 && out < end; j++) {
        if (taken[j] < p) *out++ = taken[j];
      }
    }
  }
}

inline void expand(const hers::Expand& job) {
  const hers::Ring& ring = *job.ring;
  const size_t n = ring.n, words = n * ring.primes;
  for (uint32_t prime = 0; prime < ring.primes; prime++) {
    for (size_t i = 0; i < job.count && !job.second; i++) {
      const size_t row = job.first + i, given = row - job.givenFirst;
      // Rows before the first that is given wrap around.
      if (given < job.givenCount) memcpy(job.work + i * n, job.given + given * words + prime * n, 4 * n);
      else uniform(job.work + i * n, n, ring.moduli[prime].p, job.seed, job.domain, static_cast<uint32_t>(row), prime);
    }
    for (size_t at = 0; at < n; at += hers::kGroup) {
      uint32_t* out = job.out + ((prime * n + at) / hers::kGroup * job.total + job.first) * hers::kQueryRow;
      for (size_t i = 0; i < job.count; i++, out += hers::kQueryRow) {
        const size_t from = (job.first + i) * words + prime * n + at;
        memcpy(out, job.rows + from, 4 * hers::kGroup);
        memcpy(out + hers::kGroup, job.second ? job.second + from : job.work + i * n + at, 4 * hers::kGroup);
      }
    }
  }
}

}  // namespace
