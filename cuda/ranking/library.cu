// The library behind hers_decrypt.h: memory, launches, and which response is for which block.

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../scan/buffers.h"
#include "decrypt.cuh"
#include "hers_decrypt.h"

using namespace hers_cuda;

namespace {

constexpr size_t kEntryBytes = 24, kIdBytes = 16;
/** Blocks of threads that look for the best. */
constexpr uint32_t kSelectBlocks = 1024;

struct Id {
  uint64_t words[2];
  bool operator==(const Id& other) const { return words[0] == other.words[0] && words[1] == other.words[1]; }
};
struct IdHash {
  // Ids are random.
  size_t operator()(const Id& id) const { return id.words[0]; }
};

void wipe(const DeviceBuffer& buffer, cudaStream_t stream) {
  if (buffer.bytes() > 0) cudaMemsetAsync(buffer.as<void>(), 0, buffer.bytes(), stream);
}

}  // namespace

struct HersDecrypt {
  int device = 0;
  std::mutex mutex;
  cudaStream_t stream = nullptr;
  cudaEvent_t started = nullptr, decrypted = nullptr, ended = nullptr;
  uint32_t n = 0;
  DeviceModulus modulus = {};
  DeviceBuffer roots, inverses;
  /** Of a query: its secret, the probe, records that count. */
  DeviceBuffer secret, probe, chosen, shapes;
  DeviceBuffer keys, best, refused, selections, ranked;
  PinnedBuffer host;

  ~HersDecrypt() {
    cudaSetDevice(device);
    if (stream) cudaStreamSynchronize(stream), cudaStreamDestroy(stream);
    for (cudaEvent_t event : {started, decrypted, ended}) {
      if (event) cudaEventDestroy(event);
    }
  }
};

struct HersDecryptGallery {
  HersDecrypt* decrypt;
  size_t blocks;
  uint32_t canaries, width, group, dimension;
  bool hasAlive;
  DeviceBuffer ids, counts, totals, alive, weights, responseOf;
  /** A row for each block. */
  DeviceBuffer slots, values, orders, ordered, summed, sums;
  std::unordered_map<Id, uint32_t, IdHash> numbers;
  /** What `responseOf` was made from. */
  std::vector<uint8_t> entries;
  std::vector<uint32_t> chosen;
  bool isPlaced = false;

  ~HersDecryptGallery() {
    cudaSetDevice(decrypt->device);
    for (DeviceBuffer* buffer : {&slots, &values, &alive, &orders, &ordered, &weights, &sums}) wipe(*buffer, decrypt->stream);
    cudaStreamSynchronize(decrypt->stream);
  }
};

struct HersDecryptGroups {
  HersDecrypt* decrypt;
  size_t blocks;
  DeviceBuffer codes;

  ~HersDecryptGroups() {
    cudaSetDevice(decrypt->device);
    wipe(codes, decrypt->stream);
    cudaStreamSynchronize(decrypt->stream);
  }
};

namespace {

uint32_t shoup(uint32_t x, uint32_t p) { return static_cast<uint32_t>((uint64_t{x} << 32) / p); }
uint2 withCompanion(uint32_t x, uint32_t p) { return make_uint2(x, shoup(x, p)); }

void copy(const DeviceBuffer& to, const void* from, size_t bytes, cudaStream_t stream) {
  if (bytes > 0) check(cudaMemcpyAsync(to.as<void>(), from, bytes, cudaMemcpyHostToDevice, stream), "copying to it");
}

void putTable(DeviceBuffer& into, const uint32_t* words, uint32_t n, uint32_t p, cudaStream_t stream) {
  std::vector<uint2> pairs(n);
  for (uint32_t i = 0; i < n; i++) pairs[i] = withCompanion(words[i], p);
  into.atLeast(n * sizeof(uint2), "making tables");
  copy(into, pairs.data(), n * sizeof(uint2), stream);
  check(cudaStreamSynchronize(stream), "making tables");
}

bool isKnown(uint32_t n) { return n == 64 || n == 2048 || n == 4096; }

/** Rows of a gallery: those of fresh blocks, and where all of them go. */
struct Column {
  const void* fresh;
  const DeviceBuffer* before;
  DeviceBuffer* into;
  /** Of a row. */
  size_t words;
};

/** What is known of each block beside its id: rows of `before`, or fresh ones. */
void loadColumns(HersDecryptGallery& gallery, const HersDecryptBlocks& blocks, const HersDecryptGallery* before, cudaStream_t stream) {
  const bool hasGroups = blocks.group > 0, hasSums = blocks.weights != nullptr;
  const auto from = [&](DeviceBuffer HersDecryptGallery::* member) { return before ? &(before->*member) : nullptr; };
  const Column columns[] = {
      {blocks.slots, from(&HersDecryptGallery::slots), &gallery.slots, blocks.canaries},
      {blocks.values, from(&HersDecryptGallery::values), &gallery.values, size_t{blocks.canaries} * blocks.width},
      {blocks.orders, from(&HersDecryptGallery::orders), &gallery.orders, hasGroups ? gallery.decrypt->n / 2 : 0},
      {blocks.ordered, from(&HersDecryptGallery::ordered), &gallery.ordered, hasGroups ? 1u : 0u},
      {blocks.summed, from(&HersDecryptGallery::summed), &gallery.summed, hasSums ? 1u : 0u},
      {blocks.sums, from(&HersDecryptGallery::sums), &gallery.sums, hasSums ? sumWords(blocks.dimension) : 0},
  };
  for (const Column& column : columns) {
    if (column.words > 0) column.into->atLeast(4 * blocks.blocks * column.words, "making room for canaries");
  }
  if (!before) {
    for (const Column& column : columns) {
      if (column.words > 0) copy(*column.into, column.fresh, 4 * blocks.blocks * column.words, stream);
    }
    return;
  }
  std::vector<uint32_t> rows(blocks.blocks);
  uint32_t fresh = 0;
  for (size_t i = 0; i < blocks.blocks; i++) rows[i] = blocks.known[i] == UINT32_MAX ? fresh++ | 0x80000000u : blocks.known[i];
  DeviceBuffer rowsOnDevice, rowsFresh;
  size_t most = 0;
  for (const Column& column : columns) most = std::max(most, 4 * blocks.fresh * column.words);
  rowsOnDevice.atLeast(4 * rows.size(), "making room for canaries");
  rowsFresh.atLeast(most + 4, "making room for canaries");
  copy(rowsOnDevice, rows.data(), 4 * rows.size(), stream);
  for (const Column& column : columns) {
    if (column.words == 0) continue;
    copy(rowsFresh, column.fresh, 4 * blocks.fresh * column.words, stream);
    const MoveJob job = {column.before->as<uint32_t>(), rowsFresh.as<uint32_t>(), rowsOnDevice.as<uint32_t>(), column.into->as<uint32_t>(), column.words};
    hers_cuda::launch(moveRows, static_cast<uint32_t>(blocks.blocks), 128, 0, stream, job);
    checkLaunch("copying canaries");
    check(cudaStreamSynchronize(stream), "copying canaries");
  }
  wipe(rowsFresh, stream);
  check(cudaStreamSynchronize(stream), "wiping canaries");
}

void checkBlocks(const HersDecrypt& decrypt, const HersDecryptBlocks& blocks, const HersDecryptGallery* before) {
  if (blocks.blocks == 0 || blocks.blocks * decrypt.n > UINT32_MAX) fail(HERS_CUDA_INVALID, "a gallery on the device has between one and 2^32 slots");
  if (blocks.canaries > kMostCanaries || blocks.canaries > decrypt.n) fail(HERS_CUDA_INVALID, "these are more canaries than a block has");
  if (blocks.group >= decrypt.n || blocks.dimension > blocks.width) fail(HERS_CUDA_INVALID, "checksums and sums are of fewer slots and coordinates");
  size_t fresh = 0;
  for (size_t i = 0; i < blocks.blocks; i++) {
    const uint32_t known = before ? blocks.known[i] : UINT32_MAX, ordered = known == UINT32_MAX && blocks.group > 0 ? blocks.ordered[fresh] : 0;
    const size_t own = blocks.canaries + (ordered > 0 ? groupsAmong(ordered, blocks.group) : 0);
    if (blocks.totals[i] > decrypt.n || blocks.counts[i] + own > blocks.totals[i] || ordered > decrypt.n) {
      fail(HERS_CUDA_INVALID, "a block has more records than slots");
    }
    if (known == UINT32_MAX) fresh++;
    else if (known >= before->blocks) fail(HERS_CUDA_INVALID, "a gallery before has no such block");
  }
  const bool isAlike = !before || (before->canaries == blocks.canaries && before->width == blocks.width && before->group == blocks.group &&
                                   before->dimension == blocks.dimension);
  if (fresh != blocks.fresh || !isAlike) fail(HERS_CUDA_INVALID, "the canaries do not fit the blocks");
  for (size_t i = 0; i < fresh * blocks.canaries; i++) {
    if (blocks.slots[i] >= decrypt.n) fail(HERS_CUDA_INVALID, "a canary is in no slot");
  }
  for (size_t i = 0; blocks.group > 0 && i < fresh * decrypt.n; i++) {
    if (blocks.orders[i] >= decrypt.n) fail(HERS_CUDA_INVALID, "a checksum is of no slot");
  }
}

/** Finds the response of each block, unless it is where it was the last time. */
void placeResponses(HersDecryptGallery& gallery, const HersCudaKept& responses, const uint32_t* chosen, size_t chosenCount, cudaStream_t stream) {
  const size_t bytes = responses.blocks * kEntryBytes;
  const bool isSame = gallery.isPlaced && gallery.entries.size() == bytes && gallery.chosen.size() == chosenCount &&
                      memcmp(gallery.entries.data(), responses.entries, bytes) == 0 &&
                      (chosenCount == 0 || memcmp(gallery.chosen.data(), chosen, 4 * chosenCount) == 0);
  if (isSame) return;
  gallery.isPlaced = false;
  std::vector<uint32_t> responseOf(gallery.blocks, UINT32_MAX);
  const size_t count = chosen ? chosenCount : responses.blocks;
  for (size_t i = 0; i < count; i++) {
    const size_t at = chosen ? chosen[i] : i;
    if (at >= responses.blocks) fail(HERS_CUDA_INVALID, "there is no such response");
    Id id;
    memcpy(&id, responses.entries + at * kEntryBytes, kIdBytes);
    const auto found = gallery.numbers.find(id);
    if (found == gallery.numbers.end()) fail(HERS_DECRYPT_UNKNOWN, "a response is for a block that is not part of this search");
    uint32_t& place = responseOf[found->second];
    if (place != UINT32_MAX) fail(HERS_DECRYPT_TWICE, "there are two responses for one block");
    place = static_cast<uint32_t>(at);
  }
  const size_t missing = std::count(responseOf.begin(), responseOf.end(), UINT32_MAX);
  if (missing > 0) fail(HERS_DECRYPT_MISSING, std::to_string(missing) + " of " + std::to_string(gallery.blocks));
  gallery.responseOf.atLeast(4 * responseOf.size(), "making room for a search");
  copy(gallery.responseOf, responseOf.data(), 4 * responseOf.size(), stream);
  check(cudaStreamSynchronize(stream), "starting");
  gallery.entries.assign(responses.entries, responses.entries + bytes);
  gallery.chosen.assign(chosen, chosen + (chosen ? chosenCount : 0));
  gallery.isPlaced = true;
}

template <bool exact>
void launchDecrypt(uint32_t n, uint32_t blocks, const DecryptJob& job, cudaStream_t stream) {
  if (n == 64) hers_cuda::launch(decryptResponses<6, exact>, blocks, decryptThreads(6), 0, stream, job);
  else if (n == 2048) hers_cuda::launch(decryptResponses<11, exact>, blocks, decryptThreads(11), 0, stream, job);
  else hers_cuda::launch(decryptResponses<12, exact>, blocks, decryptThreads(12), 0, stream, job);
  checkLaunch("decrypting");
}

void select(const SelectJob& job, uint32_t limit, cudaStream_t stream) {
  const uint32_t blocks = std::min(kSelectBlocks, job.blocks);
  hers_cuda::launch(beginSelection, 1, kSelectThreads, 0, stream, job.selection, limit);
  for (int pass = 0; pass < kPasses; pass++) {
    hers_cuda::launch(countDigits, blocks, kSelectThreads, 0, stream, job, pass);
    hers_cuda::launch(pickDigit, 1, kSelectThreads, 0, stream, job.selection, pass);
  }
  checkLaunch("ranking");
}

/** Wipes what belongs to a query, however it ended. */
class Wiping {
 public:
  explicit Wiping(HersDecrypt& decrypt) : decrypt_(decrypt) {}
  ~Wiping() {
    for (const DeviceBuffer* buffer : {&decrypt_.secret, &decrypt_.probe, &decrypt_.chosen, &decrypt_.shapes, &decrypt_.keys, &decrypt_.best, &decrypt_.ranked}) {
      wipe(*buffer, decrypt_.stream);
    }
    cudaStreamSynchronize(decrypt_.stream);
    if (decrypt_.host.bytes() > 0) memset(decrypt_.host.as<void>(), 0, decrypt_.host.bytes());
  }

 private:
  HersDecrypt& decrypt_;
};

void rank(HersDecryptGallery& gallery, const HersDecryptGroups* groups, const HersCudaKept& responses, size_t query, const HersDecryptQuery& about,
          HersDecryptCandidate* out, uint32_t* count, HersDecryptTimes* times) {
  HersDecrypt& d = *gallery.decrypt;
  const cudaStream_t stream = d.stream;
  const uint32_t n = d.n, blocks = static_cast<uint32_t>(gallery.blocks), p = d.modulus.p;
  const uint32_t limit = std::min(about.limit, blocks * n);
  // Before anything secret is on the device.
  d.secret.atLeast(n * sizeof(uint2), "making room for a search");
  d.probe.atLeast(4 * std::max<size_t>(1, gallery.width), "making room for a search");
  d.keys.atLeast(4 * gallery.blocks * n, "making room for scores");
  d.best.atLeast(4 * gallery.blocks, "making room for scores");
  d.refused.atLeast(4, "making room for a search");
  d.selections.atLeast(2 * sizeof(Selection), "making room for a search");
  d.ranked.atLeast(std::max<size_t>(1, limit) * sizeof(Ranked), "making room for candidates");
  if (about.chosen) d.chosen.atLeast(gallery.blocks * n / 8, "making room for a filter");
  std::vector<GroupShape> shapes;
  for (uint32_t i = 0; gallery.group > 0 && i <= gallery.group; i++) shapes.push_back({about.plus[i], about.divisors[i], about.rooms[i]});
  d.shapes.atLeast(std::max<size_t>(1, shapes.size()) * sizeof(GroupShape), "making room for a search");
  const size_t hostBytes = std::max(n * sizeof(uint2) + 4 * gallery.width, 8 + limit * sizeof(Ranked));
  d.host.atLeast(hostBytes, "making room for a search");
  const Wiping wiping(d);

  check(cudaEventRecord(d.started, stream), "starting");
  uint2* const secret = d.host.as<uint2>();
  for (uint32_t i = 0; i < n; i++) secret[i] = withCompanion(about.secret[i], p);
  memcpy(secret + n, about.probe, 4 * gallery.width);
  copy(d.secret, secret, n * sizeof(uint2), stream);
  copy(d.probe, secret + n, 4 * gallery.width, stream);
  if (about.chosen) copy(d.chosen, about.chosen, gallery.blocks * n / 8, stream);
  copy(d.shapes, shapes.data(), shapes.size() * sizeof(GroupShape), stream);
  check(cudaMemsetAsync(d.refused.as<void>(), 0, 4, stream), "starting");
  // There may be fewer candidates than are fetched.
  check(cudaMemsetAsync(d.ranked.as<void>(), 0, limit * sizeof(Ranked), stream), "starting");

  DecryptJob job = {};
  job.responses = reinterpret_cast<const uint32_t*>(responses.bytes + responses.offsets[query]);
  job.words = static_cast<uint32_t>(responses.lengths[query] / 4);
  job.responseOf = gallery.responseOf.as<uint32_t>();
  memcpy(job.head, about.head, sizeof job.head);
  job.bits0 = about.bits[0], job.bits1 = about.bits[1], job.cut = about.cut;
  job.modulus = d.modulus;
  job.roots = d.roots.as<uint2>();
  job.secret = d.secret.as<uint2>();
  job.factor = about.factor, job.offset = about.offset, job.largest = about.largest;
  job.step = about.step, job.slope = about.slope, job.sign = about.sign, job.shift = static_cast<long long>(about.shift);
  job.ids = gallery.ids.as<uint32_t>();
  job.counts = gallery.counts.as<uint32_t>();
  job.totals = gallery.totals.as<uint32_t>();
  job.alive = about.chosen ? d.chosen.as<uint32_t>() : gallery.hasAlive ? gallery.alive.as<uint32_t>() : nullptr;
  job.slots = gallery.slots.as<uint32_t>();
  job.values = gallery.values.as<int32_t>();
  job.canaries = gallery.canaries, job.width = gallery.width;
  job.probe = d.probe.as<int32_t>();
  job.scale = about.scale, job.canaryOffset = about.canaryOffset, job.room = about.room;
  job.orders = gallery.orders.as<uint16_t>(), job.ordered = gallery.ordered.as<uint32_t>(), job.group = gallery.group;
  job.shapes = d.shapes.as<GroupShape>(), job.period = about.period;
  job.weights = gallery.weights.as<uint32_t>(), job.sums = gallery.sums.as<double>(), job.summed = gallery.summed.as<uint32_t>();
  job.dimension = gallery.dimension, job.square = about.square, job.largestInteger = about.largestInteger;
  job.groups = groups ? groups->codes.as<uint16_t>() : nullptr;
  job.distances = about.distances != 0, job.floor = about.floor;
  job.keys = d.keys.as<uint32_t>();
  job.best = d.best.as<uint32_t>();
  job.refused = d.refused.as<uint32_t>();
  about.exact ? launchDecrypt<true>(n, blocks, job, stream) : launchDecrypt<false>(n, blocks, job, stream);
  check(cudaEventRecord(d.decrypted, stream), "decrypting");

  // The limit-th best of the blocks' best bounds what can be among the best of all from below.
  Selection* const selections = d.selections.as<Selection>();
  select({job.best, blocks, 1, nullptr, nullptr, selections}, limit, stream);
  const SelectJob all = {job.keys, blocks, n, job.best, &selections->from, selections + 1};
  select(all, limit, stream);
  hers_cuda::launch(collectSelected, std::min(kSelectBlocks, blocks), kSelectThreads, 0, stream, all, limit, job, d.ranked.as<Ranked>());
  checkLaunch("ranking");
  uint32_t* const back = d.host.as<uint32_t>();
  const auto fetch = [&](void* to, const void* from, size_t bytes) {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "fetching candidates");
  };
  // The secret's copy there has been read when the device gets here.
  fetch(back, d.refused.as<void>(), 4);
  fetch(back + 1, &selections[1].found, 4);
  fetch(back + 2, d.ranked.as<void>(), limit * sizeof(Ranked));
  check(cudaEventRecord(d.ended, stream), "ranking");
  check(cudaEventSynchronize(d.ended), "decrypting");
  if (times) {
    float decrypt = 0, select = 0;
    check(cudaEventElapsedTime(&decrypt, d.started, d.decrypted), "reading a clock");
    check(cudaEventElapsedTime(&select, d.decrypted, d.ended), "reading a clock");
    *times = {decrypt, select};
  }
  if (back[0] & kWrongHead) fail(HERS_DECRYPT_HEAD, "a response says something else about itself than it must");
  if (back[0] & kNonsense) fail(HERS_DECRYPT_NONSENSE, "a response decrypts to values no score can have");
  if (back[0] & kWrongCanary) fail(HERS_DECRYPT_CANARY, "a canary has another score than it must have");
  if (back[0] & kWrongSums) fail(HERS_DECRYPT_SUMS, "the scores of a block do not add up to what they must");
  *count = std::min(back[1], limit);
  Ranked* const ranked = reinterpret_cast<Ranked*>(back + 2);
  std::sort(ranked, ranked + *count, [](const Ranked& a, const Ranked& b) { return a.key != b.key ? a.key > b.key : a.position < b.position; });
  for (uint32_t i = 0; i < *count; i++) {
    const uint32_t bits = bitsOfKey(ranked[i].key, job.distances);
    float score;
    memcpy(&score, &bits, 4);
    out[i] = {ranked[i].position / n, ranked[i].record, score};
  }
}

}  // namespace

extern "C" {

uint32_t hersDecryptInterface(void) { return HERS_DECRYPT_INTERFACE; }

const char* hersDecryptMessage(void) { return message.c_str(); }

int hersDecryptOpen(int device, const HersDecryptRing* ring, HersDecrypt** out) {
  return guarded([&] {
    if (!isKnown(ring->n)) fail(HERS_CUDA_INVALID, "there is no CUDA code for a ring of this size");
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || device < 0 || device >= count) {
      cudaGetLastError();
      fail(HERS_CUDA_NO_DEVICE, "there is no GPU number " + std::to_string(device));
    }
    check(cudaSetDevice(device), "opening it");
    std::unique_ptr<HersDecrypt> decrypt(new HersDecrypt);
    decrypt->device = device;
    decrypt->n = ring->n;
    check(cudaStreamCreateWithFlags(&decrypt->stream, cudaStreamNonBlocking), "opening it");
    for (cudaEvent_t* event : {&decrypt->started, &decrypt->decrypted}) check(cudaEventCreate(event), "opening it");
    check(cudaEventCreateWithFlags(&decrypt->ended, cudaEventBlockingSync), "opening it");
    putTable(decrypt->roots, ring->roots, ring->n, ring->p, decrypt->stream);
    putTable(decrypt->inverses, ring->inverses, ring->n, ring->p, decrypt->stream);
    decrypt->modulus.p = ring->p;
    decrypt->modulus.scale = withCompanion(ring->scale, ring->p);
    decrypt->modulus.last = withCompanion(ring->last, ring->p);
    decrypt->modulus.inverses = decrypt->inverses.as<uint2>();
    *out = decrypt.release();
  });
}

void hersDecryptClose(HersDecrypt* decrypt) { delete decrypt; }

int hersDecryptLoad(HersDecrypt* decrypt, const HersDecryptBlocks* blocks, const HersDecryptGallery* before, HersDecryptGallery** out) {
  return guarded([&] {
    const std::lock_guard<std::mutex> lock(decrypt->mutex);
    check(cudaSetDevice(decrypt->device), "loading a gallery");
    checkBlocks(*decrypt, *blocks, before);
    std::unique_ptr<HersDecryptGallery> gallery(new HersDecryptGallery{decrypt, blocks->blocks, blocks->canaries, blocks->width, blocks->group, blocks->dimension, blocks->alive != nullptr});
    const cudaStream_t stream = decrypt->stream;
    gallery->ids.atLeast(kIdBytes * blocks->blocks, "making room for a gallery");
    gallery->counts.atLeast(4 * blocks->blocks, "making room for a gallery");
    copy(gallery->ids, blocks->ids, kIdBytes * blocks->blocks, stream);
    copy(gallery->counts, blocks->counts, 4 * blocks->blocks, stream);
    gallery->totals.atLeast(4 * blocks->blocks, "making room for a gallery");
    copy(gallery->totals, blocks->totals, 4 * blocks->blocks, stream);
    if (blocks->weights) {
      gallery->weights.atLeast(4 * kCopies * decrypt->n, "making room for a gallery");
      copy(gallery->weights, blocks->weights, 4 * kCopies * decrypt->n, stream);
    }
    if (blocks->alive) {
      gallery->alive.atLeast(blocks->blocks * decrypt->n / 8, "making room for a gallery");
      copy(gallery->alive, blocks->alive, blocks->blocks * decrypt->n / 8, stream);
    }
    loadColumns(*gallery, *blocks, before, stream);
    check(cudaStreamSynchronize(stream), "loading a gallery");
    gallery->numbers.reserve(blocks->blocks);
    for (size_t i = 0; i < blocks->blocks; i++) {
      Id id;
      memcpy(&id, blocks->ids + kIdBytes * i, kIdBytes);
      if (!gallery->numbers.emplace(id, static_cast<uint32_t>(i)).second) fail(HERS_CUDA_INVALID, "a gallery names a block twice");
    }
    *out = gallery.release();
  });
}

void hersDecryptUnload(HersDecryptGallery* gallery) { delete gallery; }

int hersDecryptLoadGroups(HersDecryptGallery* gallery, const uint16_t* codes, HersDecryptGroups** out) {
  return guarded([&] {
    HersDecrypt& decrypt = *gallery->decrypt;
    const std::lock_guard<std::mutex> lock(decrypt.mutex);
    check(cudaSetDevice(decrypt.device), "loading groups");
    const size_t count = gallery->blocks * decrypt.n;
    if (std::any_of(codes, codes + count, [&](uint16_t code) { return code > decrypt.n; })) fail(HERS_CUDA_INVALID, "a block has fewer groups than that");
    std::unique_ptr<HersDecryptGroups> groups(new HersDecryptGroups{&decrypt, gallery->blocks, {}});
    groups->codes.atLeast(2 * count, "making room for groups");
    copy(groups->codes, codes, 2 * count, decrypt.stream);
    check(cudaStreamSynchronize(decrypt.stream), "loading groups");
    *out = groups.release();
  });
}

void hersDecryptUnloadGroups(HersDecryptGroups* groups) { delete groups; }

int hersDecryptRank(HersDecryptGallery* gallery, const HersDecryptGroups* groups, const HersCudaKept* responses, size_t query,
                    const uint32_t* chosen, size_t chosenCount, const HersDecryptQuery* about, HersDecryptCandidate* out, uint32_t* count, HersDecryptTimes* times) {
  return guarded([&] {
    *count = 0;
    HersDecrypt& decrypt = *gallery->decrypt;
    const std::lock_guard<std::mutex> lock(decrypt.mutex);
    if (responses->mark != HERS_CUDA_KEPT || query >= responses->queries) fail(HERS_CUDA_INVALID, "these are no responses");
    if (responses->device != decrypt.device) fail(HERS_CUDA_INVALID, "these responses are on another GPU");
    const size_t bits = size_t{about->bits[0]} + about->bits[1];
    const bool isRight = about->bits[0] >= 1 && about->bits[0] <= about->bits[1] && about->bits[1] <= 32 && about->cut >= 1 &&
                         about->cut <= about->bits[1] && about->limit >= 1;
    if (groups && (groups->decrypt != &decrypt || groups->blocks != gallery->blocks)) fail(HERS_CUDA_INVALID, "these are groups of another gallery");
    const bool hasShapes = gallery->group == 0 || (about->plus && about->divisors && about->rooms);
    if (!hasShapes || (gallery->dimension > 0 && !about->exact)) fail(HERS_CUDA_INVALID, "a query has no such checks");
    if (!isRight || responses->lengths[query] != 88 + decrypt.n / 8 * bits) fail(HERS_DECRYPT_HEAD, "the responses have another length");
    check(cudaSetDevice(decrypt.device), "starting");
    placeResponses(*gallery, *responses, chosen, chosenCount, decrypt.stream);
    rank(*gallery, groups, *responses, query, *about, out, count, times);
  });
}

}  // extern "C"
