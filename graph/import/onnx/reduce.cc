// Reductions and softmax.
#include <algorithm>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {

// Axes are an attribute before opset 18 and an optional input from then on; none means all, unless noop_with_empty_axes says
// nothing.
Result<void> import_reduce_mean(NodeImport& n) {
  ReduceAttrs attrs;
  LATHE_TRY(const bool keep_dims, n.flag("keepdims", true));
  bool noop = false;
  if (n.opset() >= 18) {
    LATHE_TRY(noop, n.flag("noop_with_empty_axes", false));
  }
  LATHE_TRY(const auto given, n.integers_or_input("axes", 18, 1));
  LATHE_TRY(const ValueId x, n.value(0));
  attrs.keep_dims = keep_dims ? 1 : 0;
  if (!given || given->empty()) {
    if (noop) {
      n.bind({x, nullptr});
      return {};
    }
    for (size_t i = 0; i < n.rank(x); ++i) attrs.axes.values[attrs.axes.count++] = static_cast<int32_t>(i);
    return n.finish(Op::kMean, attrs, {x});
  }
  LATHE_TRY(auto axes, n.normalized_axes(*given, n.rank(x)));
  std::sort(axes.begin(), axes.end());
  for (int32_t axis : axes) attrs.axes.values[attrs.axes.count++] = axis;
  return n.finish(Op::kMean, attrs, {x});
}

// From opset 13 on softmax runs along one axis. Before, the input is a matrix whose rows are all axes from `axis` on: the same if
// axes after `axis` have one element; else flattened to that matrix and back.
Result<void> import_softmax(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", n.opset() >= 13 ? -1 : 1));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  if (n.opset() >= 13) return n.finish(Op::kSoftmax, AxisAttrs{axis}, {x});

  const std::vector<Dim> dims = n.type(x).dims;
  Dim row = n.dims().constant(1), tail = row;  // elements of a row, and of its axes after the first
  for (size_t i = static_cast<size_t>(axis); i < dims.size(); ++i) {
    row = n.dims().mul(row, dims[i]);
    if (i > static_cast<size_t>(axis)) tail = n.dims().mul(tail, dims[i]);
  }
  if (n.dims().is(tail, 1)) return n.finish(Op::kSoftmax, AxisAttrs{axis}, {x});
  const auto columns = row.valid() ? n.dims().value(row) : std::nullopt;
  if (!columns)
    return fail(Code::kUnsupported, "softmax over several axes (opset below 13) needs their sizes; --shape can fix them");
  LATHE_TRY(const ValueId target, n.integers_constant("matrix", {-1, *columns}));
  LATHE_TRY(const ValueId matrix, n.emit("flat", Op::kReshape, NoAttrs{}, {x, target}));
  LATHE_TRY(const ValueId soft, n.emit("", Op::kSoftmax, AxisAttrs{1}, {matrix}));
  return finish_reshaped(n, soft, dims, "unflat");
}

}  // namespace lathe::onnx
