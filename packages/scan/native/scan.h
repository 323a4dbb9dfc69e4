// One call of `scan`: its work, divided into tasks that any thread can take.
//
//   expand    eight rows of a pair of columns into the kernel's layout; all come before anything
//             else
//   multiply  some parts of one segment against all columns (or as many as fit the memory); before
//             or along with it, the first time, their checksums are verified
//   respond   once all parts of a segment are multiplied: transforms, switches and packs what some
//             of its blocks answer into one batch
//
// Where queries have the same mask, as those of one collection key do, it is one column for all of
// them: eight are nine columns then, and not sixteen, and half C1 of their responses is made once
// for a block.
//
// Memory is bounded by the segments between their first multiplication and their last response
// (slots), and by the batches that JavaScript has not taken. If a consumer is slow, its tasks are
// not given out: no thread ever waits for one scan while another has work.
//
// All state is guarded by the mutex of the pool, except what `perform` touches.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "memory.h"
#include "segment.h"
#include "tables.h"
#include "variant.h"

namespace hers {

constexpr size_t kHeadBytes = 80;
constexpr size_t kSeedBytes = 32;

struct Query {
  uint32_t bits[2];
  uint8_t seed[kSeedBytes];
  /**
   * The beginning of its responses, as it is for every block but for the block's own fields
   * (packages/scheme/src/response.ts).
   */
  uint8_t head[kHeadBytes];
  /**
   * B_1 … in NTT form, one after the other, then the uniform halves of rows `width` …, as many as
   * are not expanded from the seed: so many words.
   */
  size_t words, width;
  Aligned<uint32_t> rows;
};

/** Responses on their way to JavaScript. */
struct Batch {
  Aligned<uint32_t> memory;
  size_t length = 0;
  /** For each response: segment, block, query, offset, length. */
  std::vector<uint32_t> entries;
  /** Where the memory goes when it is no longer needed. */
  std::shared_ptr<Spares> spares;

  Batch() = default;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() {
    if (spares) spares->give(std::move(memory));
  }
};

enum class Outcome : uint32_t { kNone, kDone, kStopped, kDamaged, kCut, kNoMemory, kUnreadable, kChanged };

/**
 * Nanoseconds: of all threads together in each kind of task, where what is verified along with a
 * multiplication counts as that; and of the clock, from the start to
 * the first multiplication, and to the end.
 */
struct Times {
  uint64_t expand, verify, multiply, respond;
  uint64_t untilMultiply, untilEnd;
};

struct Ending {
  Outcome outcome;
  /** Where the damage is. */
  uint32_t segment, part;
  Times times;
};

/** What a thread needs while it works; it grows to the largest task. */
struct Scratch {
  Aligned<uint64_t> sums;
  Aligned<uint32_t> words;
  /** How often its thread had waited for a disk at the end of the last task. */
  long diskReads = 0;

  void release() {
    sums = Aligned<uint64_t>();
    words = Aligned<uint32_t>();
  }
};

struct Slot;

struct Task {
  enum class Kind { kExpand, kMultiply, kRespond } kind;
  Slot* slot;
  size_t from, until;
};

class PackPlans;

class Scan {
 public:
  struct Setup {
    const Variant* variant;
    std::shared_ptr<Spares> spares;
    std::shared_ptr<const RingTables> ring;
    std::vector<std::shared_ptr<Segment>> segments;
    std::vector<std::shared_ptr<Query>> queries;
    uint32_t domain;
    size_t threads;
    /** For measurements: no answers. */
    bool multiplyOnly;
    std::function<void(std::unique_ptr<Batch>)> onBatch;
    std::function<void(const Ending&)> onEnd;
  };
  explicit Scan(Setup setup);
  ~Scan();

  /** The next task, if there is one that may run now. */
  bool take(Task& task);
  /** Does it; called without the mutex. */
  void perform(const Task& task, Scratch& scratch);
  void finish(const Task& task);
  void stop() { fail(Outcome::kStopped, 0, 0); }
  /** JavaScript has taken a batch. */
  void release() { waiting_--; }
  /** No work is left, and no thread is working on it. */
  bool isOver() const;
  /** Reports the ending, once, by the thread that found it, without the mutex. */
  void end();

 private:
  /** A body and its mask, or two bodies; or, last in a pass, one body alone, which stands twice. */
  struct Pair {
    /** The second is of no meaning where there is a mask. */
    uint32_t bodies[2];
    bool hasMask;
  };
  /** Queries that are answered in one pass, and their columns. */
  struct Pass {
    uint32_t firstQuery, queries;
    size_t firstPair, pairs;
    /** Of all responses for one block. */
    size_t blockBytes;
    bool isLastLone;
  };
  struct Item {
    uint32_t segment;
    const Pass* pass;
  };

  bool haveOneMask(const Query& a, const Query& b) const;
  void pairUp(size_t first, size_t count);
  bool open();
  void fail(Outcome outcome, uint32_t segment, uint32_t part);
  bool isAsItWas(const Slot& slot);
  void expand(const Task& task, Scratch& scratch);
  void multiply(const Task& task, Scratch& scratch);
  void respond(const Task& task, Scratch& scratch);
  size_t responseBytes(const Query& query) const;

  Setup setup_;
  size_t rows_, largestBlocks_ = 0;
  std::vector<Pair> pairs_;
  std::vector<Pass> passes_;
  /** For each query, the first one of its pass that has the same mask. */
  std::vector<uint32_t> maskOf_;
  std::vector<Item> items_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::unique_ptr<PackPlans> packs_;
  size_t mostSlots_;
  /** All columns: [pair][slot group][row][2][16]. */
  Aligned<uint32_t> laid_;
  size_t laidWords_;
  size_t nextExpand_ = 0, expanded_ = 0, expandTasks_;
  size_t nextItem_ = 0, finishedItems_ = 0;
  /** Of all items, what has not been given out to be multiplied. */
  size_t bytesLeft_ = 0;
  size_t running_ = 0, waiting_ = 0;
  /**
   * Set without the mutex as well, by the thread that finds damage; the kernels look at stop_.
   * Whoever sees stop_ must see outcome_ too: see `fail`.
   */
  std::atomic<uint32_t> outcome_{0};
  int stop_ = 0;
  uint32_t badSegment_ = 0, badPart_ = 0;
  std::atomic<bool> cold_{false};
  std::atomic<uint64_t> spent_[4];
  uint64_t started_, untilMultiply_ = 0;
};

}  // namespace hers
