// The variant for AVX2; compiled with its own flags (tools/addon.ts).

#include "lanes_avx2.h"

#include "expansion_lanes.h"

namespace hers {

const ExpansionVariant kExpansionAvx2 = {"avx2", expand, pack};

}  // namespace hers
