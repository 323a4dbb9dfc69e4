#include "mapping.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

namespace hers {

/**
 * The handler's view of a mapping. Never freed, because the handler may be reading it, but reused.
 */
struct GuardedRange {
  /** Odd while the ends are being changed. */
  std::atomic<uint32_t> edition{0};
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> isBroken{false};
  /** In the list of all; fixed once it is there. */
  GuardedRange* next = nullptr;
  GuardedRange* nextSpare = nullptr;
};

namespace {

constexpr size_t kHugePage = size_t{1} << 21;

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<GuardedRange*>::is_always_lock_free &&
                  std::atomic<uint32_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a handler must not wait for a lock");

// — the list of mappings: changed under the mutex, read by the handler without it —

std::mutex mutex;
std::atomic<GuardedRange*> newest{nullptr};
GuardedRange* spare = nullptr;

GuardedRange& takeRange() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (GuardedRange* const range = spare) {
    spare = range->nextSpare;
    return *range;
  }
  GuardedRange* const range = new GuardedRange;
  range->next = newest;
  newest = range;
  return *range;
}

void setRange(GuardedRange& range, uintptr_t begin, uintptr_t end) {
  range.edition++;
  range.begin = begin;
  range.end = end;
  range.isBroken = false;
  range.edition++;
}

void giveRange(GuardedRange& range) {
  setRange(range, 0, 0);
  const std::lock_guard<std::mutex> lock(mutex);
  range.nextSpare = spare;
  spare = &range;
}

// — the handler: nothing but atomics and system calls —

struct sigaction previous;

/** Maps zeros over a range. They are read-only, so they take no memory. */
bool cover(uintptr_t begin, uintptr_t end) {
  void* const at = reinterpret_cast<void*>(begin);
  return mmap(at, end - begin, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/** Whether the address was in one of our mappings, and can be read now. */
bool mend(uintptr_t address) {
  for (GuardedRange* range = newest; range; range = range->next) {
    const uint32_t edition = range->edition;
    const uintptr_t begin = range->begin, end = range->end;
    // The entry being read does not change: a mapping outlives its readers.
    if (edition % 2 != 0 || range->edition != edition || address < begin || address >= end) continue;
    // The mark first: any thread that reads a zero from here on will find it.
    range->isBroken = true;
    return cover(begin, end);
  }
  return false;
}

/** What would have happened without this handler. */
void passOn(int number, siginfo_t* info, void* context) {
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(number, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(number);
  const bool isSent = info->si_code <= 0;
  if (isSent && previous.sa_handler == SIG_IGN) return;
  // When this returns, the failed instruction fails again, now without this handler. A signal that
  // was sent comes only once, so it is sent again.
  sigaction(number, &previous, nullptr);
  if (isSent) raise(number);
}

void onBusError(int number, siginfo_t* info, void* context) {
  const int error = errno;
  // For a signal that was sent (kill) the address means nothing.
  const bool isMended = info->si_code > 0 && mend(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = error;
  if (!isMended) passOn(number, info, context);
}

/**
 * Installed once per process, and kept: Node unloads an addon with the last worker that loaded it,
 * and this one must then stay loaded.
 */
void installHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    Dl_info self;
    if (dladdr(reinterpret_cast<void*>(&onBusError), &self)) dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    sigaction(SIGBUS, nullptr, &previous);
    struct sigaction ours = {};
    ours.sa_sigaction = onBusError;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, nullptr);
  });
}

/**
 * Maps a file so that its huge pages align with huge pages of memory. With MADV_HUGEPAGE, Linux
 * then reads it in pieces of 2 MiB (where the file system can) and maps each by one entry, which
 * accounts for up to a third of a scan's speed.
 */
void* mapAligned(int file, size_t bytes) {
  void* const room = mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  uint8_t* const begin = static_cast<uint8_t*>(room);
  uint8_t* const end = begin + bytes + kHugePage;
  uint8_t* const place = begin + (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  void* const at = mmap(place, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
  if (at == MAP_FAILED) {
    const int error = errno;
    munmap(room, bytes + kHugePage);
    errno = error;
    return MAP_FAILED;
  }
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  uint8_t* const rest = place + (bytes + page - 1) / page * page;
  if (place > begin) munmap(begin, static_cast<size_t>(place - begin));
  if (end > rest) munmap(rest, static_cast<size_t>(end - rest));
#ifdef MADV_HUGEPAGE
  madvise(at, bytes, MADV_HUGEPAGE);
#endif
  return at;
}

}  // namespace

std::unique_ptr<Mapping> Mapping::of(int file, size_t bytes) {
  installHandler();
  GuardedRange& range = takeRange();
  void* const at = mapAligned(file, bytes);
  if (at == MAP_FAILED) {
    const int error = errno;
    giveRange(range);
    errno = error;
    return nullptr;
  }
  const uintptr_t begin = reinterpret_cast<uintptr_t>(at);
  setRange(range, begin, begin + bytes);
  return std::unique_ptr<Mapping>(new Mapping(static_cast<uint8_t*>(at), bytes, range));
}

Mapping::~Mapping() {
  // In this order: once the addresses are free, they may belong to another mapping.
  giveRange(range_);
  munmap(at_, bytes_);
}

bool Mapping::isBroken() const {
  // Keeps earlier reads before this one, also on machines that reorder them.
  std::atomic_thread_fence(std::memory_order_acquire);
  return range_.isBroken;
}

}  // namespace hers
