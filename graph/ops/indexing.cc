// Ops that read or write elements by index: GatherElements, GatherNd, ScatterElements, ScatterNd, TensorScatter, OneHot,
// ReverseSequence. Negative indices count from the end; what is outside is decided when they run (runtime/exec/indexing.h).
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Result<void> want_indices(const OperandView& v) {
  if (is_index(v.type->dtype) && !is_quantized(v)) return {};
  return fail(Code::kInvalidArgument, std::string("indices are ") + dtype_name(v.type->dtype) + ", must be s32 or s64");
}

Types infer_gather_elements(const InferInput& in) {
  const OperandView &x = in.in[0], &indices = in.in[1];
  LATHE_CHECK_OK(want_axis(std::get<AxisAttrs>(in.attrs).axis, x.type->dims.size()));
  LATHE_CHECK_OK(want_indices(indices));
  LATHE_CHECK_OK(want_rank(indices, x.type->dims.size(), "indices"));
  return result({x.type->dtype, indices.type->dims}, is_quantized(x));
}

// The length of the last axis of the indices: how many axes of the data one of them names.
Result<size_t> tuple_length(const InferInput& in, const OperandView& indices, size_t most) {
  LATHE_CHECK_OK(want_indices(indices));
  if (indices.type->dims.empty()) return fail(Code::kInvalidArgument, "indices have rank 0");
  const auto length = in.dims.value(indices.type->dims.back());
  if (!length) return fail(Code::kUnsupported, "indices name an unknown number of axes");
  if (*length < 1 || static_cast<size_t>(*length) > most)
    return fail(Code::kInvalidArgument,
                "indices name " + std::to_string(*length) + " axes, there are " + std::to_string(most) + " to name");
  return static_cast<size_t>(*length);
}

Types infer_gather_nd(const InferInput& in) {
  const OperandView &x = in.in[0], &indices = in.in[1];
  const int32_t given = std::get<GatherNdAttrs>(in.attrs).batch_dims;
  const std::vector<Dim>&from = x.type->dims, &at = indices.type->dims;
  const auto batch = static_cast<size_t>(given);
  if (given < 0 || batch >= from.size() || batch >= at.size())
    return fail(Code::kInvalidArgument, "batch_dims is " + std::to_string(given) + ", input has rank " +
                                            std::to_string(from.size()) + ", indices " + std::to_string(at.size()));
  LATHE_TRY(const size_t length, tuple_length(in, indices, from.size() - batch));
  std::vector<Dim> out(at.begin(), at.end() - 1);
  for (size_t i = 0; i < batch; ++i) {
    LATHE_TRY(out[i], agree(in.dims, from[i], at[i], "batch dimension " + std::to_string(i)));
  }
  out.insert(out.end(), from.begin() + static_cast<std::ptrdiff_t>(batch + length), from.end());
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

Result<void> check_reduction(const InferInput& in) {
  const int32_t r = std::get<ScatterAttrs>(in.attrs).reduction;
  if (r < 0 || r > static_cast<int32_t>(ScatterReduction::kMax))
    return fail(Code::kInvalidArgument, "reduction number " + std::to_string(r) + " is unknown");
  return want_same_kind(in.in[0], in.in[2], "updates");
}

Types infer_scatter_elements(const InferInput& in) {
  const OperandView &x = in.in[0], &indices = in.in[1], &updates = in.in[2];
  LATHE_CHECK_OK(want_axis(std::get<ScatterAttrs>(in.attrs).axis, x.type->dims.size()));
  LATHE_CHECK_OK(check_reduction(in));
  LATHE_CHECK_OK(want_indices(indices));
  LATHE_CHECK_OK(want_rank(indices, x.type->dims.size(), "indices"));
  LATHE_CHECK_OK(agree_all(in.dims, indices.type->dims, updates.type->dims, "updates"));
  return result(*x.type, false);
}

Types infer_scatter_nd(const InferInput& in) {
  const OperandView &x = in.in[0], &indices = in.in[1], &updates = in.in[2];
  LATHE_CHECK_OK(check_reduction(in));
  LATHE_TRY(const size_t length, tuple_length(in, indices, x.type->dims.size()));
  std::vector<Dim> wanted(indices.type->dims.begin(), indices.type->dims.end() - 1);
  wanted.insert(wanted.end(), x.type->dims.begin() + static_cast<std::ptrdiff_t>(length), x.type->dims.end());
  LATHE_CHECK_OK(agree_all(in.dims, wanted, updates.type->dims, "updates"));
  return result(*x.type, false);
}

// cache, updates, and (optional) one place per entry of the first axis.
Types infer_tensor_scatter(const InferInput& in) {
  const OperandView &x = in.in[0], &updates = in.in[1];
  const int32_t axis = std::get<TensorScatterAttrs>(in.attrs).axis;
  LATHE_CHECK_OK(want_axis(axis, x.type->dims.size()));
  if (axis == 0) return fail(Code::kInvalidArgument, "axis is 0, that is the batch");
  LATHE_CHECK_OK(want_same_kind(x, updates, "updates"));
  LATHE_CHECK_OK(want_rank(updates, x.type->dims.size(), "updates"));
  for (size_t i = 0; i < x.type->dims.size(); ++i)
    if (i != static_cast<size_t>(axis))
      LATHE_CHECK_OK(agree(in.dims, x.type->dims[i], updates.type->dims[i], "updates dimension " + std::to_string(i)));
  if (in.in.size() > 2 && in.in[2]) {
    LATHE_CHECK_OK(want_indices(in.in[2]));
    LATHE_CHECK_OK(agree_all(in.dims, std::span(x.type->dims).first(1), in.in[2].type->dims, "places"));
  }
  return result(*x.type, false);
}

// indices of any number type, and the two values: off, on.
Types infer_one_hot(const InferInput& in) {
  const auto& a = std::get<OneHotAttrs>(in.attrs);
  const OperandView &indices = in.in[0], &values = in.in[1];
  std::vector<Dim> out = indices.type->dims;
  LATHE_CHECK_OK(want_axis(a.axis, out.size() + 1));
  if (a.depth < 1) return fail(Code::kInvalidArgument, "depth is " + std::to_string(a.depth));
  LATHE_CHECK_OK(agree_all(in.dims, std::vector<Dim>{in.dims.constant(2)}, values.type->dims, "values"));
  out.insert(out.begin() + a.axis, in.dims.constant(a.depth));
  return result({values.type->dtype, std::move(out)}, false);
}

Types infer_reverse_sequence(const InferInput& in) {
  const auto& a = std::get<ReverseSequenceAttrs>(in.attrs);
  const OperandView &x = in.in[0], &lengths = in.in[1];
  LATHE_CHECK_OK(want_axis(a.batch_axis, x.type->dims.size()));
  LATHE_CHECK_OK(want_axis(a.time_axis, x.type->dims.size()));
  if (a.batch_axis == a.time_axis) return fail(Code::kInvalidArgument, "batch and time are the same axis");
  LATHE_CHECK_OK(want_indices(lengths));
  const Dim batch = x.type->dims[static_cast<size_t>(a.batch_axis)];
  LATHE_CHECK_OK(agree_all(in.dims, std::vector<Dim>{batch}, lengths.type->dims, "lengths"));
  return result(*x.type, is_quantized(x));
}

constexpr QuantRule kIndex = {QuantRole::kInteger}, kMoved = {QuantRole::kActivation}, kSameAsInput = {QuantRole::kSameAs, -1, 0};

constexpr OpDef scatter(Op op, Types (*infer)(const InferInput&)) {
  return {.op = op, .min_inputs = 3, .max_inputs = 3, .outputs = 1, .infer = infer,
          .quant_in = {{QuantRole::kFloatOnly}, kIndex, {QuantRole::kFloatOnly}}, .half = HalfForm::kWidened};
}

constexpr OpDef gather(Op op, Types (*infer)(const InferInput&)) {
  return {.op = op, .min_inputs = 2, .max_inputs = 2, .outputs = 1, .infer = infer, .quant_in = {kMoved, kIndex},
          .quant_out = kSameAsInput, .has_s8 = true, .half = HalfForm::kNative};
}

}  // namespace

constinit const OpDef kGatherElements = gather(Op::kGatherElements, infer_gather_elements);
constinit const OpDef kGatherNd = gather(Op::kGatherNd, infer_gather_nd);
constinit const OpDef kScatterElements = scatter(Op::kScatterElements, infer_scatter_elements);
constinit const OpDef kScatterNd = scatter(Op::kScatterNd, infer_scatter_nd);
constinit const OpDef kReverseSequence = gather(Op::kReverseSequence, infer_reverse_sequence);

constinit const OpDef kTensorScatter = {
    .op = Op::kTensorScatter,
    .min_inputs = 2,
    .max_inputs = 3,
    .outputs = 1,
    .infer = infer_tensor_scatter,
    .quant_in = {{QuantRole::kFloatOnly}, {QuantRole::kFloatOnly}, kIndex},
    .half = HalfForm::kNative,
};

constinit const OpDef kOneHot = {
    .op = Op::kOneHot,
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 1,
    .infer = infer_one_hot,
    .quant_in = {kIndex, {QuantRole::kFloatOnly}},
};

}  // namespace lathe::ops
