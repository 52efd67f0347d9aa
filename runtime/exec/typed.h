// Loops over elements of any type, for operators outside the hot path: one template, dispatched once per run.
#pragma once
#include <stdint.h>

#include "lathe/dtype.h"

namespace lathe {

template <class T> inline constexpr bool kIsReal = false;
template <> inline constexpr bool kIsReal<float> = true;
template <> inline constexpr bool kIsReal<double> = true;

// Calls f with a 0 of the element type of `t`; bool is uint8_t. False for types without arithmetic here (f16, bf16).
template <class F> constexpr bool with_number(DType t, F&& f) {
  switch (t) {
    case DType::kF32: f(0.0f); return true;
    case DType::kF64: f(0.0); return true;
    case DType::kS8: f(int8_t{0}); return true;
    case DType::kU8:
    case DType::kBool: f(uint8_t{0}); return true;
    case DType::kS16: f(int16_t{0}); return true;
    case DType::kU16: f(uint16_t{0}); return true;
    case DType::kS32: f(int32_t{0}); return true;
    case DType::kS64: f(int64_t{0}); return true;
    case DType::kU32: f(uint32_t{0}); return true;
    case DType::kU64: f(uint64_t{0}); return true;
    default: return false;
  }
}

// Integers wrap around.
template <class T> constexpr T wrapping_add(T a, T b) {
  if constexpr (kIsReal<T>) return a + b;
  else return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T> constexpr T wrapping_mul(T a, T b) {
  if constexpr (kIsReal<T>) return a * b;
  else return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace lathe
