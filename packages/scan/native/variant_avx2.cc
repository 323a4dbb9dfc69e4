// The variant for AVX2 and FMA; compiled with its own flags (tools/addon.ts).

#include "lanes_avx2.h"

#include "checksums.h"
#include "expand.h"
#include "multiply.h"
#include "pack.h"

namespace hers {

const Variant kAvx2 = {"avx2", Lanes::W, multiply, respond, expand, checksums, kChecksAlong};

}  // namespace hers
