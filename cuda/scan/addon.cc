// The door of the CUDA library to JavaScript (Node-API). What goes through it is checked by
// packages/scan/src/cuda/cuda.ts; here only that a value is what it claims to be.
//
// A segment is loaded and a scan runs in a thread of its own, since the library's calls wait for
// the device. Scans are known to the environment (main thread or worker) that started them, which
// ends them before it goes. Objects are handed out as externals; forgotten ones are freed with
// them.

#include <node_api.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../packages/ring/lanes/napi.h"
#include "hers_cuda.h"
#include "kept.h"

namespace hers {
namespace {

enum Kind : uint32_t { kDevice = 0x63756401, kRing, kSegment, kScan };
/** Batches that wait for JavaScript; the device waits with them. */
constexpr int kBatchesWaiting = 4;

struct Device {
  HersCuda* cuda = nullptr;
  ~Device() {
    if (cuda) hersCudaClose(cuda);
  }
};

/** What it belongs to is closed after it. */
struct Ring {
  std::shared_ptr<Device> device;
  HersCudaRing* ring = nullptr;
  ~Ring() {
    if (ring) hersCudaFreeRing(ring);
  }
};

struct Segment {
  std::shared_ptr<Device> device;
  HersCudaSegment* segment = nullptr;
  ~Segment() {
    if (segment) hersCudaUnload(segment);
  }
};

std::shared_ptr<Device>& deviceOf(napi_env env, napi_value value) { return unwrap<Device, kDevice>(env, value); }
std::shared_ptr<Ring>& ringOf(napi_env env, napi_value value) { return unwrap<Ring, kRing>(env, value); }
std::shared_ptr<Segment>& segmentOf(napi_env env, napi_value value) { return unwrap<Segment, kSegment>(env, value); }

/** A JavaScript object that a thread reads; let go by the thread of the environment. */
class Held {
 public:
  Held(napi_env env, napi_value value) : env_(env) { check(napi_create_reference(env, value, 1, &reference_), "no memory"); }
  ~Held() { napi_delete_reference(env_, reference_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  const napi_env env_;
  napi_ref reference_ = nullptr;
};

// — devices and rings —

napi_value openDevice(napi_env env, const Arguments& a) {
  const auto device = std::make_shared<Device>();
  if (hersCudaInterface() != HERS_CUDA_INTERFACE) refuse("the CUDA library is another version than its addon: build both again");
  if (hersCudaOpen(static_cast<int>(sizeOf(env, a[0])), &device->cuda) != HERS_CUDA_OK) refuse(hersCudaMessage());
  return wrap<Device, kDevice>(env, device);
}

napi_value closeDevice(napi_env env, const Arguments& a) {
  deviceOf(env, a[0]).reset();
  return undefined(env);
}

napi_value describeDevice(napi_env env, const Arguments& a) {
  HersCudaDevice about;
  if (hersCudaDescribe(deviceOf(env, a[0])->cuda, &about) != HERS_CUDA_OK) refuse(hersCudaMessage());
  napi_value object;
  check(napi_create_object(env, &object), "no memory");
  const auto set = [&](const char* name, napi_value value) { check(napi_set_named_property(env, object, name, value), "no memory"); };
  set("name", text(env, about.name));
  set("memory", number(env, static_cast<double>(about.memory)));
  set("free", number(env, static_cast<double>(about.free)));
  set("driver", number(env, about.driver));
  return object;
}

napi_value copySpeed(napi_env env, const Arguments& a) {
  double speed = 0;
  if (hersCudaCopySpeed(deviceOf(env, a[0])->cuda, sizeOf(env, a[1]), &speed) != HERS_CUDA_OK) refuse(hersCudaMessage());
  return number(env, speed);
}

napi_value linkSpeed(napi_env env, const Arguments& a) {
  double speed = 0;
  if (hersCudaLinkSpeed(deviceOf(env, a[0])->cuda, sizeOf(env, a[1]), &speed) != HERS_CUDA_OK) refuse(hersCudaMessage());
  return number(env, speed);
}

napi_value createRing(napi_env env, const Arguments& a) {
  const auto ring = std::make_shared<Ring>();
  ring->device = deviceOf(env, a[0]);
  const uint32_t n = wordOf(env, a[1]);
  std::vector<HersCudaPrime> primes;
  eachOf(env, a[2], [&](napi_value prime) {
    const Bytes inverses = bytesOf(env, member(env, prime, "inverses"), napi_uint32_array);
    if (inverses.length != 4 * size_t{n}) refuse("a modulus is wrong");
    const auto word = [&](const char* name) { return wordOf(env, member(env, prime, name)); };
    primes.push_back({word("p"), word("scale"), word("last"), word("share"), word("reciprocal"), reinterpret_cast<const uint32_t*>(inverses.at)});
  });
  const int state = hersCudaCreateRing(ring->device->cuda, n, primes.data(), primes.size(), &ring->ring);
  if (state != HERS_CUDA_OK) refuse(hersCudaMessage(), state == HERS_CUDA_NO_MEMORY ? "NO_MEMORY" : "FAILED");
  return wrap<Ring, kRing>(env, ring);
}

// — segments —

/** Resolves to [state, part, message, segment]. */
struct Loading : Promised {
  using Promised::Promised;
  std::shared_ptr<Ring> ring;
  std::vector<uint8_t> table;
  std::vector<uint64_t> checksums;
  HersCudaLayout layout;
  const uint8_t* data;
  std::shared_ptr<Segment> segment = std::make_shared<Segment>();
  bool inTurns = false;
  int state = HERS_CUDA_FAILED;
  uint32_t part = 0;
  std::string message;

  void run() override {
    state = hersCudaLoad(ring->device->cuda, ring->ring, &layout, data, inTurns, &segment->segment, &part);
    if (state != HERS_CUDA_OK) message = hersCudaMessage();
  }
  napi_value answer(napi_env env) override {
    const napi_value loaded = state == HERS_CUDA_OK ? wrap<Segment, kSegment>(env, segment) : undefined(env);
    return list(env, {number(env, state), number(env, part), text(env, message), loaded});
  }
};

napi_value loadSegment(napi_env env, const Arguments& a) {
  auto loading = std::make_unique<Loading>(env);
  loading->ring = ringOf(env, a[0]);
  loading->segment->device = loading->ring->device;
  const Bytes table = bytesOf(env, member(env, a[1], "table"), napi_uint8_array);
  const Bytes sums = bytesOf(env, member(env, a[1], "partChecksums"), napi_biguint64_array);
  const Bytes data = bytesOf(env, a[2], napi_uint8_array);
  const size_t rows = sizeOf(env, member(env, a[1], "rows")), blocks = table.length / 24, parts = sums.length / 8;
  const bool packed = truthOf(env, member(env, a[1], "packed"));
  if (data.length != parts * blocks * (packed ? rows - rows / 4 : rows) * 64) refuse("a layout is wrong");
  loading->table.assign(table.at, table.at + table.length);
  loading->checksums.resize(parts);
  memcpy(loading->checksums.data(), sums.at, sums.length);
  loading->layout = {rows, blocks, packed, loading->table.data(), loading->checksums.data()};
  loading->data = data.at;
  loading->inTurns = truthOf(env, a[3]);
  return Promised::start(std::move(loading), "hers.load", {a[2]});
}

napi_value freeSegment(napi_env env, const Arguments& a) {
  segmentOf(env, a[0]).reset();
  return undefined(env);
}

// — responses that stay on the device —

/** What the external points to comes first: others know no more of it. */
struct Responses {
  HersCudaKept kept = {};
  std::shared_ptr<Device> device;
  HersCudaResponses* responses = nullptr;
  Responses() = default;
  Responses(const Responses&) = delete;
  Responses& operator=(const Responses&) = delete;
  void forget() {
    if (responses) hersCudaForget(responses);
    kept = {};
    responses = nullptr;
  }
  ~Responses() { forget(); }
};

napi_value forgetResponses(napi_env env, const Arguments& a) {
  externalOf<Responses>(env, a[0], kKeptTag).forget();
  return undefined(env);
}

// — scans —

struct Message {
  Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() {
    if (host) hersCudaGive(host);
  }
  /** A batch: its bytes, and five numbers for each response. Or the ending. */
  const uint8_t* bytes = nullptr;
  size_t length = 0;
  /** What holds the bytes: the library's memory, or a copy. */
  HersCudaHost* host = nullptr;
  std::unique_ptr<uint8_t[]> copied;
  std::vector<uint32_t> entries;
};

class Scan : public std::enable_shared_from_this<Scan> {
 public:
  std::shared_ptr<Ring> ring;
  std::vector<std::shared_ptr<Segment>> segments;
  std::vector<HersCudaSegment*> raw;
  /** Of each segment, its number among the blocks of all, and how many it has. */
  std::vector<size_t> firstBlocks;
  std::vector<HersCudaQuery> queries;
  uint32_t domain = 0;
  /** Whether responses stay on the device. */
  bool keeps = false;
  HersCudaResponses* kept = nullptr;
  std::unique_ptr<Held> held;
  const std::shared_ptr<Channel> channel = std::make_shared<Channel>();
  std::thread thread;

  ~Scan() {
    if (kept) hersCudaForget(kept);
  }

  void run() {
    const HersCudaScan scan = {ring->ring, raw.data(), raw.size(), queries.data(), queries.size(), domain, HERS_CUDA_ALL, &stop_, deliver, this};
    state_ = keeps ? hersCudaKeep(ring->device->cuda, &scan, &kept, nullptr) : hersCudaScan(ring->device->cuda, &scan, nullptr);
    if (state_ != HERS_CUDA_OK) text_ = hersCudaMessage();
    channel->send(std::make_unique<Message>(), true);
  }

  void stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = 1;
    taken_.notify_all();
  }

  /** JavaScript has taken a batch. */
  void release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_--;
    taken_.notify_all();
  }

  /** Once it has ended: one of the numbers of packages/scan/src/native/native-run.ts. */
  int outcome() const {
    if (state_ == HERS_CUDA_OK) return 1;
    if (state_ == HERS_CUDA_STOPPED) return 2;
    return state_ == HERS_CUDA_NO_MEMORY ? 5 : 8;
  }
  const std::string& message() const { return text_; }

  /** In the thread of the environment, when the last message has come, or when it ends. */
  void end() {
    stop();
    if (thread.joinable()) thread.join();
    held.reset();
    segments.clear();
  }

 private:
  static int deliver(void* context, const HersCudaBatch* batch) { return static_cast<Scan*>(context)->take(*batch) ? 0 : 1; }

  /** Takes the memory of the batch; a copy where too much of it is out already. */
  bool take(const HersCudaBatch& batch) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      taken_.wait(lock, [&] { return stop_ || waiting_ < kBatchesWaiting; });
      if (stop_) return false;
      waiting_++;
    }
    auto message = std::make_unique<Message>();
    for (uint32_t q = 0; q < batch.queries; q++) message->length += batch.blocks * batch.lengths[q];
    message->bytes = batch.bytes;
    message->host = hersCudaTake(&batch);
    if (!message->host) {
      message->copied.reset(new uint8_t[message->length]);
      memcpy(message->copied.get(), batch.bytes, message->length);
      message->bytes = message->copied.get();
    }
    message->entries.reserve(5 * batch.blocks * batch.queries);
    size_t segment = 0;
    while (segment + 1 < firstBlocks.size() && firstBlocks[segment + 1] <= batch.firstBlock) segment++;
    for (size_t b = 0; b < batch.blocks; b++) {
      const size_t block = batch.firstBlock + b;
      while (segment + 1 < firstBlocks.size() && firstBlocks[segment + 1] <= block) segment++;
      for (uint32_t q = 0; q < batch.queries; q++) {
        const size_t values[] = {segment, block - firstBlocks[segment], batch.firstQuery + q, batch.offsets[q] + b * batch.lengths[q], batch.lengths[q]};
        for (size_t value : values) message->entries.push_back(static_cast<uint32_t>(value));
      }
    }
    return channel->send(std::move(message), false);
  }

  std::mutex mutex_;
  std::condition_variable taken_;
  volatile int stop_ = 0;
  int waiting_ = 0, state_ = HERS_CUDA_OK;
  std::string text_;
};

std::shared_ptr<Scan>& scanOf(napi_env env, napi_value value) { return unwrap<Scan, kScan>(env, value); }

/** What belongs to one environment: scans that have not ended. */
struct Instance {
  std::set<std::shared_ptr<Scan>> scans;
  void shutDown() {
    for (const auto& scan : scans) scan->end();
    scans.clear();
  }
};

void deliverMessage(napi_env env, napi_value callback, void* context, void* data) {
  std::unique_ptr<Message> message(static_cast<Message*>(data));
  if (!env) return;
  const auto scan = static_cast<Scan*>(context)->shared_from_this();
  try {
    napi_value buffer;
    if (message->bytes) {
      const napi_value entries = newWords(env, message->entries);
      const auto finalize = [](napi_env, void*, void* held) { delete static_cast<Message*>(held); };
      void* const bytes = const_cast<uint8_t*>(message->bytes);
      check(napi_create_external_arraybuffer(env, bytes, message->length, finalize, message.get(), &buffer), "no memory");
      message->entries = {};
      message.release();
      callWith(env, callback, buffer, entries);
    } else {
      scan->end();
      instanceOf<Instance>(env).scans.erase(scan);
      check(napi_get_null(env, &buffer), "no value");
      callWith(env, callback, buffer, numbers(env, {static_cast<double>(scan->outcome())}));
    }
  } catch (const Refused& refused) {
    raise(env, refused);
  }
}

napi_value startScan(napi_env env, const Arguments& a) {
  const auto scan = std::make_shared<Scan>();
  scan->ring = ringOf(env, a[0]);
  size_t blocks = 0;
  eachOf(env, a[1], [&](napi_value value) {
    scan->segments.push_back(segmentOf(env, member(env, value, "segment")));
    scan->raw.push_back(scan->segments.back()->segment);
    scan->firstBlocks.push_back(blocks);
    blocks += sizeOf(env, member(env, value, "blocks"));
  });
  const size_t least = 4 * sizeOf(env, a[3]);
  eachOf(env, a[2], [&](napi_value value) {
    const Bytes seed = bytesOf(env, member(env, value, "seed"), napi_uint8_array), head = bytesOf(env, member(env, value, "head"), napi_uint8_array);
    const Bytes rows = bytesOf(env, member(env, value, "rows"), napi_uint32_array), given = bytesOf(env, member(env, value, "given"), napi_uint32_array);
    HersCudaQuery query = {{wordOf(env, member(env, value, "bits0")), wordOf(env, member(env, value, "bits1"))}, seed.at, head.at,
                           reinterpret_cast<const uint32_t*>(rows.at), reinterpret_cast<const uint32_t*>(given.at),
                           sizeOf(env, member(env, value, "width")), sizeOf(env, member(env, value, "givenCount"))};
    const size_t rowCount = sizeOf(env, member(env, value, "rowCount"));
    const bool wrong = seed.length != 32 || head.length != 80 || rows.length != rowCount * least || given.length != query.givenCount * least;
    if (wrong) refuse("a query does not fit a segment");
    scan->queries.push_back(query);
  });
  scan->domain = wordOf(env, a[4]);
  scan->keeps = truthOf(env, a[6]);
  scan->held = std::make_unique<Held>(env, a[2]);
  const napi_value value = wrap<Scan, kScan>(env, scan);
  scan->channel->open(env, a[5], "hers.scan", deliverMessage, scan);
  instanceOf<Instance>(env).scans.insert(scan);
  scan->thread = std::thread([scan = scan.get()] { scan->run(); });
  return value;
}

/** What was wrong, once it has ended. */
napi_value messageOf(napi_env env, const Arguments& a) { return text(env, scanOf(env, a[0])->message()); }

/** The responses of a scan that kept them and has ended well; the caller forgets them. */
napi_value takeResponses(napi_env env, const Arguments& a) {
  const auto& scan = scanOf(env, a[0]);
  if (!scan->kept) refuse("this scan has no responses");
  auto responses = std::make_unique<Responses>();
  responses->kept = *hersCudaKept(scan->kept);
  responses->device = scan->ring->device;
  std::swap(responses->responses, scan->kept);
  static_assert(offsetof(Responses, kept) == 0, "the external points to what is kept");
  return external(env, std::move(responses), kKeptTag);
}

napi_value stopScan(napi_env env, const Arguments& a) {
  scanOf(env, a[0])->stop();
  return undefined(env);
}

napi_value releaseBatch(napi_env env, const Arguments& a) {
  scanOf(env, a[0])->release();
  return undefined(env);
}

napi_value holdLoop(napi_env env, const Arguments& a) {
  scanOf(env, a[0])->channel->hold(env, truthOf(env, a[1]));
  return undefined(env);
}

napi_value initialize(napi_env env, napi_value exports) {
  makeInstance<Instance>(env);
  const napi_property_descriptor properties[] = {
      method("openDevice", call<openDevice, 1>),   method("closeDevice", call<closeDevice, 1>),   method("describeDevice", call<describeDevice, 1>),
      method("copySpeed", call<copySpeed, 2>),     method("linkSpeed", call<linkSpeed, 2>),
      method("createRing", call<createRing, 3>),   method("loadSegment", call<loadSegment, 4>),   method("freeSegment", call<freeSegment, 1>),
      method("startScan", call<startScan, 7>),     method("stopScan", call<stopScan, 1>),         method("releaseBatch", call<releaseBatch, 1>),
      method("holdLoop", call<holdLoop, 2>),       method("messageOf", call<messageOf, 1>),     method("takeResponses", call<takeResponses, 1>),
      method("forgetResponses", call<forgetResponses, 1>),
  };
  return define(env, exports, properties);
}

}  // namespace
}  // namespace hers

NAPI_MODULE_INIT() {
  return hers::guarded(env, [&] { return hers::initialize(env, exports); });
}
