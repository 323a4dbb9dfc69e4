// The variant for AVX-512 F, DQ, BW and VL; compiled with its own flags (tools/addon.ts).

#include "lanes_avx512.h"

#include "checksums.h"
#include "expand.h"
#include "multiply.h"
#include "pack.h"

namespace hers {

const Variant kAvx512 = {"avx512", Lanes::W, multiply, respond, expand, checksums, kChecksAlong};

}  // namespace hers
