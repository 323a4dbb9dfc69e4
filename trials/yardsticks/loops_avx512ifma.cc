// The yardsticks for AVX-512 with IFMA; see packages/scan/native/variant_avx512ifma.cc.

#include "../../packages/scan/native/lanes_avx512.h"

#include "../../packages/scan/native/multiply.h"
#include "baseline.h"
#include "loops.h"

namespace hers {

const Loops kAvx512IfmaLoops = {"avx512ifma", multiply, sumOf, dotsOf};

}  // namespace hers
