// The JavaScript interface (Node-API). packages/scan/src/native/native.ts checks the arguments;
// this file only checks that a value has the type it claims.
//
// Nothing here is global to the process, except the handler of mapping.h and the settings of
// `returnFreedMemory`. A pool belongs to the environment (main thread or worker) that made it,
// which ends the pool's threads before it exits. Objects are handed out as externals, and freed
// when JavaScript collects them.

#include <node_api.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "pool.h"
#include "scan.h"
#include "segment.h"
#include "tables.h"
#include "../../ring/lanes/cpu.h"
#include "../../ring/lanes/napi.h"
#include "variant.h"

namespace hers {
namespace {

enum Kind : uint32_t { kPool = 0x68657201, kRing, kSegment, kQuery, kScan };

struct RingWithVariant {
  const Variant* variant;
  RingTables tables;
};

struct RunningScan {
  std::shared_ptr<Pool> pool;
  std::shared_ptr<Scan> scan;
  std::shared_ptr<Channel> channel;
};

std::shared_ptr<Pool>& poolOf(napi_env env, napi_value value) { return unwrap<Pool, kPool>(env, value); }
std::shared_ptr<RingWithVariant>& ringOf(napi_env env, napi_value value) { return unwrap<RingWithVariant, kRing>(env, value); }
std::shared_ptr<Segment>& segmentOf(napi_env env, napi_value value) { return unwrap<Segment, kSegment>(env, value); }
std::shared_ptr<Query>& queryOf(napi_env env, napi_value value) { return unwrap<Query, kQuery>(env, value); }
std::shared_ptr<RunningScan>& scanOf(napi_env env, napi_value value) { return unwrap<RunningScan, kScan>(env, value); }

/** What belongs to one environment. */
struct Instance {
  std::vector<std::weak_ptr<Pool>> pools;
  void shutDown() {
    for (const auto& weak : pools) {
      if (const auto pool = weak.lock()) pool->shutDown();
    }
    pools.clear();
  }
};

// — variants —

std::vector<const Variant*> variants() {
  std::vector<const Variant*> found;
#ifdef HERS_X86
  if (hasAvx2() && hasAvx512()) {
    if (__builtin_cpu_supports("avx512ifma")) found.push_back(&kAvx512Ifma);
    found.push_back(&kAvx512);
  }
  if (hasAvx2()) found.push_back(&kAvx2);
#endif
  found.push_back(&kGeneric);
  return found;
}

const Variant& variantOf(napi_env env, napi_value value) {
  const std::string name = textOf(env, value);
  for (const Variant* variant : variants()) {
    if (name == variant->name) return *variant;
  }
  refuse("this machine does not have that instruction set");
}

// — results —

/** Either a batch or an ending. */
struct Message {
  std::unique_ptr<Batch> batch;
  Ending ending;
};

/** Hands the batch's memory to JavaScript, until it is collected there. */
napi_value batchBuffer(napi_env env, std::unique_ptr<Batch>& batch) {
  napi_value buffer;
  void* const bytes = batch->memory.get();
  const auto finalize = [](napi_env, void*, void* hint) { delete static_cast<Batch*>(hint); };
  if (napi_create_external_arraybuffer(env, bytes, batch->length, finalize, batch.get(), &buffer) == napi_ok) {
    batch.release();
    return buffer;
  }
  // Some embedders do not allow external memory.
  void* copy = nullptr;
  check(napi_create_arraybuffer(env, batch->length, &copy, &buffer), "no memory");
  memcpy(copy, bytes, batch->length);
  return buffer;
}

void deliver(napi_env env, napi_value callback, void*, void* data) {
  const std::unique_ptr<Message> message(static_cast<Message*>(data));
  if (!env) return;
  try {
    if (message->batch) {
      const napi_value entries = newWords(env, message->batch->entries);
      callWith(env, callback, batchBuffer(env, message->batch), entries);
    } else {
      const Ending& e = message->ending;
      const Times& t = e.times;
      napi_value null;
      check(napi_get_null(env, &null), "no value");
      const std::vector<double> values = {static_cast<double>(e.outcome), static_cast<double>(e.segment), static_cast<double>(e.part),
                                          t.expand * 1e-6, t.verify * 1e-6, t.multiply * 1e-6, t.respond * 1e-6,
                                          t.untilMultiply * 1e-6, t.untilEnd * 1e-6};
      callWith(env, callback, null, numbers(env, values));
    }
  } catch (const Refused& refused) {
    raise(env, refused);
  }
}

// — functions —

napi_value listVariants(napi_env env, const Arguments&) {
  return listOf(env, variants(), [&](const Variant* variant) { return text(env, variant->name); });
}

napi_value createPool(napi_env env, const Arguments& a) {
  const auto pool = std::make_shared<Pool>(sizeOf(env, a[0]));
  instanceOf<Instance>(env).pools.push_back(pool);
  return wrap<Pool, kPool>(env, pool);
}

napi_value closePool(napi_env env, const Arguments& a) {
  auto& pool = poolOf(env, a[0]);
  pool->shutDown();
  pool.reset();
  return undefined(env);
}

napi_value createRing(napi_env env, const Arguments& a) {
  const Variant& variant = variantOf(env, a[0]);
  const uint32_t n = wordOf(env, a[1]);
  if (n < 4 * variant.lanes || n < 2 * kGroup || (n & (n - 1)) != 0) refuse("n must be a power of two from 64 on");
  std::vector<PrimeConstants> primes;
  eachOf(env, a[2], [&](napi_value prime) {
    PrimeConstants c;
    c.p = wordOf(env, member(env, prime, "p"));
    c.scale = wordOf(env, member(env, prime, "scale"));
    c.last = wordOf(env, member(env, prime, "last"));
    c.share = wordOf(env, member(env, prime, "share"));
    c.reciprocal = wordOf(env, member(env, prime, "reciprocal"));
    const Bytes inverses = bytesOf(env, member(env, prime, "inverses"), napi_uint32_array);
    if (inverses.length != 4 * size_t{n} || c.p < 3 || c.p >= 1u << 30 || c.p % 2 == 0) refuse("a modulus is wrong");
    c.inverses.resize(n);
    memcpy(c.inverses.data(), inverses.at, inverses.length);
    primes.push_back(std::move(c));
  });
  if (primes.empty() || primes.size() > 2) refuse("a ring has one or two primes");
  return wrap<RingWithVariant, kRing>(
      env, std::shared_ptr<RingWithVariant>(new RingWithVariant{&variant, RingTables(n, primes, variant.lanes)}));
}

Layout layoutOf(napi_env env, napi_value value) {
  Layout layout;
  layout.rows = sizeOf(env, member(env, value, "rows"));
  layout.panelRows = sizeOf(env, member(env, value, "panelRows"));
  layout.dataAt = sizeOf(env, member(env, value, "dataAt"));
  const Bytes table = bytesOf(env, member(env, value, "table"), napi_uint8_array);
  const Bytes sums = bytesOf(env, member(env, value, "partChecksums"), napi_biguint64_array);
  layout.blocks = table.length / sizeof(SegmentBlock);
  layout.table.resize(layout.blocks);
  memcpy(layout.table.data(), table.at, layout.blocks * sizeof(SegmentBlock));
  layout.checksums.resize(sums.length / 8);
  memcpy(layout.checksums.data(), sums.at, sums.length);
  layout.packed = truthOf(env, member(env, value, "packed"));
  layout.partBytes = linesOf(layout.rows, layout.packed) * layout.blocks * kGroup * sizeof(uint32_t);
  const bool wrong = layout.blocks == 0 || layout.rows == 0 || layout.panelRows == 0 || layout.checksums.empty();
  if (wrong || (layout.packed && layout.panelRows % 4 != 0)) refuse("a layout is wrong");
  return layout;
}

napi_value mapSegment(napi_env env, const Arguments& a) {
  const auto segment = Segment::map(static_cast<int>(sizeOf(env, a[0])), layoutOf(env, a[1]));
  if (!segment) refuse(strerror(errno), errno == ENODATA ? "ENODATA" : nullptr);
  return wrap<Segment, kSegment>(env, segment);
}

napi_value allocateSegment(napi_env env, const Arguments& a) {
  const auto segment = Segment::allocate(layoutOf(env, a[0]));
  if (!segment) refuse(strerror(errno));
  return wrap<Segment, kSegment>(env, segment);
}

napi_value writeSegment(napi_env env, const Arguments& a) {
  const auto& segment = segmentOf(env, a[0]);
  const size_t offset = sizeOf(env, a[1]);
  const Bytes bytes = bytesOf(env, a[2], napi_uint8_array);
  if (offset > segment->bytes() || bytes.length > segment->bytes() - offset) refuse("outside of the segment");
  memcpy(segment->data() + offset, bytes.at, bytes.length);
  return undefined(env);
}

/** Unmapping is slow, so a thread of the pool does it. */
napi_value freeSegment(napi_env env, const Arguments& a) {
  auto& segment = segmentOf(env, a[1]);
  poolOf(env, a[0])->run([doomed = std::move(segment)]() mutable { doomed.reset(); });
  segment.reset();
  return undefined(env);
}

/**
 * By default glibc keeps freed memory for reuse, and keeps more the larger the freed buffers were.
 * A buffer that was mapped returns to the system when it is freed.
 */
napi_value returnFreedMemory(napi_env env, const Arguments& a) {
#ifdef __GLIBC__
  const int least = static_cast<int>(sizeOf(env, a[0]));
  mallopt(M_MMAP_THRESHOLD, least);
  mallopt(M_TRIM_THRESHOLD, least);
  malloc_trim(0);
#endif
  return undefined(env);
}

napi_value createQuery(napi_env env, const Arguments& a) {
  auto query = std::make_shared<Query>();
  query->words = sizeOf(env, a[1]);
  query->width = sizeOf(env, a[2]);
  query->bits[0] = wordOf(env, a[3]);
  query->bits[1] = wordOf(env, a[4]);
  const Bytes seed = bytesOf(env, a[5], napi_uint8_array), head = bytesOf(env, a[6], napi_uint8_array);
  if (query->bits[0] - 1 > 31 || query->bits[1] - 1 > 31 || seed.length != kSeedBytes || head.length != kHeadBytes) {
    refuse("a query is wrong");
  }
  memcpy(query->seed, seed.at, kSeedBytes);
  memcpy(query->head, head.at, kHeadBytes);
  query->rows = poolOf(env, a[0])->spares()->take(query->words);
  return wrap<Query, kQuery>(env, query);
}

napi_value writeQuery(napi_env env, const Arguments& a) {
  const auto& query = queryOf(env, a[0]);
  const size_t offset = sizeOf(env, a[1]);
  const Bytes words = bytesOf(env, a[2], napi_uint32_array);
  if (offset > query->words || words.length / 4 > query->words - offset) refuse("outside of the query");
  memcpy(query->rows.get() + offset, words.at, words.length);
  return undefined(env);
}

napi_value startScan(napi_env env, const Arguments& a) {
  const auto& pool = poolOf(env, a[0]);
  const auto& ring = ringOf(env, a[1]);
  Scan::Setup setup;
  setup.variant = ring->variant;
  setup.spares = pool->spares();
  setup.ring = std::shared_ptr<const RingTables>(ring, &ring->tables);
  eachOf(env, a[2], [&](napi_value value) { setup.segments.push_back(segmentOf(env, value)); });
  // The scan owns the queries from here on: it frees their rows when it has laid them out.
  eachOf(env, a[3], [&](napi_value value) { setup.queries.push_back(std::move(queryOf(env, value))); });
  setup.domain = wordOf(env, a[4]);
  setup.multiplyOnly = truthOf(env, a[5]);
  setup.threads = pool->threads();
  if (setup.segments.empty() || setup.queries.empty()) refuse("there is nothing to scan");
  for (const auto& segment : setup.segments) {
    if (segment->parts() != setup.ring->groups() || segment->layout().rows != setup.segments[0]->layout().rows) {
      refuse("a segment does not fit the ring, or the others");
    }
    for (uint32_t i = 0; i < setup.ring->ring().primes; i++) {
      const Modulus& modulus = setup.ring->ring().moduli[i];
      if (segment->layout().packed && segment->layout().rows > modulus.unfoldedRows) refuse("packed rows are not for this ring");
    }
    for (const auto& query : setup.queries) {
      const size_t rows = segment->layout().rows, words = setup.ring->words();
      const bool whole = query->words % words == 0 && query->words / words >= rows;
      if (!whole || query->width > rows || query->words / words - rows > rows - query->width) {
        refuse("a query does not fit a segment");
      }
    }
  }

  const auto channel = std::make_shared<Channel>();
  setup.onBatch = [channel](std::unique_ptr<Batch> batch) {
    channel->send(std::unique_ptr<Message>(new Message{std::move(batch), {}}), false);
  };
  setup.onEnd = [channel](const Ending& ending) { channel->send(std::unique_ptr<Message>(new Message{nullptr, ending}), true); };
  const auto scan = std::make_shared<Scan>(std::move(setup));
  const auto running = std::make_shared<RunningScan>(RunningScan{pool, scan, channel});
  const napi_value value = wrap<RunningScan, kScan>(env, running);
  channel->open(env, a[6], "hers.scan", deliver);
  pool->start(scan);
  return value;
}

napi_value stopScan(napi_env env, const Arguments& a) {
  const auto& running = scanOf(env, a[0]);
  running->pool->stop(*running->scan);
  return undefined(env);
}

napi_value releaseBatch(napi_env env, const Arguments& a) {
  const auto& running = scanOf(env, a[0]);
  running->pool->release(*running->scan);
  return undefined(env);
}

/** Whether the scan keeps the event loop alive. */
napi_value holdLoop(napi_env env, const Arguments& a) {
  scanOf(env, a[0])->channel->hold(env, truthOf(env, a[1]));
  return undefined(env);
}

napi_value initialize(napi_env env, napi_value exports) {
  makeInstance<Instance>(env);
  const napi_property_descriptor properties[] = {
      method("variants", call<listVariants, 0>),
      method("createPool", call<createPool, 1>),
      method("closePool", call<closePool, 1>),
      method("createRing", call<createRing, 3>),
      method("mapSegment", call<mapSegment, 2>),
      method("allocateSegment", call<allocateSegment, 1>),
      method("writeSegment", call<writeSegment, 3>),
      method("freeSegment", call<freeSegment, 2>),
      method("returnFreedMemory", call<returnFreedMemory, 1>),
      method("createQuery", call<createQuery, 7>),
      method("writeQuery", call<writeQuery, 3>),
      method("startScan", call<startScan, 7>),
      method("stopScan", call<stopScan, 1>),
      method("releaseBatch", call<releaseBatch, 1>),
      method("holdLoop", call<holdLoop, 2>),
  };
  return define(env, exports, properties);
}

}  // namespace
}  // namespace hers

NAPI_MODULE_INIT() {
  return hers::guarded(env, [&] { return hers::initialize(env, exports); });
}
