// Comparisons, logic, bits and choice.
#include <limits>

#include "graph/import/onnx/expression.h"

namespace lathe::onnx {
namespace {

// op(a, b), or op(b, a): one op serves both directions of an order.
Result<void> import_pair(NodeImport& n, Op op, bool swapped = false) {
  Expression e(n);
  const ValueId a = e.operand(0), b = e.operand(1);
  return swapped ? e.finish(op, {b, a}) : e.finish(op, {a, b});
}

}  // namespace

Result<void> import_equal(NodeImport& n) { return import_pair(n, Op::kEqual); }
Result<void> import_less(NodeImport& n) { return import_pair(n, Op::kLess); }
Result<void> import_less_or_equal(NodeImport& n) { return import_pair(n, Op::kLessEqual); }
Result<void> import_greater(NodeImport& n) { return import_pair(n, Op::kLess, true); }
Result<void> import_greater_or_equal(NodeImport& n) { return import_pair(n, Op::kLessEqual, true); }

// Logic is that of bits: a bool has one.
Result<void> import_and(NodeImport& n) { return import_pair(n, Op::kBitAnd); }
Result<void> import_or(NodeImport& n) { return import_pair(n, Op::kBitOr); }
Result<void> import_xor(NodeImport& n) { return import_pair(n, Op::kBitXor); }

Result<void> import_not(NodeImport& n) {
  Expression e(n);
  const ValueId x = e.operand(0);
  return e.finish(Op::kBitXor, {x, e.number(x, 1)});
}

// All bits turned: -1 of a signed type, the largest value of an unsigned one, which is 0 - 1 in both.
Result<void> import_bitwise_not(NodeImport& n) {
  Expression e(n);
  const ValueId x = e.operand(0);
  return e.finish(Op::kBitXor, {x, e.node(Op::kSub, {e.number(x, 0), e.number(x, 1)})});
}

Result<void> import_bit_shift(NodeImport& n) {
  LATHE_TRY(const std::string_view direction, n.text("direction", ""));
  if (direction != "LEFT" && direction != "RIGHT")
    return fail(Code::kInvalidArgument, "attribute 'direction' is '" + std::string(direction) + "', must be LEFT or RIGHT");
  Expression e(n);
  const ValueId a = e.operand(0), b = e.operand(1);
  return e.finish(Op::kBitShift, {a, b}, BitShiftAttrs{direction == "LEFT" ? 1 : 0});
}

Result<void> import_where(NodeImport& n) {
  Expression e(n);
  const ValueId condition = e.operand(0), a = e.operand(1), b = e.operand(2);
  return e.finish(Op::kWhere, {condition, a, b});
}

// Only NaN differs from itself.
Result<void> import_is_nan(NodeImport& n) {
  Expression e(n);
  const ValueId x = e.operand(0), same = e.node(Op::kEqual, {x, x});
  return e.finish(Op::kBitXor, {same, e.number(same, 1)});
}

// Beyond the largest finite float, on the sides that are asked for.
Result<void> import_is_inf(NodeImport& n) {
  LATHE_TRY(const bool positive, n.flag("detect_positive", true));
  LATHE_TRY(const bool negative, n.flag("detect_negative", true));
  constexpr double kLargest = std::numeric_limits<float>::max();
  Expression e(n);
  const ValueId x = e.operand(0);
  if (positive && negative) return e.finish(Op::kLess, {e.number(x, kLargest), e.node(Op::kAbs, {x})});
  if (positive) return e.finish(Op::kLess, {e.number(x, kLargest), x});
  if (negative) return e.finish(Op::kLess, {x, e.number(x, -kLargest)});
  return e.finish(Op::kLess, {x, x});
}

}  // namespace lathe::onnx
