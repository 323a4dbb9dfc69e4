// The multiply-accumulate for four or eight queries on tensor cores, in double precision.
//
// For each slot it is a product of matrices, [blocks × rows] by [rows × halves of queries], which
// is what tensor cores do. Their doubles have 53 bits, and every sum here stays below 2^53, so
// nothing is ever rounded:
//
//   - Residues of queries are taken between −p/2 and p/2.
//   - A residue of the gallery below 2^30 is cut into halves of 15 bits, each with sums of its own.
//     A half h becomes the double 2^15 + h, which takes no conversion: its bits are those of h behind
//     a fixed exponent. So a product is below 2^45, and the sum of 192 below 2^53. What 2^15 adds to
//     all sums is taken off at the end, by one row more of the query: minus the sum of all others.
//   - Packed rows are below 2^24 and stay whole, as doubles. A product is below 2^47, and the sum of
//     48 below 2^53.
//
// After so many rows sums are *folded*: x − q·p, where q is x/p rounded. That leaves at most p/2 and a
// little, since the quotient is as good as doubles are.
//
// There is one block of threads for each multiprocessor, since the sums of 16 blocks, four slots and
// eight queries take half of all registers. It goes through many tiles, and fetches the rows of the
// next one while it ends the one before.
//
// Layout. The gallery is that of kernels.cuh. Its rows lie 36 words apart in shared memory, so that
// the eight threads which read 16 bytes each at once hit all banks. Queries are laid so that a
// thread finds its four slots side by side:
//
//     query[tile][chunk of 4 rows][four slots][eight halves of queries][half, row][4]
//
// with one chunk more than the gallery has, for that last row.

#pragma once

#include "kernels.cuh"

namespace hers_cuda {

/** Blocks, and warps: each warp has four slots of the tile, for all of the blocks. */
constexpr int kTensorBlocks = 16, kTensorThreads = 32 * kTile / 4, kTensorStages = 4;
constexpr int kTensorRow = kTile + 4;

__host__ __device__ constexpr int tensorGalleryWords(bool packed) { return kTensorBlocks * linesOfRows(packed) * kTensorRow; }
__host__ __device__ constexpr int tensorStageWords(int queries, bool packed) { return tensorGalleryWords(packed) + kRows * 2 * queries * kTile; }

/** For all stages, and for sums on their way out: 2·queries + 1 rows a block keep banks apart. */
__host__ __device__ constexpr int tensorSharedBytes(int queries, bool packed) {
  return 4 * (kTensorStages * tensorStageWords(queries, packed) + kTensorBlocks * (2 * queries + 1) * kTensorRow);
}

/** Blocks of threads that share a multiprocessor. */
__host__ __device__ constexpr uint32_t tensorResident(int queries) { return queries == 8 ? 1 : 2; }

/** Chunks of rows between folds. */
__host__ __device__ constexpr uint32_t tensorFoldChunks(bool packed) { return (packed ? 48 : 192) / kRows; }

/**
 * c += a·b for a tile of 16 × 8 sums and four rows. Of thread 4g + k, `a` are rows k of blocks g and
 * g + 8, `b` is row k of column g, and `c` are columns 2k and 2k + 1 of blocks g and g + 8.
 */
#ifdef HERS_EMULATED
inline void multiplyTile(double (&c)[4], const double (&a)[2], double b) {
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, k = lane % 4;
  hers_emulation::block().exchangeTile({{a[0], a[1]}, b}, [&](const hers_emulation::Tile* all) {
    for (uint32_t row = 0; row < 4; row++) {
      for (uint32_t i = 0; i < 4; i++) c[i] += all[4 * g + row].left[i / 2] * all[4 * (2 * k + i % 2) + row].right;
    }
  });
}
#else
__device__ __forceinline__ void multiplyTile(double (&c)[4], const double (&a)[2], double b) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
               : "d"(a[0]), "d"(a[1]), "d"(b));
#else
#pragma unroll
  for (int i = 0; i < 2; i++) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(c[2 * i]), "+d"(c[2 * i + 1])
                 : "d"(a[i]), "d"(b));
  }
#endif
}
#endif

constexpr double kBias = 32768;
/** kBias and the 15 bits of a word that begin at bit 0 or 15. */
template <int at>
__device__ __forceinline__ double biased(uint32_t word) {
  const uint32_t bits = at == 0 ? word << 5 : word >> 10;
  return __hiloint2double(static_cast<int>((bits & 0xfffe0) | 0x40e00000), 0);
}

/** Takes all rows between −p/2 and p/2, and makes row `last` minus the sum of those before it. */
__global__ void centreRows(QueryLaid laid, uint32_t last, uint32_t words, DeviceRing ring) {
  const uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= 2 * laid.wide * words) return;
  const uint32_t slot = at % words, number = at / words, p = ring.moduli[slot / ring.n].p;
  const auto centred = [&](uint32_t residue) { return residue > p / 2 ? residue - p : residue; };
  uint64_t sum = 0;
  for (uint32_t row = 0; row < laid.rows; row++) {
    uint32_t* const word = laid.word(slot, row, number / 2, number % 2);
    sum += *word;
    *word = centred(*word);
  }
  *laid.word(slot, last, number / 2, number % 2) = centred(static_cast<uint32_t>((p - sum % p) % p));
}

/** A double between 2^52 and 2^53 has its whole part in its last bits. */
constexpr double kWhole = 6755399441055744;
__device__ __forceinline__ int wholePart(double x) { return __double2loint(__dadd_rn(x, kWhole)); }

template <int Q, bool packed>
__global__ __launch_bounds__(kTensorThreads, tensorResident(Q)) void multiplyByTensors(const MultiplyJob job) {
  constexpr int L = linesOfRows(packed), columns = Q / 4, parts = packed ? 1 : 2;
  constexpr int galleryWords = tensorGalleryWords(packed), queryWords = kRows * 2 * Q * kTile, stageWords = galleryWords + queryWords;
  constexpr int units = kTensorBlocks * L * kTile / 4, copies = (units + kTensorThreads - 1) / kTensorThreads;
  static_assert(kRows == 4, "an instruction takes four rows");
  HERS_DYNAMIC_SHARED(shared);
  const uint32_t lane = threadIdx.x % 32, quad = threadIdx.x / 32, g = lane / 4, k = lane % 4;
  const uint32_t groups = (job.blockCount + kTensorBlocks - 1) / kTensorBlocks, all = job.words / kTile * groups;
  const uint32_t each = (all + gridDim.x - 1) / gridDim.x, end = min(all, (blockIdx.x + 1) * each);

  // Blocks past the last are the last once more, and their sums are not kept.
  const uint32_t* from[copies];
  const uint32_t* query;
  uint32_t to[copies];
  const auto find = [&](uint32_t unit) {
    if (unit >= end) return;
    const uint32_t tile = unit / groups, first = unit % groups * kTensorBlocks;
#pragma unroll
    for (int i = 0; i < copies; i++) {
      const uint32_t copy = min(i * kTensorThreads + threadIdx.x, units - 1u), line = copy / (kTile / 4), within = 4 * (copy % (kTile / 4));
      const uint32_t number = min(first + line / L, job.blockCount - 1);
      from[i] = job.blocks[number].lines + (size_t{tile} * job.lines + line % L) * kTile + within;
      to[i] = line * kTensorRow + within;
    }
    query = job.query + size_t{tile} * (job.chunks + 1) * queryWords;
  };
  uint32_t fetched = blockIdx.x * each, fetchedChunk = 0, fetchedStage = 0;
  find(fetched);
  const auto fetch = [&]() {
    if (fetched < end) {
      uint32_t* const at = shared + fetchedStage * stageWords;
#pragma unroll
      for (int i = 0; i < copies; i++) copyAsync(at + to[i], from[i] + size_t{fetchedChunk} * L * kTile);
#pragma unroll
      for (int unit = 0; unit < queryWords / 4; unit += kTensorThreads) {
        const int words = 4 * (unit + static_cast<int>(threadIdx.x));
        copyAsync(at + galleryWords + words, query + size_t{fetchedChunk} * queryWords + words);
      }
      if (++fetchedChunk == job.chunks) {
        fetchedChunk = 0;
        find(++fetched);
      }
      fetchedStage = fetchedStage + 1 == kTensorStages ? 0 : fetchedStage + 1;
    }
    commitCopies();
  };

  double sums[4][columns][parts][4];
#define HERS_EACH_TENSOR_SUM                                  \
  _Pragma("unroll") for (int s = 0; s < 4; s++)               \
    _Pragma("unroll") for (int c = 0; c < columns; c++)       \
      _Pragma("unroll") for (int part = 0; part < parts; part++) _Pragma("unroll") for (int i = 0; i < 4; i++)

#pragma unroll
  for (int i = 0; i < kTensorStages - 1; i++) fetch();
  uint32_t stage = 0;
  for (uint32_t unit = blockIdx.x * each; unit < end; unit++) {
    const uint32_t tile = unit / groups, first = unit % groups * kTensorBlocks;
    const DeviceModulus& m = job.ring.moduli[tile * kTile >= job.ring.n ? 1 : 0];
    const double p = m.p, reciprocal = 1 / p;
    const auto fold = [&]() {
      HERS_EACH_TENSOR_SUM {
        double& x = sums[s][c][part][i];
        const double quotient = __dsub_rn(__dadd_rn(__dmul_rn(x, reciprocal), kWhole), kWhole);
        x = __fma_rn(-quotient, p, x);
      }
    };
    HERS_EACH_TENSOR_SUM sums[s][c][part][i] = 0;
    for (uint32_t chunk = 0, until = 0; chunk < job.chunks;) {
      if (chunk > 0) fold();
      until = min(job.chunks, chunk + tensorFoldChunks(packed));
      for (; chunk < until; chunk++) {
        waitForCopies<kTensorStages - 2>();
        __syncthreads();
        // Into the stage that all threads are done with since the barrier.
        fetch();

        const uint32_t* const gallery = shared + stage * stageWords + 4 * quad;
        const uint4* const slice = reinterpret_cast<const uint4*>(shared + stage * stageWords + galleryWords) + quad * columns * 32 + lane;
        uint32_t w[2][4], y[columns][4];
#pragma unroll
        for (int t = 0; t < 2; t++) {
          const auto load = [&](uint32_t (&into)[4], uint32_t line) {
            const uint4 four = *reinterpret_cast<const uint4*>(gallery + ((8 * t + g) * L + line) * kTensorRow);
            into[0] = four.x, into[1] = four.y, into[2] = four.z, into[3] = four.w;
          };
          if constexpr (packed) {
            load(w[t], k % 3);
            if (k == 3) {
              uint32_t second[4], third[4];
              load(second, 1);
              load(third, 2);
#pragma unroll
              for (int s = 0; s < 4; s++) w[t][s] = w[t][s] >> 24 | (second[s] >> 24) << 8 | (third[s] >> 24) << 16;
            }
          } else {
            load(w[t], k);
          }
        }
#pragma unroll
        for (int c = 0; c < columns; c++) {
          const uint4 four = slice[c * 32];
          y[c][0] = four.x, y[c][1] = four.y, y[c][2] = four.z, y[c][3] = four.w;
        }
#pragma unroll
        for (int s = 0; s < 4; s++) {
          double a[parts][2], b[columns];
#pragma unroll
          for (int t = 0; t < 2; t++) {
            if constexpr (packed) {
              a[0][t] = w[t][s] & 0xffffff;
            } else {
              a[0][t] = biased<0>(w[t][s]);
              a[1][t] = biased<15>(w[t][s]);
            }
          }
#pragma unroll
          for (int c = 0; c < columns; c++) b[c] = static_cast<int>(y[c][s]);
#pragma unroll
          for (int part = 0; part < parts; part++) {
#pragma unroll
            for (int c = 0; c < columns; c++) multiplyTile(sums[s][c][part], a[part], b[c]);
          }
        }
        stage = stage + 1 == kTensorStages ? 0 : stage + 1;
      }
    }
    if constexpr (!packed) {
      const uint32_t* const last = job.query + (size_t{tile} * (job.chunks + 1) + job.chunks) * queryWords;
      const uint4* const slice = reinterpret_cast<const uint4*>(last) + quad * columns * 32 + lane;
      constexpr double a[2] = {kBias, kBias};
#pragma unroll
      for (int c = 0; c < columns; c++) {
        const uint4 four = slice[c * 32];
        const uint32_t y[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int s = 0; s < 4; s++) {
#pragma unroll
          for (int part = 0; part < parts; part++) multiplyTile(sums[s][c][part], a, static_cast<int>(y[s]));
        }
      }
    }
    fold();

    // Through shared memory, so that whole lines are written. Folded sums are above −p, and 2^16·p
    // makes any of them positive.
    constexpr uint32_t rows = 2 * Q + 1;
    uint32_t* const results = shared + kTensorStages * stageWords;
#pragma unroll
    for (int c = 0; c < columns; c++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint32_t residues[4];
#pragma unroll
        for (int s = 0; s < 4; s++) {
          int64_t sum = wholePart(sums[s][c][0][i]) + (int64_t{m.p} << 16);
          if constexpr (!packed) sum += int64_t{wholePart(sums[s][c][1][i])} * 32768;
          const uint32_t factor = static_cast<uint32_t>(sum) * m.negativeInverse;
          residues[s] = static_cast<uint32_t>((static_cast<uint64_t>(sum) + uint64_t{factor} * m.p) >> 32);
        }
        const uint32_t row = (g + i / 2 * 8) * rows + 8 * c + 2 * k + i % 2;
        *reinterpret_cast<uint4*>(results + row * kTensorRow + 4 * quad) = make_uint4(residues[0], residues[1], residues[2], residues[3]);
      }
    }
    __syncthreads();
    const uint32_t part = threadIdx.x % (kTile / 4);
    for (uint32_t i = threadIdx.x / (kTile / 4); i < kTensorBlocks * 2 * Q; i += kTensorThreads / (kTile / 4)) {
      const uint32_t block = first + i / (2 * Q), number = i % (2 * Q);
      if (block >= job.blockCount || number / 2 >= job.queries) continue;
      const uint4 four = *reinterpret_cast<const uint4*>(results + (i / (2 * Q) * rows + number) * kTensorRow + 4 * part);
      uint32_t* const out = job.out + ((size_t{job.blockCount} * (number / 2) + block) * 2 + number % 2) * job.words + tile * kTile + 4 * part;
      *reinterpret_cast<uint4*>(out) = four;
    }
  }
#undef HERS_EACH_TENSOR_SUM
}

}  // namespace hers_cuda
