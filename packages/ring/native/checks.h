// What checking a response by its canaries takes: packages/ring/src/checks.ts, which is slow and
// plain, defines what comes out. Numbers are added in its order, or are whole and exact in any.

#pragma once

#include <cstring>

#include "arithmetic.h"
#include "work.h"

namespace {

/** ⟨values_l, probe⟩ of whole numbers, for each of `count` rows. */
inline void products(double* out, const int32_t* values, const double* probe, size_t count, size_t width) {
  for (size_t l = 0; l < count; l++) {
    const int32_t* const row = values + l * width;
    auto a = L::splatF(0), b = L::splatF(0);
    size_t i = 0;
    for (; i + 2 * L::H <= width; i += 2 * L::H) {
      a = L::plusProduct(a, L::toDoubles(row + i), L::loadF(probe + i));
      b = L::plusProduct(b, L::toDoubles(row + i + L::H), L::loadF(probe + i + L::H));
    }
    double parts[L::H], sum = 0;
    L::storeF(parts, L::addF(a, b));
    for (const double part : parts) sum += part;
    for (; i < width; i++) sum += row[i] * probe[i];
    out[l] = sum;
    hers::wipe(parts, sizeof parts);
  }
}

/** Moves what follows each of the ascending slots down, over all of them. */
inline void closeGaps(uint32_t* values, size_t length, const uint32_t* slots, size_t count) {
  for (size_t l = 0; l < count; l++) {
    const size_t from = slots[l] + size_t{1}, end = l + 1 < count ? slots[l + 1] : length;
    // Runs are short, so that a call of memmove would take longer. Upwards, because it moves down.
    uint32_t* to = values + slots[l] - l;
    size_t i = from;
    for (; i + L::W <= end; i += L::W, to += L::W) L::store(to, L::load(values + i));
    for (; i < end; i++) *to++ = values[i];
  }
}

/** The weighted sums of `step` groups that lie side by side in `order`: see Checksums in scheme. */
inline void groupSums(double* out, const float* scores, const uint16_t* order, size_t step, size_t size, size_t plus, double divisor) {
  size_t c = 0;
  for (; c + L::H <= step; c += L::H) {
    const uint16_t* at = order + c;
    auto sum = L::mulF(L::splatF(-divisor), L::gather(scores, at));
    size_t e = 1;
    for (; e <= plus; e++) sum = L::addF(sum, L::gather(scores, at += step));
    for (; e <= size; e++) sum = L::subF(sum, L::gather(scores, at += step));
    L::storeF(out + c, sum);
  }
  for (; c < step; c++) {
    const uint16_t* at = order + c;
    double sum = -divisor * scores[*at];
    asm("" : "+x"(sum));  // rounded: no compiler can contract it with an addition
    size_t e = 1;
    for (; e <= plus; e++) sum += scores[*(at += step)];
    for (; e <= size; e++) sum -= scores[*(at += step)];
    out[c] = sum;
  }
}

}  // namespace
