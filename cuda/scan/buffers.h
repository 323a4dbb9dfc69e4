// Memory of the device and of the host, and what to do about errors of CUDA; for libraries behind a
// plain C interface, one file each.

#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "device.h"
#include "hers_cuda.h"

namespace hers_cuda {
namespace {

thread_local std::string message;

struct Failure {
  int state;
};

[[noreturn]] void fail(int state, std::string text) {
  message = std::move(text);
  throw Failure{state};
}

void check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  // A failed call leaves its error for the next one to find, unless it is taken away.
  cudaGetLastError();
  const int state = error == cudaErrorMemoryAllocation ? HERS_CUDA_NO_MEMORY : HERS_CUDA_FAILED;
  const char* const what = state == HERS_CUDA_NO_MEMORY ? "the GPU has too little memory left" : "the GPU failed";
  fail(state, std::string(what) + " while " + doing + ": " + cudaGetErrorString(error));
}

void checkLaunch(const char* doing) { check(cudaGetLastError(), doing); }

/** Runs `body` and turns what it throws into a state. */
template <class F>
int guarded(F body) {
  try {
    body();
    return HERS_CUDA_OK;
  } catch (const Failure& failure) {
    return failure.state;
  } catch (const std::bad_alloc&) {
    message = "this machine has too little memory left";
    return HERS_CUDA_NO_MEMORY;
  } catch (const std::exception& error) {
    message = error.what();
    return HERS_CUDA_INVALID;
  }
}

/** Device memory, or pinned memory of the host. */
template <bool pinned>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }

  /** Grows to at least so many bytes, without keeping what was there. */
  void atLeast(size_t bytes, const char* what) {
    if (bytes <= bytes_) return;
    release();
    check(pinned ? cudaMallocHost(&at_, bytes) : cudaMalloc(&at_, bytes), what);
    bytes_ = bytes;
  }
  void release() {
    if (at_) pinned ? cudaFreeHost(at_) : cudaFree(at_);
    at_ = nullptr;
    bytes_ = 0;
  }
  void swap(Buffer& other) {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(at_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* at_ = nullptr;
  size_t bytes_ = 0;
};

using DeviceBuffer = Buffer<false>;
using PinnedBuffer = Buffer<true>;

}  // namespace
}  // namespace hers_cuda
