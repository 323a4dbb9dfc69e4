#include "scan.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#ifdef HERS_X86
#include <cpuid.h>
#endif

namespace hers {
namespace {

/**
 * Parts are multiplied in runs of at most about this much. Runs get shorter towards the end, so
 * that all threads finish together.
 */
constexpr size_t kTaskBytes = size_t{1} << 23;
/** The limit for all slots together, unless two of them need more. */
constexpr size_t kSlotBytes = size_t{1} << 26;
/**
 * If more queries are asked than one slot can hold, they are answered in several passes. 32 of
 * `compact`: more would read the gallery less often, which hardly shows, and hold more memory.
 */
constexpr size_t kMostSlotBytes = size_t{1} << 25;
constexpr size_t kBatchBytes = size_t{1} << 18;
/**
 * So many, or fewer where they are large: the least batch is one block for all queries of a pass.
 */
constexpr size_t kBatchesWaiting = 16, kWaitingBytes = size_t{1} << 24;

// Of a response, in bytes (packages/scheme/src/response.ts).
constexpr size_t kBlockIdAt = 48, kFirstAt = 64, kCountAt = 68;
constexpr size_t kChecksumBytes = 8;

uint64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

/** How often this thread has waited for a disk. */
long diskReads() {
#ifdef RUSAGE_THREAD
  struct rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) == 0) return usage.ru_majflt;
#endif
  return 0;
}

#ifdef HERS_X86

bool isIntel() {
  uint32_t a = 0, name[3] = {};
  return __get_cpuid(0, &a, &name[0], &name[2], &name[1]) && memcmp(name, "GenuineIntel", sizeof name) == 0;
}

/** Whether L1 holds 48 KB of data or more. */
bool isL1Large() {
  // The first cache of the list is that of data. AMD has it in a leaf of its own, of the same form.
  for (const uint32_t leaf : {0x8000001du, 4u}) {
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(leaf, 0, &a, &b, &c, &d) || (a & 31) != 1) continue;
    const size_t ways = (b >> 22) + 1, partitions = (b >> 12 & 1023) + 1, line = (b & 4095) + 1, sets = size_t{c} + 1;
    return ways * partitions * line * sets >= 48 * 1024;
  }
  return false;
}

/**
 * Measured, as the time of multiplying over that of reading: a Xeon of 2 MB of L2 has 0.99 to L2,
 * 1.2 for all caches and 2.5 to L1 alone, which leaves its L2 prefetcher idle; an EPYC of 48 KB of
 * L1 has 1.06 to L1 alone and 1.16 for all caches.
 */
Fetching fetchingHere() {
  if (isIntel()) return Fetching::kToL2;
  return isL1Large() ? Fetching::kOnce : Fetching::kAll;
}

#else

Fetching fetchingHere() { return Fetching::kAll; }

#endif

Outcome outcomeOf(Fate fate) { return fate == Fate::kCut ? Outcome::kCut : Outcome::kUnreadable; }

void putLittleEndian(uint8_t* at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = static_cast<uint8_t>(value >> 8 * i);
}

}  // namespace

/** A segment that is being worked on. */
struct Slot {
  size_t item = 0;
  bool busy = false;
  std::shared_ptr<Segment> segment;
  /** When its file had been written last. */
  int64_t written = 0;
  size_t nextPart = 0, partsDone = 0;
  /** Blocks to be answered, from which on nobody has begun, and how many are. */
  size_t answers = 0, nextAnswer = 0, answersDone = 0;
  /** [slot group][pair][block][2][16] */
  Aligned<uint32_t> sums;
};

/** Plans for the widths that the queries request. */
class PackPlans {
 public:
  const PackPlan* of(uint32_t bits) {
    auto found = plans_.find(bits);
    if (found == plans_.end()) found = plans_.emplace(bits, Owned(bits)).first;
    return &found->second.plan;
  }

 private:
  struct Owned {
    std::vector<uint32_t> source, shift;
    PackPlan plan;
    explicit Owned(uint32_t bits) {
      const uint32_t steps = 1 + (31 + bits - 1) / bits;
      source.assign(32 * steps, 0);
      shift.assign(32 * steps, 32);
      for (uint32_t word = 0; word < bits; word++) {
        const uint32_t first = 32 * word / bits;
        source[word] = first;
        shift[word] = 32 * word - first * bits;
        for (uint32_t step = 1; step < steps && first + step < 32; step++) {
          const uint32_t begins = (first + step) * bits - 32 * word;
          if (begins >= 32) break;
          source[32 * step + word] = first + step;
          shift[32 * step + word] = begins;
        }
      }
      plan = {bits, steps, source.data(), shift.data()};
    }
  };
  std::map<uint32_t, Owned> plans_;
};

Scan::Scan(Setup setup) : setup_(std::move(setup)), packs_(new PackPlans), started_(now()) {
  for (auto& spent : spent_) spent.store(0);
  const size_t groups = setup_.ring->groups();
  const size_t queries = setup_.queries.size();
  rows_ = setup_.segments[0]->layout().rows;
  for (const auto& segment : setup_.segments) largestBlocks_ = std::max(largestBlocks_, segment->layout().blocks);
  const size_t bytesPerQuery = groups * largestBlocks_ * kQueryRow * sizeof(uint32_t);
  const size_t atOnce = std::min(queries, std::max<size_t>(8, kMostSlotBytes / bytesPerQuery));
  for (size_t first = 0; first < queries; first += atOnce) pairUp(first, std::min(atOnce, queries - first));
  for (uint32_t segment = 0; segment < setup_.segments.size(); segment++) {
    for (const Pass& pass : passes_) {
      items_.push_back({segment, &pass});
      bytesLeft_ += setup_.segments[segment]->bytes();
    }
  }
  mostSlots_ = std::clamp<size_t>(kSlotBytes / (bytesPerQuery * atOnce), 2, setup_.threads + 1);
  laidWords_ = groups * rows_ * kQueryRow;
  laid_ = setup_.spares->take(laidWords_ * pairs_.size());
  expandTasks_ = pairs_.size() * ((rows_ + kExpandRows - 1) / kExpandRows);
  for (const auto& query : setup_.queries) {
    packs_->of(query->bits[0]);
    packs_->of(query->bits[1]);
  }
}

Scan::~Scan() = default;

/** Whether both have the same mask, and want it in as many bits. */
bool Scan::haveOneMask(const Query& a, const Query& b) const {
  if (memcmp(a.seed, b.seed, kSeedBytes) != 0 || a.bits[1] != b.bits[1] || a.words != b.words || a.width != b.width) return false;
  const size_t given = rows_ * setup_.ring->words();
  return memcmp(a.rows.get() + given, b.rows.get() + given, (a.words - given) * sizeof(uint32_t)) == 0;
}

/** Another pass, of these queries. */
void Scan::pairUp(size_t first, size_t count) {
  const size_t firstPair = pairs_.size();
  size_t lonely = SIZE_MAX;
  for (uint32_t query = static_cast<uint32_t>(first); query < first + count; query++) {
    uint32_t mask = static_cast<uint32_t>(first);
    while (mask < query && !(maskOf_[mask] == mask && haveOneMask(*setup_.queries[mask], *setup_.queries[query]))) mask++;
    maskOf_.push_back(mask);
    if (mask == query) {
      pairs_.push_back({{query, query}, true});
    } else if (lonely < SIZE_MAX) {
      pairs_[lonely].bodies[1] = query;
      lonely = SIZE_MAX;
    } else {
      lonely = pairs_.size();
      pairs_.push_back({{query, query}, false});
    }
  }
  size_t blockBytes = 0;
  for (size_t query = first; query < first + count; query++) blockBytes += responseBytes(*setup_.queries[query]);
  const bool isLastLone = lonely < SIZE_MAX;
  if (isLastLone) std::swap(pairs_[lonely], pairs_.back());
  passes_.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(count), firstPair, pairs_.size() - firstPair, blockBytes, isLastLone});
}

size_t Scan::responseBytes(const Query& query) const {
  const size_t n = setup_.ring->ring().n;
  return kHeadBytes + n * query.bits[0] / 8 + n * query.bits[1] / 8 + kChecksumBytes;
}

/** Gives the next segment a slot, if there are both. */
bool Scan::open() try {
  if (nextItem_ == items_.size()) return false;
  Slot* slot = nullptr;
  for (const auto& each : slots_) {
    if (!each->busy) slot = each.get();
  }
  if (!slot) {
    if (slots_.size() == mostSlots_) return false;
    slots_.emplace_back(new Slot);
    slot = slots_.back().get();
  }
  const Item& item = items_[nextItem_];
  const Layout& layout = setup_.segments[item.segment]->layout();
  const Look look = setup_.segments[item.segment]->look();
  if (look.fate != Fate::kSound) {
    fail(outcomeOf(look.fate), item.segment, 0);
    return false;
  }
  const size_t words = setup_.ring->groups() * item.pass->pairs * layout.blocks * kQueryRow;
  if (slot->sums.count() < words) {
    setup_.spares->give(std::move(slot->sums));
    slot->sums = setup_.spares->take(words);
  }
  slot->item = nextItem_++;
  slot->busy = true;
  slot->segment = setup_.segments[item.segment];
  slot->written = look.written;
  slot->nextPart = slot->partsDone = slot->nextAnswer = slot->answersDone = 0;
  slot->answers = setup_.multiplyOnly ? 0 : layout.blocks;
  return true;
} catch (const std::bad_alloc&) {
  fail(Outcome::kNoMemory, 0, 0);
  return false;
}

bool Scan::take(Task& task) {
  if (outcome_.load() != 0) return false;
  const auto give = [&](Task::Kind kind, Slot* slot, size_t from, size_t until) {
    task = {kind, slot, from, until};
    running_++;
    return true;
  };
  if (nextExpand_ < expandTasks_) {
    const size_t from = nextExpand_++;
    return give(Task::Kind::kExpand, nullptr, from, from + 1);
  }
  if (expanded_ < expandTasks_) return false;
  for (const auto& slot : slots_) {
    if (!slot->busy || slot->partsDone < slot->segment->parts() || slot->nextAnswer == slot->answers) continue;
    const Pass& pass = *items_[slot->item].pass;
    const size_t blocks = std::max<size_t>(1, kBatchBytes / pass.blockBytes);
    if (waiting_ >= std::clamp<size_t>(kWaitingBytes / (blocks * pass.blockBytes), 2, kBatchesWaiting)) break;
    waiting_++;
    const size_t from = slot->nextAnswer;
    slot->nextAnswer = std::min(slot->answers, from + blocks);
    return give(Task::Kind::kRespond, slot.get(), from, slot->nextAnswer);
  }
  do {
    for (const auto& slot : slots_) {
      if (!slot->busy || slot->nextPart == slot->segment->parts()) continue;
      const size_t from = slot->nextPart;
      const size_t partBytes = slot->segment->layout().partBytes;
      size_t parts = std::max<size_t>(1, std::min(kTaskBytes, bytesLeft_ / (8 * setup_.threads)) / partBytes);
      if (parts > 1) parts -= parts % 2;  // verified in pairs
      slot->nextPart = std::min(slot->segment->parts(), from + parts);
      bytesLeft_ -= (slot->nextPart - from) * partBytes;
      return give(Task::Kind::kMultiply, slot.get(), from, slot->nextPart);
    }
  } while (open());
  return false;
}

void Scan::finish(const Task& task) {
  running_--;
  Slot* const slot = task.slot;
  if (task.kind == Task::Kind::kExpand) {
    if (++expanded_ == expandTasks_) {
      untilMultiply_ = now() - started_;
      for (const auto& query : setup_.queries) setup_.spares->give(std::move(query->rows));
    }
    return;
  }
  if (task.kind == Task::Kind::kMultiply) slot->partsDone += task.until - task.from;
  else slot->answersDone += task.until - task.from;
  if (slot->partsDone == slot->segment->parts() && slot->answersDone == slot->answers) {
    slot->busy = false;
    slot->segment.reset();
    finishedItems_++;
  }
}

void Scan::fail(Outcome outcome, uint32_t segment, uint32_t part) {
  uint32_t none = 0;
  if (outcome_.compare_exchange_strong(none, static_cast<uint32_t>(outcome))) {
    badSegment_ = segment;
    badPart_ = part;
  }
  // Release here, acquire at the reader: a thread that abandons its sums must not find outcome_
  // unset in `take` afterwards, or they would be answered.
  __atomic_store_n(&stop_, 1, __ATOMIC_RELEASE);
}

/** Whether the file is still the one that the slot began with; if not, fails the scan. */
bool Scan::isAsItWas(const Slot& slot) {
  const Look look = slot.segment->look();
  if (look.fate == Fate::kSound && look.written == slot.written) return true;
  fail(look.fate == Fate::kSound ? Outcome::kChanged : outcomeOf(look.fate), items_[slot.item].segment, 0);
  return false;
}

bool Scan::isOver() const { return running_ == 0 && (outcome_.load() != 0 || finishedItems_ == items_.size()); }

void Scan::end() {
  // Not in the destructor: JavaScript drops a scan only when it collects garbage.
  for (const auto& slot : slots_) setup_.spares->give(std::move(slot->sums));
  for (const auto& query : setup_.queries) setup_.spares->give(std::move(query->rows));
  setup_.spares->give(std::move(laid_));
  slots_.clear();
  setup_.segments.clear();
  setup_.queries.clear();
  Ending ending = {};
  const uint32_t outcome = outcome_.load();
  ending.outcome = outcome ? static_cast<Outcome>(outcome) : Outcome::kDone;
  ending.segment = badSegment_;
  ending.part = badPart_;
  ending.times = {spent_[0], spent_[1], spent_[2], spent_[3], untilMultiply_, now() - started_};
  setup_.onEnd(ending);
}

void Scan::perform(const Task& task, Scratch& scratch) {
  try {
    const uint64_t start = now();
    switch (task.kind) {
      case Task::Kind::kExpand:
        expand(task, scratch);
        spent_[0] += now() - start;
        break;
      case Task::Kind::kMultiply:
        multiply(task, scratch);
        break;
      case Task::Kind::kRespond:
        respond(task, scratch);
        spent_[3] += now() - start;
        break;
    }
  } catch (const std::bad_alloc&) {
    fail(Outcome::kNoMemory, 0, 0);
  }
}

void Scan::expand(const Task& task, Scratch& scratch) {
  const size_t perPair = expandTasks_ / pairs_.size();
  const size_t number = task.from / perPair;
  const size_t first = task.from % perPair * kExpandRows;
  const Ring& ring = setup_.ring->ring();
  const Pair& pair = pairs_[number];
  const Query& from = *setup_.queries[pair.bodies[0]];
  Expand job;
  job.ring = &ring;
  job.rows = from.rows.get();
  job.second = pair.hasMask ? nullptr : setup_.queries[pair.bodies[1]]->rows.get();
  job.seed = from.seed;
  job.given = job.rows + rows_ * setup_.ring->words();
  job.givenFirst = from.width;
  job.givenCount = from.words / setup_.ring->words() - rows_;
  job.domain = setup_.domain;
  job.first = first;
  job.count = std::min(kExpandRows, rows_ - first);
  job.total = rows_;
  job.out = laid_.get() + number * laidWords_;
  job.work = scratch.words.atLeast(kExpandRows * ring.n);
  setup_.variant->expand(job);
}

void Scan::multiply(const Task& task, Scratch& scratch) {
  Slot& slot = *task.slot;
  Segment& segment = *slot.segment;
  const Layout& layout = segment.layout();
  const uint32_t number = items_[slot.item].segment;
  // Files are read ahead while they come from a disk. For data that is already in memory, that
  // would only cost time.
  if (cold_.load(std::memory_order_relaxed)) {
    const size_t bytes = (task.until - task.from) * layout.partBytes;
    segment.willNeed(task.from * layout.partBytes, bytes + kTaskBytes);
  }
  const Pass& pass = *items_[slot.item].pass;
  const size_t perGroup = pass.pairs * layout.blocks * kQueryRow;
  const size_t groupsPerPrime = setup_.ring->ring().n / kGroup;
  Multiply job;
  job.queryStride = laidWords_;
  job.rows = layout.rows;
  job.blocks = layout.blocks;
  job.queries = pass.pairs;
  job.isLastLone = pass.isLastLone;
  job.panelRows = layout.panelRows;
  job.packed = layout.packed;
  // For two parts at least.
  job.sums = scratch.sums.atLeast(std::max<size_t>(2, pass.pairs) * layout.blocks * kQueryRow);
  static const Fetching fetching = fetchingHere();
  job.fetching = fetching;
  job.stop = &stop_;
  job.outStride = perGroup;
  // Two parts that are read once are both multiplied and verified. Nothing is answered before the
  // last part of a segment is.
  const bool along = setup_.variant->checksAlong && pass.pairs == 1 && !layout.packed;
  const auto isVerified = [&](size_t part) { return segment.isVerified(part, slot.written); };
  const auto damaged = [&](size_t part) {
    if (isAsItWas(slot)) fail(Outcome::kDamaged, number, static_cast<uint32_t>(part));
  };
  uint64_t at = now();
  for (size_t part = task.from, step; part < task.until; part += step) {
    step = 1;
    if (__atomic_load_n(&stop_, __ATOMIC_ACQUIRE)) return;
    uint64_t found[2];
    job.checksums = nullptr;
    if (!isVerified(part)) {
      size_t count = 1;
      while (count < kChecksums && part + count < task.until && !isVerified(part + count)) count++;
      if (along && count > 1 && (part + 1) % groupsPerPrime != 0) {
        job.checksums = found;
        step = 2;
      } else {
        const size_t sound = segment.verify(*setup_.variant, part, count, slot.written);
        if (sound < count) return damaged(part + sound);
        const uint64_t then = now();
        spent_[1] += then - at;
        at = then;
      }
    }
    job.part = reinterpret_cast<const uint32_t*>(segment.part(part));
    job.query = laid_.get() + pass.firstPair * laidWords_ + part * layout.rows * kQueryRow;
    job.modulus = &setup_.ring->ring().moduli[part / groupsPerPrime];
    job.out = slot.sums.get() + part * perGroup;
    setup_.variant->multiply(job);
    if (segment.isBroken() && !isAsItWas(slot)) return;
    if (job.checksums) {
      if (__atomic_load_n(&stop_, __ATOMIC_ACQUIRE)) return;
      for (size_t k = 0; k < 2; k++) {
        if (!segment.confirm(part + k, found[k], slot.written)) return damaged(part + k);
      }
    }
    const uint64_t then = now();
    spent_[2] += then - at;
    at = then;
  }
  const long reads = diskReads();
  cold_.store(reads > scratch.diskReads, std::memory_order_relaxed);
  scratch.diskReads = reads;
}

void Scan::respond(const Task& task, Scratch& scratch) {
  Slot& slot = *task.slot;
  // The file has been read by now, and responses are made from the sums alone. So this is the place
  // to check that it was the right file.
  if (!isAsItWas(slot)) return;
  const Layout& layout = slot.segment->layout();
  const Ring& ring = setup_.ring->ring();
  const uint32_t segment = items_[slot.item].segment;
  const Pass& pass = *items_[slot.item].pass;
  const size_t blocks = task.until - task.from;
  std::unique_ptr<Batch> batch(new Batch);
  // Those to one query lie together, block after block.
  std::vector<size_t> offsets;
  for (uint32_t query = pass.firstQuery; query < pass.firstQuery + pass.queries; query++) {
    offsets.push_back(batch->length);
    batch->length += blocks * responseBytes(*setup_.queries[query]);
  }
  batch->spares = setup_.spares;
  batch->memory = batch->spares->take((batch->length + 3) / 4);
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(batch->memory.get());
  const auto half0 = [&](uint32_t query, size_t block) {
    const Query& of = *setup_.queries[query];
    return bytes + offsets[query - pass.firstQuery] + (block - task.from) * responseBytes(of) + kHeadBytes;
  };
  const auto half1 = [&](uint32_t query, size_t block) { return half0(query, block) + ring.n * setup_.queries[query]->bits[0] / 8; };

  Respond job;
  job.ring = &ring;
  job.groupStride = pass.pairs * layout.blocks * kQueryRow;
  job.work = scratch.words.atLeast(2 * setup_.ring->words());
  for (size_t k = 0; k < pass.pairs; k++) {
    const Pair& pair = pairs_[pass.firstPair + k];
    const uint32_t first = pair.bodies[0], second = pair.bodies[1];
    const bool isLone = pass.isLastLone && k + 1 == pass.pairs;
    job.pack[0] = packs_->of(setup_.queries[first]->bits[0]);
    job.pack[1] = packs_->of(setup_.queries[second]->bits[pair.hasMask ? 1 : 0]);
    for (size_t block = task.from; block < task.until; block += isLone ? 2 : 1) {
      // The last block of an odd number stands twice.
      const bool isLast = block + 1 == task.until;
      job.sums = slot.sums.get() + (k * layout.blocks + block) * kQueryRow;
      job.second = !isLone ? kGroup : isLast ? 0 : kQueryRow;
      job.out[0] = half0(first, block);
      if (isLone) job.out[1] = isLast ? nullptr : half0(first, block + 1);
      else job.out[1] = pair.hasMask ? half1(first, block) : half0(second, block);
      setup_.variant->respond(job);
    }
  }

  batch->entries.reserve(5 * blocks * pass.queries);
  for (uint32_t query = pass.firstQuery; query < pass.firstQuery + pass.queries; query++) {
    const Query& of = *setup_.queries[query];
    const size_t length = responseBytes(of), offset = offsets[query - pass.firstQuery];
    for (size_t block = task.from; block < task.until; block++) {
      uint8_t* const message = half0(query, block) - kHeadBytes;
      const SegmentBlock& entry = layout.table[block];
      memcpy(message, of.head, kHeadBytes);
      memcpy(message + kBlockIdAt, entry.id, sizeof entry.id);
      putLittleEndian(message + kFirstAt, entry.first, 4);
      putLittleEndian(message + kCountAt, entry.count, 4);
      const uint32_t mask = maskOf_[query];
      if (mask != query) memcpy(half1(query, block), half1(mask, block), ring.n * of.bits[1] / 8);
      const uint32_t values[] = {segment, static_cast<uint32_t>(block), query, static_cast<uint32_t>(message - bytes),
                                 static_cast<uint32_t>(length)};
      batch->entries.insert(batch->entries.end(), std::begin(values), std::end(values));
    }
    for (size_t i = 0; i < blocks; i += kChecksums) {
      uint8_t* const first = bytes + offset + i * length;
      const size_t count = std::min(kChecksums, blocks - i);
      uint64_t sums[kChecksums];
      setup_.variant->checksums(first, length, count, length - kChecksumBytes, sums);
      for (size_t k = 0; k < count; k++) putLittleEndian(first + (k + 1) * length - kChecksumBytes, sums[k], kChecksumBytes);
    }
  }
  setup_.onBatch(std::move(batch));
}

}  // namespace hers
