// Reads arguments and makes values of Node-API, for the files of addons that talk to JavaScript.

#pragma once

#include <node_api.h>

#include <cstdint>
#include <exception>
#include <memory>
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

napi_value numbers(napi_env env, const std::vector<double>& values) {
  napi_value array;
  check(napi_create_array_with_length(env, values.size(), &array), "no memory");
  for (uint32_t i = 0; i < values.size(); i++) check(napi_set_element(env, array, i, number(env, values[i])), "no memory");
  return array;
}

napi_value text(napi_env env, const std::string& value) {
  napi_value result;
  check(napi_create_string_utf8(env, value.data(), value.size(), &result), "no memory");
  return result;
}

// — objects behind externals: `kind` tells those of an addon apart —

struct Handle {
  const uint32_t kind;
  explicit Handle(uint32_t kind) : kind(kind) {}
  virtual ~Handle() = default;
};

template <class T, uint32_t k>
struct Holder : Handle {
  std::shared_ptr<T> object;
  explicit Holder(std::shared_ptr<T> object) : Handle(k), object(std::move(object)) {}
};

template <class T, uint32_t k>
napi_value wrap(napi_env env, std::shared_ptr<T> object) {
  auto holder = std::make_unique<Holder<T, k>>(std::move(object));
  napi_value value;
  const auto finalize = [](napi_env, void* data, void*) { delete static_cast<Handle*>(data); };
  check(napi_create_external(env, static_cast<Handle*>(holder.get()), finalize, nullptr, &value), "no memory");
  holder.release();
  return value;
}

template <class T, uint32_t k>
std::shared_ptr<T>& unwrap(napi_env env, napi_value value) {
  void* data = nullptr;
  check(napi_get_value_external(env, value, &data), "a handle was expected");
  Handle* const handle = static_cast<Handle*>(data);
  if (handle->kind != k) refuse("a handle of another kind was expected");
  auto& object = static_cast<Holder<T, k>*>(handle)->object;
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
void define(napi_env env, napi_value exports, const napi_property_descriptor (&functions)[count]) {
  napi_value stamp;
  check(napi_create_string_utf8(env, HERS_STAMP, NAPI_AUTO_LENGTH, &stamp), "no memory");
  check(napi_set_named_property(env, exports, "stamp", stamp), "no memory");
  check(napi_define_properties(env, exports, count, functions), "no memory");
}

}  // namespace
}  // namespace hers
