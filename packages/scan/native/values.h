// Conversion and type checks of Node-API values and objects, for the one file of an addon that
// talks to JavaScript.

#pragma once

#include <node_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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
  check(env, napi_create_external(env, static_cast<Handle*>(holder.get()), finalize, nullptr, &value), "no memory");
  holder.release();
  return value;
}

template <class T, uint32_t k>
std::shared_ptr<T>& unwrap(napi_env env, napi_value value) {
  void* data = nullptr;
  check(env, napi_get_value_external(env, value, &data), "a handle was expected");
  Handle* const handle = static_cast<Handle*>(data);
  if (handle->kind != k) refuse(env, nullptr, "a handle of another kind was expected");
  auto& object = static_cast<Holder<T, k>*>(handle)->object;
  if (!object) refuse(env, nullptr, "this handle was closed");
  return object;
}

// — functions —

using Arguments = std::vector<napi_value>;

napi_value undefined(napi_env env) {
  napi_value value;
  check(env, napi_get_undefined(env, &value), "no value");
  return value;
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

napi_property_descriptor method(const char* name, napi_callback f) {
  return {name, nullptr, f, nullptr, nullptr, nullptr, napi_enumerable, nullptr};
}

}  // namespace
}  // namespace hers
