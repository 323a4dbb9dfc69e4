// The JavaScript interface of the baselines, behind trials/src/bench/yardsticks.ts.

#include "../../packages/ring/lanes/napi.h"

#include <cerrno>
#include <cstring>

#include "measure.h"

namespace hers {
namespace {

enum Kind : uint32_t { kFile = 0x68657281, kPlain };

std::shared_ptr<MappedFile>& fileOf(napi_env env, napi_value value) { return unwrap<MappedFile, kFile>(env, value); }
std::shared_ptr<PlainGallery>& plainOf(napi_env env, napi_value value) { return unwrap<PlainGallery, kPlain>(env, value); }

const Loops& loopsOf(napi_env env, napi_value value) {
  const std::string name = textOf(env, value);
#ifdef HERS_X86
  if (name == kAvx512IfmaLoops.name && __builtin_cpu_supports("avx512ifma")) return kAvx512IfmaLoops;
  if (name == kAvx512Loops.name && __builtin_cpu_supports("avx512f")) return kAvx512Loops;
  if (name == kAvx2Loops.name && __builtin_cpu_supports("avx2")) return kAvx2Loops;
#endif
  if (name == kGenericLoops.name) return kGenericLoops;
  refuse("this machine has no such instruction set");
}

/**
 * Maps the first bytes of the file behind a descriptor, which may be closed afterwards; read from
 * `from` on.
 */
napi_value mapFile(napi_env env, const Arguments& a) {
  const size_t bytes = sizeOf(env, a[1]), from = sizeOf(env, a[2]);
  if (from >= bytes || from % 8 != 0) refuse("there is nothing to read");
  auto mapping = Mapping::of(static_cast<int>(sizeOf(env, a[0])), bytes);
  if (!mapping) refuse(strerror(errno));
  return wrap<MappedFile, kFile>(env, std::shared_ptr<MappedFile>(new MappedFile{std::move(mapping), bytes, from}));
}

napi_value freeFile(napi_env env, const Arguments& a) {
  fileOf(env, a[0]).reset();
  return undefined(env);
}

napi_value readSeconds(napi_env env, const Arguments& a) {
  std::vector<std::shared_ptr<MappedFile>> files;
  eachOf(env, a[1], [&](napi_value each) { files.push_back(fileOf(env, each)); });
  const auto seconds = measureRead(loopsOf(env, a[0]), files, sizeOf(env, a[2]), sizeOf(env, a[3]));
  for (const auto& file : files) {
    if (file->mapping->isBroken()) refuse("a file was cut while it was read");
  }
  return numbers(env, seconds);
}

napi_value createPlain(napi_env env, const Arguments& a) {
  return wrap<PlainGallery, kPlain>(env, std::make_shared<PlainGallery>(sizeOf(env, a[0]), sizeOf(env, a[1])));
}

napi_value plainSeconds(napi_env env, const Arguments& a) {
  return numbers(env, plainOf(env, a[1])->measure(loopsOf(env, a[0]), sizeOf(env, a[2]), sizeOf(env, a[3])));
}

napi_value blasSeconds(napi_env env, const Arguments& a) { return numbers(env, plainOf(env, a[0])->measureBlas(sizeOf(env, a[1]))); }

napi_value freePlain(napi_env env, const Arguments& a) {
  plainOf(env, a[0]).reset();
  return undefined(env);
}

napi_value ceilingSeconds(napi_env env, const Arguments& a) {
  return numbers(env, measureCeiling(loopsOf(env, a[0]), wordOf(env, a[1]), sizeOf(env, a[2]), sizeOf(env, a[3]), sizeOf(env, a[4]),
                                     sizeOf(env, a[5]), sizeOf(env, a[6]), truthOf(env, a[7])));
}

napi_value initialize(napi_env env, napi_value exports) {
  const napi_property_descriptor properties[] = {
      method("mapFile", call<mapFile, 3>),
      method("freeFile", call<freeFile, 1>),
      method("readSeconds", call<readSeconds, 4>),
      method("createPlain", call<createPlain, 2>),
      method("plainSeconds", call<plainSeconds, 4>),
      method("blasSeconds", call<blasSeconds, 2>),
      method("freePlain", call<freePlain, 1>),
      method("ceilingSeconds", call<ceilingSeconds, 8>),
  };
  return define(env, exports, properties);
}

}  // namespace
}  // namespace hers

NAPI_MODULE_INIT() {
  return hers::guarded(env, [&] { return hers::initialize(env, exports); });
}
