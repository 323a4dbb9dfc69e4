// Node-API of what seals and hashes many records at once. The cipher and the hash are OpenSSL's, as
// Node has it: this only leaves out what Node does around each call, which takes longer than
// hashing and sealing a record. This side checks every length before it touches memory;
// packages/client/src/keys/bulk-sealing.node.ts has the types.
//
// The functions of OpenSSL are looked up by name in the running program: whether it has them, and
// where, is a matter of how Node was built.

#include <dlfcn.h>
#include <node_api.h>

#include <cstring>
#include <memory>
#include <new>

#ifndef HERS_STAMP
#define HERS_STAMP "none"
#endif

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

/** Thrown for what a caller did wrong, and for what OpenSSL refuses. */
struct Refused {
  const char* message;
};

[[noreturn]] void refuse(const char* message) { throw Refused{message}; }

void check(bool isFine, const char* message) {
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
    check(isDone, "OpenSSL has no SHA-256");
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

/** The memory of a typed array. */
struct Bytes {
  uint8_t* at;
  size_t length;
};

Bytes arrayOf(napi_env env, napi_value value, napi_typedarray_type wanted, size_t width) {
  bool isArray = false;
  check(napi_is_typedarray(env, value, &isArray) == napi_ok && isArray, "a typed array was expected");
  napi_typedarray_type type;
  size_t length;
  void* at;
  check(napi_get_typedarray_info(env, value, &type, &length, &at, nullptr, nullptr) == napi_ok && type == wanted,
        "a typed array of another type was expected");
  return {static_cast<uint8_t*>(at), length * width};
}

Bytes bytesOf(napi_env env, napi_value value) { return arrayOf(env, value, napi_uint8_array, 1); }

struct Words {
  const uint32_t* at;
  size_t count;
};

Words wordsOf(napi_env env, napi_value value) {
  const Bytes bytes = arrayOf(env, value, napi_uint32_array, 4);
  return {reinterpret_cast<const uint32_t*>(bytes.at), bytes.length / 4};
}

uint32_t numberOf(napi_env env, napi_value value) {
  uint32_t number;
  check(napi_get_value_uint32(env, value, &number) == napi_ok, "a number was expected");
  return number;
}

template <class T>
constexpr napi_type_tag kTag = {0, 0};
template <>
constexpr napi_type_tag kTag<HashKey> = {0x6865727368617368, 1};
template <>
constexpr napi_type_tag kTag<SealKey> = {0x686572737365616c, 1};

template <class T>
napi_value makeKey(napi_env env, size_t count, napi_value* arguments) {
  check(count == 1, "one argument was expected");
  const Bytes key = bytesOf(env, arguments[0]);
  check(key.length == kKeyBytes, "a key has 32 bytes");
  std::unique_ptr<T> made(new T(key.at));
  napi_value object;
  check(napi_create_object(env, &object) == napi_ok, "no object could be made");
  const auto drop = [](napi_env, void* at, void*) { delete static_cast<T*>(at); };
  check(napi_wrap(env, object, made.get(), drop, nullptr, nullptr) == napi_ok, "no object could be made");
  made.release();
  check(napi_type_tag_object(env, object, &kTag<T>) == napi_ok, "no object could be made");
  return object;
}

template <class T>
T& keyOf(napi_env env, napi_value value) {
  bool isOurs = false;
  check(napi_check_object_type_tag(env, value, &kTag<T>, &isOurs) == napi_ok && isOurs, "a key was expected");
  void* at;
  check(napi_unwrap(env, value, &at) == napi_ok, "a key was expected");
  return *static_cast<T*>(at);
}

template <class T>
napi_value wipeKey(napi_env env, size_t count, napi_value* arguments) {
  check(count == 1, "one argument was expected");
  keyOf<T>(env, arguments[0]).wipe();
  return nullptr;
}

// — the work —

/** hashMany(key, heads, data, starts, ends, out): see bulk-sealing.node.ts. */
napi_value hashMany(napi_env env, size_t count, napi_value* arguments) {
  check(count == 6, "six arguments were expected");
  const HashKey& key = keyOf<HashKey>(env, arguments[0]);
  check(!key.isWiped, "this key has been wiped");
  const Bytes heads = bytesOf(env, arguments[1]), data = bytesOf(env, arguments[2]);
  const Words starts = wordsOf(env, arguments[3]), ends = wordsOf(env, arguments[4]);
  const Bytes out = bytesOf(env, arguments[5]);
  const size_t items = ends.count;
  if (items == 0) return nullptr;
  const size_t head = heads.length / items, each = out.length / items;
  check(starts.count == items && heads.length == items * head && out.length == items * each && each <= kHashBytes,
        "arrays of other lengths were expected");
  for (size_t i = 0; i < items; i++)
    check(starts.at[i] <= ends.at[i] && ends.at[i] <= data.length, "a part ends outside of the data");
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
  check(isDone, "OpenSSL could not hash");
  return nullptr;
}

/** sealMany(key, nonces, associated, plains, ends, before, out): see bulk-sealing.node.ts. */
napi_value sealMany(napi_env env, size_t count, napi_value* arguments) {
  check(count == 7, "seven arguments were expected");
  const SealKey& key = keyOf<SealKey>(env, arguments[0]);
  check(key.context != nullptr, "this key has been wiped");
  const Bytes nonces = bytesOf(env, arguments[1]), associated = bytesOf(env, arguments[2]);
  const Bytes plains = bytesOf(env, arguments[3]);
  const Words ends = wordsOf(env, arguments[4]);
  const size_t before = numberOf(env, arguments[5]);
  const Bytes out = bytesOf(env, arguments[6]);
  const size_t items = ends.count;
  if (items == 0) return nullptr;
  const size_t each = associated.length / items;
  const size_t overhead = before + kNonceBytes + kTagBytes;
  check(nonces.length == items * kNonceBytes && associated.length == items * each &&
            plains.length == ends.at[items - 1] && out.length == plains.length + items * overhead,
        "arrays of other lengths were expected");
  check(plains.length <= INT32_MAX && each <= INT32_MAX, "this is too much at once");
  for (size_t i = 1; i < items; i++) check(ends.at[i - 1] <= ends.at[i], "a part ends outside of the data");
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
    check(isDone, "OpenSSL could not seal");
    at += kTagBytes;
    from = end;
  }
  return nullptr;
}

// — registration —

using Method = napi_value (*)(napi_env, size_t, napi_value*);

template <Method method>
napi_value call(napi_env env, napi_callback_info info) {
  napi_value arguments[8];
  size_t count = 8;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok) return nullptr;
  try {
    return method(env, count, arguments);
  } catch (const Refused& refused) {
    napi_throw_error(env, nullptr, refused.message);
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, "ERR_MEMORY", "there is not enough memory");
  }
  return nullptr;
}

template <Method method>
void add(napi_env env, napi_value exports, const char* name) {
  napi_value function;
  if (napi_create_function(env, name, NAPI_AUTO_LENGTH, call<method>, nullptr, &function) == napi_ok)
    napi_set_named_property(env, exports, name, function);
}

napi_value isComplete(napi_env env, size_t, napi_value*) {
  napi_value value;
  check(napi_get_boolean(env, openSsl().isComplete, &value) == napi_ok, "no value could be made");
  return value;
}

}  // namespace

}  // namespace hers

NAPI_MODULE_INIT() {
  using namespace hers;
  add<isComplete>(env, exports, "isComplete");
  add<makeKey<HashKey>>(env, exports, "makeHashKey");
  add<makeKey<SealKey>>(env, exports, "makeSealKey");
  add<wipeKey<HashKey>>(env, exports, "wipeHashKey");
  add<wipeKey<SealKey>>(env, exports, "wipeSealKey");
  add<hashMany>(env, exports, "hashMany");
  add<sealMany>(env, exports, "sealMany");
  napi_value stamp;
  if (napi_create_string_utf8(env, HERS_STAMP, NAPI_AUTO_LENGTH, &stamp) != napi_ok) return nullptr;
  if (napi_set_named_property(env, exports, "stamp", stamp) != napi_ok) return nullptr;
  return exports;
}
