// XXH64 with seed 0 (xxHash specification 0.1.1): the checksum of every part and every message. In a
// namespace of each file's own: files for instruction sets that a machine may lack share no inline
// function with others.

#pragma once

#include <cstddef>
#include <cstdint>

namespace hers {
namespace {

constexpr uint64_t kXxhP1 = 0x9e3779b185ebca87, kXxhP2 = 0xc2b2ae3d27d4eb4f, kXxhP3 = 0x165667b19e3779f9;
constexpr uint64_t kXxhP4 = 0x85ebca77c2b2ae63, kXxhP5 = 0x27d4eb2f165667c5;

inline uint64_t xxhRotate(uint64_t x, int by) { return x << by | x >> (64 - by); }
inline uint64_t xxhRound(uint64_t lane, uint64_t word) { return xxhRotate(lane + word * kXxhP2, 31) * kXxhP1; }
inline uint64_t xxhMerge(uint64_t hash, uint64_t lane) { return (hash ^ xxhRound(0, lane)) * kXxhP1 + kXxhP4; }

// Byte by byte, so that it is right on every machine; compilers turn it into one load.
inline uint64_t xxhWord32(const uint8_t* p) {
  return p[0] | uint64_t{p[1]} << 8 | uint64_t{p[2]} << 16 | uint64_t{p[3]} << 24;
}
inline uint64_t xxhWord64(const uint8_t* p) { return xxhWord32(p) | xxhWord32(p + 4) << 32; }

inline uint64_t xxhJoined(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  const uint64_t hash = xxhRotate(a, 1) + xxhRotate(b, 7) + xxhRotate(c, 12) + xxhRotate(d, 18);
  return xxhMerge(xxhMerge(xxhMerge(xxhMerge(hash, a), b), c), d);
}

inline uint64_t xxhMixed(uint64_t hash) {
  hash = (hash ^ hash >> 33) * kXxhP2;
  hash = (hash ^ hash >> 29) * kXxhP3;
  return hash ^ hash >> 32;
}

/** Of what precedes the last length mod 32 bytes: four lanes, where that is not nothing. */
inline void xxh64Lanes(uint64_t* lanes, const uint8_t* at, size_t length) {
  uint64_t a = kXxhP1 + kXxhP2, b = kXxhP2, c = 0, d = 0 - kXxhP1;
  for (const uint8_t* const end = at + length / 32 * 32; at < end; at += 32) {
    a = xxhRound(a, xxhWord64(at));
    b = xxhRound(b, xxhWord64(at + 8));
    c = xxhRound(c, xxhWord64(at + 16));
    d = xxhRound(d, xxhWord64(at + 24));
  }
  lanes[0] = a, lanes[1] = b, lanes[2] = c, lanes[3] = d;
}

/** The rest of it, from the lanes. */
inline uint64_t xxh64End(const uint64_t* lanes, const uint8_t* at, size_t length) {
  uint64_t hash = (length >= 32 ? xxhJoined(lanes[0], lanes[1], lanes[2], lanes[3]) : kXxhP5) + length;
  const uint8_t* const end = at + length;
  at += length / 32 * 32;
  for (; end - at >= 8; at += 8) hash = xxhRotate(hash ^ xxhRound(0, xxhWord64(at)), 27) * kXxhP1 + kXxhP4;
  if (end - at >= 4) {
    hash = xxhRotate(hash ^ xxhWord32(at) * kXxhP1, 23) * kXxhP2 + kXxhP3;
    at += 4;
  }
  for (; at < end; at++) hash = xxhRotate(hash ^ *at * kXxhP5, 11) * kXxhP1;
  return xxhMixed(hash);
}

inline uint64_t xxh64(const uint8_t* at, size_t length) {
  uint64_t lanes[4];
  xxh64Lanes(lanes, at, length);
  return xxh64End(lanes, at, length);
}

}  // namespace
}  // namespace hers
