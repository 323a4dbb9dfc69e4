// How large the L1 cache of this machine is, as far as the processor says.

#pragma once

#include <cstddef>
#include <cstdint>

#ifdef HERS_X86
#include <cpuid.h>
#endif

namespace hers {

/** Whether it holds 48 KB of data or more; false where that is not known. */
inline bool isL1Large() {
#ifdef HERS_X86
  // The first cache of the list is that of data. AMD has it in a leaf of its own, of the same form.
  for (const uint32_t leaf : {0x8000001du, 4u}) {
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(leaf, 0, &a, &b, &c, &d) || (a & 31) != 1) continue;
    const size_t ways = (b >> 22) + 1, partitions = (b >> 12 & 1023) + 1, line = (b & 4095) + 1, sets = size_t{c} + 1;
    return ways * partitions * line * sets >= 48 * 1024;
  }
#endif
  return false;
}

}  // namespace hers
