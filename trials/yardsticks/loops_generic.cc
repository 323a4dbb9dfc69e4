// The yardsticks for every machine; see packages/scan/native/variant_generic.cc.

#include "../../packages/scan/native/lanes_generic.h"

#include "../../packages/scan/native/multiply.h"
#include "baseline.h"
#include "loops.h"

namespace hers {

const Loops kGenericLoops = {"generic", multiply, sumOf, dotsOf};

}  // namespace hers
