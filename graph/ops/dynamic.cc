// Ops whose results have a size that depends on data. NonZero and Compress give as much as there can be, and how much there is;
// Extents turns that number into a dim, and Trim keeps that part. Range has as many elements as its operands say.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

TensorType count_type(DimTable& dims) { return {DType::kS64, {dims.constant(1)}}; }

// A small integer tensor. What is not known of it becomes value(number, i), for whoever takes it as dims.
Types infer_extents(const InferInput& in) {
  const OperandView& x = in.in[0];
  const int32_t number = std::get<ExtentsAttrs>(in.attrs).number;
  if (number < 0) return fail(Code::kInvalidArgument, "number is " + std::to_string(number));
  if (!is_index(x.type->dtype) || is_quantized(x))
    return fail(Code::kInvalidArgument, std::string("input is ") + dtype_name(x.type->dtype) + ", must be s32 or s64");
  const auto count = small_count(in.dims, x.type->dims);
  if (!count) return fail(Code::kUnsupported, "as many dims as the input has elements are not supported");
  std::vector<Dim> contents;
  for (size_t i = 0; i < *count; ++i)
    contents.push_back(x.contents ? (*x.contents)[i] : in.dims.data_value(number, static_cast<int64_t>(i)));
  return result(*x.type, false, std::move(contents));
}

// The target of a reshape, whose numbers are data, as dims of a result. x gives its shape only.
Types infer_target_dims(const InferInput& in) {
  const OperandView& target = in.in[1];
  if (!is_index(target.type->dtype) || is_quantized(target))
    return fail(Code::kInvalidArgument, std::string("target is ") + dtype_name(target.type->dtype) + ", must be s32 or s64");
  LATHE_CHECK_OK(want_rank(target, 1, "target"));
  return result({DType::kS64, target.type->dims}, false);
}

// The first elements along an axis, as many as operand 1 says.
Types infer_trim(const InferInput& in) {
  const OperandView &x = in.in[0], &count = in.in[1];
  const int32_t axis = std::get<AxisAttrs>(in.attrs).axis;
  LATHE_CHECK_OK(want_axis(axis, x.type->dims.size()));
  if (!is_index(count.type->dtype) || small_count(in.dims, count.type->dims) != 1)
    return fail(Code::kInvalidArgument, "count must be one s32 or s64");
  if (!count.contents) return fail(Code::kUnsupported, "count is not known");
  std::vector<Dim> out = x.type->dims;
  Dim& extent = out[static_cast<size_t>(axis)];
  const auto have = in.dims.value(extent), want = in.dims.value((*count.contents)[0]);
  if (want && (*want < 0 || (have && *want > *have)))
    return fail(Code::kInvalidArgument, "count is " + std::to_string(*want) + ", the axis has " + in.dims.text(extent));
  extent = (*count.contents)[0];
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}


Result<void> want_range(const InferInput& in) {
  const char* names[] = {"start", "limit", "delta"};
  for (size_t i = 0; i < 3; ++i) {
    const TensorType& t = *in.in[i].type;
    if (t.dtype != in.in[0].type->dtype || is_quantized(in.in[i]))
      return fail(Code::kInvalidArgument, std::string(names[i]) + " is " + dtype_name(t.dtype) + ", start is " +
                                              dtype_name(in.in[0].type->dtype));
    if (small_count(in.dims, t.dims) != 1) return fail(Code::kInvalidArgument, std::string(names[i]) + " is not one number");
  }
  return {};
}

// ceil((limit - start) / delta), at least 0, where start and limit may be expressions.
std::optional<Dim> range_extent(const InferInput& in) {
  for (size_t i = 0; i < 3; ++i)
    if (!in.in[i].contents) return std::nullopt;
  const Dim start = (*in.in[0].contents)[0], limit = (*in.in[1].contents)[0], delta = (*in.in[2].contents)[0];
  if (!in.dims.value(delta) || in.dims.is(delta, 0)) return std::nullopt;
  return in.dims.max(in.dims.ceildiv(in.dims.sub(limit, start), delta), in.dims.constant(0));
}

// start, start + delta, ... before limit: as many as operand 3 says, or what is known of the others.
Types infer_range(const InferInput& in) {
  LATHE_CHECK_OK(want_range(in));
  std::optional<Dim> extent = range_extent(in);
  if (!extent && in.in.size() > 3 && in.in[3] && in.in[3].contents && in.in[3].contents->size() == 1)
    extent = (*in.in[3].contents)[0];
  if (!extent) return fail(Code::kUnsupported, "number of elements is not known");
  std::optional<std::vector<Dim>> contents;
  if (const auto n = in.dims.value(*extent); n && *n <= 64 && in.in[0].contents && in.in[2].contents) {
    contents.emplace();
    for (int64_t i = 0; i < *n; ++i)
      contents->push_back(
          in.dims.add((*in.in[0].contents)[0], in.dims.mul(in.dims.constant(i), (*in.in[2].contents)[0])));
  }
  return result({in.in[0].type->dtype, {*extent}}, false, std::move(contents));
}

Types infer_range_count(const InferInput& in) {
  LATHE_CHECK_OK(want_range(in));
  std::optional<std::vector<Dim>> contents;
  if (const auto extent = range_extent(in)) contents = {*extent};
  return result(count_type(in.dims), false, std::move(contents));
}

// Indices [rank, elements] of what is not 0, in row-major order; and how many there are.
Types infer_non_zero(const InferInput& in) {
  const std::vector<Dim>& x = in.in[0].type->dims;
  std::vector<Inferred> out;
  const Dim rank = in.dims.constant(static_cast<int64_t>(x.size()));
  out.push_back({.type = {DType::kS64, {rank, product(in.dims, x)}}});
  out.push_back({.type = count_type(in.dims)});
  return out;
}

// Slices along an axis for which the condition holds, moved to the front; and how many they are.
Types infer_compress(const InferInput& in) {
  const OperandView &x = in.in[0], &condition = in.in[1];
  LATHE_CHECK_OK(want_axis(std::get<AxisAttrs>(in.attrs).axis, x.type->dims.size()));
  LATHE_CHECK_OK(want_rank(condition, 1, "condition"));
  if (condition.type->dtype != DType::kBool)
    return fail(Code::kInvalidArgument, std::string("condition is ") + dtype_name(condition.type->dtype) + ", must be bool");
  std::vector<Inferred> out;
  out.push_back({.type = *x.type});
  out.push_back({.type = count_type(in.dims)});
  return out;
}

// Different slices along an axis moved to the front; the first place of each, the slice that each place became, how often each
// stands there; and how many they are.
Types infer_unique(const InferInput& in) {
  const OperandView& x = in.in[0];
  const int32_t axis = std::get<UniqueAttrs>(in.attrs).axis;
  LATHE_CHECK_OK(want_axis(axis, x.type->dims.size()));
  const TensorType places{DType::kS64, {x.type->dims[static_cast<size_t>(axis)]}};
  std::vector<Inferred> out;
  out.push_back({.type = *x.type});
  for (int i = 0; i < 3; ++i) out.push_back({.type = places});
  out.push_back({.type = count_type(in.dims)});
  return out;
}

constexpr QuantRule kAny = {QuantRole::kInteger}, kMoved = {QuantRole::kActivation}, kSameAsInput = {QuantRole::kSameAs, -1, 0};

}  // namespace

constinit const OpDef kExtents = {
    .op = Op::kExtents,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_extents,
    .quant_in = {kAny},
    .quant_out = kAny,
};

constinit const OpDef kTargetDims = {
    .op = Op::kTargetDims,
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 1,
    .infer = infer_target_dims,
    .quant_in = {kAny, kAny},
    .quant_out = kAny,
};

constinit const OpDef kTrim = {
    .op = Op::kTrim,
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 1,
    .infer = infer_trim,
    .quant_in = {kMoved, kAny},
    .quant_out = kSameAsInput,
    .has_s8 = true,
    .half = HalfForm::kNative,
};

constinit const OpDef kRange = {
    .op = Op::kRange,
    .min_inputs = 3,
    .max_inputs = 4,
    .outputs = 1,
    .infer = infer_range,
    .quant_in = {{QuantRole::kFloatOnly}, {QuantRole::kFloatOnly}, {QuantRole::kFloatOnly}, kAny},
};

constinit const OpDef kRangeCount = {
    .op = Op::kRangeCount,
    .min_inputs = 3,
    .max_inputs = 3,
    .outputs = 1,
    .infer = infer_range_count,
};

constinit const OpDef kNonZero = {
    .op = Op::kNonZero,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 2,
    .infer = infer_non_zero,
};

constinit const OpDef kCompress = {
    .op = Op::kCompress,
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 2,
    .infer = infer_compress,
    .quant_in = {{QuantRole::kFloatOnly}, kAny},
};

constinit const OpDef kUnique = {
    .op = Op::kUnique,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 5,
    .infer = infer_unique,
};

}  // namespace lathe::ops
