// The variant for every machine: plain C++.

#include "lanes_generic.h"

#include "checksums.h"
#include "expand.h"
#include "multiply.h"
#include "pack.h"

namespace hers {

const Variant kGeneric = {"generic", Lanes::W, multiply, respond, expand, checksums, kChecksAlong};

}  // namespace hers
