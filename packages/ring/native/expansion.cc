// Node-API of expansion and packing. This side checks every number and every length before it
// touches memory; packages/ring/src/expansion.ts makes what it is given.

#include "expansion.h"

#include "../lanes/cpu.h"
#include "../lanes/napi.h"

namespace hers {
namespace {

/** Arguments of expansion and packing. */
template <size_t count>
class Given : public Call<count> {
 public:
  using Call<count>::Call;

  const ExpansionVariant& variant() {
    const std::string name = textOf(this->env, this->value());
#ifdef HERS_X86
    if (name == "avx512" && hasAvx512()) return kExpansionAvx512;
    if (name == "avx2" && hasAvx2()) return kExpansionAvx2;
#endif
    refuse("this machine has not this instruction set");
  }
  uint32_t word(uint32_t least, uint32_t most) {
    const uint32_t word = Call<count>::word();
    if (word < least || word > most) refuse("a number is out of range");
    return word;
  }
  uint32_t* words(size_t length) {
    const auto found = this->template array<uint32_t>(napi_uint32_array);
    if (found.length != length) refuse("an array of another length was expected");
    return found.at;
  }
};

constexpr size_t kShapeWords = 40;

/** Everything that memory is read and written by is checked here. */
template <size_t count>
Expansion shapeOf(Given<count>& call) {
  const uint32_t* w = call.words(kShapeWords);
  const auto next = [&](uint32_t least, uint32_t most) {
    if (*w < least || *w > most) refuse("a number of the shape is out of range");
    return *w++;
  };
  Expansion e = {};
  e.n = next(128, 8192), e.width = next(1, e.n);
  e.steps = next(1, 10), e.trace = next(0, e.steps);
  e.nodes = next(1, e.n / kLeaves), e.masks = next(1, e.nodes);
  e.digits = next(1, 16), e.digitBits = next(1, 31), e.wideBits = next(0, 8);
  uint32_t least = 0;
  for (auto& base : e.bases) base = next(least, e.digits), least = base + 1;
  if ((e.n & (e.n - 1)) != 0 || e.n >> e.steps != kLeaves || e.nodes != 1u << (e.steps - e.trace) || e.nodes % e.masks != 0 ||
      e.width > kLeaves * e.nodes || e.bases[0] != 0)
    refuse("the numbers of the shape contradict each other");
  e.inverse1 = *w++, e.inverse2 = *w++, e.reciprocal1 = *w++, e.reciprocal2 = *w++;
  const uint32_t* const tables = call.words(3 * 4 * size_t{e.n});
  for (int l = 0; l < 3; l++) {
    ExpansionPrime& m = e.prime[l];
    m.p = next(3, (1u << (l == 0 ? 30 : 25)) - 1);
    m.negated = *w++, m.scale = *w++, m.last = *w++, m.switchScale = *w++, m.switchLast = *w++, m.p2 = *w++, m.p2Inverse = *w++;
    m.tables = tables + 4 * l * size_t{e.n};
  }
  return e;
}

/** Where permutations may read: within the vector that a run of sixteen words lies in. */
const uint16_t* permutationsOf(const Array<uint16_t>& list, const Expansion& e) {
  if (list.length != size_t{e.steps + kLeaves} * e.n) refuse("permutations of another length were expected");
  for (size_t i = 0; i < list.length; i++)
    if (list.at[i] >= e.n) refuse("a permutation leaves its polynomial");
  return list.at;
}

napi_value expandQuery(napi_env env, napi_callback_info info) {
  Given<15> call(env, info);
  const ExpansionVariant& variant = call.variant();
  Expansion e = shapeOf(call);
  const size_t n = e.n;
  e.permutations = permutationsOf(call.array<uint16_t>(napi_uint16_array), e);
  e.monomials = call.words(size_t{e.steps - e.trace} * 4 * n);
  e.lastMonomials = call.words(3 * 3 * 4 * 2 * kLeaves);
  ExpansionJob job = {};
  job.shape = &e;
  job.keys.first = call.words(24 * n);
  job.keys.steps = call.words(size_t{e.steps - 1} * 24 * n);
  job.keys.last = call.words(size_t{kLeaves} * 12 * n);
  job.keys.masks = call.words(size_t{e.nodes / e.masks} * 3 * n * (kLeaves * kBases * 4));
  job.body = call.words(2 * n);
  job.mask = call.words(2 * n);
  const size_t rows = e.width + size_t{e.masks} * e.digits;
  job.bodies = call.words(rows * n);
  job.masksOut = call.words(rows * n);
  job.threads = call.word(1, 256);
  variant.expand(job);
  return nullptr;
}

napi_value packResults(napi_env env, napi_callback_info info) {
  Given<9> call(env, info);
  const ExpansionVariant& variant = call.variant();
  const Expansion e = shapeOf(call);
  const size_t n = e.n;
  PackingJob job = {};
  job.shape = &e;
  job.responses = call.word(1, kMostResponses);
  job.count = call.word(1, job.responses);
  job.keys = call.words(size_t{job.responses} * (job.responses + 1) * 2 * n);
  job.bodies = call.words(job.count * n);
  job.masks = call.words(job.count * n);
  job.out = call.words((job.count + 1) * n);
  variant.pack(job);
  return nullptr;
}

}  // namespace

void addExpansion(napi_env env, napi_value exports) {
  const napi_property_descriptor functions[] = {
      method("expandQuery", guardedCall<expandQuery>),
      method("packResults", guardedCall<packResults>),
  };
  check(napi_define_properties(env, exports, 2, functions), "no memory");
}

}  // namespace hers
