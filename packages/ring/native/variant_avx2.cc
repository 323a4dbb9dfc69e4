// The variant for AVX2; compiled with its own flags (tools/addon.ts).

#include "lanes_avx2.h"

#include "phase.h"
#include "variant.h"
#include "vectors.h"

namespace hers {

const Variant kAvx2 = {
    "avx2",  ntt,        intt,    add,             subtract,    multiply,  multiplyAdd, multiplySubtract,
    scaleAdd, encode,     embed,   isReduced,       uniform,     ternary,   centredBinomial, uniformBits,
    blockRows, queryRows, scores, integers, squareSums, roundVectors, packThree, unpackThree,
};

}  // namespace hers
