// The variant for AVX2 and FMA; compiled with flags of its own (tools/build.ts).

#include "lanes_avx2.h"

#include "expand.h"
#include "multiply.h"
#include "pack.h"

namespace hers {

const Variant kAvx2 = {"avx2", Lanes::W, multiply, respond, expand};

}  // namespace hers
