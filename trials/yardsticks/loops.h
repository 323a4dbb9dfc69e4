// The loops of the baselines for one instruction set. Four files implement them, each compiled for
// its own.

#pragma once

#include "../../packages/scan/native/variant.h"

namespace hers {

struct Loops {
  const char* name;
  /** The kernel's own. */
  void (*multiply)(const Multiply&);
  /** The sum of all words. */
  uint64_t (*sum)(const uint64_t* words, size_t count);
  /** One float32 dot product for each of `count` rows of d. */
  void (*dots)(const float* gallery, const float* query, size_t count, size_t d, float* scores);
};

extern const Loops kGenericLoops;
#ifdef HERS_X86
extern const Loops kAvx2Loops;
extern const Loops kAvx512Loops;
extern const Loops kAvx512IfmaLoops;
#endif

}  // namespace hers
