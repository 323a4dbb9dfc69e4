// Memory aligned to cache lines, freed with its owner.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace hers {

template <class T>
class Aligned {
 public:
  Aligned() = default;
  explicit Aligned(size_t count) : count_(count) {
    const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    if (bytes > 0 && !(at_ = static_cast<T*>(aligned_alloc(64, bytes)))) throw std::bad_alloc();
  }
  Aligned(Aligned&& other) noexcept { *this = std::move(other); }
  Aligned& operator=(Aligned&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Aligned() { free(at_); }

  T* get() const { return at_; }
  size_t count() const { return count_; }
  /** Grows to at least `count`, without keeping the content. */
  T* atLeast(size_t count) {
    if (count_ < count) {
      *this = Aligned();
      *this = Aligned(count);
    }
    return at_;
  }

 private:
  T* at_ = nullptr;
  size_t count_ = 0;
};

}  // namespace hers
