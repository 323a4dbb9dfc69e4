// The variant for AVX2; compiled with its own flags (tools/addon.ts).

#include "lanes_avx2.h"

#include "phase.h"
#include "variant.h"
#include "vectors.h"

namespace hers {

const Variant kAvx2 = {
    "avx2",     Lanes::H,   ntt,           intt,            add,          subtract,     multiply,
    multiplyAdd, multiplySubtract, scaleAdd, encode,         embed,        isReduced,    uniform,
    ternary,    centredBinomial, uniformBits, blockRows,   queryRows,    secretPoints, scores,
    integers,   squareSums, roundVectors,  products,        closeGaps,    groupSums,    packThree,
    unpackThree,
};

}  // namespace hers
