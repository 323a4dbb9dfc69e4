// XXH64 with seed 0 (xxHash specification 0.1.1): the checksum of every part and every message.

#pragma once

#include <cstddef>
#include <cstdint>

namespace hers {

uint64_t xxh64(const uint8_t* at, size_t length);

}  // namespace hers
