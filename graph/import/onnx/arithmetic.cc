// Arithmetic, element by element. Operators that Lathe has no kernel for are written with others.
#include <cmath>

#include "graph/import/onnx/expression.h"
#include "runtime/element_types.h"

namespace lathe::onnx {
namespace {

Result<void> import_binary(NodeImport& n, Op op) {
  Expression e(n);
  const ValueId a = e.operand(0), b = e.operand(1);
  return e.finish(op, {a, b});
}

// a op b op c ...; a single operand is its own result.
Result<ValueId> chain(Expression& e, Op op, size_t count) {
  ValueId all = e.operand(0);
  for (size_t i = 1; i < count; ++i) all = e.node(op, {all, e.operand(i)});
  LATHE_CHECK_OK(e.status());
  return all;
}

Result<void> import_variadic(NodeImport& n, Op op) {
  Expression e(n);
  const size_t count = n.input_count();
  LATHE_TRY(const ValueId first, chain(e, op, count == 1 ? 1 : count - 1));
  return count == 1 ? e.finish(first) : e.finish(op, {first, e.operand(count - 1)});
}

bool is_float_value(Expression& e, ValueId x) { return e.dtype(x) == DType::kF32; }

// The exponent if it is one constant element.
Result<std::optional<double>> constant_exponent(NodeImport& n) {
  LATHE_TRY(const auto t, n.known_tensor(1));
  if (t == nullptr || t->elems() != 1) return std::nullopt;
  if (t->dtype == DType::kF32) return static_cast<double>(t->bytes.as<float>()[0]);
  return static_cast<double>(t->ints()[0]);
}

// Powers that other operators compute exactly and faster.
std::optional<Result<void>> simple_power(Expression& e, ValueId x, double exponent) {
  if (exponent == 1) return e.finish(x);
  if (exponent == 2) return e.finish(Op::kMul, {x, x});
  if (exponent == 3) return e.finish(Op::kMul, {e.node(Op::kMul, {x, x}), x});
  if (exponent == 0.5 && is_float_value(e, x)) return e.finish(Op::kSqrt, {x});
  return std::nullopt;
}

// Whether the constant exponent is as well an integer of x's type, so that integers need not be computed as floats.
bool is_integer_power(double exponent) { return exponent == std::floor(exponent) && exponent >= 0 && exponent < 64; }

}  // namespace

Result<void> import_add(NodeImport& n) { return import_binary(n, Op::kAdd); }
Result<void> import_sub(NodeImport& n) { return import_binary(n, Op::kSub); }
Result<void> import_mul(NodeImport& n) { return import_binary(n, Op::kMul); }
Result<void> import_div(NodeImport& n) { return import_binary(n, Op::kDiv); }
Result<void> import_sum(NodeImport& n) { return import_variadic(n, Op::kAdd); }
Result<void> import_max(NodeImport& n) { return import_variadic(n, Op::kMax); }
Result<void> import_min(NodeImport& n) { return import_variadic(n, Op::kMin); }

Result<void> import_mean(NodeImport& n) {
  Expression e(n);
  LATHE_TRY(const ValueId sum, chain(e, Op::kAdd, n.input_count()));
  return e.finish(Op::kMul, {sum, e.number(sum, 1.0 / static_cast<double>(n.input_count()))});
}

Result<void> import_neg(NodeImport& n) {
  Expression e(n);
  const ValueId x = e.operand(0);
  return e.finish(Op::kMul, {x, e.number(x, -1)});
}

Result<void> import_reciprocal(NodeImport& n) {
  Expression e(n);
  const ValueId x = e.operand(0);
  return e.finish(Op::kDiv, {e.number(x, 1), x});
}

// max(x, -x) of integers; the lowest one stays, as its negative does not exist.
Result<void> import_abs(NodeImport& n) {
  Expression e(n);
  const ValueId x = e.operand(0);
  if (is_float_value(e, x)) return e.finish(Op::kAbs, {x});
  return e.finish(Op::kMax, {x, e.node(Op::kSub, {e.number(x, 0), x})});
}

// (x > 0) - (x < 0) of integers.
Result<void> import_sign(NodeImport& n) {
  Expression e(n);
  const ValueId x = e.operand(0);
  if (is_float_value(e, x)) return e.finish(Op::kSign, {x});
  const ValueId zero = e.number(x, 0);
  const ValueId above = e.cast(e.node(Op::kLess, {zero, x}), e.dtype(x)),
                below = e.cast(e.node(Op::kLess, {x, zero}), e.dtype(x));
  return e.finish(Op::kSub, {above, below});
}

// The result has the base's type. Exponents of another type are converted; if the base is integer and they are not, both are
// computed as floats.
Result<void> import_pow(NodeImport& n) {
  Expression e(n);
  LATHE_TRY(const auto exponent, constant_exponent(n));
  const ValueId x = e.operand(0);
  if (exponent && e.ok()) {
    if (auto simple = simple_power(e, x, *exponent)) return *simple;
  }
  ValueId y = e.operand(1);
  const DType type = e.dtype(x);
  const bool through_float = type != DType::kF32 && is_float_value(e, y) && !(exponent && is_integer_power(*exponent));
  if (through_float) {
    const ValueId power = e.node(Op::kPow, {e.cast(x, DType::kF32), y});
    return e.finish(Op::kCast, {power}, CastAttrs{static_cast<int32_t>(type)});
  }
  return e.finish(Op::kPow, {x, e.cast(y, type)});
}

Result<void> import_mod(NodeImport& n) {
  LATHE_TRY(const bool truncated, n.flag("fmod", false));
  Expression e(n);
  const ValueId a = e.operand(0), b = e.operand(1);
  return e.finish(Op::kMod, {a, b}, ModAttrs{truncated ? 1 : 0});
}

}  // namespace lathe::onnx
