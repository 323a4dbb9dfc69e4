#include "segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace hers {
namespace {

/** No file is that old. */
constexpr int64_t kNever = INT64_MIN;

int64_t writtenAt(const struct stat& status) {
#ifdef __APPLE__
  const struct timespec& time = status.st_mtimespec;
#else
  const struct timespec& time = status.st_mtim;
#endif
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

}  // namespace

Segment::Segment(Layout layout) : layout_(std::move(layout)), verified_(new std::atomic<int64_t>[layout_.checksums.size()]) {
  for (size_t i = 0; i < parts(); i++) verified_[i].store(kNever, std::memory_order_relaxed);
}

std::shared_ptr<Segment> Segment::map(int file, Layout layout) {
  std::shared_ptr<Segment> segment(new Segment(std::move(layout)));
  segment->file_ = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (segment->file_ < 0) return nullptr;
  if (segment->look().fate != Fate::kSound) {
    errno = ENODATA;
    return nullptr;
  }
  segment->mapping_ = Mapping::of(segment->file_, segment->fileBytes());
  if (!segment->mapping_) return nullptr;
  segment->data_ = segment->mapping_->at() + segment->layout_.dataAt;
  return segment;
}

std::shared_ptr<Segment> Segment::allocate(Layout layout) {
  std::shared_ptr<Segment> segment(new Segment(std::move(layout)));
  const size_t bytes = segment->bytes();
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
#ifdef MADV_HUGEPAGE
  madvise(at, bytes, MADV_HUGEPAGE);
#endif
  segment->memory_ = at;
  segment->data_ = static_cast<uint8_t*>(at);
  return segment;
}

Segment::~Segment() {
  if (memory_) munmap(memory_, bytes());
  if (file_ >= 0) close(file_);
}

bool Segment::confirm(size_t part, uint64_t checksum, int64_t written) {
  if (checksum != layout_.checksums[part]) return false;
  verified_[part].store(written, std::memory_order_release);
  return true;
}

size_t Segment::verify(const Variant& variant, size_t first, size_t count, int64_t written) {
  uint64_t found[kChecksums];
  variant.checksums(part(first), layout_.partBytes, count, layout_.partBytes, found);
  for (size_t i = 0; i < count; i++) {
    if (!confirm(first + i, found[i], written)) return i;
  }
  return count;
}

Look Segment::look() const {
  if (file_ < 0) return {Fate::kSound, 0};
  struct stat status;
  if (fstat(file_, &status) != 0) return {Fate::kUnreadable, 0};
  // A cut within a page raises no signal: the rest of the page becomes zero.
  if (static_cast<size_t>(status.st_size) < fileBytes()) return {Fate::kCut, 0};
  return {isBroken() ? Fate::kUnreadable : Fate::kSound, writtenAt(status)};
}

void Segment::willNeed(size_t from, size_t length) const {
  if (file_ < 0 || from >= bytes()) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t until = from + length < bytes() ? from + length : bytes();
  const size_t begin = (layout_.dataAt + from) / page * page;
  // For a truncated file, or for the zeros in its place, reading ahead has no effect.
  madvise(mapping_->at() + begin, layout_.dataAt + until - begin, MADV_WILLNEED);
}

}  // namespace hers
