// Softmax and other normalizations along an axis, and the losses that are made of them.
#include <algorithm>

#include "graph/import/onnx/expression.h"
#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

// From opset 13 on these run along one axis. Before, the input is a matrix whose rows are all axes from `axis` on: the same if
// axes after `axis` have one element; else it is flattened to that matrix, and the result brought back.
struct Rows {
  ValueId x = kNoId;
  int32_t axis = 0;
  std::vector<Dim> dims;  // of the operand
  bool flattened = false;
};

Result<Rows> read_rows(Expression& e) {
  NodeImport& n = e.import();
  LATHE_TRY(const int64_t given, n.integer("axis", n.opset() >= 13 ? -1 : 1));
  Rows rows;
  rows.x = e.operand(0);
  LATHE_CHECK_OK(e.status());
  rows.dims = e.dims(rows.x);
  LATHE_TRY(rows.axis, n.normalized_axis(given, rows.dims.size()));
  if (n.opset() >= 13) return rows;
  Dim row = n.dims().constant(1), tail = row;  // elements of a row, and of its axes after the first
  for (size_t i = static_cast<size_t>(rows.axis); i < rows.dims.size(); ++i) {
    row = n.dims().mul(row, rows.dims[i]);
    if (i > static_cast<size_t>(rows.axis)) tail = n.dims().mul(tail, rows.dims[i]);
  }
  if (n.dims().is(tail, 1)) return rows;
  const auto columns = row.valid() ? n.dims().value(row) : std::nullopt;
  if (!columns)
    return fail(Code::kUnsupported, "softmax over several axes (opset below 13) needs their sizes; --shape can fix them");
  LATHE_TRY(const ValueId target, n.integers_constant("matrix", {-1, *columns}));
  LATHE_TRY(rows.x, n.emit("flat", Op::kReshape, NoAttrs{}, {rows.x, target}));
  rows.axis = 1;
  rows.flattened = true;
  return rows;
}

// The node's result is y, brought back to the operand's dims.
Result<void> finish_rows(Expression& e, const Rows& rows, ValueId y) {
  LATHE_CHECK_OK(e.status());
  return rows.flattened ? finish_reshaped(e.import(), y, rows.dims, "unflat") : e.finish(y);
}

}  // namespace

namespace {

ValueId log_softmax(Expression& e, ValueId x, int32_t axis) {
  const ReduceAttrs along{Ints{1, {axis}}, 1};
  const ValueId shifted = e.node(Op::kSub, {x, e.node(Op::kReduceMax, {x}, along)});
  const ValueId sum = e.node(Op::kReduceSum, {e.node(Op::kExp, {shifted})}, along);
  return e.node(Op::kSub, {shifted, e.node(Op::kLog, {sum})});
}

}  // namespace

Result<void> import_softmax(NodeImport& n) {
  Expression e(n);
  LATHE_TRY(const Rows rows, read_rows(e));
  if (!rows.flattened) return e.finish(Op::kSoftmax, {rows.x}, AxisAttrs{rows.axis});
  return finish_rows(e, rows, e.node(Op::kSoftmax, {rows.x}, AxisAttrs{rows.axis}));
}

Result<void> import_log_softmax(NodeImport& n) {
  Expression e(n);
  LATHE_TRY(const Rows rows, read_rows(e));
  return finish_rows(e, rows, log_softmax(e, rows.x, rows.axis));
}

// 1 where the position along the axis is that of the first largest element.
Result<void> import_hardmax(NodeImport& n) {
  Expression e(n);
  LATHE_TRY(const Rows rows, read_rows(e));
  const int64_t size = e.known_dim(rows.x, rows.axis, "the size of the axis");
  LATHE_CHECK_OK(e.status());
  std::vector<int64_t> dims(e.dims(rows.x).size() - static_cast<size_t>(rows.axis), 1);
  dims[0] = size;
  const ValueId best = e.node(Op::kArgMax, {rows.x}, ArgAttrs{rows.axis, 1, 0});
  const ValueId is_best = e.node(Op::kEqual, {best, e.constant(DType::kS64, dims, counting(size))});
  return finish_rows(e, rows, e.cast(is_best, DType::kF32));
}

namespace {

// 1 / norm by p along an axis, where the norm of zeros counts as 1: they stay zeros.
ValueId divided_by_norm(Expression& e, ValueId x, int64_t p, int32_t axis) {
  const ReduceAttrs along{Ints{1, {axis}}, 1};
  const ValueId powers = p == 1 ? e.node(Op::kAbs, {x}) : e.node(Op::kMul, {x, x});
  const ValueId sum = e.node(Op::kReduceSum, {powers}, along);
  const ValueId norm = p == 1 ? sum : e.node(Op::kSqrt, {sum});
  const ValueId safe = e.node(Op::kWhere, {e.node(Op::kEqual, {norm, e.number(norm, 0)}), e.number(norm, 1), norm});
  return e.node(Op::kDiv, {x, safe});
}

}  // namespace

Result<void> import_lp_normalization(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", -1));
  LATHE_TRY(const int64_t p, n.integer("p", 2));
  if (p != 1 && p != 2) return fail(Code::kInvalidArgument, "attribute 'p' is " + std::to_string(p) + ", must be 1 or 2");
  Expression e(n);
  const ValueId x = e.operand(0);
  LATHE_CHECK_OK(e.status());
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  return e.finish(divided_by_norm(e, x, p, axis));
}

// x / (bias + alpha * (mean of x^2 over `size` neighbouring channels))^beta. The mean is that of a pool whose window lies over
// the channels: x as an image of C rows of one pixel whose channels are all other axes.
Result<void> import_lrn(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1e-4f));
  LATHE_TRY(const float beta, n.real("beta", 0.75f));
  LATHE_TRY(const float bias, n.real("bias", 1.0f));
  LATHE_TRY(const int64_t size, n.integer("size", 0));
  if (size < 1 || size > 1024)
    return fail(Code::kInvalidArgument, "attribute 'size' is " + std::to_string(size) + ", must be 1 to 1024");
  Expression e(n);
  const ValueId x = e.operand(0);
  const std::vector<Dim> dims = e.dims(x);
  LATHE_CHECK_OK(e.status());
  if (dims.size() < 2)
    return fail(Code::kInvalidArgument, "input has rank " + std::to_string(dims.size()) + ", must have at least 2");
  Dim rest = n.dims().constant(1);
  for (size_t i = 2; i < dims.size(); ++i) rest = n.dims().mul(rest, dims[i]);
  if (!rest.valid()) return fail(Code::kInvalidArgument, "the dims are too large");
  Pool2dAttrs pool;
  pool.kernel[0] = static_cast<int32_t>(size);
  pool.pad[0] = static_cast<int32_t>((size - 1) / 2);
  pool.pad[2] = static_cast<int32_t>(size / 2);
  pool.count_pad = 1;
  const ValueId image = e.reshape(e.node(Op::kMul, {x, x}), {dims[0], dims[1], n.dims().constant(1), rest});
  const ValueId mean = e.reshape(e.node(Op::kAvgPool2d, {image}, pool), dims);
  const ValueId scaled = e.node(Op::kMul, {mean, e.number(mean, static_cast<double>(alpha))});
  const ValueId base = e.node(Op::kAdd, {scaled, e.number(scaled, static_cast<double>(bias))});
  return e.finish(Op::kDiv, {x, e.node(Op::kPow, {base, e.number(base, static_cast<double>(beta))})});
}

namespace {

// How a loss over classes (axis 1 of the scores) is put together.
struct Loss {
  std::string_view reduction;
  std::optional<double> ignored;  // targets of this class count for nothing
  ValueId targets = kNoId;        // [N, d1, ...]
  ValueId weights = kNoId;        // [C], or none
};

Result<Loss> read_loss(NodeImport& n) {
  Loss loss;
  LATHE_TRY(loss.reduction, n.text("reduction", "mean"));
  if (loss.reduction != "mean" && loss.reduction != "sum" && loss.reduction != "none")
    return fail(Code::kInvalidArgument,
                "attribute 'reduction' is '" + std::string(loss.reduction) + "', must be none, sum or mean");
  if (n.has("ignore_index")) {
    LATHE_TRY(const int64_t ignored, n.integer("ignore_index", 0));
    loss.ignored = static_cast<double>(ignored);
  }
  LATHE_TRY(loss.targets, n.value(1));
  if (n.has_input(2)) {
    LATHE_TRY(loss.weights, n.value(2));
  }
  return loss;
}

// The elements of `values` [N, C, d1, ...] (or [1, C, 1, ...]) at the targets, 0 where `chosen` has none: [N, d1, ...]. By a
// choice, not a product, so that an infinite score of another class does no harm.
ValueId at_targets(Expression& e, ValueId chosen, ValueId values) {
  return e.node(Op::kReduceSum, {e.node(Op::kWhere, {chosen, values, e.number(values, 0)})}, ReduceAttrs{Ints{1, {1}}, 0});
}

// -weight[target] * log_probability[target], and that summed or averaged by weight. A target that is no class counts for nothing.
Result<void> finish_loss(Expression& e, const Loss& loss, ValueId log_probabilities) {
  const int64_t classes = e.known_dim(log_probabilities, 1, "the number of classes");
  const std::vector<Dim> dims = e.dims(log_probabilities);
  LATHE_CHECK_OK(e.status());
  std::vector<int64_t> along(dims.size() - 1, 1);  // [C, 1, ...]: broadcasts along axis 1
  along[0] = classes;
  std::vector<Dim> with_axis = dims;  // targets as [N, 1, d1, ...]
  with_axis[1] = e.import().dims().constant(1);
  const ValueId targets = e.reshape(loss.targets, with_axis);
  ValueId chosen = e.node(Op::kEqual, {targets, e.constant(e.dtype(targets), along, counting(classes))});
  if (loss.ignored) {
    const ValueId ignored = e.node(Op::kEqual, {targets, e.number(targets, *loss.ignored)});
    chosen = e.node(Op::kBitAnd, {chosen, e.node(Op::kBitXor, {ignored, e.number(ignored, 1)})});
  }
  ValueId weights = e.number(log_probabilities, 1);
  if (loss.weights != kNoId) {
    std::vector<Dim> column;
    for (const int64_t d : along) column.push_back(e.import().dims().constant(d));
    weights = e.reshape(loss.weights, column);
  }
  const ValueId weight = at_targets(e, chosen, weights);
  const ValueId losses =
      e.node(Op::kMul, {at_targets(e, chosen, log_probabilities), e.node(Op::kMul, {weight, e.number(weight, -1)})});
  if (loss.reduction == "none") return e.finish(losses);
  ReduceAttrs all{{}, 0};
  for (size_t i = 0; i + 1 < dims.size(); ++i) all.axes.values[all.axes.count++] = static_cast<int32_t>(i);
  if (loss.reduction == "sum") return e.finish(Op::kReduceSum, {losses}, all);
  return e.finish(Op::kDiv, {e.node(Op::kReduceSum, {losses}, all), e.node(Op::kReduceSum, {weight}, all)});
}

Result<void> want_classes(const Expression& e, ValueId scores) {
  if (e.dims(scores).size() >= 2 || !e.ok()) return e.status();
  return fail(Code::kInvalidArgument, "scores have rank " + std::to_string(e.dims(scores).size()) + ", must have at least 2");
}

}  // namespace

Result<void> import_nll_loss(NodeImport& n) {
  LATHE_TRY(const Loss loss, read_loss(n));
  Expression e(n);
  const ValueId x = e.operand(0);
  LATHE_CHECK_OK(want_classes(e, x));
  return finish_loss(e, loss, x);
}

Result<void> import_softmax_cross_entropy_loss(NodeImport& n) {
  LATHE_TRY(const Loss loss, read_loss(n));
  Expression e(n);
  const ValueId x = e.operand(0);
  LATHE_CHECK_OK(want_classes(e, x));
  const ValueId log_probabilities = log_softmax(e, x, 1);
  if (n.has_output(1)) LATHE_CHECK_OK(e.finish(log_probabilities, 1));
  return finish_loss(e, loss, log_probabilities);
}

}  // namespace lathe::onnx
