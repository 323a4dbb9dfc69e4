// The multiply-accumulate: C0 = Σ_r G_r·B_r and C1 = Σ_r G_r·A_r for one slot group of every block,
// against one or more queries.
//
// Sums. Residues are below p < 2^30, so a product takes 60 bits and sums are kept in 64. They are
// *folded* every 16 rows:
//
//     s ← s − ⌊s/2^32⌋·K,   K = ⌊2^32/p⌋·p,
//     which is (s mod 2^32) + ⌊s/2^32⌋·c with c = 2^32 mod p
//
// and hence at most F = (2^32 − 1)(1 + c). Sixteen products on top of a folded sum never reach
// 2^64. For p = 2^30 − δ above 0.8·2^30, c = 4δ, and
//
//     16(p−1)² = 2^64 − 2^35·(δ+1) + 16(δ+1)²,   F < 2^32 + 2^34·δ,
//     16(δ+1)² < 2^34·δ + 2^35 − 2^32   because  δ < 2^28;
//
// for smaller primes 16(p−1)² < 0.64·2^64, and F < 2^32·p < 0.2·2^64 since c < p. (Folding at 2^60
// instead leaves up to 2^60, which sixteen products do not bear when p is close to 2^30.)
// `RingTables` checks it for every prime that comes.
//
// Reduction. A sum below 2^32·p is reduced by Montgomery's method,
// (s + (s·(−p^−1) mod 2^32)·p)/2^32 < 2p, which is two multiplications. F is below it, and so is F
// plus `tailRows` products (three, for p near 2^30), so that a last run as short as the mask rows
// needs no fold. The inverse transform takes residues below 2p, and its last factors undo the
// 2^−32.
//
// Packed rows, for primes below 2^24: products take 48 bits, so that 2^16 rows fit 64 bits and
// nothing is folded but, after more than `bareRows` rows (256, for p near 2^24), the finished sums,
// once, to be reduced. Four rows are three lines: a word's low three bytes belong to its own row,
// and the top bytes of the three words to the fourth row. They are taken apart in registers.
//
// Memory. The sums of a block stay in registers over a panel of 64 rows, and wait in L1 or L2
// between panels; the slice of a query that a panel needs (8 KB) stays in L1 while all blocks of
// the panel pass. Several queries are taken two at a time and multiply two blocks, so that each
// load serves twice; then a last panel of a few rows is done together with the one before it, since
// loading and storing the sums would cost more than its products. One query is limited by memory,
// and the gallery is read in its order: two blocks at once lie 4 KB apart and compete for the same
// ways of L1. What comes is fetched once, straight to L1: a core has only so many requests to
// memory at a time, and a second one for the same line, on its way from L2, would take the place of
// another. Where L1 is large enough, it bypasses the others: sums and queries then stay in them,
// which the gallery would have pushed out. Four queries or more are limited by the multipliers, but
// the first two would wait for memory if they fetched all of it: the first four fetch half each of
// the panel that comes next, which then waits in L2.

#pragma once

#include "checksums.h"
#include "variant.h"

namespace {

using hers::kGroup;
using hers::kQueryRow;
using hers::Multiply;

#define HERS_UNROLL _Pragma("GCC unroll 16")

/**
 * How far ahead of the multiplication the gallery is fetched, in words. Memory takes about 100 ns,
 * in which a core reads 5 KB; three times as much fits L1 beside the slice of a query.
 */
constexpr size_t kAhead = 4096;
/** The same where nothing but L1 keeps it, of 48 KB or more: it must stay there until its use. */
constexpr size_t kOnceAhead = 3072;
/** The same into L2. */
constexpr size_t kL2Ahead = 2048;
/** The same for each of two parts at once. */
constexpr size_t kTwoAhead = 2048;
/** Sums of one block and one query, in doublewords: C0 and C1 of 16 lanes. */
constexpr size_t kSums = 32;

/** The rows of one panel that a tile goes through. */
struct Panel {
  /** The first block's rows, words to the next block's, and how many there are. */
  const uint32_t* gallery;
  size_t stride;
  size_t rows;
};

/** At most two panels that are done in one go. */
struct Run {
  Panel panels[2];
  int count;
  /** Of all its panels. */
  size_t rows;
  const uint32_t* query;
  bool first, last;
};

/**
 * Which lines of the gallery a tile fetches: none; those shortly ahead of it, for all caches, to be
 * used once, or into L2; or those of the next run.
 */
enum class Fetch { kNone, kAhead, kOnce, kToL2, kNext };

/**
 * How many queries a tile covers, and how many vectors of a slot group: as many sums as there are
 * registers for.
 */
constexpr size_t kQueriesAtOnce = Lanes::W == 16 ? 2 : 1;
constexpr int kVectors = Lanes::W == 16 ? 1 : 2;
/**
 * Two blocks share what is loaded of two queries. One query is a matter of memory, which is read
 * best in its order; of packed rows, blocks lie 3 KB apart and do not compete.
 */
constexpr size_t blocksAtOnce(size_t queries, bool packed) {
  return packed && queries == 1 ? Lanes::kPackedBlocks : queries;
}

/**
 * For the last of an odd number the gallery is in L2, and only the sums are too few; of one column
 * alone there are half as many.
 */
constexpr size_t blocksOfLast(bool packed, int columns) {
  return (kQueriesAtOnce == 2 ? 4 : blocksAtOnce(1, packed)) * (columns == 1 ? 2 : 1);
}

/**
 * B blocks from `block` on, Q queries from `query` on, of which C columns, and the vectors from
 * `lane` on. With each row it may fetch a line from `soon` on.
 */
template <int B, int Q, Fetch fetch, bool packed, int C>
void tile(const Multiply& job, const Run& run, size_t block, size_t query, size_t lane, const uint32_t* soon = nullptr) {
  using L = Lanes;
  using U = L::U;
  using D = L::D;
  constexpr int V = kVectors, W = L::W;
  const hers::Modulus& m = *job.modulus;
  const U foldBy = L::splat(m.foldBy);
  uint64_t* const kept = job.sums + (query * job.blocks + block) * kSums + 2 * lane;
  const auto sumsAt = [&](int b, int q, int v, int i) { return kept + (q * job.blocks + b) * kSums + 2 * v * W + i * W / 2; };

#define HERS_EACH_SUM                       \
  HERS_UNROLL for (int b = 0; b < B; b++)   \
    HERS_UNROLL for (int q = 0; q < Q; q++) \
      HERS_UNROLL for (int v = 0; v < V; v++) HERS_UNROLL for (int i = 0; i < 2 * C; i++)

  D s[B][Q][V][2 * C];
  if (run.first) {
    HERS_EACH_SUM s[b][q][v][i] = L::zero();
  } else {
    HERS_EACH_SUM s[b][q][v][i] = L::loadD(sumsAt(b, q, v, i));
    // Those of the next tile are in L2 if there are several queries.
    if (Q > 1) {
      HERS_UNROLL for (int q = 0; q < Q; q++) {
        HERS_UNROLL for (size_t i = 0; i < B * kSums; i += 8) __builtin_prefetch(kept + (q * job.blocks + B) * kSums + i, 0, 3);
      }
    }
  }

  const auto fold = [&]() __attribute__((always_inline)) {
    HERS_EACH_SUM s[b][q][v][i] = L::subD(s[b][q][v][i], L::mulEven(L::odd(s[b][q][v][i]), foldBy));
  };
  const size_t queryStride = job.queryStride;
  const uint32_t* slice = run.query + query * queryStride + lane;
  for (int k = 0; k < run.count; k++) {
    const size_t stride = run.panels[k].stride, all = run.panels[k].rows;
    const uint32_t* g = run.panels[k].gallery + block * stride + lane;
    // Vector v of one line of every block.
    const auto loadLine = [&](U (&x)[B], size_t line, int v) __attribute__((always_inline)) {
      HERS_UNROLL for (int b = 0; b < B; b++) {
        const uint32_t* const at = g + b * stride + line * kGroup + v * W;
        x[b] = L::load(at);
        if (fetch == Fetch::kAhead && v == 0) __builtin_prefetch(at + kAhead, 0, 3);
        if (fetch == Fetch::kOnce && v == 0) __builtin_prefetch(at + kOnceAhead, 0, 0);
        if (fetch == Fetch::kToL2 && v == 0) __builtin_prefetch(at + kL2Ahead, 0, 2);
      }
    };
    const auto splitWords = [](U a) __attribute__((always_inline)) { return packed ? L::splitShort(a) : L::split(a); };
    const auto addProduct = [](D sum, U a, U b) __attribute__((always_inline)) {
      return packed ? L::addShort(sum, a, b) : L::addD(sum, L::mulEven(a, b));
    };
    // Vector v of one row of every block, with row r of the queries.
    const auto multiplyRow = [&](const L::Split (&x)[B], size_t r, int v) __attribute__((always_inline)) {
      if (fetch == Fetch::kNext && v == 0) {
        __builtin_prefetch(soon, 0, 3);
        soon += kGroup;
      }
      HERS_UNROLL for (int q = 0; q < Q; q++) {
        const uint32_t* const at = slice + q * queryStride + r * kQueryRow + v * W;
        // Kept, or they would be operands in memory and be loaded three times: that is what would
        // limit the loop then.
        L::Split y[C];
        HERS_UNROLL for (int c = 0; c < C; c++) y[c] = splitWords(L::keep(L::load(at + c * kGroup)));
        HERS_UNROLL for (int b = 0; b < B; b++) {
          HERS_UNROLL for (int c = 0; c < C; c++) {
            s[b][q][v][2 * c] = addProduct(s[b][q][v][2 * c], x[b].even, y[c].even);
            s[b][q][v][2 * c + 1] = addProduct(s[b][q][v][2 * c + 1], x[b].odd, y[c].odd);
          }
        }
      }
    };
    const auto multiplyRows = [&](size_t rows) __attribute__((always_inline)) {
      for (size_t r = 0; r < rows; r++) {
        HERS_UNROLL for (int v = 0; v < V; v++) {
          U w[B];
          L::Split x[B];
          loadLine(w, r, v);
          HERS_UNROLL for (int b = 0; b < B; b++) x[b] = splitWords(w[b]);
          multiplyRow(x, r, v);
        }
      }
      g += rows * kGroup;
      slice += rows * kQueryRow;
    };
    if constexpr (packed) {
      size_t row = 0;
      for (; row + 4 <= all; row += 4) {
        HERS_UNROLL for (int v = 0; v < V; v++) {
          U w[3][B];
          L::Split x[B];
          HERS_UNROLL for (int r = 0; r < 3; r++) {
            loadLine(w[r], static_cast<size_t>(r), v);
            HERS_UNROLL for (int b = 0; b < B; b++) x[b] = L::splitLow(w[r][b]);
            multiplyRow(x, static_cast<size_t>(r), v);
          }
          HERS_UNROLL for (int b = 0; b < B; b++) x[b] = L::splitTop(w[0][b], w[1][b], w[2][b]);
          multiplyRow(x, 3, v);
        }
        g += 3 * kGroup;
        slice += 4 * kQueryRow;
      }
      multiplyRows(all - row);
      continue;
    }
    size_t row = 0;
    for (; row + hers::kFoldRows <= all; row += hers::kFoldRows) {
      multiplyRows(hers::kFoldRows);
      fold();
    }
    if (row < all) {
      multiplyRows(all - row);
      if (!(run.last && k + 1 == run.count && all - row <= m.tailRows)) fold();
    }
  }

  if (!run.last) {
    HERS_EACH_SUM L::storeD(sumsAt(b, q, v, i), s[b][q][v][i]);
    return;
  }
  if (packed && job.rows > m.bareRows) fold();
  const U p = L::splat(m.p), negativeInverse = L::splat(m.negativeInverse);
  const auto reduce = [&](D sum) { return L::addD(sum, L::mulEven(L::mulEven(sum, negativeInverse), p)); };
  HERS_EACH_SUM {
    if (i % 2 == 1) continue;
    uint32_t* const out = job.out + ((query + q) * job.blocks + block + b) * kQueryRow + lane + v * W + (i / 2) * kGroup;
    L::store(out, L::joinHigh(reduce(s[b][q][v][i]), reduce(s[b][q][v][i + 1])));
  }
#undef HERS_EACH_SUM
}

/** Slices that are needed next, of one query or two, and what is fetched of the next run. */
struct Ahead {
  const uint32_t* at;
  size_t queries, words;
  const uint32_t* gallery;
};

/** All lanes of B blocks. */
template <int B, int Q, Fetch fetch, bool packed, int C>
void lanesOf(const Multiply& job, const Run& run, size_t block, size_t query, const uint32_t* soon) {
  constexpr size_t step = kVectors * Lanes::W;
  tile<B, Q, fetch, packed, C>(job, run, block, query, 0, soon);
  for (size_t lane = step; lane < kGroup; lane += step) tile<B, Q, Fetch::kNone, packed, C>(job, run, block, query, lane);
}

template <int Q, Fetch fetch, bool packed, size_t B = blocksAtOnce(Q, packed), int C = 2>
void blocksOf(const Multiply& job, const Run& run, size_t query, const Ahead& ahead) {
  const size_t tiles = job.blocks / B + job.blocks % B;
  const size_t share = (ahead.words / kGroup + tiles - 1) / tiles * kGroup;
  const uint32_t* next = ahead.at;
  const uint32_t* soon = ahead.gallery;
  for (size_t block = 0, step; block < job.blocks; block += step, next += share, soon += run.rows * kGroup) {
    for (size_t q = 0; q < ahead.queries; q++) {
      for (size_t i = 0; i < share; i += kGroup) __builtin_prefetch(next + q * job.queryStride + i, 0, 3);
    }
    step = block + B <= job.blocks ? B : 1;
    if (step == B) lanesOf<B, Q, fetch, packed, C>(job, run, block, query, soon);
    else lanesOf<1, Q, fetch, packed, C>(job, run, block, query, soon);
  }
}

template <bool packed>
void multiplyPart(const Multiply& job) {
  const uint32_t* gallery = job.part;
  for (size_t row = 0; row < job.rows;) {
    if (__atomic_load_n(job.stop, __ATOMIC_ACQUIRE)) return;
    Run run = {{}, 0, 0, job.query + row * kQueryRow, row == 0, false};
    const auto take = [&]() {
      const size_t left = job.rows - row;
      const size_t rows = left < job.panelRows ? left : job.panelRows;
      const size_t words = hers::linesOf(rows, packed) * kGroup;
      run.panels[run.count++] = {gallery, words, rows};
      run.rows += rows;
      gallery += job.blocks * words;
      row += rows;
    };
    take();
    // With one query the sums are not what takes the time.
    if (job.queries > 1 && row < job.rows && job.rows - row < job.panelRows / 2) take();
    run.last = row == job.rows;
    const size_t atOnce = job.queries < kQueriesAtOnce ? job.queries : kQueriesAtOnce;
    const bool fetchesNext = kQueriesAtOnce == 2 && job.queries >= 4;
    const bool isToL2 = job.fetching == hers::Fetching::kToL2;
    const bool fetchesOnce = job.fetching == hers::Fetching::kOnce && job.queries <= kQueriesAtOnce;
    for (size_t query = 0; query < job.queries;) {
      const size_t left = job.queries - query;
      const size_t count = left < atOnce ? left : atOnce;
      // What follows this pass: the next queries, or the first ones with the rows (of the next
      // part, at the end) that come next.
      const bool more = left > count;
      const uint32_t* const next = more ? run.query + (query + count) * job.queryStride : job.query + row * kQueryRow;
      const uint32_t* const half = gallery + (query == 0 ? 0 : job.blocks / 2 * run.rows * kGroup);
      const Ahead ahead = {next, atOnce, job.panelRows * kQueryRow, half};
      if (fetchesNext && query < 4) blocksOf<kQueriesAtOnce, Fetch::kNext, packed>(job, run, query, ahead);
      else if (fetchesOnce && count == 2) blocksOf<kQueriesAtOnce, Fetch::kOnce, packed>(job, run, query, ahead);
      else if (fetchesOnce) blocksOf<1, Fetch::kOnce, packed>(job, run, query, ahead);
      else if (query == 0 && isToL2 && count == 2) blocksOf<kQueriesAtOnce, Fetch::kToL2, packed>(job, run, query, ahead);
      else if (query == 0 && isToL2) blocksOf<1, Fetch::kToL2, packed>(job, run, query, ahead);
      else if (query == 0 && count == 2) blocksOf<kQueriesAtOnce, Fetch::kAhead, packed>(job, run, query, ahead);
      else if (query == 0) blocksOf<1, Fetch::kAhead, packed>(job, run, query, ahead);
      else if (count == 2) blocksOf<kQueriesAtOnce, Fetch::kNone, packed>(job, run, query, ahead);
      else if (job.isLastLone && !more) blocksOf<1, Fetch::kNone, packed, blocksOfLast(packed, 1), 1>(job, run, query, ahead);
      else blocksOf<1, Fetch::kNone, packed, blocksOfLast(packed, 2)>(job, run, query, ahead);
      query += count;
    }
  }
}

#ifdef __AVX512DQ__

/**
 * Two parts against one query, and their checksums: a checksum takes the lines in their order, and
 * two of them take as long as one.
 */
void multiplyTwo(const Multiply& job) {
  using L = Lanes;
  using D = L::D;
  const hers::Modulus& m = *job.modulus;
  const L::U foldBy = L::splat(m.foldBy), p = L::splat(m.p), negativeInverse = L::splat(m.negativeInverse);
  const size_t words = job.rows * job.blocks * kGroup;
  hers::Along along;
  const uint32_t* g = job.part;
  for (size_t row = 0, rows; row < job.rows; row += rows) {
    if (__atomic_load_n(job.stop, __ATOMIC_ACQUIRE)) return;
    rows = job.rows - row < job.panelRows ? job.rows - row : job.panelRows;
    const bool last = row + rows == job.rows;
    for (size_t block = 0; block < job.blocks; block++) {
      uint64_t* const kept = job.sums + block * kSums;
      D s[2][4];
      for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < 4; i++) s[k][i] = row == 0 ? L::zero() : L::loadD(kept + k * job.blocks * kSums + 8 * i);
      const uint32_t* slice = job.query + row * kQueryRow;
      for (size_t r = 0; r < rows; r++, g += kGroup, slice += kQueryRow) {
        const L::U lines[2] = {L::load(g), L::load(g + words)};
        __builtin_prefetch(g + kTwoAhead);
        __builtin_prefetch(g + words + kTwoAhead);
        along.add(lines[0], lines[1]);
        HERS_UNROLL for (size_t k = 0; k < 2; k++) {
          const uint32_t* const at = slice + k * job.rows * kQueryRow;
          const L::Split x = L::split(lines[k]), y = L::split(L::keep(L::load(at))), z = L::split(L::keep(L::load(at + kGroup)));
          s[k][0] = L::addD(s[k][0], L::mulEven(x.even, y.even));
          s[k][1] = L::addD(s[k][1], L::mulEven(x.odd, y.odd));
          s[k][2] = L::addD(s[k][2], L::mulEven(x.even, z.even));
          s[k][3] = L::addD(s[k][3], L::mulEven(x.odd, z.odd));
        }
        if ((r + 1) % hers::kFoldRows != 0 && r + 1 != rows) continue;
        HERS_UNROLL for (size_t k = 0; k < 2; k++)
          HERS_UNROLL for (size_t i = 0; i < 4; i++) s[k][i] = L::subD(s[k][i], L::mulEven(L::odd(s[k][i]), foldBy));
      }
      for (size_t k = 0; k < 2; k++) {
        const auto reduce = [&](D sum) { return L::addD(sum, L::mulEven(L::mulEven(sum, negativeInverse), p)); };
        for (size_t i = 0; i < 4 && !last; i++) L::storeD(kept + k * job.blocks * kSums + 8 * i, s[k][i]);
        uint32_t* const out = job.out + k * job.outStride + block * kQueryRow;
        for (size_t i = 0; i < 2 && last; i++) L::store(out + i * kGroup, L::joinHigh(reduce(s[k][2 * i]), reduce(s[k][2 * i + 1])));
      }
    }
  }
  along.end(reinterpret_cast<const uint8_t*>(job.part), 4 * words, 4 * words, job.checksums);
}

#endif

void multiply(const Multiply& job) {
#ifdef __AVX512DQ__
  if (job.checksums) return multiplyTwo(job);
#endif
  if (job.packed) multiplyPart<true>(job);
  else multiplyPart<false>(job);
}

}  // namespace
