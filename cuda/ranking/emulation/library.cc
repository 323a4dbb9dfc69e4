// The library, compiled for the emulation.

#define HERS_EMULATED 1
#include "../library.cu"

/** By which the build knows what it was made from. */
extern "C" {
__attribute__((used, visibility("default"))) extern const char hersStamp[] = HERS_STAMP;
}
