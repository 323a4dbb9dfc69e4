// The yardsticks for every machine; see packages/scan/native/variant_generic.cc.

#include "../native/lanes_generic.h"

#include "../native/multiply.h"
#include "baseline.h"
#include "loops.h"

namespace hers {

const Loops kGenericLoops = {"generic", multiply, sumOf, dotsOf};

}  // namespace hers
