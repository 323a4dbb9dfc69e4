// The library behind hers_cuda.h: memory, streams and launches. Nothing of C++ leaves it.
//
// A scan cuts the blocks of all segments into slices. Slices take turns in a few lanes, each with a
// stream and buffers of its own, so that the multiplication of one slice, the transforms of another
// and the copy of a third run at the same time: memory, arithmetic and the bus are busy together.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../../packages/scan/native/tables.h"
#include "buffers.h"
#include "hers_cuda.h"
#include "kernels.cuh"
#include "tensor.cuh"

using namespace hers_cuda;

namespace {

constexpr size_t kPanelRows = 64;
constexpr int kLanes = 3;
/**
 * Sums of one slice: large slices keep the device busy. And of the gallery, so that a slice takes a
 * few milliseconds at most, whatever its dimension: a scan is stopped between slices.
 */
constexpr size_t kSliceBytes = size_t{128} << 20, kSliceGalleryBytes = size_t{4} << 30;
constexpr size_t kResponseOverhead = 88;
/**
 * What a lane fetches of a gallery that is scanned in turns: enough to keep the bus busy, and a few
 * milliseconds of it, so that a scan is stopped soon. Little where it is emulated, for tests.
 */
#ifdef HERS_EMULATED
constexpr size_t kTurnBytes = size_t{64} << 10;
#else
constexpr size_t kTurnBytes = size_t{256} << 20;
#endif
/** Left free by segments, for what scans and decryption take: this, or an eighth of all memory. */
constexpr size_t kReserveBytes = size_t{4} << 30;
/** Pinned memory that others may have at a time; and what is kept for them. */
constexpr size_t kMostOutBytes = size_t{768} << 20;
/** Pinned memory is made in pieces of this, so that one fits the next batch too. */
constexpr size_t kPinnedStep = size_t{2} << 20;

/** Pinned memory for responses. Making it takes longer than filling it. */
class HostPool {
 public:
  void take(PinnedBuffer& into, size_t bytes) {
    if (into.bytes() >= bytes) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (PinnedBuffer& spare : spares_) {
        if (spare.bytes() >= bytes) {
          into.swap(spare);
          return;
        }
      }
      // One that is too small goes, so that there are never more than were in use at a time.
      if (!spares_.empty()) spares_.pop_front();
    }
    into.atLeast((bytes + kPinnedStep - 1) / kPinnedStep * kPinnedStep, "making room for responses");
  }

  /** Whether others may have so much more. */
  bool lend(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (out_ + bytes > kMostOutBytes) return false;
    out_ += bytes;
    return true;
  }

  /** What comes back stays as a spare: what is out is bounded, and so are spares. */
  void give(PinnedBuffer& buffer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    out_ -= buffer.bytes();
    for (PinnedBuffer& spare : spares_) {
      if (spare.bytes() == 0) {
        spare.swap(buffer);
        return;
      }
    }
    spares_.emplace_back();
    spares_.back().swap(buffer);
  }

 private:
  std::mutex mutex_;
  std::list<PinnedBuffer> spares_;
  size_t out_ = 0;
};

struct Lane {
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
  DeviceBuffer sums, responses;
  PinnedBuffer host;
  HersCuda* cuda = nullptr;
  /** Of segments that are scanned in turns: what was fetched of them, and where it is. */
  DeviceBuffer lines, places;
  std::vector<DeviceSegment> fetched;
  /** What it is working on. */
  bool busy = false;
  size_t firstBlock = 0, blocks = 0;
  size_t offsets[kMostQueries], lengths[kMostQueries];
};

}  // namespace

struct HersCuda {
  int device = 0;
  /** Its tensor cores compute in double precision, and fast. */
  bool hasTensors = false;
  uint32_t processors = 1;
  std::mutex mutex;
  /** Loading, and everything of a scan before its slices. */
  cudaStream_t stream = nullptr;
  cudaEvent_t started = nullptr, ready = nullptr, ended = nullptr;
  Lane lanes[kLanes];
  /** Of a scan. */
  DeviceBuffer queries, rows, blocks, segments, heads;
  /** Of loading: a segment in its own order. */
  DeviceBuffer staging, checksums, bad;
  /**
   * What kept responses had, for the next ones: allocating it takes longer than a scan. Under a
   * mutex of its own, since whoever forgets responses must not wait for a scan.
   */
  DeviceBuffer spare;
  std::mutex spareMutex;
  /** Outlives the context where others still have some of it. */
  std::shared_ptr<HostPool> pool = std::make_shared<HostPool>();

  ~HersCuda() {
    cudaSetDevice(device);
    for (Lane& lane : lanes) {
      if (lane.stream) cudaStreamSynchronize(lane.stream), cudaStreamDestroy(lane.stream);
      if (lane.done) cudaEventDestroy(lane.done);
    }
    for (cudaEvent_t event : {started, ready, ended}) {
      if (event) cudaEventDestroy(event);
    }
    if (stream) cudaStreamSynchronize(stream), cudaStreamDestroy(stream);
  }
};

struct HersCudaRing {
  hers::RingTables tables;
  DeviceRing ring = {};
  DeviceBuffer twiddles[2];

  HersCudaRing(uint32_t n, const std::vector<hers::PrimeConstants>& primes) : tables(n, primes, 4) {}
  size_t words() const { return tables.words(); }
};

/** Responses that stay on the device, and what holds them. */
struct HersCudaResponses {
  HersCuda* cuda;
  DeviceBuffer bytes;
  std::vector<size_t> offsets, lengths;
  std::vector<uint8_t> entries;
  HersCudaKept kept;
};

/** Memory of a batch that somebody has taken. */
struct HersCudaHost {
  std::shared_ptr<HostPool> pool;
  PinnedBuffer buffer;
};

struct HersCudaSegment {
  int device;
  size_t rows, blocks, words;
  bool packed;
  DeviceBuffer lines, table;
  /** In place of lines on the device, where it is scanned in turns. */
  PinnedBuffer host = {};
  /** The table once more, for whoever takes responses without their bytes. */
  std::vector<uint8_t> entries = {};

  bool isInTurns() const { return host.bytes() > 0; }
  size_t lineCount() const { return hers::linesOf(rows, packed); }
  size_t blockWords() const { return words * lineCount(); }
};

namespace {

/** The last tile's last chunk reads past the end; what is there is multiplied by zero. */
size_t pastEnd(bool packed) { return 4 * kTile * linesOfRows(packed); }

void allocate(HersCudaSegment& segment, cudaStream_t stream) {
  const size_t bytes = 4 * segment.blocks * segment.blockWords(), past = pastEnd(segment.packed);
  segment.lines.atLeast(bytes + past, "making room for a segment");
  segment.table.atLeast(4 * kEntryWords * segment.blocks, "making room for a segment");
  check(cudaMemsetAsync(segment.lines.as<uint8_t>() + bytes, 0, past, stream), "clearing memory");
}

/** Blocks of 256 threads that take turns with so many things. */
uint32_t gridFor(size_t things) { return static_cast<uint32_t>(std::min<size_t>(4096, (things + 255) / 256)); }

template <int Q, bool packed>
void launchMultiply(const MultiplyJob& job, cudaStream_t stream) {
  using S = Shape<Q>;
  constexpr int bytes = S::sharedBytes(packed);
  check(cudaFuncSetAttribute(multiply<Q, packed>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "asking for shared memory");
  const dim3 grid(job.words / kTile, (job.blockCount + S::blocksOfAll - 1) / S::blocksOfAll);
  hers_cuda::launch(multiply<Q, packed>, grid, S::threads, bytes, stream, job);
  checkLaunch("multiplying");
}

void launchMultiply(uint32_t wide, bool packed, const MultiplyJob& job, cudaStream_t stream) {
  switch (wide) {
    case 1:
      return packed ? launchMultiply<1, true>(job, stream) : launchMultiply<1, false>(job, stream);
    case 2:
      return packed ? launchMultiply<2, true>(job, stream) : launchMultiply<2, false>(job, stream);
    case 4:
      return packed ? launchMultiply<4, true>(job, stream) : launchMultiply<4, false>(job, stream);
    default:
      return packed ? launchMultiply<8, true>(job, stream) : launchMultiply<8, false>(job, stream);
  }
}

template <int Q, bool packed>
void launchTensors(const MultiplyJob& job, uint32_t processors, cudaStream_t stream) {
  constexpr int bytes = tensorSharedBytes(Q, packed);
  check(cudaFuncSetAttribute(multiplyByTensors<Q, packed>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "asking for shared memory");
  const uint32_t tiles = job.words / kTile * ((job.blockCount + kTensorBlocks - 1) / kTensorBlocks);
  hers_cuda::launch(multiplyByTensors<Q, packed>, std::min(tiles, tensorResident(Q) * processors), kTensorThreads, bytes, stream, job);
  checkLaunch("multiplying");
}

void launchTensors(uint32_t wide, bool packed, const MultiplyJob& job, uint32_t processors, cudaStream_t stream) {
  if (wide == 4) return packed ? launchTensors<4, true>(job, processors, stream) : launchTensors<4, false>(job, processors, stream);
  return packed ? launchTensors<8, true>(job, processors, stream) : launchTensors<8, false>(job, processors, stream);
}

template <int logN, int primes>
void launchRespond(const RespondJob& job, uint32_t queries, cudaStream_t stream) {
  hers_cuda::launch(respond<logN, primes>, dim3(job.blockCount, 2, queries), respondThreads(logN), 0, stream, job);
  checkLaunch("making responses");
  constexpr uint32_t threads = 128;
  hers_cuda::launch(seal, dim3((4 * job.blockCount + threads - 1) / threads, queries), threads, 0, stream, job);
  checkLaunch("making checksums");
}

bool isKnownRing(uint32_t n, size_t primes) { return (n == 64 || n == 2048 || n == 4096) && (primes == 1 || primes == 2); }

void launchRespond(const DeviceRing& ring, const RespondJob& job, uint32_t queries, cudaStream_t stream) {
  const bool two = ring.primes == 2;
  if (ring.n == 64) return two ? launchRespond<6, 2>(job, queries, stream) : launchRespond<6, 1>(job, queries, stream);
  if (ring.n == 2048) return two ? launchRespond<11, 2>(job, queries, stream) : launchRespond<11, 1>(job, queries, stream);
  return two ? launchRespond<12, 2>(job, queries, stream) : launchRespond<12, 1>(job, queries, stream);
}

size_t responseBytes(const DeviceRing& ring, const HersCudaQuery& query) {
  return kResponseOverhead + ring.n / 8 * (query.bits[0] + query.bits[1]);
}

/** Up to eight queries against all blocks. */
class Pass {
 public:
  Pass(HersCuda& cuda, const HersCudaScan& scan, size_t blocks, size_t firstQuery, const HersCudaKept* kept)
      : cuda_(cuda), scan_(scan), ring_(scan.ring->ring), blocks_(blocks), firstQuery_(firstQuery), kept_(kept) {
    const HersCudaSegment& segment = *scan.segments[0];
    rows_ = segment.rows;
    packed_ = segment.packed;
    lines_ = segment.lineCount();
    words_ = scan.ring->words();
    queries_ = std::min<size_t>(kMostQueries, scan.queryCount - firstQuery);
    while (wide_ < queries_) wide_ *= 2;
    byTensors_ = cuda.hasTensors && wide_ >= 4;
    chunks_ = (rows_ + kRows - 1) / kRows;
  }

  void run(HersCudaTimes* times) {
    check(cudaEventRecord(cuda_.started, cuda_.stream), "starting");
    layQueries();
    check(cudaEventRecord(cuda_.ready, cuda_.stream), "starting");
    for (Lane& lane : cuda_.lanes) check(cudaStreamWaitEvent(lane.stream, cuda_.ready), "starting");
    try {
      runSlices();
    } catch (...) {
      // Nothing may be under way in buffers that the next scan uses.
      for (Lane& lane : cuda_.lanes) {
        cudaStreamSynchronize(lane.stream);
        lane.busy = false;
      }
      throw;
    }
    if (times) {
      float expand = 0, scan = 0;
      check(cudaStreamSynchronize(cuda_.stream), "waiting for the end");
      check(cudaEventElapsedTime(&expand, cuda_.started, cuda_.ready), "reading a clock");
      check(cudaEventElapsedTime(&scan, cuda_.ready, cuda_.ended), "reading a clock");
      times->expand += expand;
      times->scan += scan;
    }
  }

 private:
  const HersCudaQuery& query(size_t i) const { return scan_.queries[firstQuery_ + i]; }

  void layQueries() {
    const uint32_t laidRows = static_cast<uint32_t>((chunks_ + (byTensors_ ? 1 : 0)) * kRows);
    const size_t laidBytes = 4 * words_ * laidRows * 2 * wide_;
    cuda_.queries.atLeast(laidBytes, "making room for queries");
    const QueryLaid laid = {cuda_.queries.as<uint32_t>(), static_cast<uint32_t>(rows_), laidRows, wide_, byTensors_};
    cuda_.heads.atLeast(4 * kHeadWords * kMostQueries, "making room for queries");
    size_t most = 0, at = 0;
    for (size_t i = 0; i < queries_; i++) most += 4 * words_ * (rows_ + query(i).givenCount);
    cuda_.rows.atLeast(most, "making room for queries");
    for (uint32_t i = 0; i < wide_; i++) {
      if (i >= queries_) {
        hers_cuda::launch(clearQuery, laidRows, 256, 0, cuda_.stream, laid, i, words_);
        checkLaunch("expanding queries");
        continue;
      }
      const HersCudaQuery& from = query(i);
      const size_t rowWords = words_ * rows_, givenWords = words_ * from.givenCount;
      uint32_t* const rows = cuda_.rows.as<uint32_t>() + at;
      at += rowWords + givenWords;
      const auto copy = [&](void* to, const void* what, size_t bytes) {
        if (bytes > 0) check(cudaMemcpyAsync(to, what, bytes, cudaMemcpyHostToDevice, cuda_.stream), "copying queries");
      };
      copy(rows, from.rows, 4 * rowWords);
      copy(rows + rowWords, from.given, 4 * givenWords);
      copy(cuda_.heads.as<uint32_t>() + kHeadWords * i, from.head, 4 * kHeadWords);
      QuerySource source = {rows, rows + rowWords, static_cast<uint32_t>(from.givenFirst), static_cast<uint32_t>(from.givenCount), {}};
      memcpy(source.seed, from.seed, sizeof source.seed);
      hers_cuda::launch(expandRow, dim3(laidRows, ring_.primes), kExpandThreads, 0, cuda_.stream, laid, i, source, scan_.domain, ring_);
      checkLaunch("expanding queries");
    }
    if (!byTensors_) return;
    const uint32_t threads = 256, blocks = static_cast<uint32_t>((2 * wide_ * words_ + threads - 1) / threads);
    hers_cuda::launch(centreRows, blocks, threads, 0, cuda_.stream, laid, laidRows - kRows, words_, ring_);
    checkLaunch("expanding queries");
  }

  void runSlices() {
    size_t next = 0, slice = 0;
    for (; next < blocks_; slice++) {
      Lane& lane = cuda_.lanes[slice % kLanes];
      if (lane.busy) finish(lane);
      if (scan_.stop && *scan_.stop) fail(HERS_CUDA_STOPPED, "the scan was stopped");
      lane.firstBlock = next;
      lane.blocks = sliceFrom(next);
      next += lane.blocks;
      if (scan_.segments[segment_]->isInTurns()) fetch(lane);
      launch(lane);
    }
    for (int i = 0; i < kLanes; i++) {
      Lane& lane = cuda_.lanes[(slice + i) % kLanes];
      check(cudaStreamWaitEvent(cuda_.stream, lane.done), "waiting for the end");
    }
    check(cudaEventRecord(cuda_.ended, cuda_.stream), "waiting for the end");
    for (int i = 0; i < kLanes; i++) {
      Lane& lane = cuda_.lanes[(slice + i) % kLanes];
      if (lane.busy) finish(lane);
    }
  }

  /**
   * How many blocks from here on are a slice: as many as fit, and either on the device all of them
   * or fetched all of them. Afterwards segment_ is that of the first.
   */
  size_t sliceFrom(size_t first) {
    while (firstBlock_ + scan_.segments[segment_]->blocks <= first) firstBlock_ += scan_.segments[segment_++]->blocks;
    const bool inTurns = scan_.segments[segment_]->isInTurns();
    size_t end = firstBlock_;
    for (size_t i = segment_; i < scan_.segmentCount && scan_.segments[i]->isInTurns() == inTurns; i++) end += scan_.segments[i]->blocks;
    constexpr size_t step = Shape<1>::blocksOfAll;
    const size_t gallery = (inTurns ? kTurnBytes : kSliceGalleryBytes) / (4 * words_ * lines_);
    const size_t most = std::max<size_t>(1, std::min(kSliceBytes / (8 * words_ * queries_), gallery) / step) * step;
    return std::min(most, end - first);
  }

  /** Fetches the lines of a slice, which begins in segment_, and tells the device where they are. */
  void fetch(Lane& lane) {
    const size_t each = 4 * words_ * lines_, bytes = each * lane.blocks;
    lane.lines.atLeast(bytes + pastEnd(packed_), "making room for what is scanned in turns");
    uint8_t* const to = lane.lines.as<uint8_t>();
    lane.fetched.clear();
    size_t at = 0, first = firstBlock_;
    for (size_t i = segment_; at < lane.blocks; first += scan_.segments[i++]->blocks) {
      const HersCudaSegment& segment = *scan_.segments[i];
      const size_t skip = lane.firstBlock + at - first, count = std::min(segment.blocks - skip, lane.blocks - at);
      check(cudaMemcpyAsync(to + each * at, segment.host.as<uint8_t>() + each * skip, each * count, cudaMemcpyHostToDevice, lane.stream), "fetching the gallery");
      lane.fetched.push_back({reinterpret_cast<const uint32_t*>(to + each * at), segment.table.as<uint32_t>() + kEntryWords * skip, segment.blockWords(),
                              static_cast<uint32_t>(lane.firstBlock + at), static_cast<uint32_t>(count)});
      at += count;
    }
    check(cudaMemsetAsync(to + bytes, 0, pastEnd(packed_), lane.stream), "fetching the gallery");
    const size_t placeBytes = lane.fetched.size() * sizeof(DeviceSegment);
    lane.places.atLeast(placeBytes, "making room for what is scanned in turns");
    check(cudaMemcpyAsync(lane.places.as<void>(), lane.fetched.data(), placeBytes, cudaMemcpyHostToDevice, lane.stream), "fetching the gallery");
    hers_cuda::launch(locateBlocks, static_cast<uint32_t>(lane.fetched.size()), 64, 0, lane.stream, cuda_.blocks.as<DeviceBlock>(), lane.places.as<DeviceSegment>());
    checkLaunch("fetching the gallery");
  }

  void launch(Lane& lane) {
    RespondJob job = {};
    size_t bytes = 0;
    for (size_t i = 0; i < queries_; i++) {
      const HersCudaQuery& q = query(i);
      lane.offsets[i] = bytes;
      lane.lengths[i] = responseBytes(ring_, q);
      // Kept responses lie in the order of all blocks, others in that of the slice.
      const size_t at = kept_ ? kept_->offsets[firstQuery_ + i] + lane.firstBlock * lane.lengths[i] : bytes;
      job.shapes[i] = {{q.bits[0], q.bits[1]}, static_cast<uint32_t>(lane.lengths[i] / 4), at / 4};
      bytes += lane.blocks * lane.lengths[i];
    }
    lane.sums.atLeast(8 * words_ * queries_ * lane.blocks, "making room for sums");
    if (!kept_) lane.responses.atLeast(bytes, "making room for responses");
    if (scan_.parts & HERS_CUDA_COPY) cuda_.pool->take(lane.host, bytes);
    const DeviceBlock* const blocks = cuda_.blocks.as<DeviceBlock>() + lane.firstBlock;
    const uint32_t count = static_cast<uint32_t>(lane.blocks);
    if (scan_.parts & HERS_CUDA_MULTIPLY) {
      MultiplyJob multiply = {blocks, cuda_.queries.as<uint32_t>(), lane.sums.as<uint32_t>(), count, static_cast<uint32_t>(queries_),
                              static_cast<uint32_t>(words_), static_cast<uint32_t>(lines_), static_cast<uint32_t>(chunks_), ring_};
      if (byTensors_) launchTensors(wide_, packed_, multiply, cuda_.processors, lane.stream);
      else launchMultiply(wide_, packed_, multiply, lane.stream);
    }
    if (scan_.parts & HERS_CUDA_RESPOND) {
      job.blocks = blocks;
      job.sums = lane.sums.as<uint32_t>();
      job.heads = cuda_.heads.as<uint32_t>();
      job.out = kept_ ? const_cast<uint32_t*>(reinterpret_cast<const uint32_t*>(kept_->bytes)) : lane.responses.as<uint32_t>();
      job.blockCount = count;
      job.ring = ring_;
      launchRespond(ring_, job, static_cast<uint32_t>(queries_), lane.stream);
    }
    if (scan_.parts & HERS_CUDA_COPY) {
      check(cudaMemcpyAsync(lane.host.as<void>(), lane.responses.as<void>(), bytes, cudaMemcpyDeviceToHost, lane.stream), "copying responses");
    }
    check(cudaEventRecord(lane.done, lane.stream), "scanning");
    lane.busy = true;
  }

  void finish(Lane& lane) {
    check(cudaEventSynchronize(lane.done), "scanning");
    lane.busy = false;
    if (!(scan_.parts & HERS_CUDA_COPY) || !scan_.deliver) return;
    const HersCudaBatch batch = {lane.host.as<uint8_t>(), lane.firstBlock, lane.blocks, static_cast<uint32_t>(firstQuery_),
                                 static_cast<uint32_t>(queries_), lane.offsets, lane.lengths, &lane};
    if (scan_.deliver(scan_.context, &batch) != 0) fail(HERS_CUDA_STOPPED, "the scan was stopped");
  }

  HersCuda& cuda_;
  const HersCudaScan& scan_;
  const DeviceRing& ring_;
  size_t blocks_, firstQuery_, rows_, lines_, words_, queries_, chunks_;
  /** The segment that the slice begins in, and its first block. */
  size_t segment_ = 0, firstBlock_ = 0;
  /** Where responses stay; null where they are copied to the host. */
  const HersCudaKept* kept_;
  uint32_t wide_ = 1;
  bool packed_, byTensors_;
};

/** Tells the device where every block is, and returns how many there are. */
size_t locate(HersCuda& cuda, const HersCudaScan& scan) {
  std::vector<DeviceSegment> segments;
  size_t blocks = 0;
  for (size_t i = 0; i < scan.segmentCount; i++) {
    const HersCudaSegment& segment = *scan.segments[i];
    segments.push_back({segment.lines.as<uint32_t>(), segment.table.as<uint32_t>(), segment.blockWords(), static_cast<uint32_t>(blocks),
                        static_cast<uint32_t>(segment.blocks)});
    blocks += segment.blocks;
  }
  if (blocks > UINT32_MAX) fail(HERS_CUDA_INVALID, "these are more blocks than one scan takes");
  const size_t bytes = segments.size() * sizeof(DeviceSegment);
  cuda.segments.atLeast(bytes, "making room for a scan");
  cuda.blocks.atLeast(blocks * sizeof(DeviceBlock), "making room for a scan");
  check(cudaMemcpyAsync(cuda.segments.as<void>(), segments.data(), bytes, cudaMemcpyHostToDevice, cuda.stream), "starting");
  hers_cuda::launch(locateBlocks, static_cast<uint32_t>(segments.size()), 64, 0, cuda.stream, cuda.blocks.as<DeviceBlock>(), cuda.segments.as<DeviceSegment>());
  checkLaunch("starting");
  return blocks;
}

/** Bytes in a second, the best of five after one that warms up. */
double fastestCopy(HersCuda& cuda, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  double best = 0;
  for (int i = 0; i < 6; i++) {
    check(cudaEventRecord(cuda.started, cuda.stream), "measuring it");
    check(cudaMemcpyAsync(to, from, bytes, kind, cuda.stream), "measuring it");
    check(cudaEventRecord(cuda.ended, cuda.stream), "measuring it");
    check(cudaStreamSynchronize(cuda.stream), "measuring it");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, cuda.started, cuda.ended), "measuring it");
    if (i > 0) best = std::max(best, 1e3 * static_cast<double>(bytes) / milliseconds);
  }
  return best;
}

/** From where scans fetch it. */
void moveToHost(HersCudaSegment& segment, cudaStream_t stream) {
  const size_t bytes = 4 * segment.blocks * segment.blockWords();
  segment.host.atLeast(bytes, "making room for a segment");
  check(cudaMemcpyAsync(segment.host.as<void>(), segment.lines.as<void>(), bytes, cudaMemcpyDeviceToHost, stream), "loading a segment");
  check(cudaStreamSynchronize(stream), "loading a segment");
  segment.lines.release();
}

/** Refuses a segment that would leave too little for scans. */
void keepReserve(size_t bytes) {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "making room for a segment");
  if (free < bytes + std::min(kReserveBytes, total / 8)) fail(HERS_CUDA_NO_MEMORY, "the GPU has too little memory left for another segment");
}

void checkScan(const HersCudaScan& scan) {
  if (!scan.ring || scan.segmentCount == 0 || scan.queryCount == 0) fail(HERS_CUDA_INVALID, "there is nothing to scan");
  const HersCudaSegment& first = *scan.segments[0];
  for (size_t i = 0; i < scan.segmentCount; i++) {
    const HersCudaSegment& segment = *scan.segments[i];
    if (segment.rows != first.rows || segment.packed != first.packed || segment.words != scan.ring->words()) {
      fail(HERS_CUDA_INVALID, "a segment does not fit the ring, or the others");
    }
  }
  const uint32_t most = std::min<uint32_t>(32, 30 + scan.ring->ring.bits);
  for (size_t i = 0; i < scan.queryCount; i++) {
    const HersCudaQuery& query = scan.queries[i];
    const bool right = query.bits[0] >= 1 && query.bits[1] >= 1 && query.bits[0] <= most && query.bits[1] <= most;
    if (!right || query.givenFirst > first.rows || query.givenCount > first.rows - query.givenFirst) {
      fail(HERS_CUDA_INVALID, "a query does not fit a segment");
    }
  }
}

void checkLayout(const HersCudaRing& ring, size_t rows, size_t blocks, bool packed) {
  if (rows < 1 || blocks < 1 || rows > 65535 || blocks > 65535) fail(HERS_CUDA_INVALID, "a segment has no such shape");
  for (uint32_t i = 0; i < ring.ring.primes; i++) {
    if (packed && rows > ring.tables.ring().moduli[i].unfoldedRows) fail(HERS_CUDA_INVALID, "packed rows are not for this ring");
  }
}

}  // namespace

extern "C" {

uint32_t hersCudaInterface(void) { return HERS_CUDA_INTERFACE; }

const char* hersCudaMessage(void) { return message.c_str(); }

int hersCudaOpen(int device, HersCuda** out) {
  return guarded([&] {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
      cudaGetLastError();
      int driver = 0;
      cudaDriverGetVersion(&driver);
      if (driver == 0) fail(HERS_CUDA_NO_DEVICE, "there is no NVIDIA driver on this machine");
      fail(HERS_CUDA_NO_DEVICE, error == cudaErrorInsufficientDriver
                                    ? "the NVIDIA driver is older than the CUDA version " + std::to_string(CUDART_VERSION / 1000) + " that this was built with"
                                    : "the NVIDIA driver finds no GPU");
    }
    if (device < 0 || device >= count) fail(HERS_CUDA_NO_DEVICE, "there is no GPU number " + std::to_string(device));
    check(cudaSetDevice(device), "opening it");
    std::unique_ptr<HersCuda> cuda(new HersCuda);
    cuda->device = device;
    int singles = 0, processors = 0;
    check(cudaDeviceGetAttribute(&singles, cudaDevAttrSingleToDoublePrecisionPerfRatio, device), "opening it");
    cuda->hasTensors = singles <= 2;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "opening it");
    cuda->processors = static_cast<uint32_t>(processors);
    check(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "opening it");
    for (cudaEvent_t* event : {&cuda->started, &cuda->ready, &cuda->ended}) check(cudaEventCreate(event), "opening it");
    for (Lane& lane : cuda->lanes) {
      lane.cuda = cuda.get();
      check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "opening it");
      check(cudaEventCreateWithFlags(&lane.done, cudaEventDisableTiming | cudaEventBlockingSync), "opening it");
    }
    // Finds out whether the library has code for this device.
    cudaFuncAttributes attributes;
    if (cudaFuncGetAttributes(&attributes, locateBlocks) != cudaSuccess) {
      cudaGetLastError();
      fail(HERS_CUDA_NO_DEVICE, "this was not built for the architecture of the GPU");
    }
    *out = cuda.release();
  });
}

void hersCudaClose(HersCuda* cuda) { delete cuda; }

int hersCudaDescribe(HersCuda* cuda, HersCudaDevice* out) {
  return guarded([&] {
    check(cudaSetDevice(cuda->device), "describing it");
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, cuda->device), "describing it");
    *out = {};
    snprintf(out->name, sizeof out->name, "%s", properties.name);
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "describing it");
    out->memory = total;
    out->free = free;
    out->major = properties.major;
    out->minor = properties.minor;
    out->processors = properties.multiProcessorCount;
    check(cudaDriverGetVersion(&out->driver), "describing it");
    check(cudaRuntimeGetVersion(&out->runtime), "describing it");
  });
}

int hersCudaCopySpeed(HersCuda* cuda, size_t bytes, double* out) {
  return guarded([&] {
    const std::lock_guard<std::mutex> lock(cuda->mutex);
    check(cudaSetDevice(cuda->device), "measuring it");
    DeviceBuffer from, to;
    from.atLeast(bytes, "measuring it");
    to.atLeast(bytes, "measuring it");
    check(cudaMemsetAsync(from.as<void>(), 0x5a, bytes, cuda->stream), "measuring it");
    // Read and written.
    *out = 2 * fastestCopy(*cuda, to.as<void>(), from.as<void>(), bytes, cudaMemcpyDeviceToDevice);
  });
}

int hersCudaLinkSpeed(HersCuda* cuda, size_t bytes, double* out) {
  return guarded([&] {
    const std::lock_guard<std::mutex> lock(cuda->mutex);
    check(cudaSetDevice(cuda->device), "measuring it");
    PinnedBuffer from;
    DeviceBuffer to;
    from.atLeast(bytes, "measuring it");
    to.atLeast(bytes, "measuring it");
    memset(from.as<void>(), 0x5a, bytes);
    *out = fastestCopy(*cuda, to.as<void>(), from.as<void>(), bytes, cudaMemcpyHostToDevice);
  });
}

int hersCudaCreateRing(HersCuda* cuda, uint32_t n, const HersCudaPrime* primes, size_t count, HersCudaRing** out) {
  return guarded([&] {
    if (!isKnownRing(n, count)) fail(HERS_CUDA_INVALID, "there is no CUDA code for a ring of this size");
    const std::lock_guard<std::mutex> lock(cuda->mutex);
    check(cudaSetDevice(cuda->device), "making tables");
    std::vector<hers::PrimeConstants> constants;
    for (size_t i = 0; i < count; i++) {
      const HersCudaPrime& prime = primes[i];
      constants.push_back({prime.p, prime.scale, prime.last, prime.share, prime.reciprocal, {prime.inverses, prime.inverses + n}});
    }
    std::unique_ptr<HersCudaRing> ring(new HersCudaRing(n, constants));
    const hers::Ring& host = ring->tables.ring();
    ring->ring.n = n;
    ring->ring.primes = host.primes;
    ring->ring.bits = host.bits;
    for (size_t i = 0; i < count; i++) {
      const hers::Modulus& m = host.moduli[i];
      std::vector<uint2> twiddles(n);
      for (uint32_t k = 0; k < n; k++) twiddles[k] = make_uint2(m.inverses[k], m.inversesShoup[k]);
      ring->twiddles[i].atLeast(n * sizeof(uint2), "making tables");
      check(cudaMemcpyAsync(ring->twiddles[i].as<void>(), twiddles.data(), n * sizeof(uint2), cudaMemcpyHostToDevice, cuda->stream), "making tables");
      const uint32_t foldBy = static_cast<uint32_t>((uint64_t{1} << 32) % m.p);
      ring->ring.moduli[i] = {m.p, m.negativeInverse, foldBy, m.reciprocal, make_uint2(m.scale, m.scaleShoup), make_uint2(m.last, m.lastShoup), ring->twiddles[i].as<uint2>()};
    }
    check(cudaStreamSynchronize(cuda->stream), "making tables");
    *out = ring.release();
  });
}

void hersCudaFreeRing(HersCudaRing* ring) { delete ring; }

int hersCudaLoad(HersCuda* cuda, HersCudaRing* ring, const HersCudaLayout* layout, const uint8_t* data, int inTurns, HersCudaSegment** out,
                 uint32_t* part) {
  return guarded([&] {
    const std::lock_guard<std::mutex> lock(cuda->mutex);
    check(cudaSetDevice(cuda->device), "loading a segment");
    checkLayout(*ring, layout->rows, layout->blocks, layout->packed);
    std::unique_ptr<HersCudaSegment> segment(new HersCudaSegment{cuda->device, layout->rows, layout->blocks, ring->words(), layout->packed != 0, {}, {}, {}, {layout->table, layout->table + 4 * kEntryWords * layout->blocks}});
    const size_t bytes = 4 * segment->blocks * segment->blockWords();
    // Room for its own order is made at first, and stays.
    if (!inTurns) keepReserve(bytes + (bytes > cuda->staging.bytes() ? bytes - cuda->staging.bytes() : 0));
    allocate(*segment, cuda->stream);
    const uint32_t parts = static_cast<uint32_t>(ring->words() / hers::kGroup);
    cuda->staging.atLeast(bytes, "making room for a segment");
    cuda->checksums.atLeast(8 * parts, "making room for a segment");
    cuda->bad.atLeast(4, "making room for a segment");
    const cudaStream_t stream = cuda->stream;
    const auto copy = [&](void* to, const void* from, size_t length) {
      check(cudaMemcpyAsync(to, from, length, cudaMemcpyHostToDevice, stream), "loading a segment");
    };
    copy(cuda->staging.as<void>(), data, bytes);
    copy(cuda->checksums.as<void>(), layout->checksums, 8 * parts);
    copy(segment->table.as<void>(), layout->table, 4 * kEntryWords * segment->blocks);
    check(cudaMemsetAsync(cuda->bad.as<void>(), 0xff, 4, stream), "loading a segment");
    constexpr uint32_t threads = 128;
    hers_cuda::launch(verifyParts, (4 * parts + threads - 1) / threads, threads, 0, stream, cuda->staging.as<uint64_t>(), bytes / 8 / parts, parts,
                                                                            cuda->checksums.as<uint64_t>(), cuda->bad.as<uint32_t>());
    checkLaunch("verifying a segment");
    hers_cuda::launch(rearrange, gridFor(bytes / 16), 256, 0, stream, segment->lines.as<uint4>(), cuda->staging.as<uint4>(), static_cast<uint32_t>(ring->words()),
                                        static_cast<uint32_t>(segment->lineCount()), static_cast<uint32_t>(hers::linesOf(kPanelRows, segment->packed)),
                                        static_cast<uint32_t>(segment->blocks));
    checkLaunch("loading a segment");
    uint32_t bad = 0;
    check(cudaMemcpyAsync(&bad, cuda->bad.as<void>(), 4, cudaMemcpyDeviceToHost, stream), "verifying a segment");
    check(cudaStreamSynchronize(stream), "loading a segment");
    if (bad != UINT32_MAX) {
      *part = bad;
      fail(HERS_CUDA_DAMAGED, "part " + std::to_string(bad) + " does not fit its checksum");
    }
    if (inTurns) moveToHost(*segment, stream);
    *out = segment.release();
  });
}

int hersCudaFill(HersCuda* cuda, HersCudaRing* ring, size_t rows, size_t blocks, int packed, uint32_t seed, int inTurns, HersCudaSegment** out) {
  return guarded([&] {
    const std::lock_guard<std::mutex> lock(cuda->mutex);
    check(cudaSetDevice(cuda->device), "filling a segment");
    checkLayout(*ring, rows, blocks, packed);
    std::unique_ptr<HersCudaSegment> segment(new HersCudaSegment{cuda->device, rows, blocks, ring->words(), packed != 0, {}, {}, {}, std::vector<uint8_t>(4 * kEntryWords * blocks, 1)});
    allocate(*segment, cuda->stream);
    check(cudaMemsetAsync(segment->table.as<void>(), 1, 4 * kEntryWords * blocks, cuda->stream), "filling a segment");
    hers_cuda::launch(fillLines, gridFor(blocks * segment->blockWords()), 256, 0, cuda->stream, segment->lines.as<uint32_t>(), segment->blockWords(), blocks * segment->blockWords(),
                                             static_cast<uint32_t>(segment->lineCount()), seed, packed != 0, ring->ring);
    checkLaunch("filling a segment");
    check(cudaStreamSynchronize(cuda->stream), "filling a segment");
    if (inTurns) moveToHost(*segment, cuda->stream);
    *out = segment.release();
  });
}

size_t hersCudaSegmentBytes(const HersCudaSegment* segment) { return segment->lines.bytes() + segment->host.bytes() + segment->table.bytes(); }

void hersCudaUnload(HersCudaSegment* segment) {
  cudaSetDevice(segment->device);
  delete segment;
}

int hersCudaScan(HersCuda* cuda, const HersCudaScan* scan, HersCudaTimes* times) {
  return guarded([&] {
    checkScan(*scan);
    const std::lock_guard<std::mutex> lock(cuda->mutex);
    check(cudaSetDevice(cuda->device), "starting");
    if (times) *times = {};
    const size_t blocks = locate(*cuda, *scan);
    for (size_t first = 0; first < scan->queryCount; first += kMostQueries) Pass(*cuda, *scan, blocks, first, nullptr).run(times);
  });
}

HersCudaHost* hersCudaTake(const HersCudaBatch* batch) {
  Lane& lane = *static_cast<Lane*>(batch->lane);
  const std::shared_ptr<HostPool>& pool = lane.cuda->pool;
  if (!pool->lend(lane.host.bytes())) return nullptr;
  HersCudaHost* const host = new HersCudaHost{pool, {}};
  host->buffer.swap(lane.host);
  return host;
}

void hersCudaGive(HersCudaHost* host) {
  host->pool->give(host->buffer);
  delete host;
}

int hersCudaKeep(HersCuda* cuda, const HersCudaScan* scan, HersCudaResponses** out, HersCudaTimes* times) {
  return guarded([&] {
    checkScan(*scan);
    const std::lock_guard<std::mutex> lock(cuda->mutex);
    check(cudaSetDevice(cuda->device), "starting");
    if (times) *times = {};
    std::unique_ptr<HersCudaResponses> responses(new HersCudaResponses{cuda, {}, {}, {}, {}, {}});
    const size_t blocks = locate(*cuda, *scan);
    size_t bytes = 0;
    for (size_t i = 0; i < scan->queryCount; i++) {
      responses->offsets.push_back(bytes);
      responses->lengths.push_back(responseBytes(scan->ring->ring, scan->queries[i]));
      bytes += blocks * responses->lengths.back();
    }
    {
      const std::lock_guard<std::mutex> own(cuda->spareMutex);
      responses->bytes.swap(cuda->spare);
    }
    responses->bytes.atLeast(bytes, "making room for responses");
    responses->entries.reserve(4 * kEntryWords * blocks);
    for (size_t i = 0; i < scan->segmentCount; i++) {
      const std::vector<uint8_t>& entries = scan->segments[i]->entries;
      responses->entries.insert(responses->entries.end(), entries.begin(), entries.end());
    }
    responses->kept = {HERS_CUDA_KEPT, cuda->device, responses->bytes.as<uint8_t>(), blocks, scan->queryCount, responses->offsets.data(),
                       responses->lengths.data(), responses->entries.data()};
    HersCudaScan staying = *scan;
    staying.parts = HERS_CUDA_MULTIPLY | HERS_CUDA_RESPOND;
    for (size_t first = 0; first < scan->queryCount; first += kMostQueries) Pass(*cuda, staying, blocks, first, &responses->kept).run(times);
    *out = responses.release();
  });
}

const HersCudaKept* hersCudaKept(const HersCudaResponses* responses) { return &responses->kept; }

void hersCudaForget(HersCudaResponses* responses) {
  HersCuda* const cuda = responses->cuda;
  cudaSetDevice(cuda->device);
  {
    const std::lock_guard<std::mutex> lock(cuda->spareMutex);
    if (responses->bytes.bytes() > cuda->spare.bytes()) responses->bytes.swap(cuda->spare);
  }
  delete responses;
}

}  // extern "C"
