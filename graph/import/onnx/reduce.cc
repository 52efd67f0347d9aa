// Reductions, and searches along an axis. Reductions that the op table does not have are written with those it has.
#include <algorithm>
#include <limits>

#include "graph/import/onnx/expression.h"
#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

// What all reductions read. Axes are an attribute before opset `since` and an optional operand from then on; none means all,
// unless noop_with_empty_axes says nothing.
struct Reduction {
  ReduceAttrs attrs;
  bool noop = false;
  ValueId x = kNoId;
};

Result<Reduction> read_reduction(NodeImport& n, int64_t since) {
  Reduction r;
  LATHE_TRY(const bool keep_dims, n.flag("keepdims", true));
  bool noop = false;
  if (n.opset() >= since) {
    LATHE_TRY(noop, n.flag("noop_with_empty_axes", false));
  }
  LATHE_TRY(const auto given, n.integers_or_input("axes", since, 1));
  LATHE_TRY(r.x, n.value(0));
  r.attrs.keep_dims = keep_dims ? 1 : 0;
  if (!given || given->empty()) {
    r.noop = noop;
    for (size_t i = 0; i < n.rank(r.x) && !noop; ++i) r.attrs.axes.values[r.attrs.axes.count++] = static_cast<int32_t>(i);
    return r;
  }
  LATHE_TRY(auto axes, n.normalized_axes(*given, n.rank(r.x)));
  std::sort(axes.begin(), axes.end());
  for (int32_t axis : axes) r.attrs.axes.values[r.attrs.axes.count++] = axis;
  return r;
}

constexpr int64_t kAxesSince = 18;  // 13 for ReduceSum

Result<void> import_plain_reduction(NodeImport& n, Op op, int64_t since = kAxesSince) {
  LATHE_TRY(const Reduction r, read_reduction(n, since));
  Expression e(n);
  return r.noop ? e.finish(r.x) : e.finish(op, {r.x}, r.attrs);
}

// |x|, whatever the type.
ValueId magnitude(Expression& e, ValueId x) {
  if (e.dtype(x) == DType::kF32) return e.node(Op::kAbs, {x});
  return e.node(Op::kMax, {x, e.node(Op::kSub, {e.number(x, 0), x})});
}

// log(sum(exp(x))) = m + log(sum(exp(x - m))), m the largest of the finite range, so that neither exp nor x - m is more than it
// should.
ValueId log_sum_exp(Expression& e, ValueId x, const Ints& axes) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const ReduceAttrs keep{axes, 1};
  const ValueId largest = e.node(Op::kClamp, {e.node(Op::kReduceMax, {x}, keep)}, ClampAttrs{-kLargest, kLargest});
  const ValueId powers = e.node(Op::kExp, {e.node(Op::kSub, {x, largest})});
  return e.node(Op::kAdd, {e.node(Op::kLog, {e.node(Op::kReduceSum, {powers}, keep)}), largest});
}

// Dims of a value of rank `rank` without `axes`.
std::vector<Dim> without_axes(const std::vector<Dim>& dims, const Ints& axes) {
  std::vector<Dim> out;
  for (size_t i = 0; i < dims.size(); ++i)
    if (std::find(axes.values, axes.values + axes.count, static_cast<int32_t>(i)) == axes.values + axes.count)
      out.push_back(dims[i]);
  return out;
}

}  // namespace

Result<void> import_reduce_mean(NodeImport& n) {
  LATHE_TRY(const Reduction r, read_reduction(n, kAxesSince));
  Expression e(n);
  if (r.noop) return e.finish(r.x);
  if (e.dtype(r.x) == DType::kF32) return e.finish(Op::kMean, {r.x}, r.attrs);
  int64_t count = 1;
  for (int32_t i = 0; i < r.attrs.axes.count; ++i) count *= e.known_dim(r.x, r.attrs.axes[i], "the size of an axis of integers");
  const ValueId sum = e.node(Op::kReduceSum, {r.x}, r.attrs);
  return e.finish(Op::kDiv, {sum, e.number(sum, static_cast<double>(count))});
}

Result<void> import_reduce_sum(NodeImport& n) { return import_plain_reduction(n, Op::kReduceSum, 13); }
Result<void> import_reduce_prod(NodeImport& n) { return import_plain_reduction(n, Op::kReduceProd); }
Result<void> import_reduce_max(NodeImport& n) { return import_plain_reduction(n, Op::kReduceMax); }
Result<void> import_reduce_min(NodeImport& n) { return import_plain_reduction(n, Op::kReduceMin); }

Result<void> import_reduce_l1(NodeImport& n) {
  LATHE_TRY(const Reduction r, read_reduction(n, kAxesSince));
  Expression e(n);
  return e.finish(Op::kReduceSum, {magnitude(e, r.x)}, r.attrs);
}

Result<void> import_reduce_sum_square(NodeImport& n) {
  LATHE_TRY(const Reduction r, read_reduction(n, kAxesSince));
  Expression e(n);
  return e.finish(Op::kReduceSum, {e.node(Op::kMul, {r.x, r.x})}, r.attrs);
}

// Integers are taken to floats for the root.
Result<void> import_reduce_l2(NodeImport& n) {
  LATHE_TRY(const Reduction r, read_reduction(n, kAxesSince));
  Expression e(n);
  const DType type = e.dtype(r.x);
  const ValueId x = e.cast(r.x, DType::kF32);
  const ValueId sum = e.node(Op::kReduceSum, {e.node(Op::kMul, {x, x})}, r.attrs);
  if (type == DType::kF32) return e.finish(Op::kSqrt, {sum});
  return e.finish(Op::kCast, {e.node(Op::kSqrt, {sum})}, CastAttrs{static_cast<int32_t>(type)});
}

Result<void> import_reduce_log_sum(NodeImport& n) {
  LATHE_TRY(const Reduction r, read_reduction(n, kAxesSince));
  Expression e(n);
  return e.finish(Op::kLog, {e.node(Op::kReduceSum, {r.x}, r.attrs)});
}

Result<void> import_reduce_log_sum_exp(NodeImport& n) {
  LATHE_TRY(const Reduction r, read_reduction(n, kAxesSince));
  Expression e(n);
  const ValueId y = log_sum_exp(e, r.x, r.attrs.axes);
  LATHE_CHECK_OK(e.status());
  if (r.attrs.keep_dims != 0) return e.finish(y);
  return finish_reshaped(n, y, without_axes(e.dims(y), r.attrs.axes));
}

namespace {

Result<void> import_arg(NodeImport& n, Op op) {
  LATHE_TRY(const int64_t given, n.integer("axis", 0));
  LATHE_TRY(const bool keep_dims, n.flag("keepdims", true));
  bool last = false;
  if (n.opset() >= 12) {
    LATHE_TRY(last, n.flag("select_last_index", false));
  }
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  return n.finish(op, ArgAttrs{axis, keep_dims ? 1 : 0, last ? 1 : 0}, {x});
}

Result<void> import_cumulate(NodeImport& n, Op op) {
  LATHE_TRY(const bool exclusive, n.flag("exclusive", false));
  LATHE_TRY(const bool reverse, n.flag("reverse", false));
  LATHE_TRY(const auto given, n.known_integers(1, "axis"));
  if (given.size() != 1) return fail(Code::kInvalidArgument, "axis has " + std::to_string(given.size()) + " elements, not 1");
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given[0], n.rank(x)));
  return n.finish(op, CumulateAttrs{axis, exclusive ? 1 : 0, reverse ? 1 : 0}, {x});
}

}  // namespace

// k is an attribute before opset 10 and an operand from then on. The result is sorted whether that is asked for or not.
Result<void> import_top_k(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", -1));
  bool largest = true;
  if (n.opset() >= 11) {
    LATHE_TRY(largest, n.flag("largest", true));
    n.ignore("sorted");
  }
  std::vector<int64_t> k(1);
  if (n.opset() < 10) {
    LATHE_TRY(k[0], n.integer("k", 1));
  } else {
    LATHE_TRY(k, n.known_integers(1, "k"));
  }
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  if (k.size() != 1) return fail(Code::kInvalidArgument, "k has " + std::to_string(k.size()) + " elements, not 1");
  if (k[0] < 0 || k[0] > INT32_MAX) return fail(Code::kInvalidArgument, "k is " + std::to_string(k[0]));
  return n.finish_all(Op::kTopK, TopKAttrs{axis, static_cast<int32_t>(k[0]), largest ? 1 : 0}, {x});
}

Result<void> import_arg_max(NodeImport& n) { return import_arg(n, Op::kArgMax); }
Result<void> import_arg_min(NodeImport& n) { return import_arg(n, Op::kArgMin); }
Result<void> import_cum_sum(NodeImport& n) { return import_cumulate(n, Op::kCumSum); }
Result<void> import_cum_prod(NodeImport& n) { return import_cumulate(n, Op::kCumProd); }

}  // namespace lathe::onnx
