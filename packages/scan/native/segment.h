// The data of one segment: a mapped file, or a copy in memory.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mapping.h"
#include "variant.h"

namespace hers {

struct SegmentBlock {
  uint8_t id[16];
  uint32_t first, count;
};

/** What the header says (packages/scan/src/segment.ts). */
struct Layout {
  size_t rows, blocks, panelRows;
  /** Whether four rows are packed into three lines. */
  bool packed;
  size_t dataAt, partBytes;
  std::vector<SegmentBlock> table;
  std::vector<uint64_t> checksums;
};

/** The state of a segment's file. Memory is always intact. */
enum class Fate { kSound, kCut, kUnreadable };

struct Look {
  Fate fate;
  /** When the file was written last, in nanoseconds. */
  int64_t written;
};

class Segment {
 public:
  /**
   * Maps the file behind `file`, which the caller may close afterwards; null, with errno set, on
   * failure: ENODATA for a file that is too short.
   */
  static std::shared_ptr<Segment> map(int file, Layout layout);
  /** Memory to be filled by `write`; null if there is not enough. */
  static std::shared_ptr<Segment> allocate(Layout layout);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const Layout& layout() const { return layout_; }
  size_t parts() const { return layout_.checksums.size(); }
  size_t bytes() const { return parts() * layout_.partBytes; }
  const uint8_t* part(size_t part) const { return data_ + part * layout_.partBytes; }
  uint8_t* data() const { return data_; }

  /**
   * How many of at most kChecksums parts match their checksums before one that does not. Computed
   * once per modification time of the file, by the first thread that needs it.
   */
  size_t verify(const Variant& variant, size_t first, size_t count, int64_t written);
  /** Whether this is the checksum of a part, which was computed elsewhere. */
  bool confirm(size_t part, uint64_t checksum, int64_t written);
  bool isVerified(size_t part, int64_t written) const { return verified_[part].load(std::memory_order_acquire) == written; }
  /**
   * Checks the file, before and after reading. Data read in between is right if the file is intact
   * and was not written.
   */
  Look look() const;
  /** The cheap part of the check: whether a read has failed. */
  bool isBroken() const { return mapping_ && mapping_->isBroken(); }
  /** Asks the system to read these bytes ahead. */
  void willNeed(size_t from, size_t length) const;

 private:
  explicit Segment(Layout layout);

  /** Of the file, up to the end of the data. */
  size_t fileBytes() const { return layout_.dataAt + bytes(); }

  const Layout layout_;
  uint8_t* data_ = nullptr;
  /** A file has a mapping, and memory is its own. */
  std::unique_ptr<Mapping> mapping_;
  void* memory_ = nullptr;
  int file_ = -1;
  /** For each part, the time of writing that it was verified for. */
  std::unique_ptr<std::atomic<int64_t>[]> verified_;
};

}  // namespace hers
