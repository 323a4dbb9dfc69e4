// Node-API of the native ring. This side checks every number and every length before it touches
// memory; packages/ring/src/native-addon.node.ts has the types.
//
// The functions of a ring have the signatures of assembly/kernel.ts, and work on the same
// WebAssembly memory, which never grows: pointers are offsets into it.

#include <memory>

#include "../lanes/cpu.h"
#include "../lanes/napi.h"
#include "ranking.h"
#include "roots.h"
#include "variant.h"

namespace hers {

/** Adds the functions of expansion.cc. */
void addExpansion(napi_env env, napi_value exports);

namespace {

// — the variants of this machine, best first —

struct Variants {
  std::vector<const Variant*> list;
  Variants() {
#ifdef HERS_X86
    if (hasAvx512()) list.push_back(&kAvx512);
    if (hasAvx2()) list.push_back(&kAvx2);
#endif
  }
};

const Variants& machine() {
  static const Variants variants;
  return variants;
}

// — values —

/** By its place in the list. A name would take longer to read than some functions run. */
const Variant& variantOf(napi_env env, napi_value value) {
  const uint32_t place = wordOf(env, value);
  if (place >= machine().list.size()) refuse("this machine has not so many instruction sets");
  return *machine().list[place];
}

template <size_t count>
const uint8_t* keyOf(Call<count>& call) {
  const auto key = call.template array<uint8_t>(napi_uint8_array);
  if (key.length != 32) refuse("a key has 32 bytes");
  return key.at;
}

// — a ring —

/** A ring in the memory of a WebAssembly instance. Its functions share it; the last frees it. */
class Bound {
 public:
  Bound(napi_env env, const Variant& variant, napi_value memory, uint32_t n) : variant(variant), work(n) {
    void* at = nullptr;
    check(napi_get_arraybuffer_info(env, memory, &at, &size_), "the memory of a ring was expected");
    memory_ = static_cast<uint8_t*>(at);
    // Memory of WebAssembly cannot be detached, only outlived.
    check(napi_create_reference(env, memory, 1, &reference_), "no memory");
  }

  /** A pointer to that many words. */
  uint32_t* at(uint32_t offset, size_t words) const {
    if (offset % 4 != 0 || offset > size_ || 4 * words > size_ - offset) refuse("a pointer leaves the memory of the ring");
    return reinterpret_cast<uint32_t*>(memory_ + offset);
  }
  const uint8_t* key(uint32_t offset) const { return reinterpret_cast<const uint8_t*>(at(offset, 8)); }

  /** Made when first needed: most rings decrypt no response. */
  Roots roots() {
    if (!roots_) roots_ = std::make_unique<RootTables>(ring.n, variant.doubles);
    return roots_->roots();
  }

  void hold() { holders_++; }
  void release(napi_env env) {
    if (--holders_ > 0) return;
    napi_delete_reference(env, reference_);
    delete this;
  }

  const Variant& variant;
  Ring ring = {};
  Work work;

 private:
  uint8_t* memory_ = nullptr;
  size_t size_ = 0;
  napi_ref reference_ = nullptr;
  uint32_t holders_ = 0;
  std::unique_ptr<RootTables> roots_;
};

/** Zeroes what was used of the work space, whatever happens. */
class Wiping {
 public:
  Wiping(Work& work, Work::Part part) : work_(work), part_(part) {}
  ~Wiping() { work_.wipe(part_); }

 private:
  Work& work_;
  const Work::Part part_;
};

uint32_t checkedN(const Bound& bound, uint32_t n) {
  if (n != bound.ring.n) refuse("a polynomial of this ring was expected");
  return n;
}

uint32_t checkedPrime(uint32_t p) {
  if (p < 3 || p >= 1u << 30 || p % 2 == 0) refuse("a prime is odd and below 2^30");
  return p;
}

uint32_t checkedShift(uint32_t shift) {
  if (shift > 28) refuse("a shift is at most 28");
  return shift;
}

napi_value ntt(napi_env env, napi_callback_info info) {
  Call<4> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t a = call.word(), tables = call.word(), n = checkedN(b, call.word()), p = checkedPrime(call.word());
  b.variant.ntt(b.at(a, n), b.at(tables, 4 * size_t{n}), n, p);
  return nullptr;
}

napi_value intt(napi_env env, napi_callback_info info) {
  Call<6> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t a = call.word(), tables = call.word(), n = checkedN(b, call.word()), p = checkedPrime(call.word());
  const uint32_t scale = call.word(), last = call.word();
  b.variant.intt(b.at(a, n), b.at(tables, 4 * size_t{n}), n, p, scale, last);
  return nullptr;
}

template <decltype(Variant::add) Variant::* f>
napi_value binary(napi_env env, napi_callback_info info) {
  Call<5> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t out = call.word(), x = call.word(), y = call.word(), n = checkedN(b, call.word()), p = checkedPrime(call.word());
  (b.variant.*f)(b.at(out, n), b.at(x, n), b.at(y, n), n, p);
  return nullptr;
}

template <decltype(Variant::multiply) Variant::* f>
napi_value product(napi_env env, napi_callback_info info) {
  Call<7> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t out = call.word(), x = call.word(), y = call.word(), n = checkedN(b, call.word()), p = checkedPrime(call.word());
  const uint32_t mu = call.word(), shift = checkedShift(call.word());
  (b.variant.*f)(b.at(out, n), b.at(x, n), b.at(y, n), n, p, mu, shift);
  return nullptr;
}

napi_value scaleAdd(napi_env env, napi_callback_info info) {
  Call<5> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t out = call.word(), a = call.word(), w = call.word(), n = checkedN(b, call.word()), p = checkedPrime(call.word());
  b.variant.scaleAdd(b.at(out, n), b.at(a, n), w, n, p);
  return nullptr;
}

napi_value encode(napi_env env, napi_callback_info info) {
  Call<6> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t out = call.word(), values = call.word(), noise = call.word(), w = call.word();
  const uint32_t n = checkedN(b, call.word()), p = checkedPrime(call.word());
  b.variant.encode(b.at(out, n), b.at(values, n), b.at(noise, n), w, n, p);
  return nullptr;
}

napi_value embed(napi_env env, napi_callback_info info) {
  Call<4> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t out = call.word(), values = call.word(), n = checkedN(b, call.word()), p = checkedPrime(call.word());
  b.variant.embed(b.at(out, n), b.at(values, n), n, p);
  return nullptr;
}

napi_value isReduced(napi_env env, napi_callback_info info) {
  Call<3> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t a = call.word(), n = checkedN(b, call.word()), p = checkedPrime(call.word());
  return number(env, b.variant.isReduced(b.at(a, n), n, p) ? 1 : 0);
}

// The keystream of the WebAssembly kernel goes to `bytes`; that of this one to its work space.

napi_value uniform(napi_env env, napi_callback_info info) {
  Call<8> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t out = call.word(), n = checkedN(b, call.word()), p = checkedPrime(call.word());
  call.word();
  const uint32_t key = call.word(), domain = call.word(), index = call.word(), third = call.word();
  const Wiping wiping(b.work, Work::Part::stream);
  b.variant.uniform(b.at(out, n), n, p, {b.key(key), domain, index}, third, b.work);
  return nullptr;
}

template <decltype(Variant::ternary) Variant::* f>
napi_value sampled(napi_env env, napi_callback_info info) {
  Call<6> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t out = call.word(), n = checkedN(b, call.word());
  call.word();
  const uint32_t key = call.word(), domain = call.word(), index = call.word();
  const Wiping wiping(b.work, Work::Part::stream);
  (b.variant.*f)(b.at(out, n), n, {b.key(key), domain, index}, b.work);
  return nullptr;
}

napi_value uniformBits(napi_env env, napi_callback_info info) {
  Call<7> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const uint32_t out = call.word(), n = checkedN(b, call.word()), t = call.word();
  call.word();
  const uint32_t key = call.word(), domain = call.word(), index = call.word();
  if (t > 8) refuse("at most eight bits");
  const Wiping wiping(b.work, Work::Part::stream);
  b.variant.uniformBits(b.at(out, n), n, t, {b.key(key), domain, index}, b.work);
  return nullptr;
}

uint32_t checkedWideBits(uint32_t wideBits) {
  if (wideBits < 1 || wideBits > 8) refuse("one to eight wide bits were expected");
  return wideBits;
}

template <size_t count>
Secrets secretsOf(Call<count>& call, const Ring& ring, size_t rows) {
  Secrets secrets = {keyOf(call), call.word(), nullptr, nullptr};
  const auto kept = call.template array<uint32_t>(napi_uint32_array);
  const auto isKept = call.template array<uint8_t>(napi_uint8_array);
  if (isKept.length == 0) return secrets;
  if (isKept.length < rows || kept.length / ring.words() < isKept.length) refuse("kept secrets of another length were expected");
  secrets.kept = kept.at, secrets.isKept = isKept.at;
  return secrets;
}

napi_value blockRows(napi_env env, napi_callback_info info) {
  Call<15> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const Ring& ring = b.ring;
  BlockRows job = {};
  job.ring = &ring;
  const auto out = call.array<uint32_t>(napi_uint32_array);
  const auto values = call.array<int32_t>(napi_int32_array);
  job.count = call.word(), job.first = call.word();
  const auto lifts = call.array<uint32_t>(napi_uint32_array);
  job.rows = out.length / ring.words();
  if (out.length != job.rows * ring.words() || lifts.length != job.rows * (ring.primes + 1) || job.count > ring.n || job.first > ring.n - job.count ||
      values.length != job.rows * job.count)
    refuse("rows, values and lifts of one length were expected");
  job.out = out.at, job.values = values.at, job.lifts = lifts.at;
  job.maskKey = keyOf(call), job.maskDomain = call.word(), job.maskBitsDomain = call.word();
  job.errorKey = keyOf(call), job.errorDomain = call.word();
  job.secrets = secretsOf(call, ring, job.rows);
  job.wideBits = checkedWideBits(call.word());
  const Wiping wiping(b.work, Work::Part::all);
  b.variant.blockRows(job, b.work);
  return nullptr;
}

napi_value queryRows(napi_env env, napi_callback_info info) {
  Call<18> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const Ring& ring = b.ring;
  QueryRows job = {};
  job.ring = &ring;
  const auto out = call.array<uint32_t>(napi_uint32_array);
  const auto secretOut = call.array<uint32_t>(napi_uint32_array);
  const auto values = call.array<int32_t>(napi_int32_array);
  const auto lifts = call.array<uint32_t>(napi_uint32_array);
  job.maskKey = keyOf(call), job.maskDomain = call.word(), job.maskBitsDomain = call.word();
  job.errorKey = keyOf(call), job.errorDomain = call.word();
  job.resultKey = keyOf(call), job.resultDomain = call.word();
  job.rows = values.length;
  job.secrets = secretsOf(call, ring, job.rows);
  job.wideBits = checkedWideBits(call.word()), job.digitBits = call.word(), job.digits = call.word();
  if (job.digitBits < 1 || job.digitBits > 32 || job.digits > 64) refuse("at most 64 digits of up to 32 bits were expected");
  if (secretOut.length != ring.n || lifts.length != job.rows * (ring.primes + 1) || out.length != (job.rows + job.digits) * ring.words())
    refuse("rows, values and lifts of one length were expected");
  job.out = out.at, job.secretOut = secretOut.at, job.values = values.at, job.lifts = lifts.at;
  const Wiping wiping(b.work, Work::Part::all);
  b.variant.queryRows(job, b.work);
  return nullptr;
}

napi_value secretPoints(napi_env env, napi_callback_info info) {
  Call<2> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const auto out = call.array<double>(napi_float64_array);
  const auto secret = call.array<uint32_t>(napi_uint32_array);
  if (out.length != b.ring.n || secret.length != b.ring.n) refuse("a secret of this ring was expected");
  const Wiping wiping(b.work, Work::Part::all);
  b.variant.secretPoints(out.at, secret.at, b.ring, b.roots(), b.work);
  return nullptr;
}

/** packed0, bits0, packed1, bits1, points. */
template <size_t count>
Phase phaseOf(Call<count>& call, Bound& b) {
  Phase job = {};
  const Ring& ring = b.ring;
  job.ring = &ring;
  const auto packed0 = call.template array<uint8_t>(napi_uint8_array);
  job.bits0 = call.word();
  const auto packed1 = call.template array<uint8_t>(napi_uint8_array);
  job.bits1 = call.word();
  const auto points = call.template array<double>(napi_float64_array);
  if (job.bits0 < 1 || job.bits0 > job.bits1 || job.bits1 > 32) refuse("these bits contradict each other");
  if (packed0.length != size_t{ring.n} * job.bits0 / 8 || packed1.length != size_t{ring.n} * job.bits1 / 8 || points.length != ring.n)
    refuse("a response and a secret of this ring were expected");
  job.packed0 = packed0.at, job.packed1 = packed1.at, job.roots = b.roots(), job.points = points.at;
  return job;
}

napi_value scores(napi_env env, napi_callback_info info) {
  Call<8> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const auto out = call.array<float>(napi_float32_array);
  const Phase job = phaseOf(call, b);
  const float factor = static_cast<float>(call.number()), offset = static_cast<float>(call.number());
  if (out.length != b.ring.n) refuse("a score for every slot was expected");
  const Wiping wiping(b.work, Work::Part::phase);
  return number(env, b.variant.scores(out.at, job, factor, offset, b.work));
}

napi_value integers(napi_env env, napi_callback_info info) {
  Call<7> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  const auto out = call.array<int32_t>(napi_int32_array);
  const Phase job = phaseOf(call, b);
  const double factor = call.number();
  if (out.length != b.ring.n) refuse("an integer for every slot was expected");
  const Wiping wiping(b.work, Work::Part::phase);
  return number(env, b.variant.integers(out.at, job, factor, b.work));
}

// — ranking, on a thread of Node's own —

/** [response, record, score] of each, best first; or nothing where the slow way has to be taken. */
class PromisedRanking : public Promised {
 public:
  PromisedRanking(napi_env env, Bound& bound) : Promised(env), bound_(bound) { bound_.hold(); }
  ~PromisedRanking() override {
    wipe(best_.data(), best_.size() * sizeof(Best));
    bound_.release(env_);
  }

  void run() override {
    try {
      BestOf best(ranking.limit, ranking.floor);
      isSound_ = rankAll(ranking, best);
      if (isSound_) best_ = best.sorted();
    } catch (const std::bad_alloc&) {
      isSound_ = false;
    }
  }

  napi_value answer(napi_env env) override {
    if (!isSound_) return undefined(env);
    double* out;
    const napi_value array = newArray(env, napi_float64_array, 3 * best_.size(), out);
    for (const Best& each : best_) {
      *out++ = each.response, *out++ = each.slot;
      *out++ = ranking.areDistances ? -each.key : each.key;
    }
    return array;
  }

  Ranking ranking;

 private:
  Bound& bound_;
  std::vector<Best> best_;
  bool isSound_ = false;
};

template <class T, size_t count>
std::vector<T> copyOf(Call<count>& call, napi_typedarray_type type) {
  const auto array = call.template array<T>(type);
  return std::vector<T>(array.at, array.at + array.length);
}

/** See rank of NativeRing in packages/ring/src/native.ts. */
napi_value rank(napi_env env, napi_callback_info info) {
  Call<20> call(env, info);
  Bound& b = *static_cast<Bound*>(call.owner);
  auto made = std::make_unique<PromisedRanking>(env, b);
  Ranking& r = made->ranking;
  r.variant = &b.variant, r.ring = b.ring;
  const uint32_t n = b.ring.n;
  const napi_value bytes = call.value();
  const auto memory = arrayOf<uint8_t>(env, bytes, napi_uint8_array);
  r.memory = memory.at, r.at = copyOf<uint32_t>(call, napi_uint32_array);
  const size_t count = r.at.size();
  const auto head = call.array<uint8_t>(napi_uint8_array);
  if (head.length != kHeadBytes) refuse("a head has 80 bytes");
  memcpy(r.head, head.at, kHeadBytes);
  r.bits0 = call.word(), r.bits1 = call.word();
  if (r.bits0 < 1 || r.bits0 > r.bits1 || r.bits1 > 32) refuse("these bits contradict each other");
  for (const uint32_t at : r.at)
    if (at > memory.length || memory.length - at < r.bytes()) refuse("a response ends outside of the memory");
  const napi_value pointValues = call.value();
  const auto points = arrayOf<double>(env, pointValues, napi_float64_array);
  if (points.length != n) refuse("a secret of this ring was expected");
  r.points = points.at, r.roots = b.roots();
  r.factor = static_cast<float>(call.number()), r.offset = static_cast<float>(call.number());
  r.largest = call.number();
  r.canaries = call.word();
  r.slots = copyOf<uint32_t>(call, napi_uint32_array), r.expected = copyOf<double>(call, napi_float64_array);
  r.room = call.number();
  if (r.canaries > n || r.slots.size() != count * r.canaries || r.expected.size() != r.slots.size())
    refuse("canaries of every response were expected");
  for (size_t i = 0; i < r.slots.size(); i++)
    if (r.slots[i] >= n || (i % r.canaries > 0 && r.slots[i] <= r.slots[i - 1])) refuse("ascending slots were expected");
  r.dead = copyOf<uint32_t>(call, napi_uint32_array), r.deadEnds = copyOf<uint32_t>(call, napi_uint32_array);
  r.chosen = copyOf<uint32_t>(call, napi_uint32_array), r.chosenAt = copyOf<uint32_t>(call, napi_uint32_array);
  if (r.deadEnds.size() != count || r.chosenAt.size() != count) refuse("records of every response were expected");
  for (size_t i = 0; i < count; i++) {
    if (r.deadEnds[i] > r.dead.size() || (i > 0 && r.deadEnds[i] < r.deadEnds[i - 1])) refuse("a part ends outside of the data");
    if (r.chosenAt[i] != kAll && (r.chosenAt[i] > r.chosen.size() || r.chosen.size() - r.chosenAt[i] < (n + 31) / 32))
      refuse("a part ends outside of the data");
  }
  r.areDistances = call.word() != 0;
  r.floor = call.number();
  r.limit = call.word();
  if (r.limit < 1) refuse("a limit is at least one");

  return Promised::start(std::move(made), "hers.rank", {bytes, pointValues});
}

struct Method {
  const char* name;
  napi_callback f;
};

const Method kRingMethods[] = {
    {"ntt", guardedCall<ntt>},
    {"intt", guardedCall<intt>},
    {"add", guardedCall<binary<&Variant::add>>},
    {"subtract", guardedCall<binary<&Variant::subtract>>},
    {"multiply", guardedCall<product<&Variant::multiply>>},
    {"multiplyAdd", guardedCall<product<&Variant::multiplyAdd>>},
    {"multiplySubtract", guardedCall<product<&Variant::multiplySubtract>>},
    {"scaleAdd", guardedCall<scaleAdd>},
    {"encode", guardedCall<encode>},
    {"embed", guardedCall<embed>},
    {"isReduced", guardedCall<isReduced>},
    {"uniform", guardedCall<uniform>},
    {"ternary", guardedCall<sampled<&Variant::ternary>>},
    {"centredBinomial", guardedCall<sampled<&Variant::centredBinomial>>},
    {"uniformBits", guardedCall<uniformBits>},
    {"blockRows", guardedCall<blockRows>},
    {"queryRows", guardedCall<queryRows>},
    {"secretPoints", guardedCall<secretPoints>},
    {"scores", guardedCall<scores>},
    {"integers", guardedCall<integers>},
    {"rank", guardedCall<rank>},
};

/** (variant, memory, n, inverse, six words for each prime): an object of the functions above. */
napi_value createRing(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    Call<5> call(env, info);
    const Variant& variant = variantOf(env, call.value());
    const napi_value memory = call.value();
    const uint32_t n = call.word(), inverse = call.word();
    if (n < kLeastN || n > kMostN || (n & (n - 1)) != 0) refuse("n must be a power of two from 64 to 8192");
    const auto constants = call.array<uint32_t>(napi_uint32_array);
    if (constants.length != 6 && constants.length != 12) refuse("six words for each of one or two primes were expected");
    auto made = std::make_unique<Bound>(env, variant, memory, n);
    made->ring.n = n, made->ring.primes = static_cast<uint32_t>(constants.length / 6), made->ring.inverse = inverse;
    for (uint32_t i = 0; i < made->ring.primes; i++) {
      const uint32_t* const c = constants.at + 6 * i;
      made->ring.prime[i] = {checkedPrime(c[0]), c[1], checkedShift(c[2]), c[3], c[4], made->at(c[5], 4 * size_t{n})};
    }
    napi_value object;
    check(napi_create_object(env, &object), "no memory");
    Bound* const bound = made.release();
    bound->hold();
    const auto finalize = [](napi_env env, void* data, void*) { static_cast<Bound*>(data)->release(env); };
    for (const Method& method : kRingMethods) {
      napi_value function;
      bool ok = napi_create_function(env, method.name, NAPI_AUTO_LENGTH, method.f, bound, &function) == napi_ok;
      ok = ok && napi_add_finalizer(env, function, bound, finalize, nullptr, nullptr) == napi_ok;
      if (ok) bound->hold();
      ok = ok && napi_set_named_property(env, object, method.name, function) == napi_ok;
      if (!ok) {
        bound->release(env);
        refuse("no memory");
      }
    }
    bound->release(env);
    return object;
  });
}

// — what needs no ring: the first argument is the place of the variant —

template <size_t count, void (*f)(Call<count>&, const Variant&)>
napi_value onVariant(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    Call<count> call(env, info);
    f(call, variantOf(env, call.value()));
    return undefined(env);
  });
}

void squareSums(Call<4>& call, const Variant& variant) {
  const auto out = call.array<double>(napi_float64_array);
  const auto data = call.array<float>(napi_float32_array);
  const size_t dimension = call.word();
  if (dimension < 1 || data.length != out.length * dimension) refuse("vectors of this dimension were expected");
  variant.squareSums(out.at, data.at, out.length, dimension);
}

void roundVectors(Call<7>& call, const Variant& variant) {
  const auto out = call.array<int32_t>(napi_int32_array);
  const auto squares = call.array<double>(napi_float64_array);
  const auto data = call.array<float>(napi_float32_array);
  const auto factors = call.array<double>(napi_float64_array);
  const double steps = call.number();
  const size_t dimension = call.word();
  const size_t count = squares.length;
  if (dimension < 1 || data.length != count * dimension || factors.length != count || out.length < data.length)
    refuse("vectors of this dimension were expected");
  variant.roundVectors(out.at, squares.at, data.at, factors.at, steps, count, dimension);
}

void products(Call<4>& call, const Variant& variant) {
  const auto out = call.array<double>(napi_float64_array);
  const auto values = call.array<int32_t>(napi_int32_array);
  const auto probe = call.array<double>(napi_float64_array);
  if (values.length != out.length * probe.length) refuse("rows as long as the probe were expected");
  variant.products(out.at, values.at, probe.at, out.length, probe.length);
}

void closeGaps(Call<3>& call, const Variant& variant) {
  const auto values = call.array<uint32_t>(napi_float32_array);
  const auto slots = call.array<uint32_t>(napi_uint32_array);
  for (size_t l = 0; l < slots.length; l++)
    if (slots.at[l] >= values.length || (l > 0 && slots.at[l] <= slots.at[l - 1])) refuse("ascending slots were expected");
  variant.closeGaps(values.at, values.length, slots.at, slots.length);
}

/** (variant, out: a sum for each group, scores, order, slots with the sign +, divisor). */
void groupSums(Call<6>& call, const Variant& variant) {
  const auto out = call.array<double>(napi_float64_array);
  const auto scores = call.array<float>(napi_float32_array);
  const auto order = call.array<uint16_t>(napi_uint16_array);
  const size_t plus = call.word();
  const double divisor = call.number();
  if (out.length < 1 || order.length < out.length || order.length % out.length != 0) refuse("whole groups were expected");
  const size_t size = order.length / out.length - 1;
  if (plus > size) refuse("whole groups were expected");
  uint16_t last = 0;
  for (size_t i = 0; i < order.length; i++) last = order.at[i] > last ? order.at[i] : last;
  if (last >= scores.length) refuse("slots that have scores were expected");
  variant.groupSums(out.at, scores.at, order.at, out.length, size, plus, divisor);
}

void packThree(Call<3>& call, const Variant& variant) {
  const auto out = call.array<uint8_t>(napi_uint8_array);
  const auto words = call.array<uint32_t>(napi_uint32_array);
  if (out.length != 3 * words.length) refuse("three bytes for each word were expected");
  variant.packThree(out.at, words.at, words.length);
}

void unpackThree(Call<3>& call, const Variant& variant) {
  const auto out = call.array<uint32_t>(napi_uint32_array);
  const auto bytes = call.array<uint8_t>(napi_uint8_array);
  if (bytes.length != 3 * out.length) refuse("three bytes for each word were expected");
  variant.unpackThree(out.at, bytes.at, out.length);
}

napi_value variants(napi_env env, napi_callback_info) {
  return guarded(env, [&] {
    return listOf(env, machine().list, [&](const Variant* variant) { return text(env, variant->name); });
  });
}

napi_value initialize(napi_env env, napi_value exports) {
  const napi_property_descriptor functions[] = {
      method("variants", variants),
      method("createRing", createRing),
      method("squareSums", onVariant<4, squareSums>),
      method("roundVectors", onVariant<7, roundVectors>),
      method("products", onVariant<4, products>),
      method("closeGaps", onVariant<3, closeGaps>),
      method("groupSums", onVariant<6, groupSums>),
      method("packThree", onVariant<3, packThree>),
      method("unpackThree", onVariant<3, unpackThree>),
  };
  addExpansion(env, exports);
  return define(env, exports, functions);
}

}  // namespace
}  // namespace hers

NAPI_MODULE_INIT() {
  return hers::guarded(env, [&] { return hers::initialize(env, exports); });
}
