// Reads arguments and makes values of Node-API, for the files of addons that talk to JavaScript.

#pragma once

#include <node_api.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#ifndef HERS_STAMP
#define HERS_STAMP "none"
#endif

namespace hers {
namespace {

/** Thrown for what a caller did wrong, and for what Node-API refuses. */
struct Refused {
  std::string message;
  /** For programs; without one, the error is a RangeError. */
  const char* code;
};

[[noreturn]] void refuse(const char* message, const char* code = nullptr) { throw Refused{message, code}; }

void check(napi_status status, const char* message) {
  if (status != napi_ok) refuse(message);
}

/** Leaves the error of JavaScript that is pending, if there is one. */
void raise(napi_env env, const Refused& refused) {
  bool pending = false;
  napi_is_exception_pending(env, &pending);
  if (pending) return;
  if (refused.code) napi_throw_error(env, refused.code, refused.message.c_str());
  else napi_throw_range_error(env, nullptr, refused.message.c_str());
}

// — values —

double numberOf(napi_env env, napi_value value) {
  double number;
  check(napi_get_value_double(env, value, &number), "a number was expected");
  return number;
}

uint32_t wordOf(napi_env env, napi_value value) {
  uint32_t word;
  check(napi_get_value_uint32(env, value, &word), "a number was expected");
  return word;
}

size_t sizeOf(napi_env env, napi_value value) {
  const double number = numberOf(env, value);
  if (!(number >= 0 && number <= 9007199254740991.0)) refuse("a size was expected");
  return static_cast<size_t>(number);
}

bool truthOf(napi_env env, napi_value value) {
  bool truth;
  check(napi_get_value_bool(env, value, &truth), "a boolean was expected");
  return truth;
}

std::string textOf(napi_env env, napi_value value) {
  char text[64];
  size_t length;
  check(napi_get_value_string_utf8(env, value, text, sizeof text, &length), "a string was expected");
  return std::string(text, length);
}

template <class T>
struct Array {
  T* at;
  size_t length;
};

template <class T>
Array<T> arrayOf(napi_env env, napi_value value, napi_typedarray_type expected) {
  napi_typedarray_type type;
  size_t length;
  void* at;
  check(napi_get_typedarray_info(env, value, &type, &length, &at, nullptr, nullptr), "a typed array was expected");
  if (type != expected) refuse("a typed array of another type was expected");
  return {static_cast<T*>(at), length};
}

using Bytes = Array<const uint8_t>;

/** The bytes of an array of bytes, or of words of 32 or 64 bits. */
Bytes bytesOf(napi_env env, napi_value value, napi_typedarray_type expected) {
  const auto bytes = arrayOf<const uint8_t>(env, value, expected);
  const size_t size = expected == napi_uint8_array ? 1 : expected == napi_uint32_array ? 4 : 8;
  return {bytes.at, bytes.length * size};
}

napi_value member(napi_env env, napi_value object, const char* name) {
  napi_value value;
  check(napi_get_named_property(env, object, name, &value), "an object was expected");
  return value;
}

template <class F>
void eachOf(napi_env env, napi_value array, F f) {
  uint32_t length;
  check(napi_get_array_length(env, array, &length), "an array was expected");
  for (uint32_t i = 0; i < length; i++) {
    napi_value value;
    check(napi_get_element(env, array, i, &value), "an element could not be read");
    f(value);
  }
}

napi_value undefined(napi_env env) {
  napi_value value = nullptr;
  napi_get_undefined(env, &value);
  return value;
}

napi_value number(napi_env env, double value) {
  napi_value result;
  check(napi_create_double(env, value, &result), "no memory");
  return result;
}

napi_value text(napi_env env, const std::string& value) {
  napi_value result;
  check(napi_create_string_utf8(env, value.data(), value.size(), &result), "no memory");
  return result;
}

/** An array of what `f` makes of each of these. */
template <class T, class F>
napi_value listOf(napi_env env, const std::vector<T>& values, F f) {
  napi_value array;
  check(napi_create_array_with_length(env, values.size(), &array), "no memory");
  for (uint32_t i = 0; i < values.size(); i++) check(napi_set_element(env, array, i, f(values[i])), "no memory");
  return array;
}

napi_value list(napi_env env, const std::vector<napi_value>& values) {
  return listOf(env, values, [](napi_value value) { return value; });
}

napi_value numbers(napi_env env, const std::vector<double>& values) {
  return listOf(env, values, [&](double value) { return number(env, value); });
}

/** A typed array with memory of its own, at `at`; what is there is not set. */
template <class T>
napi_value newArray(napi_env env, napi_typedarray_type type, size_t length, T*& at) {
  void* data = nullptr;
  napi_value memory, array;
  check(napi_create_arraybuffer(env, length * sizeof(T), &data, &memory), "no memory");
  check(napi_create_typedarray(env, type, length, memory, 0, &array), "no memory");
  at = static_cast<T*>(data);
  return array;
}

napi_value newWords(napi_env env, const std::vector<uint32_t>& words) {
  uint32_t* at;
  const napi_value array = newArray(env, napi_uint32_array, words.size(), at);
  if (!words.empty()) memcpy(at, words.data(), words.size() * sizeof(uint32_t));
  return array;
}

// — objects behind externals: the tag tells them apart, and from those of others —

template <class T>
napi_value external(napi_env env, std::unique_ptr<T> object, const napi_type_tag& tag) {
  napi_value value;
  const auto finalize = [](napi_env, void* data, void*) { delete static_cast<T*>(data); };
  check(napi_create_external(env, object.get(), finalize, nullptr, &value), "no memory");
  object.release();
  check(napi_type_tag_object(env, value, &tag), "no memory");
  return value;
}

template <class T>
T& externalOf(napi_env env, napi_value value, const napi_type_tag& tag) {
  void* data = nullptr;
  check(napi_get_value_external(env, value, &data), "a handle was expected");
  bool isOurs = false;
  check(napi_check_object_type_tag(env, value, &tag, &isOurs), "a handle was expected");
  if (!isOurs) refuse("a handle of another kind was expected");
  return *static_cast<T*>(data);
}

template <uint32_t kind>
constexpr napi_type_tag kTag = {0x6865727368616e64, kind};

template <class T, uint32_t kind>
napi_value wrap(napi_env env, std::shared_ptr<T> object) {
  return external(env, std::make_unique<std::shared_ptr<T>>(std::move(object)), kTag<kind>);
}

template <class T, uint32_t kind>
std::shared_ptr<T>& unwrap(napi_env env, napi_value value) {
  auto& object = externalOf<std::shared_ptr<T>>(env, value, kTag<kind>);
  if (!object) refuse("this handle was closed");
  return object;
}

// — functions —

/** Runs what may refuse, and throws that in JavaScript. */
template <class F>
napi_value guarded(napi_env env, F f) {
  try {
    return f();
  } catch (const Refused& refused) {
    raise(env, refused);
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, "ERR_MEMORY", "there is not enough memory");
  } catch (const std::exception& error) {
    napi_throw_error(env, nullptr, error.what());
  }
  return nullptr;
}

/** A call: its arguments, one after the other, and what its function belongs to. */
template <size_t count>
class Call {
 public:
  Call(napi_env env, napi_callback_info info) : env(env) {
    size_t given = count;
    check(napi_get_cb_info(env, info, &given, values_, nullptr, &owner), "no arguments");
    if (given != count) refuse("wrong number of arguments");
  }
  uint32_t word() { return wordOf(env, values_[next_++]); }
  double number() { return numberOf(env, values_[next_++]); }
  napi_value value() { return values_[next_++]; }
  template <class T>
  Array<T> array(napi_typedarray_type type) {
    return arrayOf<T>(env, values_[next_++], type);
  }

  const napi_env env;
  void* owner = nullptr;

 private:
  napi_value values_[count];
  size_t next_ = 0;
};

template <napi_value (*f)(napi_env, napi_callback_info)>
napi_value guardedCall(napi_env env, napi_callback_info info) {
  return guarded(env, [&] { return f(env, info); });
}

using Arguments = std::vector<napi_value>;

/** Calls a function with so many arguments. */
template <napi_value (*f)(napi_env, const Arguments&), size_t count>
napi_value call(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    size_t given = count;
    Arguments arguments(count);
    check(napi_get_cb_info(env, info, &given, arguments.data(), nullptr, nullptr), "no arguments");
    if (given != count) refuse("wrong number of arguments");
    return f(env, arguments);
  });
}

napi_property_descriptor method(const char* name, napi_callback f) {
  return {name, nullptr, f, nullptr, nullptr, nullptr, napi_enumerable, nullptr};
}

/** Adds functions to the exports of an addon, and the stamp of its sources. */
template <size_t count>
napi_value define(napi_env env, napi_value exports, const napi_property_descriptor (&functions)[count]) {
  check(napi_set_named_property(env, exports, "stamp", text(env, HERS_STAMP)), "no memory");
  check(napi_define_properties(env, exports, count, functions), "no memory");
  return exports;
}

// — what belongs to one environment (main thread or worker) —

/** Makes it. `T::shutDown` is called before the environment goes. */
template <class T>
void makeInstance(napi_env env) {
  auto made = std::make_unique<T>();
  const auto finalize = [](napi_env, void* data, void*) { delete static_cast<T*>(data); };
  check(napi_set_instance_data(env, made.get(), finalize, nullptr), "no instance");
  T* const instance = made.release();
  check(napi_add_env_cleanup_hook(env, [](void* data) { static_cast<T*>(data)->shutDown(); }, instance), "no hook");
}

template <class T>
T& instanceOf(napi_env env) {
  void* data = nullptr;
  check(napi_get_instance_data(env, &data), "no instance");
  return *static_cast<T*>(data);
}

// — promises —

/** Work behind a promise. Made and destroyed in the thread of the environment. */
class Promised {
 public:
  explicit Promised(napi_env env) : env_(env) {}
  virtual ~Promised() {
    if (held_) napi_delete_reference(env_, held_);
    if (work_) napi_delete_async_work(env_, work_);
  }
  Promised(const Promised&) = delete;
  Promised& operator=(const Promised&) = delete;

  /** Runs in a thread of the environment's pool, and must not throw. */
  virtual void run() = 0;
  /** Returns what the promise resolves to; it is rejected with what this throws. */
  virtual napi_value answer(napi_env env) = 0;

  /** Starts it, and returns the promise. What it reads is held until it is over. */
  static napi_value start(std::unique_ptr<Promised> work, const char* name, const std::vector<napi_value>& held) {
    const napi_env env = work->env_;
    napi_value promise;
    check(napi_create_reference(env, list(env, held), 1, &work->held_), "no memory");
    const auto execute = [](napi_env, void* data) { static_cast<Promised*>(data)->run(); };
    check(napi_create_async_work(env, nullptr, text(env, name), execute, complete, work.get(), &work->work_), "no memory");
    check(napi_create_promise(env, &work->deferred_, &promise), "no memory");
    check(napi_queue_async_work(env, work->work_), "no thread");
    work.release();
    return promise;
  }

 protected:
  const napi_env env_;

 private:
  static void complete(napi_env env, napi_status, void* data) {
    const std::unique_ptr<Promised> work(static_cast<Promised*>(data));
    napi_value error = nullptr;
    const napi_value value = guarded(env, [&] { return work->answer(env); });
    if (value) napi_resolve_deferred(env, work->deferred_, value);
    else if (napi_get_and_clear_last_exception(env, &error) == napi_ok) napi_reject_deferred(env, work->deferred_, error);
  }

  napi_ref held_ = nullptr;
  napi_async_work work_ = nullptr;
  napi_deferred deferred_ = nullptr;
};

// — messages from other threads —

/** A function of JavaScript that gets messages. It is freed after the last, or with the environment. */
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  /** Called in the thread of the environment, once. `deliver` gets the messages, and `owner`, which lives as long. */
  void open(napi_env env, napi_value function, const char* name, napi_threadsafe_function_call_js deliver, std::shared_ptr<void> owner = nullptr) {
    struct Kept {
      std::shared_ptr<Channel> channel;
      std::shared_ptr<void> owner;
    };
    auto kept = std::make_unique<Kept>(Kept{shared_from_this(), std::move(owner)});
    const auto forget = [](napi_env, void* data, void*) {
      const std::unique_ptr<Kept> kept(static_cast<Kept*>(data));
      kept->channel->loop_ = nullptr;
      const std::lock_guard<std::mutex> lock(kept->channel->mutex_);
      kept->channel->call_ = nullptr;
    };
    void* const context = kept->owner.get();
    check(napi_create_threadsafe_function(env, function, nullptr, text(env, name), 0, 1, kept.get(), forget, context, deliver, &call_), "no memory");
    kept.release();
    loop_ = call_;
  }

  /** Returns false where it did not go: after the environment has begun to close, nothing may call again. */
  template <class M>
  bool send(std::unique_ptr<M> message, bool last) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!call_) return false;
    const napi_status status = napi_call_threadsafe_function(call_, message.get(), napi_tsfn_nonblocking);
    if (status == napi_ok) message.release();
    if (status == napi_closing) call_ = nullptr;
    else if (last) napi_release_threadsafe_function(call_, napi_tsfn_release), call_ = nullptr;
    return status == napi_ok;
  }

  /** Whether it keeps the event loop alive. In the thread of the environment. */
  void hold(napi_env env, bool hold) {
    if (!loop_) return;
    if (hold) napi_ref_threadsafe_function(env, loop_);
    else napi_unref_threadsafe_function(env, loop_);
  }

 private:
  std::mutex mutex_;
  /** For the threads, until the last message. */
  napi_threadsafe_function call_ = nullptr;
  /** The same for the environment's own thread, until the function is gone. */
  napi_threadsafe_function loop_ = nullptr;
};

/** Calls it in a `deliver`, with two arguments. */
void callWith(napi_env env, napi_value function, napi_value first, napi_value second) {
  const napi_value arguments[] = {first, second};
  napi_call_function(env, undefined(env), function, 2, arguments, nullptr);
}

}  // namespace
}  // namespace hers
