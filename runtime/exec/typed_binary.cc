// Two operands of any number type with broadcasting: comparisons, extremes, bits, remainders, powers.
#include "kernels/math/functions.h"
#include "runtime/exec/elementwise.h"
#include "runtime/exec/extremes.h"

namespace lathe {
namespace {

struct IsEqual {
  template <class T> bool operator()(T a, T b) const { return a == b; }
};
struct IsLess {
  template <class T> bool operator()(T a, T b) const { return a < b; }
};
struct IsAtMost {
  template <class T> bool operator()(T a, T b) const { return a <= b; }
};

struct AndBits {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
struct OrBits {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
struct XorBits {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};

// Bits that leave the type are lost, zeros come in; a count of at least the width leaves nothing.
struct ShiftBits {
  uint32_t left;
  template <class T> T operator()(T a, T b) const {
    constexpr uint32_t kBits = sizeof(T) * 8;
    if (b < 0 || static_cast<uint64_t>(b) >= kBits) return 0;
    using U = WrappingOf<T>;
    const U mask = static_cast<U>(~U{0}) >> (sizeof(U) * 8 - kBits);
    const U bits = static_cast<U>(a) & mask;
    return static_cast<T>(left != 0 ? bits << b : bits >> b);
  }
};

// The remainder with the sign of b, or of a if `truncated`. A divisor of 0 gives 0 for integers, because a step cannot fail.
struct Remainder {
  uint32_t truncated;
  template <class T> T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) {
      const float r = kernels::fmod_f32(a, b);
      return truncated == 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
    } else {
      if (b == 0) return 0;
      if constexpr (kIsSigned<T>) {
        if (b == -1) return 0;
      }
      const T r = static_cast<T>(a % b);
      return truncated == 0 && r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
    }
  }
};

// Integers by repeated squaring, wrapping; a negative exponent gives the exact power cut to an integer: 0, or that of 1 and -1.
struct Power {
  template <class T> T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) {
      return kernels::pow_f32(a, b);
    } else {
      if constexpr (kIsSigned<T>) {
        if (b < 0) return a == 1 || (a == -1 && b % 2 == 0) ? T{1} : static_cast<T>(a == -1 ? -1 : 0);
      }
      using U = WrappingOf<T>;
      U result = 1, square = static_cast<U>(a);
      for (uint64_t rest = static_cast<uint64_t>(b); rest != 0; rest >>= 1) {
        if ((rest & 1) != 0) result *= square;
        square *= square;
      }
      return static_cast<T>(result);
    }
  }
};

bool is_flag(int32_t v) { return v == 0 || v == 1; }

}  // namespace

#define LATHE_TYPED_BINARY(op, functor) \
  Status prepare_##op(const PrepareInput& in, Prepared* out) { return prepare_elementwise<Op::k##op, 2>(in, functor{}, out); } \
  void run_##op(const RunContext& ctx, const BoundStep& step) { run_elementwise<Op::k##op, 2, functor>(ctx, step); }

LATHE_TYPED_BINARY(Max, Larger)
LATHE_TYPED_BINARY(Min, Smaller)
LATHE_TYPED_BINARY(Equal, IsEqual)
LATHE_TYPED_BINARY(Less, IsLess)
LATHE_TYPED_BINARY(LessEqual, IsAtMost)
LATHE_TYPED_BINARY(BitAnd, AndBits)
LATHE_TYPED_BINARY(BitOr, OrBits)
LATHE_TYPED_BINARY(BitXor, XorBits)
LATHE_TYPED_BINARY(Pow, Power)

#undef LATHE_TYPED_BINARY

Status prepare_BitShift(const PrepareInput& in, Prepared* out) {
  const int32_t left = in.program->attrs<BitShiftAttrs>(*in.step).left;
  if (!is_flag(left)) return refuse(in, Code::kInvalidArgument, 1, static_cast<uint32_t>(left));
  return prepare_elementwise<Op::kBitShift, 2>(in, ShiftBits{static_cast<uint32_t>(left)}, out);
}
void run_BitShift(const RunContext& ctx, const BoundStep& step) { run_elementwise<Op::kBitShift, 2, ShiftBits>(ctx, step); }

Status prepare_Mod(const PrepareInput& in, Prepared* out) {
  const int32_t truncated = in.program->attrs<ModAttrs>(*in.step).truncated;
  if (!is_flag(truncated)) return refuse(in, Code::kInvalidArgument, 1, static_cast<uint32_t>(truncated));
  return prepare_elementwise<Op::kMod, 2>(in, Remainder{static_cast<uint32_t>(truncated)}, out);
}
void run_Mod(const RunContext& ctx, const BoundStep& step) { run_elementwise<Op::kMod, 2, Remainder>(ctx, step); }

}  // namespace lathe
