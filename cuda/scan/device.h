// CUDA, or its emulation on a machine without a GPU (emulation/emulation.h).

#pragma once

#ifdef HERS_EMULATED
#include "emulation/emulation.h"
#else
#include <cuda_runtime.h>
#define HERS_DYNAMIC_SHARED(name) extern __shared__ __align__(16) uint32_t name[]

namespace hers_cuda {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 threads, size_t shared, cudaStream_t stream, const Arguments&... arguments) {
  kernel<<<grid, threads, shared, stream>>>(arguments...);
}

}  // namespace hers_cuda
#endif
