// Many responses to one query, from their bytes to the best of their scores: what
// packages/client/src/crew/crew.ts does one by one, without its arrays. Whatever is not as it
// should be (a head, a checksum, a phase, the score of a canary) only makes it stop: the caller
// then takes the slow way, which knows what to say. Everything decrypted is overwritten, but for
// what is kept.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "../lanes/xxh64.h"
#include "variant.h"

namespace hers {

/** Of a response, in bytes (packages/scheme/src/layout.ts). */
constexpr size_t kBlockAt = 48, kFirstAt = 64, kCountAt = 68, kBlockEnd = 72, kHeadBytes = 80, kChecksumBytes = 8;
/** Of a task that has no filter. */
constexpr uint32_t kAll = 0xffffffff;

struct Ranking {
  const Variant* variant;
  Ring ring;
  /** Where each response begins, and the head that they share but for what names the block. */
  const uint8_t* memory;
  std::vector<uint32_t> at;
  uint8_t head[kHeadBytes];
  uint32_t bits0, bits1;
  Roots roots;
  const double* points;
  float factor, offset;
  /** The largest |phase| that a score can have. */
  double largest;
  /** Of each response so many: their slots, ascending, and the scores that they must have. */
  size_t canaries;
  std::vector<uint32_t> slots;
  std::vector<double> expected;
  double room;
  /** The records that are left out, ascending, and where those of each response end. */
  std::vector<uint32_t> dead, deadEnds;
  /** Records that count, a bit for each, and where those of each response begin; or kAll. */
  std::vector<uint32_t> chosen, chosenAt;
  /** Squared distances, of which smaller ones are better. */
  bool areDistances;
  double floor;
  size_t limit;

  size_t bytes() const { return kHeadBytes + size_t{ring.n} * (bits0 + bits1) / 8 + kChecksumBytes; }
};

struct Best {
  /** Larger is better. */
  double key;
  uint32_t response, slot;
};

/** The best `limit`, the earlier of equal ones first. */
class BestOf {
 public:
  BestOf(size_t limit, double floor) : limit_(limit), floor_(floor) {
    // Memory that is grown out of is not overwritten.
    kept_.reserve(std::min(2 * limit + kRoom, size_t{1} << 16));
  }
  ~BestOf() { hers::wipe(kept_.data(), kept_.size() * sizeof(Best)); }

  double floor() const { return floor_; }
  void offer(double key, uint32_t response, uint32_t slot) {
    kept_.push_back({key, response, slot});
    if (kept_.size() >= 2 * limit_ + kRoom) cut();
  }
  const std::vector<Best>& sorted() {
    cut();
    std::sort(kept_.begin(), kept_.end(), isBetter);
    return kept_;
  }

 private:
  static constexpr size_t kRoom = 64;
  static bool isBetter(const Best& a, const Best& b) {
    if (a.key != b.key) return a.key > b.key;
    return a.response != b.response ? a.response < b.response : a.slot < b.slot;
  }
  void cut() {
    if (kept_.size() < limit_) return;
    const auto worst = kept_.begin() + static_cast<ptrdiff_t>(limit_) - 1;
    std::nth_element(kept_.begin(), worst, kept_.end(), isBetter);
    floor_ = std::max(floor_, worst->key);
    kept_.resize(limit_);
  }
  const size_t limit_;
  double floor_;
  std::vector<Best> kept_;
};

namespace {

inline uint32_t wordAt(const uint8_t* at) {
  return at[0] | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16 | uint32_t{at[3]} << 24;
}

/** One response: false if it is not as it should be. `scores` has room for n. */
inline bool rankOne(const Ranking& job, size_t number, float* scores, Work& work, BestOf& best) {
  const uint32_t n = job.ring.n;
  const size_t bytes = job.bytes();
  const uint8_t* const at = job.memory + job.at[number];
  const uint32_t first = wordAt(at + kFirstAt), count = wordAt(at + kCountAt);
  if (memcmp(at, job.head, kBlockAt) != 0 || memcmp(at + kBlockEnd, job.head + kBlockEnd, kHeadBytes - kBlockEnd) != 0) return false;
  if (first != 0 || count < 1 || count > n) return false;
  const uint8_t* const end = at + bytes - kChecksumBytes;
  const uint64_t checksum = wordAt(end) | uint64_t{wordAt(end + 4)} << 32;
  if (xxh64(at, bytes - kChecksumBytes) != checksum) return false;
  Phase phase = {};
  phase.ring = &job.ring;
  phase.packed0 = at + kHeadBytes, phase.packed1 = phase.packed0 + size_t{n} * job.bits0 / 8;
  phase.bits0 = job.bits0, phase.bits1 = job.bits1;
  phase.roots = job.roots, phase.points = job.points;
  if (job.variant->scores(scores, phase, job.factor, job.offset, work) > job.largest) return false;
  const uint32_t* const own = job.slots.data() + number * job.canaries;
  const double* const expected = job.expected.data() + number * job.canaries;
  bool agrees = true;
  for (size_t l = 0; l < job.canaries; l++)
    agrees = own[l] < count && std::fabs(static_cast<double>(scores[own[l]]) - expected[l]) <= job.room && agrees;
  if (!agrees) return false;
  // Records are what is between the canaries, numbered without them.
  const uint32_t deadFrom = number == 0 ? 0 : job.deadEnds[number - 1];
  const uint32_t* dead = job.dead.data() + deadFrom;
  const uint32_t* const deadEnd = job.dead.data() + job.deadEnds[number];
  const uint32_t chosenAt = job.chosenAt[number];
  const uint32_t* const chosen = chosenAt == kAll ? nullptr : job.chosen.data() + chosenAt;
  double floor = best.floor();
  for (size_t l = 0; l <= job.canaries; l++) {
    const uint32_t from = l == 0 ? 0 : own[l - 1] + 1, until = l == job.canaries ? count : own[l];
    for (uint32_t slot = from; slot < until; slot++) {
      const double key = job.areDistances ? -static_cast<double>(std::sqrt(std::max(0.0f, scores[slot]))) : static_cast<double>(scores[slot]);
      if (!(key > floor)) continue;
      const uint32_t record = slot - static_cast<uint32_t>(l);
      while (dead < deadEnd && *dead < record) dead++;
      if (dead < deadEnd && *dead == record) continue;
      if (chosen && (chosen[record >> 5] >> (record & 31) & 1) == 0) continue;
      best.offer(key, static_cast<uint32_t>(number), record);
      floor = best.floor();
    }
  }
  return true;
}

/** All of them: false if one is not as it should be. */
inline bool rankAll(const Ranking& job, BestOf& best) {
  Work work(job.ring.n);
  std::vector<float> scores(job.ring.n);
  bool isSound = true;
  for (size_t number = 0; number < job.at.size() && isSound; number++) isSound = rankOne(job, number, scores.data(), work, best);
  wipe(scores.data(), scores.size() * sizeof(float));
  return isSound;
}

}  // namespace

}  // namespace hers
