// Faiss, for comparison: how long its exact search by inner product takes (IndexFlatIP), one query
// at a time. A program of its own, because Debian has Faiss as a static library; built only where
// that is installed (packages/scan/testing/faiss.ts).
//
//   search COUNT DIMENSION THREADS REPETITIONS  →  {"best":…,"seconds":[…]}

#include <faiss/IndexFlat.h>
#include <omp.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

/** The same numbers as those of measure.cc: xorshift64 (G. Marsaglia, 2003). */
float next(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
}

}  // namespace

int main(int argumentCount, char** arguments) {
  if (argumentCount != 5) return 2;
  const long count = atol(arguments[1]), dimension = atol(arguments[2]);
  const int threads = atoi(arguments[3]), repetitions = atoi(arguments[4]);
  if (count < 1 || dimension < 1 || threads < 1 || repetitions < 1) return 2;
  omp_set_num_threads(threads);
  faiss::IndexFlatIP index(dimension);
  uint64_t state = 88172645463325252;
  std::vector<float> row(static_cast<size_t>(dimension));
  index.codes.reserve(static_cast<size_t>(count * dimension) * sizeof(float));
  for (long i = 0; i < count; i++) {
    for (float& x : row) x = next(state);
    index.add(1, row.data());
  }
  for (float& x : row) x = next(state);
  float score;
  int64_t best = -1;
  index.search(1, row.data(), 1, &score, &best);
  printf("{\"best\":%ld,\"seconds\":[", static_cast<long>(best));
  for (int i = 0; i < repetitions; i++) {
    const auto start = std::chrono::steady_clock::now();
    index.search(1, row.data(), 1, &score, &best);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    printf(i == 0 ? "%.9f" : ",%.9f", seconds);
  }
  printf("]}\n");
  return 0;
}
