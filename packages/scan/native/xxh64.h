// XXH64 with seed 0 (xxHash specification 0.1.1): the checksum of every part and every message.

#pragma once

#include <cstddef>
#include <cstdint>

namespace hers {

uint64_t xxh64(const uint8_t* at, size_t length);

constexpr uint64_t kXxhP1 = 0x9e3779b185ebca87, kXxhP2 = 0xc2b2ae3d27d4eb4f;

/** The end of it for a length that is a multiple of 32 and not 0, from its four lanes. */
uint64_t xxh64End(const uint64_t* lanes, size_t length);

}  // namespace hers
