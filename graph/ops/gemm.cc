// FullyConnected: x [.., k], w [n,k], bias* [n], residual* of the result's shape [.., n]; and its dynamic form.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

// Dims and epilogue, which both forms share.
Types infer_rows(const InferInput& in) {
  const OperandView &x = in.in[0], &w = in.in[1];
  if (x.type->dims.empty()) return fail(Code::kInvalidArgument, "input has rank 0, must have at least 1");
  LATHE_CHECK_OK(want_rank(w, 2, "weight"));
  if (in.dims.never_equal(w.type->dims[1], x.type->dims.back()))
    return fail(Code::kInvalidArgument, "weight has " + in.dims.text(w.type->dims[1]) + " input features, input has " +
                                            in.dims.text(x.type->dims.back()));
  std::vector<Dim> out = x.type->dims;
  out.back() = w.type->dims[0];
  LATHE_CHECK_OK(check_epilogue(in, out));
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

Types infer_fully_connected(const InferInput& in) {
  LATHE_CHECK_OK(want_real(in.in[0], "input"));
  LATHE_CHECK_OK(want_weight(in.in[0], in.in[1]));
  return infer_rows(in);
}

Types infer_dynamic(const InferInput& in) {
  const OperandView &x = in.in[0], &w = in.in[1];
  const auto& a = std::get<DynamicFullyConnectedAttrs>(in.attrs);
  if (x.type->dtype != DType::kF32)
    return fail(Code::kInvalidArgument, std::string("input is ") + dtype_name(x.type->dtype) + ", must be f32");
  if (w.type->dtype != DType::kS8 || !is_quantized(w))
    return fail(Code::kInvalidArgument, std::string("weight is ") + dtype_name(w.type->dtype) + ", must be quantized s8");
  if (a.per_token != 0 && a.per_token != 1)
    return fail(Code::kInvalidArgument, "per_token is " + std::to_string(a.per_token) + ", must be 0 or 1");
  return infer_rows(in);
}

Attrs dynamic_attrs(const Attrs& attrs, bool per_token) {
  const auto& a = std::get<FullyConnectedAttrs>(attrs);
  return DynamicFullyConnectedAttrs{per_token ? 1 : 0, a.lo, a.hi};
}

Conv2dAttrs pixel_attrs(const Attrs& attrs) {
  const auto& a = std::get<FullyConnectedAttrs>(attrs);
  return Conv2dAttrs{.lo = a.lo, .hi = a.hi};
}

constexpr DynamicForm kDynamicForm = {Op::kDynamicFullyConnected, dynamic_attrs};

Dim macs_fully_connected(const InferInput& in, std::span<const TensorType> out) {
  return in.dims.mul(product(in.dims, out[0].dims), in.in[1].type->dims[1]);
}

void link_fully_connected(Links& l) {
  const size_t last = l.rank(0) - 1;
  for (size_t axis = 0; axis < last; ++axis) l.same(in_axis(0, axis), out_axis(axis));
  l.makes(in_axis(1, 0), out_axis(last));
  l.same(in_axis(0, last), in_axis(1, 1));
  l.reduced(in_axis(0, last));
  l.reduced(in_axis(1, 1));
  if (l.has(2)) l.same(in_axis(2, 0), out_axis(last));
  if (l.has(3))
    for (size_t axis = 0; axis <= last; ++axis) l.same(in_axis(3, axis), out_axis(axis));
  l.absorbs({.out_axis = 0, .in_axis = 1});
}

}  // namespace

constinit const OpDef kFullyConnected = {
    .op = Op::kFullyConnected,
    .min_inputs = 2,
    .max_inputs = 4,
    .outputs = 1,
    .infer = infer_fully_connected,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kWeight, 0}, {QuantRole::kBias}, {QuantRole::kActivation}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .dynamic = &kDynamicForm,
    .as_convolution = pixel_attrs,
    .half = HalfForm::kNative,
    .macs = macs_fully_connected,
    .links = link_fully_connected,
};

constinit const OpDef kDynamicFullyConnected = {
    .op = Op::kDynamicFullyConnected,
    .min_inputs = 2,
    .max_inputs = 4,
    .outputs = 1,
    .infer = infer_dynamic,
    .quant_in = {{QuantRole::kFloatOnly}, {QuantRole::kWeight, 0}, {QuantRole::kFloatOnly}, {QuantRole::kFloatOnly}},
    .quant_out = {QuantRole::kFloatOnly},
    .macs = macs_fully_connected,
};

}  // namespace lathe::ops
