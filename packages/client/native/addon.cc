// Node-API of what seals and hashes many records at once. The cipher and the hash are OpenSSL's, as
// Node has it: this only leaves out what Node does around each call, which takes longer than
// hashing and sealing a record. This side checks every length before it touches memory;
// packages/client/src/sealing/bulk-sealing.node.ts has the types.
//
// The functions of OpenSSL are looked up by name in the running program: whether it has them, and
// where, is a matter of how Node was built.

#include <dlfcn.h>

#include <cstring>
#include <memory>

#include "../../ring/lanes/napi.h"

namespace hers {
namespace {

constexpr size_t kKeyBytes = 32, kHashBytes = 32, kHashBlock = 64, kNonceBytes = 12, kTagBytes = 16;

// — OpenSSL, as openssl/evp.h and openssl/sha.h declare it —

struct Cipher;
struct CipherContext;

/** SHA256_CTX: the same in every OpenSSL since 0.9.8, and in its descendants. */
struct HashState {
  uint32_t h[8], low, high, data[16];
  unsigned int filled, length;
};
static_assert(sizeof(HashState) == 112, "as large as SHA256_CTX");

constexpr int kGetTag = 0x10;  // EVP_CTRL_AEAD_GET_TAG

struct OpenSsl {
  CipherContext* (*newContext)();
  void (*freeContext)(CipherContext*);
  const Cipher* (*aes256gcm)();
  int (*begin)(CipherContext*, const Cipher*, void*, const uint8_t*, const uint8_t*);
  int (*update)(CipherContext*, uint8_t*, int*, const uint8_t*, int);
  int (*final)(CipherContext*, uint8_t*, int*);
  int (*control)(CipherContext*, int, int, void*);
  int (*hashBegin)(HashState*);
  int (*hashUpdate)(HashState*, const void*, size_t);
  int (*hashFinal)(uint8_t*, HashState*);
  void (*cleanse)(void*, size_t);
  bool isComplete = true;

  OpenSsl() {
    find(newContext, "EVP_CIPHER_CTX_new");
    find(freeContext, "EVP_CIPHER_CTX_free");
    find(aes256gcm, "EVP_aes_256_gcm");
    find(begin, "EVP_EncryptInit_ex");
    find(update, "EVP_EncryptUpdate");
    find(final, "EVP_EncryptFinal_ex");
    find(control, "EVP_CIPHER_CTX_ctrl");
    find(hashBegin, "SHA256_Init");
    find(hashUpdate, "SHA256_Update");
    find(hashFinal, "SHA256_Final");
    find(cleanse, "OPENSSL_cleanse");
  }

 private:
  template <class F>
  void find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
    if (!function) isComplete = false;
  }
};

const OpenSsl& openSsl() {
  static const OpenSsl functions;
  return functions;
}

void require(bool isFine, const char* message) {
  if (!isFine) refuse(message);
}

// — keys —

/** HMAC-SHA256 (RFC 2104) after both pads were absorbed. */
struct HashKey {
  HashState inner, outer;
  bool isWiped = false;

  explicit HashKey(const uint8_t* key) {
    absorb(inner, key, 0x36);
    absorb(outer, key, 0x5c);
  }
  ~HashKey() { wipe(); }

  void wipe() {
    openSsl().cleanse(&inner, sizeof inner);
    openSsl().cleanse(&outer, sizeof outer);
    isWiped = true;
  }

 private:
  static void absorb(HashState& state, const uint8_t* key, uint8_t pad) {
    uint8_t block[kHashBlock];
    for (size_t i = 0; i < kHashBlock; i++) block[i] = static_cast<uint8_t>((i < kKeyBytes ? key[i] : 0) ^ pad);
    const bool isDone = openSsl().hashBegin(&state) == 1 && openSsl().hashUpdate(&state, block, kHashBlock) == 1;
    openSsl().cleanse(block, sizeof block);
    require(isDone, "OpenSSL has no SHA-256");
  }
};

/** AES-256-GCM whose key schedule is made once. */
struct SealKey {
  CipherContext* context;

  explicit SealKey(const uint8_t* key) : context(openSsl().newContext()) {
    if (context && openSsl().begin(context, openSsl().aes256gcm(), nullptr, key, nullptr) == 1) return;
    wipe();
    refuse("OpenSSL has no AES-256-GCM");
  }
  ~SealKey() { wipe(); }
  SealKey(const SealKey&) = delete;
  SealKey& operator=(const SealKey&) = delete;

  /** OpenSSL overwrites the key schedule. */
  void wipe() {
    if (context) openSsl().freeContext(context);
    context = nullptr;
  }
};

// — values —

template <size_t count>
Array<uint8_t> bytesIn(Call<count>& call) {
  return call.template array<uint8_t>(napi_uint8_array);
}

template <size_t count>
Array<const uint32_t> wordsIn(Call<count>& call) {
  return call.template array<const uint32_t>(napi_uint32_array);
}

template <class T>
constexpr uint32_t kKind = 0x68657241;
template <>
constexpr uint32_t kKind<SealKey> = 0x68657242;

template <class T>
napi_value makeKey(napi_env env, napi_callback_info info) {
  Call<1> call(env, info);
  const auto key = bytesIn(call);
  require(key.length == kKeyBytes, "a key has 32 bytes");
  return wrap<T, kKind<T>>(env, std::make_shared<T>(key.at));
}

template <class T, size_t count>
T& keyIn(Call<count>& call) {
  return *unwrap<T, kKind<T>>(call.env, call.value());
}

template <class T>
napi_value wipeKey(napi_env env, napi_callback_info info) {
  Call<1> call(env, info);
  keyIn<T>(call).wipe();
  return nullptr;
}

// — the work —

/** hashMany(key, heads, data, starts, ends, out): see bulk-sealing.node.ts. */
napi_value hashMany(napi_env env, napi_callback_info info) {
  Call<6> call(env, info);
  const HashKey& key = keyIn<HashKey>(call);
  require(!key.isWiped, "this key has been wiped");
  const auto heads = bytesIn(call), data = bytesIn(call);
  const auto starts = wordsIn(call), ends = wordsIn(call);
  const auto out = bytesIn(call);
  const size_t items = ends.length;
  if (items == 0) return nullptr;
  const size_t head = heads.length / items, each = out.length / items;
  require(starts.length == items && heads.length == items * head && out.length == items * each && each <= kHashBytes,
          "arrays of other lengths were expected");
  for (size_t i = 0; i < items; i++)
    require(starts.at[i] <= ends.at[i] && ends.at[i] <= data.length, "a part ends outside of the data");
  const OpenSsl& ssl = openSsl();
  HashState state;
  uint8_t hash[kHashBytes];
  bool isDone = true;
  for (size_t i = 0; i < items && isDone; i++) {
    state = key.inner;
    isDone = ssl.hashUpdate(&state, heads.at + i * head, head) == 1 &&
             ssl.hashUpdate(&state, data.at + starts.at[i], ends.at[i] - starts.at[i]) == 1 &&
             ssl.hashFinal(hash, &state) == 1;
    state = key.outer;
    isDone = isDone && ssl.hashUpdate(&state, hash, kHashBytes) == 1 && ssl.hashFinal(hash, &state) == 1;
    memcpy(out.at + i * each, hash, each);
  }
  ssl.cleanse(&state, sizeof state);
  ssl.cleanse(hash, sizeof hash);
  require(isDone, "OpenSSL could not hash");
  return nullptr;
}

/** sealMany(key, nonces, associated, plains, ends, before, out): see bulk-sealing.node.ts. */
napi_value sealMany(napi_env env, napi_callback_info info) {
  Call<7> call(env, info);
  const SealKey& key = keyIn<SealKey>(call);
  require(key.context != nullptr, "this key has been wiped");
  const auto nonces = bytesIn(call), associated = bytesIn(call), plains = bytesIn(call);
  const auto ends = wordsIn(call);
  const size_t before = call.word();
  const auto out = bytesIn(call);
  const size_t items = ends.length;
  if (items == 0) return nullptr;
  const size_t each = associated.length / items;
  const size_t overhead = before + kNonceBytes + kTagBytes;
  require(nonces.length == items * kNonceBytes && associated.length == items * each &&
              plains.length == ends.at[items - 1] && out.length == plains.length + items * overhead,
          "arrays of other lengths were expected");
  require(plains.length <= INT32_MAX && each <= INT32_MAX, "this is too much at once");
  for (size_t i = 1; i < items; i++) require(ends.at[i - 1] <= ends.at[i], "a part ends outside of the data");
  const OpenSsl& ssl = openSsl();
  size_t from = 0;
  uint8_t* at = out.at;
  for (size_t i = 0; i < items; i++) {
    const size_t end = ends.at[i];
    const int length = static_cast<int>(end - from);
    const uint8_t* const nonce = nonces.at + i * kNonceBytes;
    at += before;
    memcpy(at, nonce, kNonceBytes);
    at += kNonceBytes;
    int written = 0;
    bool isDone = ssl.begin(key.context, nullptr, nullptr, nullptr, nonce) == 1;
    isDone = isDone && (each == 0 || ssl.update(key.context, nullptr, &written, associated.at + i * each, static_cast<int>(each)) == 1);
    written = 0;
    isDone = isDone && (length == 0 || ssl.update(key.context, at, &written, plains.at + from, length) == 1);
    isDone = isDone && written == length;
    uint8_t rest[16];
    isDone = isDone && ssl.final(key.context, rest, &written) == 1 && written == 0;
    at += length;
    isDone = isDone && ssl.control(key.context, kGetTag, static_cast<int>(kTagBytes), at) == 1;
    require(isDone, "OpenSSL could not seal");
    at += kTagBytes;
    from = end;
  }
  return nullptr;
}

napi_value isComplete(napi_env env, napi_callback_info) {
  napi_value value;
  check(napi_get_boolean(env, openSsl().isComplete, &value), "no value could be made");
  return value;
}

napi_value initialize(napi_env env, napi_value exports) {
  const napi_property_descriptor functions[] = {
      method("isComplete", guardedCall<isComplete>),
      method("makeHashKey", guardedCall<makeKey<HashKey>>),
      method("makeSealKey", guardedCall<makeKey<SealKey>>),
      method("wipeHashKey", guardedCall<wipeKey<HashKey>>),
      method("wipeSealKey", guardedCall<wipeKey<SealKey>>),
      method("hashMany", guardedCall<hashMany>),
      method("sealMany", guardedCall<sealMany>),
  };
  return define(env, exports, functions);
}

}  // namespace
}  // namespace hers

NAPI_MODULE_INIT() {
  return hers::guarded(env, [&] { return hers::initialize(env, exports); });
}
