// Reductions, and what is made of them.
#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

Op reduce_op(int32_t number) {
  switch (number) {
    case 74: return Op::kReduceSum;
    case 81: return Op::kReduceProd;
    case 82:
    case 91: return Op::kReduceMax;  // of bools: any
    case 89:
    case 140: return Op::kReduceMin;  // all
    default: return Op::kMean;
  }
}

ReduceAttrs last_axis(size_t rank) {
  ReduceAttrs a;
  a.axes.values[a.axes.count++] = static_cast<int32_t>(rank) - 1;
  return a;
}

}  // namespace

Result<void> import_reduce(NodeImport& n) {
  const auto* o = n.options().options_as_Reduce();
  LATHE_TRY(const auto axes, n.known_integers(1, "axes"));
  LATHE_TRY(const ValueId x, n.value(0));
  ReduceAttrs a;
  LATHE_TRY(a.axes, n.normalized_axes(axes, n.rank(x)));
  a.keep_dims = o != nullptr && o->keep_dims() ? 1 : 0;
  return n.finish(reduce_op(n.op().code), a, {x});
}

// The first of equal ones.
Result<void> import_arg_extremum(NodeImport& n) {
  constexpr int32_t kArgMax = 56;
  LATHE_TRY(const auto axes, n.known_integers(1, "the axis"));
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(x, n.real(x));
  if (axes.size() != 1) return fail(Code::kInvalidArgument, std::to_string(axes.size()) + " axes, must be 1");
  ArgAttrs a;
  a.keep_dims = 0;
  LATHE_TRY(a.axis, n.normalized_axis(axes[0], n.rank(x)));
  LATHE_TRY(const DType to, dtype_of(n.output()));
  LATHE_TRY(const ValueId at, n.emit("index", n.op().code == kArgMax ? Op::kArgMax : Op::kArgMin, a, {x}));
  if (n.type(at).dtype == to) return n.finish_value(at);
  return n.finish(Op::kCast, CastAttrs{static_cast<int32_t>(to)}, {at});
}

// x - max - log(sum(exp(x - max))) along the last axis.
Result<void> import_log_softmax(NodeImport& n) {
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(x, n.real(x));
  if (n.rank(x) == 0) return fail(Code::kInvalidArgument, "its input has rank 0");
  const ReduceAttrs last = last_axis(n.rank(x));
  LATHE_TRY(const ValueId most, n.emit("max", Op::kReduceMax, last, {x}));
  LATHE_TRY(const ValueId below, n.emit("below", Op::kSub, BinaryAttrs{}, {x, most}));
  LATHE_TRY(const ValueId powers, n.emit("exp", Op::kExp, NoAttrs{}, {below}));
  LATHE_TRY(const ValueId sum, n.emit("sum", Op::kReduceSum, last, {powers}));
  LATHE_TRY(const ValueId log, n.emit("log", Op::kLog, NoAttrs{}, {sum}));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kSub, BinaryAttrs{}, {below, log}));
  return n.finish_value(y);
}

Result<void> import_cumsum(NodeImport& n) {
  const auto* o = n.options().options_as_Cumsum();
  LATHE_TRY(const auto axes, n.known_integers(1, "the axis"));
  LATHE_TRY(const ValueId x, n.value(0));
  if (axes.size() != 1) return fail(Code::kInvalidArgument, std::to_string(axes.size()) + " axes, must be 1");
  CumulateAttrs a;
  LATHE_TRY(a.axis, n.normalized_axis(axes[0], n.rank(x)));
  a.exclusive = o != nullptr && o->exclusive() ? 1 : 0;
  a.reverse = o != nullptr && o->reverse() ? 1 : 0;
  return n.finish(Op::kCumSum, a, {x});
}

// x / (bias + alpha sum of squares of the channels at most `radius` away) ^ beta. The sum is size times a mean over a window
// that counts what lies outside as 0.
Result<void> import_local_response_normalization(NodeImport& n) {
  constexpr int32_t kMaxRadius = 512;
  const auto* o = n.options().options_as_Lrn();
  if (o == nullptr) return fail(Code::kCorrupt, "its options are missing");
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(x, n.real(x));
  if (n.rank(x) == 0 || o->radius() < 0 || o->radius() > kMaxRadius)
    return fail(Code::kInvalidArgument,
                "radius " + std::to_string(o->radius()) + " on an input of rank " + std::to_string(n.rank(x)));
  const std::vector<Dim> dims = n.type(x).dims;
  Dim rows = n.dims().constant(1);
  for (size_t i = 0; i + 1 < dims.size(); ++i) rows = n.dims().mul(rows, dims[i]);
  const Dim one = n.dims().constant(1);
  Pool2dAttrs pool;
  pool.kernel[0] = 2 * o->radius() + 1;
  pool.pad[0] = pool.pad[2] = o->radius();
  pool.count_pad = 1;
  LATHE_TRY(const ValueId squares, n.emit("squares", Op::kMul, BinaryAttrs{}, {x, x}));
  LATHE_TRY(const ValueId lines, n.reshaped("lines", squares, {rows, dims.back(), one, one}));
  LATHE_TRY(const ValueId means, n.emit("means", Op::kAvgPool2d, pool, {lines}));
  LATHE_TRY(const ValueId mean, n.reshaped("mean", means, dims));
  LATHE_TRY(const ValueId alpha, n.real_constant("alpha", o->alpha() * static_cast<float>(pool.kernel[0])));
  LATHE_TRY(const ValueId scaled, n.emit("scaled", Op::kMul, BinaryAttrs{}, {mean, alpha}));
  LATHE_TRY(const ValueId bias, n.real_constant("bias", o->bias()));
  LATHE_TRY(const ValueId base, n.emit("base", Op::kAdd, BinaryAttrs{}, {scaled, bias}));
  LATHE_TRY(const ValueId beta, n.real_constant("beta", o->beta()));
  LATHE_TRY(const ValueId power, n.emit("power", Op::kPow, NoAttrs{}, {base, beta}));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kDiv, BinaryAttrs{}, {x, power}));
  return n.finish_value(y);
}

// x / sqrt(max(sum of squares along the last axis, epsilon)).
Result<void> import_l2_normalization(NodeImport& n) {
  constexpr float kEpsilon = 1e-6f;
  const auto* o = n.options().options_as_L2Norm();
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(o == nullptr ? fbs::Activation_NONE : o->activation()));
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(x, n.real(x));
  if (n.rank(x) == 0) return fail(Code::kInvalidArgument, "its input has rank 0");
  LATHE_TRY(const ValueId squares, n.emit("squares", Op::kMul, BinaryAttrs{}, {x, x}));
  LATHE_TRY(const ValueId sum, n.emit("sum", Op::kReduceSum, last_axis(n.rank(x)), {squares}));
  LATHE_TRY(const ValueId least, n.emit("least", Op::kClamp, ClampAttrs{kEpsilon, kInfinity}, {sum}));
  LATHE_TRY(const ValueId norm, n.emit("norm", Op::kSqrt, NoAttrs{}, {least}));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kDiv, BinaryAttrs{bounds.lo, bounds.hi}, {x, norm}));
  return n.finish_value(y);
}

}  // namespace lathe::tflite
