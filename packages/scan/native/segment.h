// The data of one segment: a mapped file, or a copy in memory.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hers {

struct SegmentBlock {
  uint8_t id[16];
  uint32_t first, count;
};

/** What the header says (packages/scan/src/segment.ts). */
struct Layout {
  size_t rows, blocks, panelRows;
  size_t dataAt, partBytes;
  std::vector<SegmentBlock> table;
  std::vector<uint64_t> checksums;
};

class Segment {
 public:
  /** Maps the file behind `file`, which the caller may close afterwards; null, with errno set, where that fails. */
  static std::shared_ptr<Segment> map(int file, Layout layout);
  /** Memory to be written by `write`; null when there is not enough. */
  static std::shared_ptr<Segment> allocate(Layout layout);
  /** For measurements: takes a file that nobody has mapped out of the page cache. */
  static void forget(int file);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const Layout& layout() const { return layout_; }
  size_t parts() const { return layout_.checksums.size(); }
  size_t bytes() const { return parts() * layout_.partBytes; }
  const uint8_t* part(size_t part) const { return data_ + part * layout_.partBytes; }
  uint8_t* data() const { return data_; }

  /** Whether the part fits its checksum. Computed once, whichever thread comes first. */
  bool verify(size_t part);
  bool isVerified(size_t part) const { return verified_[part].load(std::memory_order_acquire); }
  /** False when the mapped file has become shorter: touching what is gone would end the process. */
  bool isWhole() const;
  /** Asks the system to read these bytes ahead. */
  void willNeed(size_t from, size_t length) const;

 private:
  explicit Segment(Layout layout);

  const Layout layout_;
  uint8_t* data_ = nullptr;
  void* mapping_ = nullptr;
  size_t mappingBytes_ = 0;
  int file_ = -1;
  std::unique_ptr<std::atomic<bool>[]> verified_;
};

}  // namespace hers
