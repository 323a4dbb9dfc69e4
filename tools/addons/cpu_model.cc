// What `__builtin_cpu_supports` reads. GCC has it in its run-time library, and so has clang; zig's
// clang has not. The layout and the numbers are those of libgcc (gcc/common/config/i386/cpuinfo.h);
// what no addon asks for is left out, and reads as missing.

#if defined(__x86_64__)

#include <cpuid.h>

#include <cstdint>

extern "C" {

struct {
  uint32_t vendor, type, subtype, features[1];
} __cpu_model;

int __cpu_indicator_init() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  const bool fma = c >> 12 & 1, osxsave = c >> 27 & 1, avx = c >> 28 & 1;
  if (!(osxsave && avx)) return 0;
  uint32_t saved = 0, high = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  // What the system saves: XMM and YMM; for AVX-512 also the masks, and both halves of ZMM.
  if ((saved & 0x06) != 0x06 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  uint32_t found = 1u << 9 | uint32_t{fma} << 14 | (b >> 5 & 1) << 10;
  if ((saved & 0xe6) == 0xe6) {
    // F, VL, BW, DQ, IFMA: the bit of CPUID, and the number here.
    const uint32_t sets[][2] = {{16, 15}, {31, 20}, {30, 21}, {17, 22}, {21, 27}};
    for (const auto& set : sets) found |= (b >> set[0] & 1) << set[1];
  }
  __cpu_model.features[0] = found;
  return 0;
}

}  // extern "C"

#endif
