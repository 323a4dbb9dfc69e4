// The yardsticks for AVX-512; see packages/scan/native/variant_avx512.cc.

#include "../../packages/scan/native/lanes_avx512.h"

#include "../../packages/scan/native/multiply.h"
#include "baseline.h"
#include "loops.h"

namespace hers {

const Loops kAvx512Loops = {"avx512", multiply, sumOf, dotsOf};

}  // namespace hers
