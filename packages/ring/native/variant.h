// The code for one instruction set, behind plain function pointers. Two files implement it from the
// same templates.

#pragma once

#include "ring.h"
#include "work.h"

namespace hers {

struct Variant {
  const char* name;
  /** Doubles of a vector. */
  size_t doubles;
  void (*ntt)(uint32_t* a, const uint32_t* tables, uint32_t n, uint32_t p);
  void (*intt)(uint32_t* a, const uint32_t* tables, uint32_t n, uint32_t p, uint32_t scale, uint32_t last);
  void (*add)(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p);
  void (*subtract)(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p);
  void (*multiply)(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p, uint32_t mu, uint32_t shift);
  void (*multiplyAdd)(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p, uint32_t mu, uint32_t shift);
  void (*multiplySubtract)(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t n, uint32_t p, uint32_t mu, uint32_t shift);
  void (*scaleAdd)(uint32_t* out, const uint32_t* a, uint32_t w, uint32_t n, uint32_t p);
  void (*encode)(uint32_t* out, const uint32_t* values, const uint32_t* noise, uint32_t w, uint32_t n, uint32_t p);
  void (*embed)(uint32_t* out, const uint32_t* values, uint32_t n, uint32_t p);
  bool (*isReduced)(const uint32_t* a, uint32_t n, uint32_t p);
  void (*uniform)(uint32_t* out, uint32_t n, uint32_t p, const Source&, uint32_t third, Work&);
  void (*ternary)(uint32_t* out, uint32_t n, const Source&, Work&);
  void (*centredBinomial)(uint32_t* out, uint32_t n, const Source&, Work&);
  void (*uniformBits)(uint32_t* out, uint32_t n, uint32_t t, const Source&, Work&);
  void (*blockRows)(const BlockRows&, Work&);
  void (*queryRows)(const QueryRows&, Work&);
  /** n doubles of a secret, for the two below. */
  void (*secretPoints)(double* out, const uint32_t* secret, const Ring&, const Roots&, Work&);
  /** Floats, and the largest |phase|. */
  double (*scores)(float* out, const Phase&, float factor, float offset, Work&);
  /** The nearest integers, and the largest distance from one. */
  double (*integers)(int32_t* out, const Phase&, double factor, Work&);
  /** Vectors, one after the other: the sum of squares of each, in the order of its coordinates. */
  void (*squareSums)(double* out, const float* data, size_t count, size_t dimension);
  /** Rounded and transposed: see packages/ring/src/vectors.ts. */
  void (*roundVectors)(int32_t* out, double* squares, const float* data, const double* factors, double steps, size_t count, size_t dimension);
  /** Of canaries: see vectors.h. */
  void (*products)(double* out, const int32_t* values, const double* probe, size_t count, size_t width);
  void (*closeGaps)(uint32_t* values, size_t length, const uint32_t* slots, size_t count);
  void (*groupSums)(double* out, const float* scores, const uint16_t* order, size_t step, size_t size, size_t plus, double divisor);
  /** Words below 2^24 to three bytes each, and back. */
  void (*packThree)(uint8_t* out, const uint32_t* words, size_t count);
  void (*unpackThree)(uint32_t* out, const uint8_t* bytes, size_t count);
};

#ifdef HERS_X86
extern const Variant kAvx2;
extern const Variant kAvx512;
#endif

}  // namespace hers
