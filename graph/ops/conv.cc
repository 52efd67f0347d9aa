// Conv2d: x [n,h,w,ic], w [oc,kh,kw,ic/groups], bias* [oc], residual* of the result's shape.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {

Result<void> check_groups(DimTable& dims, int64_t groups, Dim input_channels, const TensorType& w) {
  if (groups < 1) return fail(Code::kInvalidArgument, "groups is " + std::to_string(groups) + ", must be at least 1");
  const Dim ic = dims.mul(w.dims[3], dims.constant(groups));
  if (dims.never_equal(ic, input_channels))
    return fail(Code::kInvalidArgument,
                "weight has " + dims.text(ic) + " input channels, input has " + dims.text(input_channels));
  if (const auto oc = dims.value(w.dims[0]); oc && *oc % groups != 0)
    return fail(Code::kInvalidArgument,
                std::to_string(*oc) + " output channels do not divide into " + std::to_string(groups) + " groups");
  return {};
}

namespace {

Result<std::vector<Dim>> conv_dims(DimTable& dims, const Conv2dAttrs& a, const TensorType& x, const TensorType& w) {
  LATHE_CHECK_OK(check_groups(dims, a.groups, x.dims[3], w));
  const char* axis_names[] = {"height", "width"};
  std::vector<Dim> out = {x.dims[0], {}, {}, w.dims[0]};
  for (size_t i = 0; i < 2; ++i) {
    const auto kernel = dims.value(w.dims[1 + i]);
    if (!kernel) return fail(Code::kUnsupported, "kernel size " + dims.text(w.dims[1 + i]) + " is not constant");
    const Window window{.in = x.dims[1 + i],
                        .kernel = *kernel,
                        .stride = a.stride[i],
                        .dilation = a.dilation[i],
                        .pad_before = a.pad[i],
                        .pad_after = a.pad[2 + i],
                        .ceil_mode = false};
    LATHE_TRY(out[1 + i], window_extent(dims, window, axis_names[i]));
  }
  return out;
}

Types infer_conv2d(const InferInput& in) {
  const OperandView &x = in.in[0], &w = in.in[1];
  LATHE_CHECK_OK(want_real(x, "input"));
  LATHE_CHECK_OK(want_rank(x, 4, "input"));
  LATHE_CHECK_OK(want_rank(w, 4, "weight"));
  LATHE_CHECK_OK(want_same_kind(x, w, "weight"));
  LATHE_TRY(std::vector<Dim> out, conv_dims(in.dims, std::get<Conv2dAttrs>(in.attrs), *x.type, *w.type));
  LATHE_CHECK_OK(check_epilogue(in, out));
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

// Every result needs kh * kw * ic / groups products.
Dim macs_conv2d(const InferInput& in, std::span<const TensorType> out) {
  const std::vector<Dim>& w = in.in[1].type->dims;
  return in.dims.mul(product(in.dims, out[0].dims), product(in.dims, std::span(w).subspan(1)));
}

}  // namespace

constinit const OpDef kConv2d = {
    .op = Op::kConv2d,
    .min_inputs = 2,
    .max_inputs = 4,
    .outputs = 1,
    .infer = infer_conv2d,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kWeight, 0}, {QuantRole::kBias}, {QuantRole::kActivation}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .half = HalfForm::kNative,
    .macs = macs_conv2d,
};

}  // namespace lathe::ops
