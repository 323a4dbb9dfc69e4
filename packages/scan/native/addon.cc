// The door to JavaScript (Node-API). What goes through it is checked by packages/scan/src/native.ts; here only that a value is what it claims to be.
//
// Nothing here belongs to the process, except the handler of mapping.h and what `returnFreedMemory` sets: pools are known to the environment (main thread or worker) that made them, which ends
// their threads before it goes.
// Objects are handed out as externals; forgotten ones are freed with them.

#include <node_api.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "measure.h"
#include "pool.h"
#include "scan.h"
#include "segment.h"
#include "tables.h"
#include "variant.h"

#ifndef HERS_STAMP
#define HERS_STAMP "unstamped"
#endif

namespace hers {
namespace {

/** Thrown where a JavaScript exception is pending. */
struct Pending {};

void check(napi_env env, napi_status status, const char* what) {
  if (status == napi_ok) return;
  bool pending = false;
  napi_is_exception_pending(env, &pending);
  if (!pending) napi_throw_error(env, nullptr, what);
  throw Pending();
}

[[noreturn]] void refuse(napi_env env, const char* code, const char* message) {
  napi_throw_error(env, code, message);
  throw Pending();
}

// — values —

double numberOf(napi_env env, napi_value value) {
  double number;
  check(env, napi_get_value_double(env, value, &number), "a number was expected");
  return number;
}

size_t sizeOf(napi_env env, napi_value value) {
  const double number = numberOf(env, value);
  if (!(number >= 0 && number <= 9007199254740991.0)) refuse(env, nullptr, "a size was expected");
  return static_cast<size_t>(number);
}

uint32_t wordOf(napi_env env, napi_value value) { return static_cast<uint32_t>(sizeOf(env, value)); }

bool truthOf(napi_env env, napi_value value) {
  bool truth;
  check(env, napi_get_value_bool(env, value, &truth), "a boolean was expected");
  return truth;
}

std::string textOf(napi_env env, napi_value value) {
  char text[64];
  size_t length;
  check(env, napi_get_value_string_utf8(env, value, text, sizeof text, &length), "a string was expected");
  return std::string(text, length);
}

struct Bytes {
  const uint8_t* at;
  size_t length;
};

Bytes bytesOf(napi_env env, napi_value value, napi_typedarray_type expected) {
  napi_typedarray_type type;
  size_t length;
  void* at;
  check(env, napi_get_typedarray_info(env, value, &type, &length, &at, nullptr, nullptr), "a typed array was expected");
  if (type != expected) refuse(env, nullptr, "a typed array of another type was expected");
  const size_t size = type == napi_uint8_array ? 1 : type == napi_uint32_array ? 4 : 8;
  return {static_cast<const uint8_t*>(at), length * size};
}

napi_value member(napi_env env, napi_value object, const char* name) {
  napi_value value;
  check(env, napi_get_named_property(env, object, name, &value), "an object was expected");
  return value;
}

template <class F>
void eachOf(napi_env env, napi_value array, F f) {
  uint32_t length;
  check(env, napi_get_array_length(env, array, &length), "an array was expected");
  for (uint32_t i = 0; i < length; i++) {
    napi_value value;
    check(env, napi_get_element(env, array, i, &value), "an element could not be read");
    f(value);
  }
}

napi_value number(napi_env env, double value) {
  napi_value result;
  check(env, napi_create_double(env, value, &result), "no memory");
  return result;
}

napi_value numbers(napi_env env, const std::vector<double>& values) {
  napi_value array;
  check(env, napi_create_array_with_length(env, values.size(), &array), "no memory");
  for (uint32_t i = 0; i < values.size(); i++) check(env, napi_set_element(env, array, i, number(env, values[i])), "no memory");
  return array;
}

// — objects behind externals —

enum class Kind : uint32_t { kPool = 0x68657201, kRing, kSegment, kQuery, kScan, kPlain };

struct Handle {
  const Kind kind;
  explicit Handle(Kind kind) : kind(kind) {}
  virtual ~Handle() = default;
};

template <class T, Kind k>
struct Holder : Handle {
  std::shared_ptr<T> object;
  explicit Holder(std::shared_ptr<T> object) : Handle(k), object(std::move(object)) {}
};

struct RingWithVariant {
  const Variant* variant;
  RingTables tables;
};

/** The way of a scan's results to JavaScript. */
struct Channel {
  /** For the threads, until the last message. */
  std::mutex mutex;
  napi_threadsafe_function call = nullptr;
  /** The same for the thread of the environment, which may let go of the event loop or hold it until the function is gone: see `forgetCall`. */
  napi_threadsafe_function loop = nullptr;
};

/** Called before the function is freed, whatever was the reason: the last message, one that could not be sent, the end of the environment. */
void forgetCall(napi_env, void* data, void*) {
  const std::unique_ptr<std::shared_ptr<Channel>> channel(static_cast<std::shared_ptr<Channel>*>(data));
  (*channel)->loop = nullptr;
  const std::lock_guard<std::mutex> lock((*channel)->mutex);
  (*channel)->call = nullptr;
}

struct RunningScan {
  std::shared_ptr<Pool> pool;
  std::shared_ptr<Scan> scan;
  std::shared_ptr<Channel> channel;
};

template <class T, Kind k>
napi_value wrap(napi_env env, std::shared_ptr<T> object) {
  auto holder = std::make_unique<Holder<T, k>>(std::move(object));
  napi_value value;
  const auto finalize = [](napi_env, void* data, void*) { delete static_cast<Handle*>(data); };
  check(env, napi_create_external(env, static_cast<Handle*>(holder.get()), finalize, nullptr, &value), "no memory");
  holder.release();
  return value;
}

template <class T, Kind k>
std::shared_ptr<T>& unwrap(napi_env env, napi_value value) {
  void* data = nullptr;
  check(env, napi_get_value_external(env, value, &data), "a handle was expected");
  Handle* const handle = static_cast<Handle*>(data);
  if (handle->kind != k) refuse(env, nullptr, "a handle of another kind was expected");
  auto& object = static_cast<Holder<T, k>*>(handle)->object;
  if (!object) refuse(env, nullptr, "this handle was closed");
  return object;
}

std::shared_ptr<Pool>& poolOf(napi_env env, napi_value value) { return unwrap<Pool, Kind::kPool>(env, value); }
std::shared_ptr<RingWithVariant>& ringOf(napi_env env, napi_value value) { return unwrap<RingWithVariant, Kind::kRing>(env, value); }
std::shared_ptr<Segment>& segmentOf(napi_env env, napi_value value) { return unwrap<Segment, Kind::kSegment>(env, value); }
std::shared_ptr<Query>& queryOf(napi_env env, napi_value value) { return unwrap<Query, Kind::kQuery>(env, value); }
std::shared_ptr<RunningScan>& scanOf(napi_env env, napi_value value) { return unwrap<RunningScan, Kind::kScan>(env, value); }
std::shared_ptr<PlainGallery>& plainOf(napi_env env, napi_value value) { return unwrap<PlainGallery, Kind::kPlain>(env, value); }

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

Instance& instanceOf(napi_env env) {
  void* data = nullptr;
  check(env, napi_get_instance_data(env, &data), "no instance");
  return *static_cast<Instance*>(data);
}

// — variants —

std::vector<const Variant*> variants() {
  std::vector<const Variant*> found;
#ifdef HERS_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    found.push_back(&kAvx512);
  }
  if (avx2) found.push_back(&kAvx2);
#endif
  found.push_back(&kGeneric);
  return found;
}

const Variant& variantOf(napi_env env, napi_value value) {
  const std::string name = textOf(env, value);
  for (const Variant* variant : variants()) {
    if (name == variant->name) return *variant;
  }
  refuse(env, nullptr, "this machine does not have that instruction set");
}

// — results —

/** Either a batch or an ending. */
struct Message {
  std::unique_ptr<Batch> batch;
  Ending ending;
};

/** Whoever calls after the environment began to close must not do so again: the function is gone then. */
void send(Channel& channel, std::unique_ptr<Message> message, bool last) {
  const std::lock_guard<std::mutex> lock(channel.mutex);
  if (!channel.call) return;
  const napi_status status = napi_call_threadsafe_function(channel.call, message.get(), napi_tsfn_nonblocking);
  if (status == napi_ok) message.release();
  if (status == napi_closing) channel.call = nullptr;
  else if (last) napi_release_threadsafe_function(channel.call, napi_tsfn_release), channel.call = nullptr;
}

/** Makes the batch's memory JavaScript's, until it is garbage there. */
napi_value batchBuffer(napi_env env, std::unique_ptr<Batch>& batch) {
  napi_value buffer;
  void* const bytes = batch->memory.get();
  const auto finalize = [](napi_env, void*, void* hint) { delete static_cast<Batch*>(hint); };
  if (napi_create_external_arraybuffer(env, bytes, batch->length, finalize, batch.get(), &buffer) == napi_ok) {
    batch.release();
    return buffer;
  }
  // Some embedders do not allow memory from outside.
  void* copy = nullptr;
  check(env, napi_create_arraybuffer(env, batch->length, &copy, &buffer), "no memory");
  memcpy(copy, bytes, batch->length);
  return buffer;
}

void deliver(napi_env env, napi_value callback, void*, void* data) {
  const std::unique_ptr<Message> message(static_cast<Message*>(data));
  if (!env) return;
  try {
    napi_value self;
    check(env, napi_get_undefined(env, &self), "no value");
    if (message->batch) {
      const Batch& batch = *message->batch;
      const size_t length = batch.entries.size() * sizeof(uint32_t);
      void* words = nullptr;
      napi_value memory, entries;
      check(env, napi_create_arraybuffer(env, length, &words, &memory), "no memory");
      memcpy(words, batch.entries.data(), length);
      check(env, napi_create_typedarray(env, napi_uint32_array, batch.entries.size(), memory, 0, &entries), "no memory");
      const napi_value arguments[] = {batchBuffer(env, message->batch), entries};
      napi_call_function(env, self, callback, 2, arguments, nullptr);
    } else {
      const Ending& e = message->ending;
      const Times& t = e.times;
      napi_value null;
      check(env, napi_get_null(env, &null), "no value");
      const std::vector<double> values = {static_cast<double>(e.outcome), static_cast<double>(e.segment), static_cast<double>(e.part),
                                          t.expand * 1e-6, t.verify * 1e-6, t.multiply * 1e-6, t.respond * 1e-6,
                                          t.untilMultiply * 1e-6, t.untilEnd * 1e-6};
      const napi_value arguments[] = {null, numbers(env, values)};
      napi_call_function(env, self, callback, 2, arguments, nullptr);
    }
  } catch (const Pending&) {
  }
}

// — functions —

using Arguments = std::vector<napi_value>;

napi_value undefined(napi_env env) {
  napi_value value;
  check(env, napi_get_undefined(env, &value), "no value");
  return value;
}

napi_value listVariants(napi_env env, const Arguments&) {
  napi_value array;
  check(env, napi_create_array(env, &array), "no memory");
  uint32_t at = 0;
  for (const Variant* variant : variants()) {
    napi_value name;
    check(env, napi_create_string_utf8(env, variant->name, NAPI_AUTO_LENGTH, &name), "no memory");
    check(env, napi_set_element(env, array, at++, name), "no memory");
  }
  return array;
}

napi_value createPool(napi_env env, const Arguments& a) {
  const auto pool = std::make_shared<Pool>(sizeOf(env, a[0]));
  instanceOf(env).pools.push_back(pool);
  return wrap<Pool, Kind::kPool>(env, pool);
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
  if (n < 4 * variant.lanes || n < 2 * kGroup || (n & (n - 1)) != 0) refuse(env, nullptr, "n must be a power of two from 64 on");
  std::vector<PrimeConstants> primes;
  eachOf(env, a[2], [&](napi_value prime) {
    PrimeConstants c;
    c.p = wordOf(env, member(env, prime, "p"));
    c.scale = wordOf(env, member(env, prime, "scale"));
    c.last = wordOf(env, member(env, prime, "last"));
    c.share = wordOf(env, member(env, prime, "share"));
    c.reciprocal = wordOf(env, member(env, prime, "reciprocal"));
    const Bytes inverses = bytesOf(env, member(env, prime, "inverses"), napi_uint32_array);
    if (inverses.length != 4 * size_t{n} || c.p < 3 || c.p >= 1u << 30 || c.p % 2 == 0) refuse(env, nullptr, "a modulus is wrong");
    c.inverses.resize(n);
    memcpy(c.inverses.data(), inverses.at, inverses.length);
    primes.push_back(std::move(c));
  });
  if (primes.empty() || primes.size() > 2) refuse(env, nullptr, "a ring has one or two primes");
  return wrap<RingWithVariant, Kind::kRing>(
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
  layout.partBytes = layout.rows * layout.blocks * kGroup * sizeof(uint32_t);
  if (layout.blocks == 0 || layout.rows == 0 || layout.panelRows == 0 || layout.checksums.empty()) refuse(env, nullptr, "a layout is wrong");
  return layout;
}

napi_value mapSegment(napi_env env, const Arguments& a) {
  const auto segment = Segment::map(static_cast<int>(sizeOf(env, a[0])), layoutOf(env, a[1]));
  if (!segment) refuse(env, errno == ENODATA ? "ENODATA" : nullptr, strerror(errno));
  return wrap<Segment, Kind::kSegment>(env, segment);
}

napi_value allocateSegment(napi_env env, const Arguments& a) {
  const auto segment = Segment::allocate(layoutOf(env, a[0]));
  if (!segment) refuse(env, nullptr, strerror(errno));
  return wrap<Segment, Kind::kSegment>(env, segment);
}

napi_value writeSegment(napi_env env, const Arguments& a) {
  const auto& segment = segmentOf(env, a[0]);
  const size_t offset = sizeOf(env, a[1]);
  const Bytes bytes = bytesOf(env, a[2], napi_uint8_array);
  if (offset > segment->bytes() || bytes.length > segment->bytes() - offset) refuse(env, nullptr, "outside of the segment");
  memcpy(segment->data() + offset, bytes.at, bytes.length);
  return undefined(env);
}

/** Unmapping takes long enough to be left to a thread of the pool. */
napi_value freeSegment(napi_env env, const Arguments& a) {
  auto& segment = segmentOf(env, a[1]);
  poolOf(env, a[0])->run([doomed = std::move(segment)]() mutable { doomed.reset(); });
  segment.reset();
  return undefined(env);
}

napi_value forgetFile(napi_env env, const Arguments& a) {
  Segment::forget(static_cast<int>(sizeOf(env, a[0])));
  return undefined(env);
}

/** By itself glibc keeps what was freed for the next time, and the more, the larger it was; a buffer that was mapped goes back to the system when it is freed. */
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
  query->bits[0] = wordOf(env, a[2]);
  query->bits[1] = wordOf(env, a[3]);
  const Bytes seed = bytesOf(env, a[4], napi_uint8_array), head = bytesOf(env, a[5], napi_uint8_array);
  if (query->bits[0] - 1 > 31 || query->bits[1] - 1 > 31 || seed.length != kSeedBytes || head.length != kHeadBytes) {
    refuse(env, nullptr, "a query is wrong");
  }
  memcpy(query->seed, seed.at, kSeedBytes);
  memcpy(query->head, head.at, kHeadBytes);
  query->rows = poolOf(env, a[0])->spares()->take(query->words);
  return wrap<Query, Kind::kQuery>(env, query);
}

napi_value writeQuery(napi_env env, const Arguments& a) {
  const auto& query = queryOf(env, a[0]);
  const size_t offset = sizeOf(env, a[1]);
  const Bytes words = bytesOf(env, a[2], napi_uint32_array);
  if (offset > query->words || words.length / 4 > query->words - offset) refuse(env, nullptr, "outside of the query");
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
  // The scan takes the queries over: it frees their rows when it has laid them out.
  eachOf(env, a[3], [&](napi_value value) { setup.queries.push_back(std::move(queryOf(env, value))); });
  setup.domain = wordOf(env, a[4]);
  setup.multiplyOnly = truthOf(env, a[5]);
  setup.threads = pool->threads();
  if (setup.segments.empty() || setup.queries.empty()) refuse(env, nullptr, "there is nothing to scan");
  for (const auto& segment : setup.segments) {
    if (segment->parts() != setup.ring->groups() || segment->layout().rows != setup.segments[0]->layout().rows) {
      refuse(env, nullptr, "a segment does not fit the ring, or the others");
    }
    for (const auto& query : setup.queries) {
      if (query->words != segment->layout().rows * setup.ring->words()) refuse(env, nullptr, "a query does not fit a segment");
    }
  }

  const auto channel = std::make_shared<Channel>();
  napi_value name;
  check(env, napi_create_string_utf8(env, "hers.scan", NAPI_AUTO_LENGTH, &name), "no memory");
  setup.onBatch = [channel](std::unique_ptr<Batch> batch) {
    std::unique_ptr<Message> message(new Message{std::move(batch), {}});
    send(*channel, std::move(message), false);
  };
  setup.onEnd = [channel](const Ending& ending) {
    std::unique_ptr<Message> message(new Message{nullptr, ending});
    send(*channel, std::move(message), true);
  };
  const auto scan = std::make_shared<Scan>(std::move(setup));
  const auto running = std::make_shared<RunningScan>(RunningScan{pool, scan, channel});
  const napi_value value = wrap<RunningScan, Kind::kScan>(env, running);
  auto kept = std::make_unique<std::shared_ptr<Channel>>(channel);
  check(env, napi_create_threadsafe_function(env, a[6], nullptr, name, 0, 1, kept.get(), forgetCall, nullptr, deliver, &channel->call),
        "no memory");
  kept.release();
  channel->loop = channel->call;
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
  const napi_threadsafe_function loop = scanOf(env, a[0])->channel->loop;
  if (!loop) return undefined(env);
  if (truthOf(env, a[1])) napi_ref_threadsafe_function(env, loop);
  else napi_unref_threadsafe_function(env, loop);
  return undefined(env);
}

std::vector<std::shared_ptr<Segment>> segmentsOf(napi_env env, napi_value value) {
  std::vector<std::shared_ptr<Segment>> segments;
  eachOf(env, value, [&](napi_value each) { segments.push_back(segmentOf(env, each)); });
  return segments;
}

napi_value readSeconds(napi_env env, const Arguments& a) {
  const auto segments = segmentsOf(env, a[1]);
  const auto seconds = measureRead(variantOf(env, a[0]), segments, sizeOf(env, a[2]), sizeOf(env, a[3]));
  for (const auto& segment : segments) {
    if (segment->look().fate != Fate::kSound) refuse(env, nullptr, "a segment was cut while it was read");
  }
  return numbers(env, seconds);
}

napi_value createPlain(napi_env env, const Arguments& a) {
  return wrap<PlainGallery, Kind::kPlain>(env, std::make_shared<PlainGallery>(sizeOf(env, a[0]), sizeOf(env, a[1])));
}

napi_value plainSeconds(napi_env env, const Arguments& a) {
  return numbers(env, plainOf(env, a[1])->measure(variantOf(env, a[0]), sizeOf(env, a[2]), sizeOf(env, a[3])));
}

napi_value blasSeconds(napi_env env, const Arguments& a) { return numbers(env, plainOf(env, a[0])->measureBlas(sizeOf(env, a[1]))); }

napi_value freePlain(napi_env env, const Arguments& a) {
  plainOf(env, a[0]).reset();
  return undefined(env);
}

napi_value ceilingSeconds(napi_env env, const Arguments& a) {
  const auto& ring = ringOf(env, a[0]);
  return numbers(env, measureCeiling(*ring->variant, ring->tables, sizeOf(env, a[1]), sizeOf(env, a[2]), sizeOf(env, a[3]),
                                     sizeOf(env, a[4]), sizeOf(env, a[5])));
}

template <napi_value (*f)(napi_env, const Arguments&), size_t count>
napi_value call(napi_env env, napi_callback_info info) {
  try {
    size_t given = count;
    Arguments arguments(count);
    check(env, napi_get_cb_info(env, info, &given, arguments.data(), nullptr, nullptr), "no arguments");
    if (given != count) refuse(env, nullptr, "wrong number of arguments");
    return f(env, arguments);
  } catch (const Pending&) {
  } catch (const std::exception& error) {
    napi_throw_error(env, nullptr, error.what());
  }
  return nullptr;
}

napi_value initialize(napi_env env, napi_value exports) {
  auto instance = std::make_unique<Instance>();
  check(env, napi_set_instance_data(env, instance.get(), [](napi_env, void* data, void*) { delete static_cast<Instance*>(data); }, nullptr),
        "no instance");
  Instance* const kept = instance.release();
  check(env, napi_add_env_cleanup_hook(env, [](void* data) { static_cast<Instance*>(data)->shutDown(); }, kept), "no hook");

  napi_value stamp;
  check(env, napi_create_string_utf8(env, HERS_STAMP, NAPI_AUTO_LENGTH, &stamp), "no memory");
  const auto method = [](const char* name, napi_callback f) {
    return napi_property_descriptor{name, nullptr, f, nullptr, nullptr, nullptr, napi_enumerable, nullptr};
  };
  const napi_property_descriptor properties[] = {
      {"stamp", nullptr, nullptr, nullptr, nullptr, stamp, napi_enumerable, nullptr},
      method("variants", call<listVariants, 0>),
      method("createPool", call<createPool, 1>),
      method("closePool", call<closePool, 1>),
      method("createRing", call<createRing, 3>),
      method("mapSegment", call<mapSegment, 2>),
      method("allocateSegment", call<allocateSegment, 1>),
      method("writeSegment", call<writeSegment, 3>),
      method("freeSegment", call<freeSegment, 2>),
      method("forgetFile", call<forgetFile, 1>),
      method("returnFreedMemory", call<returnFreedMemory, 1>),
      method("createQuery", call<createQuery, 6>),
      method("writeQuery", call<writeQuery, 3>),
      method("startScan", call<startScan, 7>),
      method("stopScan", call<stopScan, 1>),
      method("releaseBatch", call<releaseBatch, 1>),
      method("holdLoop", call<holdLoop, 2>),
      method("readSeconds", call<readSeconds, 4>),
      method("createPlain", call<createPlain, 2>),
      method("plainSeconds", call<plainSeconds, 4>),
      method("blasSeconds", call<blasSeconds, 2>),
      method("freePlain", call<freePlain, 1>),
      method("ceilingSeconds", call<ceilingSeconds, 6>),
  };
  check(env, napi_define_properties(env, exports, sizeof properties / sizeof *properties, properties), "no memory");
  return exports;
}

}  // namespace
}  // namespace hers

NAPI_MODULE_INIT() {
  try {
    return hers::initialize(env, exports);
  } catch (const hers::Pending&) {
    return nullptr;
  }
}
