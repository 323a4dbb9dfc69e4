// The door of hers_decrypt.h to JavaScript (Node-API), for packages/client/src/device alone: it is
// given secrets. What goes through it is checked there; here only that a value is what it claims to
// be. Calls that wait for the device run in a thread of the environment's pool.

#include <node_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../scan/kept.h"
#include "../../packages/ring/lanes/napi.h"
#include "hers_decrypt.h"

namespace hers {
namespace {

enum Kind : uint32_t { kDecryptor = 0x64656301, kGallery, kGroups };

/** Of scores under `exact`: packages/scheme/src/secret/score-sums.ts. */
constexpr size_t kWeightCopies = 6;

struct Decryptor {
  HersDecrypt* decrypt = nullptr;
  ~Decryptor() {
    if (decrypt) hersDecryptClose(decrypt);
  }
};

/** The decryptor is closed after it. */
struct Gallery {
  std::shared_ptr<Decryptor> decryptor;
  HersDecryptGallery* gallery = nullptr;
  uint32_t width = 0, group = 0;
  size_t blocks = 0;
  ~Gallery() {
    if (gallery) hersDecryptUnload(gallery);
  }
};

struct Groups {
  std::shared_ptr<Gallery> gallery;
  HersDecryptGroups* groups = nullptr;
  ~Groups() {
    if (groups) hersDecryptUnloadGroups(groups);
  }
};

bool isMissing(napi_env env, napi_value value) {
  napi_valuetype type;
  check(napi_typeof(env, value, &type), "no value");
  return type == napi_undefined || type == napi_null;
}

/** Numbers of 16 bits come as their bytes. */
template <class T>
constexpr napi_typedarray_type kArrayOf = sizeof(T) <= 2 ? napi_uint8_array : sizeof(T) == 4 ? napi_uint32_array : napi_float64_array;

/** Null where it is missing. */
template <class T>
const T* wordsOf(napi_env env, napi_value object, const char* name, size_t expected) {
  const napi_value value = member(env, object, name);
  if (isMissing(env, value)) return nullptr;
  const Bytes bytes = bytesOf(env, value, kArrayOf<T>);
  if (bytes.length != sizeof(T) * expected) refuse("an array has another length than it must");
  static const T none[1] = {};
  return bytes.length == 0 ? none : reinterpret_cast<const T*>(bytes.at);
}

template <class T>
const T* needed(napi_env env, napi_value object, const char* name, size_t expected) {
  const T* const words = wordsOf<T>(env, object, name, expected);
  if (!words) refuse("an array is missing");
  return words;
}

/** What has not been given back. */
template <class T, uint32_t kind>
std::shared_ptr<T> held(napi_env env, napi_value value) {
  const std::shared_ptr<T> found = unwrap<T, kind>(env, value);
  if (!found) refuse("this was unloaded");
  return found;
}

napi_value openDecryptor(napi_env env, const Arguments& a) {
  const auto decryptor = std::make_shared<Decryptor>();
  if (hersDecryptInterface() != HERS_DECRYPT_INTERFACE) refuse("the CUDA library is another version than its addon: build both again");
  HersDecryptRing ring = {};
  const auto word = [&](const char* name) { return wordOf(env, member(env, a[1], name)); };
  ring.n = word("n"), ring.p = word("p"), ring.scale = word("scale"), ring.last = word("last");
  ring.roots = needed<uint32_t>(env, a[1], "roots", ring.n);
  ring.inverses = needed<uint32_t>(env, a[1], "inverses", ring.n);
  if (hersDecryptOpen(static_cast<int>(sizeOf(env, a[0])), &ring, &decryptor->decrypt) != HERS_CUDA_OK) refuse(hersDecryptMessage());
  return wrap<Decryptor, kDecryptor>(env, decryptor);
}

napi_value closeDecryptor(napi_env env, const Arguments& a) {
  unwrap<Decryptor, kDecryptor>(env, a[0]).reset();
  return undefined(env);
}

/** A call in another thread. Resolves to [state, message], and what it made. */
struct Work : Promised {
  using Promised::Promised;
  virtual int perform() = 0;
  virtual std::vector<napi_value> made(napi_env env) = 0;

  void run() override {
    state_ = perform();
    if (state_ != HERS_CUDA_OK) message_ = hersDecryptMessage();
  }
  napi_value answer(napi_env env) override {
    std::vector<napi_value> values = {number(env, state_), text(env, message_)};
    if (state_ == HERS_CUDA_OK)
      for (napi_value value : made(env)) values.push_back(value);
    return list(env, values);
  }

 private:
  int state_ = HERS_CUDA_FAILED;
  std::string message_;
};

struct Load : Work {
  using Work::Work;
  HersDecryptBlocks blocks = {};
  std::shared_ptr<Gallery> before;
  std::shared_ptr<Gallery> gallery = std::make_shared<Gallery>();
  int perform() override {
    return hersDecryptLoad(gallery->decryptor->decrypt, &blocks, before ? before->gallery : nullptr, &gallery->gallery);
  }
  std::vector<napi_value> made(napi_env env) override { return {wrap<Gallery, kGallery>(env, gallery)}; }
};

napi_value loadGallery(napi_env env, const Arguments& a) {
  auto load = std::make_unique<Load>(env);
  load->gallery->decryptor = unwrap<Decryptor, kDecryptor>(env, a[0]);
  HersDecryptBlocks& blocks = load->blocks;
  const auto size = [&](const char* name) { return sizeOf(env, member(env, a[1], name)); };
  blocks.blocks = size("blocks"), blocks.fresh = size("fresh");
  blocks.canaries = static_cast<uint32_t>(size("canaries")), blocks.width = static_cast<uint32_t>(size("width"));
  blocks.ids = needed<uint8_t>(env, a[1], "ids", 16 * blocks.blocks);
  blocks.counts = needed<uint32_t>(env, a[1], "counts", blocks.blocks);
  blocks.slots = needed<uint32_t>(env, a[1], "slots", blocks.fresh * blocks.canaries);
  blocks.values = reinterpret_cast<const int32_t*>(needed<uint32_t>(env, a[1], "values", blocks.fresh * blocks.canaries * blocks.width));
  const size_t n = size("n");
  blocks.alive = wordsOf<uint32_t>(env, a[1], "alive", blocks.blocks * n / 32);
  blocks.totals = needed<uint32_t>(env, a[1], "totals", blocks.blocks);
  blocks.group = static_cast<uint32_t>(size("group"));
  if (blocks.group > 0) {
    blocks.orders = needed<uint16_t>(env, a[1], "orders", blocks.fresh * n);
    blocks.ordered = needed<uint32_t>(env, a[1], "ordered", blocks.fresh);
  }
  blocks.weights = wordsOf<uint32_t>(env, a[1], "weights", kWeightCopies * n);
  if (blocks.weights) {
    blocks.dimension = static_cast<uint32_t>(size("dimension"));
    blocks.summed = needed<uint32_t>(env, a[1], "summed", blocks.fresh);
    blocks.sums = needed<double>(env, a[1], "sums", blocks.fresh * kWeightCopies * (2 + blocks.dimension));
  }
  if (!isMissing(env, a[2])) {
    load->before = held<Gallery, kGallery>(env, a[2]);
    blocks.known = needed<uint32_t>(env, a[1], "known", blocks.blocks);
  }
  load->gallery->width = blocks.width;
  load->gallery->group = blocks.group;
  load->gallery->blocks = blocks.blocks;
  return Promised::start(std::move(load), "hers.gallery", a);
}

napi_value unloadGallery(napi_env env, const Arguments& a) {
  unwrap<Gallery, kGallery>(env, a[0]).reset();
  return undefined(env);
}

struct LoadGroups : Work {
  using Work::Work;
  std::shared_ptr<Groups> groups = std::make_shared<Groups>();
  const uint16_t* codes = nullptr;
  int perform() override { return hersDecryptLoadGroups(groups->gallery->gallery, codes, &groups->groups); }
  std::vector<napi_value> made(napi_env env) override { return {wrap<Groups, kGroups>(env, groups)}; }
};

napi_value loadGroups(napi_env env, const Arguments& a) {
  auto load = std::make_unique<LoadGroups>(env);
  load->groups->gallery = held<Gallery, kGallery>(env, a[0]);
  load->codes = needed<uint16_t>(env, a[1], "codes", load->groups->gallery->blocks * sizeOf(env, member(env, a[1], "n")));
  return Promised::start(std::move(load), "hers.groups", a);
}

napi_value unloadGroups(napi_env env, const Arguments& a) {
  unwrap<Groups, kGroups>(env, a[0]).reset();
  return undefined(env);
}

struct Rank : Work {
  using Work::Work;
  std::shared_ptr<Gallery> gallery;
  std::shared_ptr<Groups> groups;
  const HersCudaKept* responses = nullptr;
  size_t query = 0, chosenCount = 0;
  const uint32_t* chosen = nullptr;
  HersDecryptQuery about = {};
  std::vector<HersDecryptCandidate> candidates;
  uint32_t count = 0;
  HersDecryptTimes times = {};

  int perform() override {
    return hersDecryptRank(gallery->gallery, groups ? groups->groups : nullptr, responses, query, chosen, chosenCount, &about, candidates.data(), &count, &times);
  }

  /** Three columns, and the milliseconds on the device. */
  std::vector<napi_value> made(napi_env env) override {
    uint32_t *blocks, *records;
    float* scores;
    const napi_value first = newArray(env, napi_uint32_array, count, blocks), second = newArray(env, napi_uint32_array, count, records);
    const napi_value third = newArray(env, napi_float32_array, count, scores);
    for (uint32_t i = 0; i < count; i++) {
      blocks[i] = candidates[i].block;
      records[i] = candidates[i].record;
      scores[i] = candidates[i].score;
    }
    return {first, second, third, number(env, times.decrypt), number(env, times.select)};
  }

  ~Rank() override {
    volatile uint8_t* const at = reinterpret_cast<volatile uint8_t*>(candidates.data());
    for (size_t i = 0; i < candidates.size() * sizeof(HersDecryptCandidate); i++) at[i] = 0;
  }
};

napi_value rankResponses(napi_env env, const Arguments& a) {
  auto rank = std::make_unique<Rank>(env);
  rank->gallery = held<Gallery, kGallery>(env, a[0]);
  if (!isMissing(env, member(env, a[2], "groups"))) rank->groups = held<Groups, kGroups>(env, member(env, a[2], "groups"));
  rank->responses = &externalOf<const HersCudaKept>(env, a[1], kKeptTag);
  const napi_value q = a[2];
  const auto word = [&](const char* name) { return wordOf(env, member(env, q, name)); };
  const auto real = [&](const char* name) { return numberOf(env, member(env, q, name)); };
  rank->query = word("query");
  if (!isMissing(env, member(env, q, "only"))) {
    const Bytes only = bytesOf(env, member(env, q, "only"), napi_uint32_array);
    rank->chosen = reinterpret_cast<const uint32_t*>(only.at);
    rank->chosenCount = only.length / 4;
  }
  const uint32_t n = word("n");
  HersDecryptQuery& about = rank->about;
  about.head = needed<uint8_t>(env, q, "head", 80);
  about.bits[0] = word("bits0"), about.bits[1] = word("bits1"), about.cut = word("cut");
  about.secret = needed<uint32_t>(env, q, "secret", n);
  about.factor = static_cast<float>(real("factor")), about.offset = static_cast<float>(real("offset"));
  about.largest = real("largest");
  about.probe = reinterpret_cast<const int32_t*>(needed<uint32_t>(env, q, "probe", rank->gallery->width));
  about.scale = real("scale"), about.canaryOffset = real("canaryOffset"), about.room = real("room");
  about.exact = truthOf(env, member(env, q, "exact"));
  about.step = real("step"), about.slope = real("slope"), about.shift = real("shift"), about.sign = static_cast<int>(real("sign"));
  about.square = real("square"), about.largestInteger = real("largestInteger"), about.period = real("period");
  about.plus = wordsOf<uint32_t>(env, q, "plus", rank->gallery->group + 1);
  about.divisors = wordsOf<double>(env, q, "divisors", rank->gallery->group + 1);
  about.rooms = wordsOf<double>(env, q, "rooms", rank->gallery->group + 1);
  about.distances = truthOf(env, member(env, q, "distances"));
  about.floor = real("floor");
  about.limit = word("limit");
  about.chosen = wordsOf<uint32_t>(env, q, "chosen", rank->gallery->blocks * n / 32);
  rank->candidates.resize(std::min<size_t>(about.limit, rank->gallery->blocks * n));
  return Promised::start(std::move(rank), "hers.rank", a);
}

napi_value initialize(napi_env env, napi_value exports) {
  const napi_property_descriptor properties[] = {
      method("openDecryptor", call<openDecryptor, 2>), method("closeDecryptor", call<closeDecryptor, 1>), method("loadGallery", call<loadGallery, 3>),
      method("unloadGallery", call<unloadGallery, 1>), method("loadGroups", call<loadGroups, 2>),          method("unloadGroups", call<unloadGroups, 1>),     method("rankResponses", call<rankResponses, 3>),
  };
  return define(env, exports, properties);
}

}  // namespace
}  // namespace hers

NAPI_MODULE_INIT() {
  return hers::guarded(env, [&] { return hers::initialize(env, exports); });
}
