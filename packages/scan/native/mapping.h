// A mapped file that another process may truncate while it is read.
//
// Touching a page that the file no longer has, or that the disk cannot read, raises SIGBUS in the
// thread and at the instruction that touched it. One handler per process turns that into an error:
// it marks the mapping as broken, maps zeros over all of it and returns. The thread continues over
// zeros, and the code that uses its result checks `isBroken` first. So the reading loops need no
// checks and cost nothing.
//
// Jumping out of the handler (sigsetjmp, an exception) would skip the destructors in between and
// leave the other threads in the same mapping to their own faults. Reading instead of mapping would
// copy every byte, and memory bandwidth is the lower bound of a scan. A lease or a lock only keeps
// out programs that ask for one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hers {

struct GuardedRange;

class Mapping {
 public:
  /** Maps the first bytes of a file for reading; null, with errno set, on failure. */
  static std::unique_ptr<Mapping> of(int file, size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  uint8_t* at() const { return at_; }
  /**
   * Whether zeros were read, or will be, in place of the file; permanent once set. Check it after
   * reading.
   */
  bool isBroken() const;

 private:
  Mapping(uint8_t* at, size_t bytes, GuardedRange& range) : at_(at), bytes_(bytes), range_(range) {}

  uint8_t* const at_;
  const size_t bytes_;
  GuardedRange& range_;
};

}  // namespace hers
