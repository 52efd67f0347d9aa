// Reductions, and what is made of them.
#include "graph/import/tflite/importer.h"

namespace lathe::tflite {

Result<void> import_reduce(NodeImport& n) {
  const auto* o = n.options().options_as_Reduce();
  LATHE_TRY(const auto axes, n.known_integers(1, "axes"));
  LATHE_TRY(const ValueId x, n.value(0));
  ReduceAttrs a;
  LATHE_TRY(a.axes, n.normalized_axes(axes, n.rank(x)));
  a.keep_dims = o != nullptr && o->keep_dims() ? 1 : 0;
  return n.finish(Op::kMean, a, {x});
}

// x / sqrt(max(sum of squares along the last axis, epsilon)).
Result<void> import_l2_normalization(NodeImport& n) {
  constexpr float kEpsilon = 1e-6f;
  const auto* o = n.options().options_as_L2Norm();
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(o == nullptr ? fbs::Activation_NONE : o->activation()));
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(x, n.real(x));
  const auto length = n.rank(x) == 0 ? std::nullopt : n.dim(x, n.rank(x) - 1);
  if (!length || *length < 1) return fail(Code::kUnsupported, "the last dim of its input is not known");
  ReduceAttrs last;
  last.axes.values[last.axes.count++] = static_cast<int32_t>(n.rank(x)) - 1;
  LATHE_TRY(const ValueId squares, n.emit("squares", Op::kMul, BinaryAttrs{}, {x, x}));
  LATHE_TRY(const ValueId mean, n.emit("mean", Op::kMean, last, {squares}));
  LATHE_TRY(const ValueId count, n.real_constant("count", static_cast<float>(*length)));
  LATHE_TRY(const ValueId sum, n.emit("sum", Op::kMul, BinaryAttrs{kEpsilon, kInfinity}, {mean, count}));
  LATHE_TRY(const ValueId norm, n.emit("norm", Op::kSqrt, NoAttrs{}, {sum}));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kDiv, BinaryAttrs{bounds.lo, bounds.hi}, {x, norm}));
  return n.finish_value(y);
}

}  // namespace lathe::tflite
