// Memory aligned to cache lines, freed with its owner or left for a later scan.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

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

/**
 * Memory that scans leave for later ones: for a small gallery, fresh pages cost more time than the
 * transforms.
 */
class Spares {
 public:
  /** At least `count` words, uninitialized. */
  Aligned<uint32_t> take(size_t count) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      size_t best = spares_.size();
      for (size_t i = 0; i < spares_.size(); i++) {
        const size_t words = spares_[i].count();
        const bool fits = words >= count && words / 2 <= count;
        if (fits && (best == spares_.size() || words < spares_[best].count())) best = i;
      }
      if (best < spares_.size()) {
        Aligned<uint32_t> found = std::move(spares_[best]);
        spares_.erase(spares_.begin() + static_cast<ptrdiff_t>(best));
        words_ -= found.count();
        return found;
      }
    }
    return Aligned<uint32_t>(count);
  }

  /** Keeps it, and frees what was kept longest. */
  void give(Aligned<uint32_t> memory) {
    if (memory.count() == 0 || memory.count() > kLargestWords) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    words_ += memory.count();
    spares_.push_back(std::move(memory));
    while (words_ > kMostWords) {
      words_ -= spares_.front().count();
      spares_.erase(spares_.begin());
    }
  }

 private:
  /**
   * 48 MiB in all, 24 MiB in one piece: eight queries of 128 dimensions, laid out, have 17.
   * Searches of more at once are too rare to keep their memory.
   */
  static constexpr size_t kMostWords = size_t{3} << 22;
  static constexpr size_t kLargestWords = size_t{3} << 21;
  std::mutex mutex_;
  std::vector<Aligned<uint32_t>> spares_;
  size_t words_ = 0;
};

}  // namespace hers
