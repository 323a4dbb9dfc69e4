// The yardsticks for AVX2; see packages/scan/native/variant_avx2.cc.

#include "../../packages/scan/native/lanes_avx2.h"

#include "../../packages/scan/native/multiply.h"
#include "baseline.h"
#include "loops.h"

namespace hers {

const Loops kAvx2Loops = {"avx2", multiply, sumOf, dotsOf};

}  // namespace hers
