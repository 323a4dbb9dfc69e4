// The samplers, which consume the expandable generator (../lanes/chacha.h): those of
// packages/ring/assembly/sample.ts, byte for byte.
//
// What a sampler gives out decides no branch and no address. How many words or bytes it has to
// discard does, as in WebAssembly: those are independent of what is kept.

#pragma once

#include "../lanes/chacha.h"
#include "arithmetic.h"
#include "work.h"

namespace {

using hers::Source;
using hers::Work;

class Stream {
 public:
  /** Bytes of a step. */
  static constexpr size_t kStep = 64 * L::W;

  Stream(const Source& source, uint32_t third) {
    memcpy(state_ + 4, source.key, 32);
    state_[13] = source.domain, state_[14] = source.index, state_[15] = third;
  }
  ~Stream() { hers::wipe(state_, sizeof state_); }

  /** The next steps that make at least that many bytes. */
  void next(uint8_t* out, size_t bytes) {
    for (uint8_t* const end = out + bytes; out < end; out += kStep, state_[12] += L::W)
      keystream(reinterpret_cast<uint32_t*>(out), state_);
  }

 private:
  uint32_t state_[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
};

/** n residues uniform in [0, p): words masked to p's bit length, those not below p discarded. */
inline void uniform(uint32_t* out, uint32_t n, uint32_t p, const Source& source, uint32_t third, Work& work) {
  Stream stream(source, third);
  uint32_t mask = p;
  for (int by = 1; by < 32; by *= 2) mask |= mask >> by;
  const U P = L::splat(p), all = L::splat(mask);
  uint32_t* const end = out + n;
  const uint32_t* const words = reinterpret_cast<const uint32_t*>(work.stream());
  for (size_t bytes = 4 * size_t{n}; out < end; bytes = Stream::kStep) {
    // Steps are whole: what is left over of the first is looked at, too.
    const size_t made = (bytes + Stream::kStep - 1) / Stream::kStep * Stream::kStep / 4;
    stream.next(work.stream(), bytes);
    for (size_t i = 0; i < made && out < end; i += L::W) {
      const U x = L::bitAnd(L::load(words + i), all);
      if (end - out >= L::W && L::allBelow(x, P)) {
        L::store(out, x);
        out += L::W;
        continue;
      }
      for (int lane = 0; lane < L::W && out < end; lane++) {
        const uint32_t word = words[i + lane] & mask;
        if (word < p) *out++ = word;
      }
    }
  }
}

/** n signed words uniform in {−1, 0, 1}: bytes other than 255, modulo 3, with 2 for −1. */
inline void ternary(uint32_t* out, uint32_t n, const Source& source, Work& work) {
  Stream stream(source, 0);
  uint32_t* const end = out + n;
  while (out < end) {
    stream.next(work.stream(), Stream::kStep);
    const uint8_t* const bytes = work.stream();
    size_t i = 0;
    // Whole vectors while they fit: discarded bytes leave no gap, since the next ones begin there.
    for (; i < Stream::kStep && end - out >= L::W; i += L::W) {
      const U byte = L::widenUnsigned(bytes + i);
      const U third = L::shiftRightSigned(L::mulLow(byte, L::splat(171)), 9);
      const U residue = L::sub(byte, L::mulLow(third, L::splat(3)));
      const U value = L::sub(residue, L::mulLow(L::shiftRightSigned(residue, 1), L::splat(3)));
      if (L::allBelow(byte, L::splat(255))) {
        L::store(out, value);
        out += L::W;
        continue;
      }
      uint32_t words[L::W];
      L::store(words, value);
      for (int lane = 0; lane < L::W; lane++) {
        *out = words[lane];
        out += bytes[i + lane] != 255;
      }
      hers::wipe(words, sizeof words);
    }
    for (; i < Stream::kStep && out < end; i++) {
      const uint32_t byte = bytes[i], residue = byte - 3 * ((byte * 171) >> 9);
      *out = residue - 3 * (residue >> 1);
      out += byte != 255;
    }
  }
}

/** n signed bytes, centred binomial with η = 21: sixteen from six planes of sixteen bytes. */
inline void noise(int8_t* out, uint32_t n, const Source& source, Work& work) {
  static const struct Planes {
    uint8_t bytes[192];
    constexpr Planes() : bytes{} {
      for (int i = 0; i < 192; i++) bytes[i] = i % 48 >= 32 ? 31 : 255;
    }
  } planes;
  uint8_t* const bytes = work.stream();
  Stream stream(source, 0);
  stream.next(bytes, 6 * size_t{n});
  constexpr size_t V = 4 * L::W;
  const U masks[3] = {L::load(planes.bytes), L::load(planes.bytes + V), L::load(planes.bytes + 2 * V)};
  for (size_t i = 0; i < 6 * size_t{n}; i += 3 * V)
    for (int k = 0; k < 3; k++)
      L::store(bytes + i + k * V, L::popcountBytes(L::bitAnd(L::load(bytes + i + k * V), masks[k])));
  const auto plane = [](const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); };
  const uint8_t* at = bytes;
  for (size_t i = 0; i < n; i += 16, at += 96) {
    const __m128i plus = _mm_add_epi8(_mm_add_epi8(plane(at), plane(at + 16)), plane(at + 32));
    const __m128i minus = _mm_add_epi8(_mm_add_epi8(plane(at + 48), plane(at + 64)), plane(at + 80));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_sub_epi8(plus, minus));
  }
}

inline void centredBinomial(uint32_t* out, uint32_t n, const Source& source, Work& work) {
  noise(work.noise(), n, source, work);
  for (size_t i = 0; i < n; i += L::W) L::store(out + i, L::widen(work.noise() + i));
}

/** n words uniform in [0, 2^t), t ≤ 8: the low bits of one byte of the keystream each. */
inline void uniformBits(uint32_t* out, uint32_t n, uint32_t t, const Source& source, Work& work) {
  Stream stream(source, 0);
  stream.next(work.stream(), n);
  const U mask = L::splat((1u << t) - 1);
  for (size_t i = 0; i < n; i += L::W) L::store(out + i, L::bitAnd(L::widenUnsigned(work.stream() + i), mask));
}

}  // namespace
