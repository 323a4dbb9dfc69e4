// A program for a machine with a GPU: compares the library's responses with those of the native
// kernel's plain code, byte for byte, and measures it.
//
//   hers_cuda_check compare              every parameter set, many shapes and residues
//   hers_cuda_check measure [millions]   the tables of README.md, as lines of JSON
//   hers_cuda_check measure millions dimensions queries
//
// Segments, queries and rings are made here, without keys: kernels cannot tell.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../packages/scan/native/tables.h"
#include "../../packages/scan/native/variant.h"
#include "../../packages/ring/lanes/xxh64.h"
#include "hers_cuda.h"

namespace {

constexpr size_t kPanelRows = 64;
constexpr uint32_t kDomain = 2;

struct Set {
  const char* name;
  uint32_t n;
  std::vector<uint32_t> primes;
  uint32_t digits;
  bool packed;
};

/** packages/scheme/src/parameters.ts */
const std::vector<Set> kSets = {
    {"n_2048_logq_30_wide_5", 2048, {1073692673}, 4, false},
    {"n_4096_logq_30_30_wide_4", 4096, {1073643521, 1073479681}, 3, false},
    {"n_2048_logq_24_wide_5", 2048, {16760833}, 6, true},
    {"insecure_n_64_logq_30_wide_5", 64, {1073741441}, 4, false},
    {"insecure_n_64_logq_30_30_wide_4", 64, {1073741441, 1073739649}, 3, false},
    {"insecure_n_64_logq_24_wide_5", 64, {16776961}, 6, true},
};

void must(int state, const char* doing) {
  if (state == HERS_CUDA_OK) return;
  printf("%s: %s\n", doing, hersCudaMessage());
  exit(1);
}

uint64_t power(uint64_t base, uint64_t exponent, uint64_t p) {
  uint64_t result = 1;
  for (base %= p; exponent > 0; exponent >>= 1, base = base * base % p) {
    if (exponent & 1) result = result * base % p;
  }
  return result;
}

/** What packages/ring/src/modulus.ts computes, with any root of unity. */
std::vector<hers::PrimeConstants> constantsOf(const Set& set) {
  std::vector<hers::PrimeConstants> all;
  for (uint32_t p : set.primes) {
    uint64_t root = 0;
    for (uint64_t x = 2; root == 0; x++) {
      const uint64_t y = power(x, (p - 1) / (2 * set.n), p);
      if (power(y, set.n, p) == p - 1) root = y;
    }
    const uint64_t inverse = power(root, p - 2, p);
    std::vector<uint32_t> inverses(set.n);
    uint64_t value = 1;
    for (uint32_t i = 0; i < set.n; i++, value = value * inverse % p) {
      uint32_t reversed = 0;
      for (uint32_t bit = 1, other = set.n / 2; bit < set.n; bit *= 2, other /= 2) reversed |= i & bit ? other : 0;
      inverses[reversed] = static_cast<uint32_t>(value);
    }
    uint64_t others = 1;
    for (uint32_t q : set.primes) others = q == p ? others : others * q % p;
    int bits = 0;
    while (p >> bits) bits++;
    const uint64_t scale = power(set.n, p - 2, p);
    all.push_back({p, static_cast<uint32_t>(scale), static_cast<uint32_t>(scale * inverses[1] % p), static_cast<uint32_t>(power(others, p - 2, p)),
                   static_cast<uint32_t>(((uint64_t{1} << (31 + bits)) + p / 2) / p), inverses});
  }
  return all;
}

HersCudaRing* ringOf(HersCuda* cuda, const Set& set) {
  const auto constants = constantsOf(set);
  std::vector<HersCudaPrime> primes;
  for (const auto& c : constants) primes.push_back({c.p, c.scale, c.last, c.share, c.reciprocal, c.inverses.data()});
  HersCudaRing* ring = nullptr;
  must(hersCudaCreateRing(cuda, set.n, primes.data(), primes.size(), &ring), "ring");
  return ring;
}

enum class Residues { kRandom, kLargest, kMixed };

uint32_t residue(std::mt19937& random, Residues kind, uint32_t p) {
  const uint32_t x = random();
  if (kind == Residues::kLargest || (kind == Residues::kMixed && x % 3 == 0)) return p - 1;
  return kind == Residues::kMixed && x % 3 == 1 ? x / 3 % 2 : x % p;
}

/** A segment in its own order, and its header. */
struct Segment {
  size_t rows, blocks, words;
  bool packed;
  std::vector<uint32_t> data;
  std::vector<uint8_t> table;
  std::vector<uint64_t> checksums;

  size_t partWords() const { return blocks * hers::linesOf(rows, packed) * hers::kGroup; }
  HersCudaLayout layout() const { return {rows, blocks, packed, table.data(), checksums.data()}; }
};

Segment segmentOf(const Set& set, size_t rows, size_t blocks, Residues kind, std::mt19937& random) {
  Segment s = {rows, blocks, set.n * set.primes.size(), set.packed, {}, {}, {}};
  const size_t parts = s.words / hers::kGroup;
  s.data.resize(parts * s.partWords());
  for (size_t part = 0; part < parts; part++) {
    const uint32_t p = set.primes[part * hers::kGroup / set.n];
    uint32_t* at = s.data.data() + part * s.partWords();
    for (size_t first = 0; first < rows; first += kPanelRows) {
      const size_t count = std::min(kPanelRows, rows - first);
      for (size_t block = 0; block < blocks; block++) {
        for (size_t row = 0; row < count; row++) {
          const bool isTop = s.packed && row % 4 == 3;
          for (size_t lane = 0; lane < hers::kGroup; lane++) {
            const uint32_t word = residue(random, kind, p);
            if (!isTop) at[lane] = word;
            else
              for (int line = 0; line < 3; line++) *(at + lane - (3 - line) * hers::kGroup) |= (word >> 8 * line & 0xff) << 24;
          }
          if (!isTop) at += hers::kGroup;
        }
      }
    }
    s.checksums.push_back(hers::xxh64(reinterpret_cast<const uint8_t*>(s.data.data() + part * s.partWords()), 4 * s.partWords()));
  }
  s.table.resize(24 * blocks);
  for (auto& byte : s.table) byte = static_cast<uint8_t>(random());
  return s;
}

struct Query {
  uint32_t bits[2];
  std::vector<uint8_t> seed, head;
  std::vector<uint32_t> rows, given;
  size_t givenFirst, givenCount;

  HersCudaQuery view() const { return {{bits[0], bits[1]}, seed.data(), head.data(), rows.data(), given.data(), givenFirst, givenCount}; }
  size_t length(uint32_t n) const { return 88 + n / 8 * (bits[0] + bits[1]); }
};

Query queryOf(const Set& set, size_t rows, uint32_t bits0, uint32_t bits1, size_t givenCount, Residues kind, std::mt19937& random) {
  Query q = {{bits0, bits1}, std::vector<uint8_t>(32), std::vector<uint8_t>(80), {}, {}, rows - set.digits, givenCount};
  for (auto& byte : q.seed) byte = static_cast<uint8_t>(random());
  for (auto& byte : q.head) byte = static_cast<uint8_t>(random());
  const size_t words = set.n * set.primes.size();
  q.rows.resize(rows * words);
  q.given.resize(givenCount * words);
  const auto fill = [&](std::vector<uint32_t>& into) {
    for (size_t i = 0; i < into.size(); i++) into[i] = residue(random, kind, set.primes[i % words / set.n]);
  };
  fill(q.rows);
  fill(q.given);
  return q;
}

template <class F>
void inParallel(size_t count, F f) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); i++) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < count; at = next++) f(at);
    });
  }
  for (auto& thread : threads) thread.join();
}

/** Responses of the native kernel's plain code: [query][block]. */
std::vector<std::vector<uint8_t>> expected(const Set& set, const hers::RingTables& tables, const Segment& s, const std::vector<Query>& queries) {
  const hers::Ring& ring = tables.ring();
  const hers::Variant& variant = hers::kGeneric;
  const size_t laidWords = tables.groups() * s.rows * hers::kQueryRow;
  hers::Aligned<uint32_t> laid(laidWords * queries.size());
  inParallel(queries.size(), [&](size_t q) {
    hers::Aligned<uint32_t> work(hers::kExpandRows * ring.n);
    for (size_t first = 0; first < s.rows; first += hers::kExpandRows) {
      const Query& from = queries[q];
      hers::Expand job = {};
      job.ring = &ring;
      job.rows = from.rows.data();
      job.seed = from.seed.data();
      job.domain = kDomain;
      job.given = from.given.data();
      job.givenFirst = from.givenFirst;
      job.givenCount = from.givenCount;
      job.first = first;
      job.count = std::min(hers::kExpandRows, s.rows - first);
      job.total = s.rows;
      job.out = laid.get() + q * laidWords;
      job.work = work.get();
      variant.expand(job);
    }
  });
  const size_t perGroup = queries.size() * s.blocks * hers::kQueryRow;
  hers::Aligned<uint32_t> sums(tables.groups() * perGroup);
  const int stop = 0;
  inParallel(tables.groups(), [&](size_t part) {
    hers::Aligned<uint64_t> work(perGroup);
    hers::Aligned<uint32_t> copy(s.partWords());
    memcpy(copy.get(), s.data.data() + part * s.partWords(), 4 * s.partWords());
    hers::Multiply job = {};
    job.part = copy.get();
    job.query = laid.get() + part * s.rows * hers::kQueryRow;
    job.queryStride = laidWords;
    job.rows = s.rows;
    job.blocks = s.blocks;
    job.queries = queries.size();
    job.panelRows = kPanelRows;
    job.packed = s.packed;
    job.modulus = &ring.moduli[part * hers::kGroup / ring.n];
    job.out = sums.get() + part * perGroup;
    job.sums = work.get();
    job.stop = &stop;
    variant.multiply(job);
  });
  std::vector<std::vector<uint8_t>> all(queries.size() * s.blocks);
  inParallel(all.size(), [&](size_t i) {
    const Query& query = queries[i / s.blocks];
    const size_t block = i % s.blocks;
    std::vector<uint8_t>& bytes = all[i];
    bytes.resize(query.length(ring.n));
    memcpy(bytes.data(), query.head.data(), 80);
    memcpy(bytes.data() + 48, s.table.data() + 24 * block, 24);
    hers::Aligned<uint32_t> work(2 * tables.words());
    // Without AVX-512 a plan is its bits.
    const hers::PackPlan plans[2] = {{query.bits[0], 0, nullptr, nullptr}, {query.bits[1], 0, nullptr, nullptr}};
    uint8_t* const body = bytes.data() + 80;
    hers::Respond job = {};
    job.ring = &ring;
    job.sums = sums.get() + i * hers::kQueryRow;
    job.second = hers::kGroup;
    job.groupStride = perGroup;
    job.work = work.get();
    for (int half = 0; half < 2; half++) job.pack[half] = &plans[half];
    job.out[0] = body;
    job.out[1] = body + ring.n * query.bits[0] / 8;
    variant.respond(job);
    const uint64_t hash = hers::xxh64(bytes.data(), bytes.size() - 8);
    for (int k = 0; k < 8; k++) bytes[bytes.size() - 8 + k] = static_cast<uint8_t>(hash >> 8 * k);
  });
  (void)set;
  return all;
}

/** What a scan delivers: [query][block over all segments]. */
struct Collected {
  size_t blocks;
  std::vector<std::vector<uint8_t>> responses;
  size_t twice = 0;
  int stopAfter = -1;
  std::vector<HersCudaHost*> taken = {};

  static int deliver(void* context, const HersCudaBatch* batch) {
    Collected& self = *static_cast<Collected*>(context);
    for (uint32_t q = 0; q < batch->queries; q++) {
      for (size_t b = 0; b < batch->blocks; b++) {
        auto& to = self.responses[(batch->firstQuery + q) * self.blocks + batch->firstBlock + b];
        if (!to.empty()) self.twice++;
        const uint8_t* const from = batch->bytes + batch->offsets[q] + b * batch->lengths[q];
        to.assign(from, from + batch->lengths[q]);
      }
    }
    // Some memory is taken, and given back later.
    if (batch->firstBlock % 3 == 0) {
      if (HersCudaHost* const host = hersCudaTake(batch)) self.taken.push_back(host);
    }
    return self.stopAfter >= 0 && self.stopAfter-- == 0;
  }

  ~Collected() {
    for (HersCudaHost* host : taken) hersCudaGive(host);
  }
};

struct Shape {
  size_t rows;
  std::vector<size_t> segments;
  size_t queries;
  Residues residues;
};

size_t compared = 0, wrong = 0;

void compareShape(HersCuda* cuda, const Set& set, const hers::RingTables& tables, HersCudaRing* ring, const Shape& shape, std::mt19937& random) {
  static const uint32_t kBits[][2] = {{11, 16}, {13, 18}, {10, 15}, {27, 32}, {21, 27}, {1, 32}, {7, 9}, {32, 32}, {15, 17}};
  std::vector<Query> queries;
  for (size_t i = 0; i < shape.queries; i++) {
    const auto& bits = kBits[(i + shape.rows) % (sizeof kBits / sizeof *kBits)];
    queries.push_back(queryOf(set, shape.rows, bits[0], bits[1], i % 2, shape.residues, random));
  }
  std::vector<HersCudaQuery> views;
  for (const auto& query : queries) views.push_back(query.view());
  std::vector<Segment> segments;
  std::vector<HersCudaSegment*> loaded;
  Collected collected = {0, {}};
  for (size_t blocks : shape.segments) {
    segments.push_back(segmentOf(set, shape.rows, blocks, shape.residues, random));
    const HersCudaLayout layout = segments.back().layout();
    HersCudaSegment* segment = nullptr;
    uint32_t part = 0;
    // Every other one is scanned in turns.
    const int inTurns = (loaded.size() + shape.rows) % 2;
    must(hersCudaLoad(cuda, ring, &layout, reinterpret_cast<const uint8_t*>(segments.back().data.data()), inTurns, &segment, &part), "load");
    loaded.push_back(segment);
    collected.blocks += blocks;
  }
  collected.responses.resize(queries.size() * collected.blocks);
  const HersCudaScan scan = {ring, loaded.data(), loaded.size(), views.data(), views.size(), kDomain, HERS_CUDA_ALL, nullptr, Collected::deliver, &collected};
  must(hersCudaScan(cuda, &scan, nullptr), "scan");
  size_t bad = collected.twice, first = 0;
  for (const Segment& segment : segments) {
    const auto right = expected(set, tables, segment, queries);
    for (size_t i = 0; i < right.size(); i++) {
      compared++;
      if (right[i] != collected.responses[i / segment.blocks * collected.blocks + first + i % segment.blocks]) bad++;
    }
    first += segment.blocks;
  }
  wrong += bad;
  if (bad > 0) printf("%s, %zu rows, %zu segments, %zu queries, residues %d: %zu wrong\n", set.name, shape.rows, segments.size(), queries.size(), static_cast<int>(shape.residues), bad);
  for (HersCudaSegment* segment : loaded) hersCudaUnload(segment);
}

/** Damage is found, a stopped scan ends, and both leave a context that works. */
void compareFailures(HersCuda* cuda, std::mt19937& random) {
  const Set& set = kSets[0];
  HersCudaRing* const ring = ringOf(cuda, set);
  Segment segment = segmentOf(set, 19, 64, Residues::kRandom, random);
  const HersCudaLayout layout = segment.layout();
  HersCudaSegment* loaded = nullptr;
  uint32_t part = 0;
  segment.data[77 * segment.partWords() + 5] ^= 1;
  const int state = hersCudaLoad(cuda, ring, &layout, reinterpret_cast<const uint8_t*>(segment.data.data()), 0, &loaded, &part);
  if (state != HERS_CUDA_DAMAGED || part != 77) wrong++, printf("damage was not found: %d, part %u\n", state, part);
  segment.data[77 * segment.partWords() + 5] ^= 1;
  must(hersCudaLoad(cuda, ring, &layout, reinterpret_cast<const uint8_t*>(segment.data.data()), 0, &loaded, &part), "load");
  const Query query = queryOf(set, 19, 11, 16, 0, Residues::kRandom, random);
  const HersCudaQuery view = query.view();
  std::vector<HersCudaSegment*> many(400, loaded);
  Collected collected = {64 * many.size(), {}};
  collected.responses.resize(collected.blocks);
  collected.stopAfter = 1;
  HersCudaScan scan = {ring, many.data(), many.size(), &view, 1, kDomain, HERS_CUDA_ALL, nullptr, Collected::deliver, &collected};
  if (hersCudaScan(cuda, &scan, nullptr) != HERS_CUDA_STOPPED) wrong++, printf("a scan was not stopped by its consumer\n");
  const volatile int stop = 1;
  scan.stop = &stop;
  if (hersCudaScan(cuda, &scan, nullptr) != HERS_CUDA_STOPPED) wrong++, printf("a scan was not stopped by the flag\n");
  scan.stop = nullptr;
  collected.stopAfter = -1;
  for (auto& response : collected.responses) response.clear();
  must(hersCudaScan(cuda, &scan, nullptr), "scan");
  const hers::RingTables tables(set.n, constantsOf(set), 4);
  const auto right = expected(set, tables, segment, {query});
  for (size_t i = 0; i < collected.blocks; i++) {
    compared++;
    if (collected.responses[i] != right[i % 64]) wrong++;
  }
  HersCudaSegment* none = nullptr;
  const int memory = hersCudaFill(cuda, ring, 4103, 65535, 0, 1, 0, &none);
  if (memory != HERS_CUDA_NO_MEMORY) wrong++, printf("2 TB were promised: %d\n", memory);
  must(hersCudaScan(cuda, &scan, nullptr), "scan after too little memory");
  hersCudaUnload(loaded);
  hersCudaFreeRing(ring);
}

int compare(bool quick) {
  HersCuda* cuda = nullptr;
  must(hersCudaOpen(0, &cuda), "open");
  std::mt19937 random(static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  for (const Set& set : kSets) {
    const hers::RingTables tables(set.n, constantsOf(set), 4);
    HersCudaRing* const ring = ringOf(cuda, set);
    const bool tiny = set.n == 64;
    std::vector<Shape> shapes;
    for (Residues residues : {Residues::kRandom, Residues::kLargest, Residues::kMixed}) {
      if (quick) {
        shapes.push_back({37, {5, 33}, 3, residues});
        continue;
      }
      for (size_t rows : {7, 8, 9, 15, 16, 17, 20, 31, 32, 33, 35, 36, 63, 64, 65, 67, 131, 132, 134, 258, 1027}) {
        if (rows > 300 && !tiny) continue;
        shapes.push_back({rows, {3}, rows % 8 + 1, residues});
      }
      for (size_t queries = 1; queries <= 10; queries++) shapes.push_back({22, {1 + queries, 2}, queries, residues});
      for (size_t blocks : {1, 2, 31, 32, 33, 63, 64}) shapes.push_back({19, {blocks, 1}, blocks % 3 + 1, residues});
    }
    if (!quick) {
      // Many slices, and many segments.
      shapes.push_back({11, std::vector<size_t>(tiny ? 200 : 60, 64), 1, Residues::kRandom});
      shapes.push_back({11, std::vector<size_t>(20, 61), 8, Residues::kRandom});
      if (tiny) shapes.push_back({4103, {2}, 2, Residues::kLargest});
      else shapes.push_back({4097 + set.digits, {1}, 1, Residues::kLargest});
    }
    const size_t before = wrong, all = compared;
    for (const Shape& shape : shapes) compareShape(cuda, set, tables, ring, shape, random);
    printf("%s: %zu responses compared, %zu wrong\n", set.name, compared - all, wrong - before);
    fflush(stdout);
    hersCudaFreeRing(ring);
  }
  compareFailures(cuda, random);
  printf("%zu responses compared with the native kernel's, %zu wrong\n", compared, wrong);
  hersCudaClose(cuda);
  return wrong == 0 ? 0 : 1;
}

// — measurements —

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double milliseconds() { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int ignore(void*, const HersCudaBatch*) { return 0; }

void measureGallery(HersCuda* cuda, const Set& set, uint32_t bits0, uint32_t bits1, size_t dimensions, size_t templates, double copySpeed, const std::vector<size_t>& batches, int inTurns = 0) {
  std::mt19937 random(7);
  HersCudaRing* const ring = ringOf(cuda, set);
  const size_t rows = dimensions + set.digits, blocks = (templates + set.n - 1) / set.n;
  std::vector<HersCudaSegment*> segments;
  double bytes = 0;
  for (size_t left = blocks; left > 0;) {
    const size_t count = std::min<size_t>(64, left);
    HersCudaSegment* segment = nullptr;
    if (hersCudaFill(cuda, ring, rows, count, set.packed, static_cast<uint32_t>(segments.size()), inTurns, &segment) != HERS_CUDA_OK) break;
    segments.push_back(segment);
    bytes += static_cast<double>(hersCudaSegmentBytes(segment));
    left -= count;
  }
  if (segments.size() * 64 < blocks) {
    printf("{\"set\":\"%s\",\"dimensions\":%zu,\"templates\":%zu,\"error\":\"%s\"}\n", set.name, dimensions, templates, hersCudaMessage());
  } else {
    for (size_t batch : batches) {
      std::vector<Query> queries;
      std::vector<HersCudaQuery> views;
      for (size_t i = 0; i < batch; i++) queries.push_back(queryOf(set, rows, bits0, bits1, 0, Residues::kRandom, random));
      for (const auto& query : queries) views.push_back(query.view());
      struct Reading {
        double device, best, wall, expand;
      };
      const auto reading = [&](uint32_t parts) {
        std::vector<double> device, wall, expand;
        for (int i = 0; i < 9; i++) {
          const HersCudaScan scan = {ring, segments.data(), segments.size(), views.data(), views.size(), kDomain, parts, nullptr, ignore, nullptr};
          HersCudaTimes times;
          const double start = milliseconds();
          must(hersCudaScan(cuda, &scan, &times), "scan");
          if (i < 2) continue;
          wall.push_back(milliseconds() - start);
          device.push_back(times.scan);
          expand.push_back(times.expand);
        }
        return Reading{median(device), *std::min_element(device.begin(), device.end()), median(wall), median(expand)};
      };
      // The speed of a copy is the best of several, so the best is compared with it.
      const Reading multiply = reading(HERS_CUDA_MULTIPLY), rest = reading(HERS_CUDA_RESPOND);
      const Reading server = reading(HERS_CUDA_MULTIPLY | HERS_CUDA_RESPOND), all = reading(HERS_CUDA_ALL), copy = reading(HERS_CUDA_COPY);
      const double responses = static_cast<double>(batch * blocks * queries[0].length(set.n));
      printf("{\"set\":\"%s\",\"dimensions\":%zu,\"templates\":%zu,\"galleryGB\":%.2f,\"queries\":%zu,\"multiplyMs\":%.3f,\"multiplyTBs\":%.3f,\"ofCopy\":%.3f,"
             "\"restMs\":%.3f,\"serverMs\":%.3f,\"serverWallMs\":%.3f,\"expandMs\":%.3f,\"responseMB\":%.1f,\"toHostMs\":%.3f,\"wholeMs\":%.3f,\"wholeWallMs\":%.3f}\n",
             set.name, dimensions, templates, bytes / 1e9, batch, multiply.device, bytes / multiply.device / 1e9, bytes / multiply.best * 1e3 / copySpeed, rest.device,
             server.device, server.wall, server.expand, responses / 1e6, copy.device, all.device, all.wall);
      fflush(stdout);
    }
  }
  for (HersCudaSegment* segment : segments) hersCudaUnload(segment);
  hersCudaFreeRing(ring);
}

/** `only` dimensions, queries and a profile, where that is not zero; `inTurns`, from the host's memory. */
int measure(double millions, bool quick, size_t only, size_t together, const std::string& profile, int inTurns) {
  HersCuda* cuda = nullptr;
  must(hersCudaOpen(0, &cuda), "open");
  HersCudaDevice device;
  must(hersCudaDescribe(cuda, &device), "describe");
  double copySpeed = 0, linkSpeed = 0;
  must(hersCudaCopySpeed(cuda, size_t{8} << 30, &copySpeed), "copy");
  must(hersCudaLinkSpeed(cuda, size_t{1} << 30, &linkSpeed), "link");
  printf("{\"device\":\"%s\",\"memory\":%llu,\"architecture\":\"%d.%d\",\"processors\":%d,\"driver\":%d,\"runtime\":%d,\"copyTBs\":%.3f,\"linkGBs\":%.2f}\n", device.name,
         static_cast<unsigned long long>(device.memory), device.major, device.minor, device.processors, device.driver, device.runtime, copySpeed / 1e12, linkSpeed / 1e9);
  const size_t templates = static_cast<size_t>(millions * 1e6);
  const Set &first = kSets[0], &compact = kSets[2], &exact = kSets[3], &small = kSets[4];
  if (only > 0) {
    if (profile == "exact") measureGallery(cuda, exact, 27, 32, only, templates, copySpeed, {together}, inTurns);
    else if (profile == "small") measureGallery(cuda, small, 10, 15, only, templates, copySpeed, {together}, inTurns);
    else measureGallery(cuda, compact, 13, 18, only, templates, copySpeed, {together}, inTurns);
    hersCudaClose(cuda);
    return 0;
  }
  for (size_t d : {16, 32, 128, 256}) measureGallery(cuda, compact, 13, 18, d, templates, copySpeed, {1, 2, 4, 8});
  if (!quick) {
    for (size_t d : {16, 32, 128, 256}) measureGallery(cuda, first, 11, 16, d, templates, copySpeed, {1});
    measureGallery(cuda, small, 10, 15, 32, templates, copySpeed, {1, 2, 4, 8});
    measureGallery(cuda, small, 10, 15, 128, templates, copySpeed, {1, 2, 4, 8});
    measureGallery(cuda, exact, 27, 32, 32, templates, copySpeed, {1, 2, 4, 8});
    for (double count = 1e4; count < 1e6 * millions; count *= 10) {
      for (size_t d : {32, 128}) measureGallery(cuda, compact, 13, 18, d, static_cast<size_t>(count), copySpeed, {1});
    }
  }
  double again = 0;
  must(hersCudaCopySpeed(cuda, size_t{8} << 30, &again), "copy");
  printf("{\"copyTBs\":%.3f}\n", again / 1e12);
  hersCudaClose(cuda);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const bool quick = argc > 2 && !strcmp(argv[argc - 1], "quick");
  if (command == "compare") return compare(quick);
  const auto number = [&](int at, double otherwise) { return argc > at && atof(argv[at]) > 0 ? atof(argv[at]) : otherwise; };
  const std::string profile = argc > 5 && !quick ? argv[5] : "compact";
  if (command == "measure" || command == "turns") {
    const bool inTurns = command == "turns";
    return measure(number(2, inTurns ? 10 : 100), quick, static_cast<size_t>(number(3, inTurns ? 128 : 0)), static_cast<size_t>(number(4, 1)), profile, inTurns);
  }
  fprintf(stderr, "hers_cuda_check compare [quick] | measure|turns [millions of templates] [dimensions] [queries] [compact|small|exact]\n");
  return 2;
}
