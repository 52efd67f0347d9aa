// Which element types operators compute in, and how a loop over one of them is chosen.
//
// A TypeSet has one bit per DType. Inference refuses what op_types() does not list, and the executor makes a loop for each type
// that it lists, so the two cannot disagree. Quantized values are no integers: operators with an 8-bit form say so in the op
// table.
#pragma once
#include <stdint.h>

#include "lathe/dtype.h"
#include "runtime/op.h"

namespace lathe {

using TypeSet = uint32_t;

constexpr TypeSet type_bit(DType t) { return 1u << static_cast<uint32_t>(t); }
constexpr bool has_type(TypeSet set, DType t) { return static_cast<uint32_t>(t) < 32 && (set & type_bit(t)) != 0; }

inline constexpr TypeSet kFloatTypes = type_bit(DType::kF32);
inline constexpr TypeSet kBoolTypes = type_bit(DType::kBool);
inline constexpr TypeSet kUnsignedTypes =
    type_bit(DType::kU8) | type_bit(DType::kU16) | type_bit(DType::kU32) | type_bit(DType::kU64);
inline constexpr TypeSet kIntegerTypes =
    kUnsignedTypes | type_bit(DType::kS8) | type_bit(DType::kS16) | type_bit(DType::kS32) | type_bit(DType::kS64);
inline constexpr TypeSet kNumberTypes = kFloatTypes | kIntegerTypes;

// Element types of the operands of an elementwise operator, a reduction or a search. 0: the op has no such list.
constexpr TypeSet op_types(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kPow:
    case Op::kMod:
    case Op::kLessEqual:
    case Op::kReduceSum:
    case Op::kReduceProd:
    case Op::kArgMax:
    case Op::kArgMin:
    case Op::kTopK:
    case Op::kCumSum:
    case Op::kCumProd: return kNumberTypes;
    case Op::kMax:
    case Op::kMin:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kLess:
    case Op::kEqual: return kNumberTypes | kBoolTypes;
    case Op::kBitAnd:
    case Op::kBitOr:
    case Op::kBitXor: return kIntegerTypes | kBoolTypes;
    case Op::kBitShift: return kIntegerTypes;
    default: return 0;
  }
}

// Whether the result is bool whatever the operands are.
constexpr bool op_compares(Op op) { return op == Op::kEqual || op == Op::kLess || op == Op::kLessEqual; }

// How one element type lies in memory (Stored) and what it is computed as (Value). A bool is false if its byte is 0.
template <class T> struct Element {
  using Stored = T;
  using Value = T;
  static Value load(Stored v) { return v; }
  static Stored store(Value v) { return v; }
};
template <> struct Element<bool> {
  using Stored = uint8_t;
  using Value = bool;
  static bool load(uint8_t v) { return v != 0; }
  static uint8_t store(bool v) { return v ? 1 : 0; }
};

// Calls f(Element<T>{}) for the type T that `t` stands for. Requires: has_type(kTypes, t). Only loops over kTypes are made.
template <TypeSet kTypes, class F> void with_type(DType t, const F& f) {
#define LATHE_WITH_TYPE(dtype, type) \
  if constexpr (has_type(kTypes, DType::dtype)) { \
    if (t == DType::dtype) return f(Element<type>{}); \
  }
  LATHE_WITH_TYPE(kF32, float)
  LATHE_WITH_TYPE(kBool, bool)
  LATHE_WITH_TYPE(kS8, int8_t)
  LATHE_WITH_TYPE(kU8, uint8_t)
  LATHE_WITH_TYPE(kS16, int16_t)
  LATHE_WITH_TYPE(kU16, uint16_t)
  LATHE_WITH_TYPE(kS32, int32_t)
  LATHE_WITH_TYPE(kU32, uint32_t)
  LATHE_WITH_TYPE(kS64, int64_t)
  LATHE_WITH_TYPE(kU64, uint64_t)
#undef LATHE_WITH_TYPE
}

// The unsigned type of T's width, in which integers wrap without undefined behaviour; at least 32 bits, because narrower ones
// would be promoted to int. float and bool are what they are.
template <class T> struct Wrapping { using Type = T; };
template <> struct Wrapping<int8_t> { using Type = uint32_t; };
template <> struct Wrapping<uint8_t> { using Type = uint32_t; };
template <> struct Wrapping<int16_t> { using Type = uint32_t; };
template <> struct Wrapping<uint16_t> { using Type = uint32_t; };
template <> struct Wrapping<int32_t> { using Type = uint32_t; };
template <> struct Wrapping<int64_t> { using Type = uint64_t; };
template <class T> using WrappingOf = typename Wrapping<T>::Type;

// What many elements of T are summed or multiplied in.
template <class T> struct Gathering { using Type = WrappingOf<T>; };
template <> struct Gathering<float> { using Type = double; };
template <class T> using GatheringOf = typename Gathering<T>::Type;

template <class T> inline constexpr bool kIsFloat = false;
template <> inline constexpr bool kIsFloat<float> = true;
template <class T> inline constexpr bool kIsBool = false;
template <> inline constexpr bool kIsBool<bool> = true;
template <class T> inline constexpr bool kIsSigned = !kIsBool<T> && static_cast<T>(-1) < static_cast<T>(0);

}  // namespace lathe
