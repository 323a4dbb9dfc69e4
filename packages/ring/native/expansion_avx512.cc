// The variant for AVX-512; compiled with its own flags (tools/addon.ts).

#include "lanes_avx512.h"

#include "expansion_lanes.h"

namespace hers {

const ExpansionVariant kExpansionAvx512 = {"avx512", expand, pack};

}  // namespace hers
