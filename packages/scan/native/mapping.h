// A file in memory, which somebody may cut while it is read.
//
// Whoever touches a page that the file no longer has, or that the disk cannot read, gets SIGBUS, in
// the thread and at the instruction that touched it. One handler for the process makes an error of
// that: it marks the mapping as broken, lays zeros over all of it and returns. The thread goes on
// over zeros, and whoever is to use what it computed asks `isBroken` first. So the loops that read
// know nothing of it and cost nothing.
//
// Jumping out of the handler (sigsetjmp, an exception) would skip the destructors in between and
// leave the other threads in the same mapping to their own faults. Reading instead of mapping would
// copy every byte, and the floor of a scan is the bandwidth of memory. A lease or a lock keeps out
// only those who ask.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hers {

struct GuardedRange;

class Mapping {
 public:
  /** Maps the first bytes of a file, to be read; null, with errno set, where that fails. */
  static std::unique_ptr<Mapping> of(int file, size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  uint8_t* at() const { return at_; }
  /**
   * Whether zeros were read, or will be, in place of the file: from then on for good. To be asked
   * after reading.
   */
  bool isBroken() const;

 private:
  Mapping(uint8_t* at, size_t bytes, GuardedRange& range) : at_(at), bytes_(bytes), range_(range) {}

  uint8_t* const at_;
  const size_t bytes_;
  GuardedRange& range_;
};

}  // namespace hers
