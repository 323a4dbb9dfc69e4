// Memory that the native code works in, made once for a ring. It holds secrets while a call lasts,
// and zeros in between.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace hers {

/** Zeroes memory where a compiler would see that nobody reads it. */
inline void wipe(void* at, size_t bytes) {
  memset(at, 0, bytes);
  asm volatile("" : : "r"(at) : "memory");
}

class Work {
 public:
  /** Polynomials of two residues a coefficient at most. */
  static constexpr size_t kPolys = 6;

  explicit Work(size_t n) : n_(n) {
    const size_t bytes = size();
    memory_ = static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (!memory_) throw std::bad_alloc();
    memset(memory_, 0, bytes);
  }
  ~Work() {
    wipe(Part::all);
    std::free(memory_);
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  uint32_t* poly(size_t i) { return reinterpret_cast<uint32_t*>(memory_) + 2 * n_ * i; }
  uint32_t* words(size_t i) { return poly(kPolys) + n_ * i; }
  int8_t* noise() { return reinterpret_cast<int8_t*>(words(kWords)); }
  /** Room for 6n bytes of keystream, rounded up to what one step of it makes. */
  uint8_t* stream() { return reinterpret_cast<uint8_t*>(noise()) + n_; }

  /** Everything; two times n words, which decryption uses; or what the samplers use. */
  enum class Part { all, phase, stream };
  void wipe(Part part) {
    if (part == Part::all) hers::wipe(memory_, size());
    else if (part == Part::phase) hers::wipe(memory_, 8 * n_);
    else hers::wipe(noise(), 7 * n_ + kStep);
  }

 private:
  static constexpr size_t kWords = 3, kStep = 1024;
  size_t size() const { return 4 * n_ * (2 * kPolys + kWords) + n_ + 6 * n_ + kStep; }
  size_t n_;
  uint8_t* memory_;
};

}  // namespace hers
