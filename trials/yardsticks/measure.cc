#include "measure.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

#include "../../packages/scan/native/memory.h"
#include "../../packages/scan/native/tables.h"

namespace hers {
namespace {

/** Starts all threads at the same moment. */
class Gate {
 public:
  explicit Gate(size_t threads) : threads_(threads) {}
  void pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    const size_t round = round_;
    if (++here_ == threads_) {
      here_ = 0;
      round_++;
      opened_.notify_all();
    } else {
      opened_.wait(lock, [&] { return round_ != round; });
    }
  }

 private:
  const size_t threads_;
  size_t here_ = 0, round_ = 0;
  std::mutex mutex_;
  std::condition_variable opened_;
};

/** Runs `work(thread)` in every thread, this many times. Starting the threads is not counted. */
std::vector<double> repeat(size_t threads, size_t repetitions, const std::function<void(size_t)>& work) {
  std::vector<double> seconds;
  Gate gate(threads + 1);
  std::vector<std::thread> crew;
  for (size_t t = 0; t < threads; t++) {
    crew.emplace_back([&, t] {
      for (size_t i = 0; i < repetitions; i++) {
        gate.pass();
        work(t);
        gate.pass();
      }
    });
  }
  for (size_t i = 0; i < repetitions; i++) {
    const auto start = std::chrono::steady_clock::now();
    gate.pass();
    gate.pass();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  for (auto& thread : crew) thread.join();
  return seconds;
}

/** Not for secrets: xorshift64 (G. Marsaglia, 2003). */
uint64_t nextRandom(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

volatile uint64_t sink;

}  // namespace

std::vector<double> measureRead(const Loops& loops, const std::vector<std::shared_ptr<MappedFile>>& files, size_t threads,
                                size_t repetitions) {
  return repeat(threads, repetitions, [&](size_t thread) {
    uint64_t total = 0;
    for (const auto& file : files) {
      const size_t words = (file->bytes - file->from) / 8;
      const size_t from = words / threads * thread;
      const size_t until = thread + 1 == threads ? words : words / threads * (thread + 1);
      total += loops.sum(reinterpret_cast<const uint64_t*>(file->mapping->at() + file->from) + from, until - from);
    }
    sink = total;
  });
}

PlainGallery::PlainGallery(size_t count, size_t d) : count_(count), d_(d), query_(d), scores_(count) {
  const size_t bytes = count * d * sizeof(float);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(at, bytes, MADV_HUGEPAGE);
#endif
  gallery_ = static_cast<float*>(at);
  uint64_t state = 88172645463325252;
  const auto next = [&] { return static_cast<float>(static_cast<int32_t>(nextRandom(state) >> 32)) * 0x1p-31f; };
  for (size_t i = 0; i < count * d; i++) gallery_[i] = next();
  for (float& x : query_) x = next();
}

PlainGallery::~PlainGallery() { munmap(gallery_, count_ * d_ * sizeof(float)); }

std::vector<double> PlainGallery::measure(const Loops& loops, size_t threads, size_t repetitions) {
  return repeat(threads, repetitions, [&](size_t thread) {
    const size_t from = count_ / threads * thread;
    const size_t until = thread + 1 == threads ? count_ : count_ / threads * (thread + 1);
    loops.dots(gallery_ + from * d_, query_.data(), until - from, d_, scores_.data() + from);
  });
}

std::vector<double> PlainGallery::measureBlas(size_t repetitions) {
  using Sgemv = void (*)(int order, int transpose, int m, int n, float alpha, const float* a, int lda, const float* x, int incx,
                         float beta, float* y, int incy);
  constexpr int kRowMajor = 101, kNoTranspose = 111;
  void* library = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib"}) {
    if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL))) break;
  }
  if (!library) return {};
  const auto sgemv = reinterpret_cast<Sgemv>(dlsym(library, "cblas_sgemv"));
  const auto setThreads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (!sgemv || !setThreads) return {};
  setThreads(1);
  const int m = static_cast<int>(count_), n = static_cast<int>(d_);
  return repeat(1, repetitions, [&](size_t) {
    sgemv(kRowMajor, kNoTranspose, m, n, 1, gallery_, n, query_.data(), 1, 0, scores_.data(), 1);
  });
}

std::vector<double> measureCeiling(const Loops& loops, uint32_t p, size_t blocks, size_t queries, size_t rounds, size_t threads,
                                   size_t repetitions, bool packed) {
  constexpr size_t kRows = 64;
  const Modulus modulus = forMultiplying(p);
  Aligned<uint32_t> gallery(blocks * kRows * kGroup), query(queries * kRows * kQueryRow);
  uint64_t state = 88172645463325252;
  for (size_t i = 0; i < gallery.count(); i++) gallery.get()[i] = static_cast<uint32_t>(nextRandom(state) % p);
  for (size_t i = 0; i < query.count(); i++) query.get()[i] = static_cast<uint32_t>(nextRandom(state) % p);
  const int never = 0;
  return repeat(threads, repetitions, [&](size_t) {
    Aligned<uint32_t> out(queries * blocks * kQueryRow);
    Aligned<uint64_t> sums(queries * blocks * kQueryRow);
    Multiply job;
    job.part = gallery.get();
    job.query = query.get();
    job.queryStride = kRows * kQueryRow;
    job.rows = job.panelRows = kRows;
    job.packed = packed;
    job.blocks = blocks;
    job.queries = queries;
    job.isLastLone = false;
    job.modulus = &modulus;
    job.out = out.get();
    job.sums = sums.get();
    job.fetching = Fetching::kAll;
    job.checksums = nullptr;
    job.stop = &never;
    for (size_t i = 0; i < rounds; i++) loops.multiply(job);
    sink = out.get()[0];
  });
}

}  // namespace hers
