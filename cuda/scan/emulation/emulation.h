// CUDA on a machine without a GPU, as far as this project uses it: the device's code is compiled as
// C++, and the threads of a block are fibers that take turns, so that barriers and shuffles within a
// warp work. Memory of the device is memory of the host, and everything has happened when a call
// returns. It is slow, and for tests alone: that the arithmetic is right can be tested everywhere.
//
// `HERS_EMULATION_FAILS` makes the device fail: `no-device`, `old-driver`, `memory:<bytes>` (there is
// no more), `launch:<n>` (the n-th launch and all after it); and `doubles` makes it slow with them.
// `HERS_EMULATION_DEVICES` is how many devices there are.

#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

using std::max;
using std::min;

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __align__(n) alignas(n)
#define HERS_DYNAMIC_SHARED(name) uint32_t* const name = hers_emulation::sharedMemory()

struct uint2 {
  uint32_t x, y;
};
struct uint4 {
  uint32_t x, y, z, w;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

struct dim3 {
  uint32_t x, y, z;
  dim3(uint64_t x = 1, uint64_t y = 1, uint64_t z = 1)
      : x(static_cast<uint32_t>(x)), y(static_cast<uint32_t>(y)), z(static_cast<uint32_t>(z)) {}
};

namespace hers_emulation {

/** Where the fiber that runs is; the names are those of CUDA. */
struct Place {
  dim3 thread, block, size, grid;
};
inline thread_local Place place;

/** A barrier for those fibers of a group that have not ended. */
struct Barrier {
  uint32_t waiting = 0, alive = 0;
  uint64_t round = 0;
};

struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  bool ended = false;
};

/** What a thread gives to a product of tiles: two words of the left one, and one of the right. */
struct Tile {
  double left[2], right;
};

/** One block of threads at a time. */
class Block {
 public:
  static constexpr size_t kStack = size_t{1} << 18;
  static constexpr uint32_t kWarp = 32;

  void run(uint32_t threads, const std::function<void()>& body) {
    body_ = &body;
    while (fibers_.size() < threads) {
      fibers_.push_back(std::make_unique<Fiber>());
      fibers_.back()->stack.resize(kStack);
    }
    all_ = {0, threads, 0};
    warps_.assign((threads + kWarp - 1) / kWarp, {});
    for (uint32_t i = 0; i < threads; i++) {
      Fiber& fiber = *fibers_[i];
      warps_[i / kWarp].alive++;
      fiber.ended = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Block::enter), 0);
    }
    for (uint32_t left = threads; left > 0;) {
      for (uint32_t i = 0; i < threads; i++) {
        if (fibers_[i]->ended) continue;
        now_ = i;
        place.thread = dim3(i);
        swapcontext(&scheduler_, &fibers_[i]->context);
        if (fibers_[i]->ended) left--;
      }
    }
  }

  void waitForAll() { wait(all_); }
  void waitForWarp() { wait(warps_[now_ / kWarp]); }

  /** What lane `from` of the warp gives. */
  uint64_t exchange(uint64_t value, uint32_t from) {
    const uint32_t warp = now_ / kWarp * kWarp;
    if (given_.size() < warp + kWarp) given_.resize(warp + kWarp);
    given_[now_] = value;
    waitForWarp();
    const uint64_t got = given_[warp + from % kWarp];
    waitForWarp();
    return got;
  }
  /** Calls `read` with what every lane of the warp gives. */
  template <class Read>
  void exchangeTile(const Tile& given, Read read) {
    const uint32_t warp = now_ / kWarp * kWarp;
    if (tiles_.size() < warp + kWarp) tiles_.resize(warp + kWarp);
    tiles_[now_] = given;
    waitForWarp();
    read(tiles_.data() + warp);
    waitForWarp();
  }
  uint32_t lane() const { return now_ % kWarp; }

 private:
  static void enter();

  void wait(Barrier& barrier) {
    const uint64_t round = barrier.round;
    barrier.waiting++;
    passIfFull(barrier);
    while (barrier.round == round) yield();
  }

  static void passIfFull(Barrier& barrier) {
    if (barrier.waiting < barrier.alive) return;
    barrier.waiting = 0;
    barrier.round++;
  }

  void yield() {
    const uint32_t number = now_;
    swapcontext(&fibers_[number]->context, &scheduler_);
    now_ = number;
    place.thread = dim3(number);
  }

  void end() {
    fibers_[now_]->ended = true;
    for (Barrier* barrier : {&all_, &warps_[now_ / kWarp]}) {
      barrier->alive--;
      if (barrier->alive > 0) passIfFull(*barrier);
    }
    swapcontext(&fibers_[now_]->context, &scheduler_);
  }

  const std::function<void()>* body_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<uint64_t> given_;
  std::vector<Tile> tiles_;
  std::vector<Barrier> warps_;
  Barrier all_;
  ucontext_t scheduler_;
  uint32_t now_ = 0;
};

inline Block& block() {
  static thread_local Block made;
  return made;
}

inline void Block::enter() {
  Block& self = block();
  (*self.body_)();
  self.end();
}

inline uint32_t* sharedMemory() {
  static thread_local std::vector<uint32_t> memory((size_t{256} << 10) / 4);
  return memory.data();
}

// — faults —

inline std::string fails(const char* name) {
  const char* const all = getenv("HERS_EMULATION_FAILS");
  const std::string text = all ? all : "", wanted = name;
  if (text.compare(0, wanted.size(), wanted) != 0) return "";
  return text.size() > wanted.size() ? text.substr(wanted.size() + 1) : "yes";
}

struct Memory {
  std::mutex mutex;
  std::map<void*, size_t> sizes;
  size_t used = 0;
};
inline Memory& memory() {
  static Memory made;
  return made;
}
inline size_t& launches() {
  static size_t count = 0;
  return count;
}
/** What the device has failed with, as long as that is asked for: then every call fails with it. */
inline int& failure() {
  static int error = 0;
  return error;
}
struct Fault {
  const char* name;
  int error;
};
constexpr Fault kFaults[] = {{"launch", 719}, {"ecc", 214}, {"lost", 999}};
inline int failed() {
  for (const Fault& fault : kFaults) {
    if (failure() == fault.error && !fails(fault.name).empty()) return fault.error;
  }
  return failure() = 0;
}

}  // namespace hers_emulation

#define threadIdx (hers_emulation::place.thread)
#define blockIdx (hers_emulation::place.block)
#define blockDim (hers_emulation::place.size)
#define gridDim (hers_emulation::place.grid)

// — what threads do —

inline void __syncthreads() { hers_emulation::block().waitForAll(); }
inline void __syncwarp() { hers_emulation::block().waitForWarp(); }

template <class T>
T hersShuffle(T value, uint32_t from) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = hers_emulation::block().exchange(bits, from);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
T __shfl_sync(uint32_t, T value, uint32_t from, uint32_t width = 32) {
  const uint32_t lane = hers_emulation::block().lane();
  return hersShuffle(value, lane / width * width + from % width);
}
template <class T>
T __shfl_up_sync(uint32_t, T value, uint32_t by) {
  const uint32_t lane = hers_emulation::block().lane();
  return hersShuffle(value, lane >= by ? lane - by : lane);
}
template <class T>
T __shfl_xor_sync(uint32_t, T value, uint32_t with) {
  return hersShuffle(value, hers_emulation::block().lane() ^ with);
}

inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>(((uint64_t{high} << 32 | low) << (by & 31)) >> 32);
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (by & 31));
}
inline uint32_t __popc(uint32_t x) { return static_cast<uint32_t>(__builtin_popcount(x)); }
inline int __clz(uint32_t x) { return x == 0 ? 32 : __builtin_clz(x); }
inline uint32_t __umulhi(uint32_t x, uint32_t y) { return static_cast<uint32_t>(uint64_t{x} * y >> 32); }
inline uint32_t __float_as_uint(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
inline float __uint_as_float(uint32_t x) {
  float value;
  memcpy(&value, &x, 4);
  return value;
}
// The compiler must not join a product and a sum, which is rounded once then: files that include
// this are compiled with -ffp-contract=off.
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
inline int __double2loint(double x) {
  int64_t bits;
  memcpy(&bits, &x, 8);
  return static_cast<int>(bits);
}
inline double __hiloint2double(int high, int low) {
  const uint64_t bits = uint64_t{static_cast<uint32_t>(high)} << 32 | static_cast<uint32_t>(low);
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
T atomicMin(T* at, T value) {
  const T before = *at;
  *at = std::min(before, value);
  return before;
}
template <class T>
T atomicMax(T* at, T value) {
  const T before = *at;
  *at = std::max(before, value);
  return before;
}
template <class T>
T atomicOr(T* at, T value) {
  const T before = *at;
  *at = before | value;
  return before;
}
template <class T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at = before + value;
  return before;
}

// — the runtime —

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation = 2, cudaErrorInsufficientDriver = 35, cudaErrorNoDevice = 100, cudaErrorECCUncorrectable = 214, cudaErrorLaunchFailure = 719, cudaErrorUnknown = 999 };
using cudaStream_t = void*;
struct HersEmulatedEvent {};
using cudaEvent_t = HersEmulatedEvent*;
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventBlockingSync = 1 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr { cudaDevAttrSingleToDoublePrecisionPerfRatio, cudaDevAttrMultiProcessorCount };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
struct cudaFuncAttributes {};
struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
};
#define CUDART_VERSION 13000

inline thread_local cudaError_t hersEmulatedError = cudaSuccess;
inline cudaError_t cudaGetLastError() {
  const cudaError_t error = hersEmulatedError;
  hersEmulatedError = cudaSuccess;
  return error;
}
inline cudaError_t hersEmulatedState() { return static_cast<cudaError_t>(hers_emulation::failed()); }
inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorECCUncorrectable: return "uncorrectable ECC error encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorUnknown: return "unknown error";
    default: return "no error";
  }
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (!hers_emulation::fails("no-device").empty()) return cudaErrorNoDevice;
  if (!hers_emulation::fails("old-driver").empty()) return cudaErrorInsufficientDriver;
  const char* const devices = getenv("HERS_EMULATION_DEVICES");
  *count = devices ? std::atoi(devices) : 1;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = hers_emulation::fails("no-device").empty() ? 12000 : 0;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int) {
  *out = {"emulation", 9, 0, 1};
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr which, int) {
  *out = which == cudaDevAttrMultiProcessorCount || hers_emulation::fails("doubles").empty() ? 2 : 64;
  return cudaSuccess;
}
inline size_t hersEmulatedMemory() {
  const std::string limit = hers_emulation::fails("memory");
  return limit.empty() ? size_t{1} << 34 : std::strtoull(limit.c_str(), nullptr, 10);
}
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (hersEmulatedState() != cudaSuccess) return hersEmulatedState();
  auto& memory = hers_emulation::memory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  *total = hersEmulatedMemory();
  *free = *total > memory.used ? *total - memory.used : 0;
  return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** at, size_t bytes) {
  if (hersEmulatedState() != cudaSuccess) return hersEmulatedState();
  auto& memory = hers_emulation::memory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  *at = nullptr;
  if (memory.used + bytes > hersEmulatedMemory()) return cudaErrorMemoryAllocation;
  // What is read before it was written shows.
  *at = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!*at) return cudaErrorMemoryAllocation;
  memset(*at, 0xa5, bytes);
  memory.sizes[*at] = bytes;
  memory.used += bytes;
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* at) {
  auto& memory = hers_emulation::memory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.sizes.find(at);
  if (found != memory.sizes.end()) {
    memory.used -= found->second;
    memory.sizes.erase(found);
    std::free(at);
  }
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** at, size_t bytes) {
  if (hersEmulatedState() != cudaSuccess) return hersEmulatedState();
  *at = hers_emulation::fails("pinned").empty() ? std::malloc(bytes) : nullptr;
  if (*at) memset(*at, 0xa5, bytes);
  return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFreeHost(void* at) {
  std::free(at);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (hersEmulatedState() != cudaSuccess) return hersEmulatedState();
  memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t) {
  if (hersEmulatedState() != cudaSuccess) return hersEmulatedState();
  memset(at, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned) {
  *out = std::malloc(1);
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::free(stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return hersEmulatedState(); }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  *out = new HersEmulatedEvent;
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return hersEmulatedState(); }
inline cudaError_t cudaEventElapsedTime(float* out, cudaEvent_t, cudaEvent_t) {
  *out = 1;
  return cudaSuccess;
}
template <class F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, F) {
  return cudaSuccess;
}
template <class F>
cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int) {
  return cudaSuccess;
}

namespace hers_cuda {

/** As kernel<<<grid, threads, shared, stream>>>(arguments…). */
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 threads, size_t, cudaStream_t, const Arguments&... arguments) {
  for (const hers_emulation::Fault& fault : hers_emulation::kFaults) {
    const std::string failing = hers_emulation::fails(fault.name);
    if (!failing.empty() && ++hers_emulation::launches() >= std::strtoull(failing.c_str(), nullptr, 10)) {
      hers_emulation::failure() = fault.error;
      hersEmulatedError = static_cast<cudaError_t>(fault.error);
      return;
    }
  }
  auto& place = hers_emulation::place;
  for (uint32_t z = 0; z < grid.z; z++) {
    for (uint32_t y = 0; y < grid.y; y++) {
      for (uint32_t x = 0; x < grid.x; x++) {
        place = {dim3(0), dim3(x, y, z), threads, grid};
        place.block = dim3(x, y, z);
        const std::function<void()> body = [&] { kernel(arguments...); };
        hers_emulation::block().run(threads.x, body);
      }
    }
  }
}

}  // namespace hers_cuda
