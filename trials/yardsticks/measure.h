// Yardsticks for the scan, all in seconds per repetition: reading the same bytes, the same search
// over plaintext, the multiplication without memory.

#pragma once

#include <memory>
#include <vector>

#include "../../packages/scan/native/mapping.h"
#include "loops.h"

namespace hers {

/** A file that is mapped as the kernel maps it. */
struct MappedFile {
  std::unique_ptr<Mapping> mapping;
  /** The length of the file, and the offset from which it is read. */
  size_t bytes, from;
};

/** The sum of all words of the files, each cut into as many pieces as there are threads. */
std::vector<double> measureRead(const Loops& loops, const std::vector<std::shared_ptr<MappedFile>>& files, size_t threads,
                                size_t repetitions);

/** A gallery of `count` random vectors of d float32, one after the other. */
class PlainGallery {
 public:
  PlainGallery(size_t count, size_t d);
  ~PlainGallery();
  PlainGallery(const PlainGallery&) = delete;
  PlainGallery& operator=(const PlainGallery&) = delete;

  /** One dot product for every vector. */
  std::vector<double> measure(const Loops& loops, size_t threads, size_t repetitions);
  /** Searches by OpenBLAS' sgemv on one thread; returns nothing where it is not installed. */
  std::vector<double> measureBlas(size_t repetitions);

 private:
  const size_t count_, d_;
  float* gallery_ = nullptr;
  std::vector<float> query_, scores_;
};

/**
 * Multiplies one panel of `blocks` blocks, which stays in L2, by `queries` queries, `rounds` times
 * in every thread.
 */
std::vector<double> measureCeiling(const Loops& loops, uint32_t p, size_t blocks, size_t queries, size_t rounds, size_t threads,
                                   size_t repetitions, bool packed);

}  // namespace hers
