// Normalization. What has no operator of its own is written with means, products and roots.
#include <algorithm>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

ReduceAttrs keep_axes(size_t first, size_t last) {
  ReduceAttrs a;
  for (size_t i = first; i < last; ++i) a.axes.values[a.axes.count++] = static_cast<int32_t>(i);
  return a;
}

// x - mean, the variance and 1 / sqrt(variance + epsilon) over some axes, which stay with one element.
struct Moments {
  ValueId mean, centred, variance, deviation;
};
Result<Moments> moments(NodeImport& n, ValueId x, const ReduceAttrs& axes, float epsilon) {
  Moments m{};
  LATHE_TRY(m.mean, n.emit("mean", Op::kMean, axes, {x}));
  LATHE_TRY(m.centred, n.emit("centred", Op::kSub, BinaryAttrs{}, {x, m.mean}));
  LATHE_TRY(const ValueId squares, n.emit("squares", Op::kMul, BinaryAttrs{}, {m.centred, m.centred}));
  LATHE_TRY(m.variance, n.emit("variance", Op::kMean, axes, {squares}));
  LATHE_TRY(const ValueId least, n.scalar_constant("epsilon", epsilon));
  LATHE_TRY(const ValueId sum, n.emit("biased", Op::kAdd, BinaryAttrs{}, {m.variance, least}));
  LATHE_TRY(m.deviation, n.emit("deviation", Op::kSqrt, NoAttrs{}, {sum}));
  return m;
}

// Vector operand i with its one axis in front of `trailing` axes of one element.
Result<ValueId> channel_operand(NodeImport& n, size_t i, size_t trailing, const std::string& tag) {
  if (const Binding b = n.binding(i); b.tensor) {
    ConstTensor t = *b.tensor;
    t.dims.insert(t.dims.end(), trailing, 1);
    return n.builder().constant(t);
  }
  LATHE_TRY(const ValueId v, n.value(i));
  std::vector<Dim> dims = n.type(v).dims;
  dims.insert(dims.end(), trailing, n.dims().constant(1));
  return reshaped(n, tag, v, dims);
}

// Output 0 is x * scale + bias, operands 1 and 2, which run along axis 1.
Result<void> finish_scaled(NodeImport& n, ValueId x) {
  const size_t trailing = n.rank(x) - 2;
  LATHE_TRY(const ValueId scale, channel_operand(n, 1, trailing, "scale"));
  LATHE_TRY(const ValueId bias, channel_operand(n, 2, trailing, "bias"));
  LATHE_TRY(const ValueId scaled, n.emit("scaled", Op::kMul, BinaryAttrs{}, {x, scale}));
  return n.finish(Op::kAdd, BinaryAttrs{}, {scaled, bias});
}

Result<void> expect_rank(NodeImport& n, ValueId x, size_t least) {
  if (n.rank(x) >= least) return {};
  return fail(Code::kInvalidArgument,
              "the input has rank " + std::to_string(n.rank(x)) + ", at least " + std::to_string(least) + " is needed");
}

Result<void> expect_stash_type(NodeImport& n) {
  LATHE_TRY(const int64_t stash_type, n.integer("stash_type", 1));
  if (stash_type == 1) return {};
  return fail(Code::kUnsupported, "attribute 'stash_type' " + std::to_string(stash_type) + " is not supported");
}

// A running statistic (operand i, output `output`) after this batch: old * momentum + new * (1 - momentum).
Result<void> finish_running(NodeImport& n, size_t i, ValueId now, float momentum, size_t output) {
  if (!n.has_output(output)) return {};
  const std::string tag = "running" + std::to_string(output);
  LATHE_TRY(const ValueId before, n.value(i));
  LATHE_TRY(const ValueId flat, reshaped(n, tag + "_new", now, n.type(before).dims));
  LATHE_TRY(const ValueId keep, n.scalar_constant(tag + "_keep", momentum));
  LATHE_TRY(const ValueId take, n.scalar_constant(tag + "_take", 1 - momentum));
  LATHE_TRY(const ValueId a, n.emit(tag + "_a", Op::kMul, BinaryAttrs{}, {before, keep}));
  LATHE_TRY(const ValueId b, n.emit(tag + "_b", Op::kMul, BinaryAttrs{}, {flat, take}));
  return n.finish(Op::kAdd, BinaryAttrs{}, {a, b}, output, tag);
}

// The batch's own statistics.
Result<void> import_batch_norm_training(NodeImport& n, float epsilon, float momentum) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_CHECK_OK(expect_rank(n, x, 2));
  ReduceAttrs axes = keep_axes(1, n.rank(x));
  axes.axes.values[0] = 0;  // all but the channel's
  LATHE_TRY(const Moments m, moments(n, x, axes, epsilon));
  LATHE_TRY(const ValueId y, n.emit("normal", Op::kDiv, BinaryAttrs{}, {m.centred, m.deviation}));
  LATHE_CHECK_OK(finish_scaled(n, y));
  LATHE_CHECK_OK(finish_running(n, 3, m.mean, momentum, 1));
  return finish_running(n, 4, m.variance, momentum, 2);
}

}  // namespace

Result<void> import_batch_norm(NodeImport& n) {
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-5f));
  LATHE_TRY(const float momentum, n.real("momentum", 0.9f));
  if (n.opset() < 9) {
    LATHE_TRY(const bool spatial, n.flag("spatial", true));
    if (!spatial) return fail(Code::kUnsupported, "attribute 'spatial' 0 is not supported");
  }
  if (n.opset() >= 14) {
    LATHE_TRY(const bool training, n.flag("training_mode", false));
    if (training) return import_batch_norm_training(n, epsilon, momentum);
  }
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 5; ++i) {
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  LATHE_CHECK_OK(expect_rank(n, operands[0], 2));
  return n.finish(Op::kBatchNorm, BatchNormAttrs{epsilon, 1}, operands);
}

Result<void> import_layer_norm(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", -1));
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-5f));
  LATHE_CHECK_OK(expect_stash_type(n));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  std::vector<ValueId> operands = {x};
  for (size_t i = 1; i < n.input_count(); ++i) {
    if (!n.has_input(i)) continue;
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  LATHE_CHECK_OK(n.finish(Op::kLayerNorm, LayerNormAttrs{axis, epsilon}, operands));
  if (!n.has_output(1) && !n.has_output(2)) return {};
  LATHE_TRY(const Moments m, moments(n, x, keep_axes(static_cast<size_t>(axis), n.rank(x)), epsilon));
  n.bind({m.mean, nullptr}, 1);
  if (!n.has_output(2)) return {};
  LATHE_TRY(const ValueId one, n.scalar_constant("one", 1.0f));
  return n.finish(Op::kDiv, BinaryAttrs{}, {one, m.deviation}, 2, "inverse");
}

// x / sqrt(mean of x^2 + epsilon) * scale.
Result<void> import_rms_norm(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", -1));
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-5f));
  LATHE_CHECK_OK(expect_stash_type(n));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId scale, n.value(1));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  LATHE_TRY(const ValueId squares, n.emit("squares", Op::kMul, BinaryAttrs{}, {x, x}));
  const ReduceAttrs axes = keep_axes(static_cast<size_t>(axis), n.rank(x));
  LATHE_TRY(const ValueId mean, n.emit("mean", Op::kMean, axes, {squares}));
  LATHE_TRY(const ValueId least, n.scalar_constant("epsilon", epsilon));
  LATHE_TRY(const ValueId sum, n.emit("biased", Op::kAdd, BinaryAttrs{}, {mean, least}));
  LATHE_TRY(const ValueId root, n.emit("root", Op::kSqrt, NoAttrs{}, {sum}));
  LATHE_TRY(const ValueId normal, n.emit("normal", Op::kDiv, BinaryAttrs{}, {x, root}));
  return n.finish(Op::kMul, BinaryAttrs{}, {normal, scale});
}

Result<void> import_instance_norm(NodeImport& n) {
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-5f));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_CHECK_OK(expect_rank(n, x, 3));
  LATHE_TRY(const Moments m, moments(n, x, keep_axes(2, n.rank(x)), epsilon));
  LATHE_TRY(const ValueId y, n.emit("normal", Op::kDiv, BinaryAttrs{}, {m.centred, m.deviation}));
  return finish_scaled(n, y);
}

// Groups of channels with all their pixels. Scale and bias are per group before opset 21, per channel from then on.
Result<void> import_group_norm(NodeImport& n) {
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-5f));
  LATHE_TRY(const int64_t groups, n.integer("num_groups", 0));
  if (n.opset() >= 21) LATHE_CHECK_OK(expect_stash_type(n));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_CHECK_OK(expect_rank(n, x, 2));
  const auto channels = n.dim(x, 1);
  if (!channels) return fail(Code::kUnsupported, "the number of channels is not known; --shape can fix it");
  if (groups < 1 || *channels % groups != 0)
    return fail(Code::kInvalidArgument,
                std::to_string(*channels) + " channels do not divide into " + std::to_string(groups) + " groups");
  const std::vector<Dim> dims = n.type(x).dims;
  Dim rest = n.dims().constant(*channels / groups);
  for (size_t i = 2; i < dims.size(); ++i) rest = n.dims().mul(rest, dims[i]);
  LATHE_TRY(const ValueId grouped, reshaped(n, "groups", x, {dims[0], n.dims().constant(groups), rest}));
  LATHE_TRY(const Moments m, moments(n, grouped, keep_axes(2, 3), epsilon));
  LATHE_TRY(ValueId y, n.emit("normal", Op::kDiv, BinaryAttrs{}, {m.centred, m.deviation}));
  if (n.opset() >= 21) {
    LATHE_TRY(y, reshaped(n, "channels", y, dims));
    return finish_scaled(n, y);
  }
  LATHE_TRY(const ValueId scale, channel_operand(n, 1, 1, "scale"));
  LATHE_TRY(const ValueId bias, channel_operand(n, 2, 1, "bias"));
  LATHE_TRY(y, n.emit("scaled", Op::kMul, BinaryAttrs{}, {y, scale}));
  LATHE_TRY(y, n.emit("shifted", Op::kAdd, BinaryAttrs{}, {y, bias}));
  return finish_reshaped(n, y, dims);
}

// (x - mean) / (deviation + 1e-9).
Result<void> import_mean_variance_norm(NodeImport& n) {
  LATHE_TRY(const auto given, n.integers("axes"));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(auto axes, n.normalized_axes(given ? *given : std::vector<int64_t>{0, 2, 3}, n.rank(x)));
  std::sort(axes.begin(), axes.end());
  ReduceAttrs attrs;
  for (int32_t axis : axes) attrs.axes.values[attrs.axes.count++] = axis;
  LATHE_TRY(const Moments m, moments(n, x, attrs, 0.0f));
  LATHE_TRY(const ValueId least, n.scalar_constant("least", 1e-9f));
  LATHE_TRY(const ValueId divisor, n.emit("divisor", Op::kAdd, BinaryAttrs{}, {m.deviation, least}));
  return n.finish(Op::kDiv, BinaryAttrs{}, {m.centred, divisor});
}

}  // namespace lathe::onnx
