#include "xxh64.h"

namespace hers {
namespace {

constexpr uint64_t kP1 = kXxhP1, kP2 = kXxhP2, kP3 = 0x165667b19e3779f9;
constexpr uint64_t kP4 = 0x85ebca77c2b2ae63, kP5 = 0x27d4eb2f165667c5;

inline uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }
inline uint64_t round(uint64_t lane, uint64_t word) { return rotate(lane + word * kP2, 31) * kP1; }
inline uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ round(0, lane)) * kP1 + kP4; }

// Byte by byte, so that it is right on every machine; compilers turn it into one load.
inline uint64_t word32(const uint8_t* p) {
  return p[0] | uint64_t{p[1]} << 8 | uint64_t{p[2]} << 16 | uint64_t{p[3]} << 24;
}
inline uint64_t word64(const uint8_t* p) { return word32(p) | word32(p + 4) << 32; }

inline uint64_t joined(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  const uint64_t hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
  return merge(merge(merge(merge(hash, a), b), c), d);
}

inline uint64_t mixed(uint64_t hash) {
  hash = (hash ^ hash >> 33) * kP2;
  hash = (hash ^ hash >> 29) * kP3;
  return hash ^ hash >> 32;
}

}  // namespace

uint64_t xxh64End(const uint64_t* lanes, size_t length) {
  return mixed(joined(lanes[0], lanes[1], lanes[2], lanes[3]) + length);
}

uint64_t xxh64(const uint8_t* at, size_t length) {
  const uint8_t* const end = at + length;
  uint64_t hash = kP5;
  if (length >= 32) {
    uint64_t a = kP1 + kP2, b = kP2, c = 0, d = 0 - kP1;
    for (; end - at >= 32; at += 32) {
      a = round(a, word64(at));
      b = round(b, word64(at + 8));
      c = round(c, word64(at + 16));
      d = round(d, word64(at + 24));
    }
    hash = joined(a, b, c, d);
  }
  hash += length;
  for (; end - at >= 8; at += 8) hash = rotate(hash ^ round(0, word64(at)), 27) * kP1 + kP4;
  if (end - at >= 4) {
    hash = rotate(hash ^ word32(at) * kP1, 23) * kP2 + kP3;
    at += 4;
  }
  for (; at < end; at++) hash = rotate(hash ^ *at * kP5, 11) * kP1;
  return mixed(hash);
}

}  // namespace hers
