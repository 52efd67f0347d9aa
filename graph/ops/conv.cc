// Conv2d: x [n,h,w,ic], w [oc,kh,kw,ic/groups], bias* [oc], residual* of the result's shape.
#include <algorithm>

#include "graph/links.h"
#include "graph/ops/link_conv.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

// w and the input's channels.
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

// Dims of the result.
Result<std::vector<Dim>> convolved(const InferInput& in, int64_t groups, const ConvExtent& extent) {
  const OperandView &x = in.in[0], &w = in.in[1];
  LATHE_CHECK_OK(want_rank(x, 4, "input"));
  LATHE_CHECK_OK(want_rank(w, 4, "weight"));
  LATHE_CHECK_OK(check_groups(in.dims, groups, x.type->dims[3], *w.type));
  const char* axis_names[] = {"height", "width"};
  std::vector<Dim> out = {x.type->dims[0], {}, {}, w.type->dims[0]};
  for (size_t i = 0; i < 2; ++i) {
    const Dim size = w.type->dims[1 + i];
    const auto kernel = in.dims.value(size);
    if (!kernel) return fail(Code::kUnsupported, "kernel size " + in.dims.text(size) + " is not constant");
    LATHE_TRY(out[1 + i], extent(i, *kernel, axis_names[i]));
  }
  return out;
}

ConvExtent windows(const InferInput& in, const Conv2dAttrs& a) {
  return [&in, &a](size_t i, int64_t kernel, const char* name) {
    const Window window{.in = in.in[0].type->dims[1 + i],
                        .kernel = kernel,
                        .stride = a.stride[i],
                        .dilation = a.dilation[i],
                        .pad_before = a.pad[i],
                        .pad_after = a.pad[2 + i],
                        .ceil_mode = false};
    return window_extent(in.dims, window, name);
  };
}

}  // namespace

Result<std::vector<Dim>> convolution_dims(const InferInput& in, const Conv2dAttrs& a) {
  return convolved(in, a.groups, windows(in, a));
}

Types infer_convolution(const InferInput& in, int64_t groups, const ConvExtent& extent) {
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_real(x, "input"));
  LATHE_CHECK_OK(want_weight(x, in.in[1]));
  LATHE_TRY(std::vector<Dim> out, convolved(in, groups, extent));
  LATHE_CHECK_OK(check_epilogue(in, out));
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

namespace {

Types infer_conv2d(const InferInput& in) {
  const auto& a = std::get<Conv2dAttrs>(in.attrs);
  return infer_convolution(in, a.groups, windows(in, a));
}

// Every result needs kh * kw * ic / groups products.
Dim macs_conv2d(const InferInput& in, std::span<const TensorType> out) {
  const std::vector<Dim>& w = in.in[1].type->dims;
  return in.dims.mul(product(in.dims, out[0].dims), product(in.dims, std::span(w).subspan(1)));
}

void link_conv2d(Links& l) {
  const auto& a = std::get<Conv2dAttrs>(l.attrs);
  link_convolution(l, a.groups);
  const bool padded = std::any_of(a.pad, a.pad + 4, [](int32_t p) { return p != 0; });
  l.absorbs({.out_axis = 0, .in_axis = 3, .exact = !padded});
}

}  // namespace

// Depthwise is one input channel per group: output block c of the multiplier's size goes with input c. A layer with groups of
// several channels loses as many of each; its weight's columns are other channels in every group.
void link_convolution(Links& l, int64_t groups) {
  const AxisRef x = in_axis(0, 3), w_out = in_axis(1, 0), w_in = in_axis(1, 3), y = out_axis(3);
  l.same(in_axis(0, 0), out_axis(0));
  l.makes(w_out, y);
  if (l.has(2)) l.same(in_axis(2, 0), y);
  if (l.has(3)) {
    l.same(in_axis(3, 0), out_axis(0));
    l.same(in_axis(3, 3), y);
  }
  const auto ic = l.extent(x), oc = l.extent(w_out), depth = l.extent(w_in);
  if (!ic || !oc || !depth || *ic != *depth * groups) return;
  if (groups > 1 && groups == *ic) {
    l.same({.a = x, .b = y, .count = *ic, .b_step = *oc / *ic, .b_block = *oc / *ic});
    l.untouched(w_in);
    return;
  }
  l.parts(w_in, groups);
  l.same({.a = x, .b = w_in, .count = *ic});
  l.reduced(x);
  l.reduced(w_in);
  if (groups == 1) return;
  l.segments(x, groups);
  l.segments(y, groups);
}

constinit const OpDef kConv2d = {
    .op = Op::kConv2d,
    .min_inputs = 2,
    .max_inputs = 4,
    .outputs = 1,
    .infer = infer_conv2d,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kWeight, 0}, {QuantRole::kBias}, {QuantRole::kActivation}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .as_convolution = [](const Attrs& attrs) { return std::get<Conv2dAttrs>(attrs); },
    .half = HalfForm::kNative,
    .macs = macs_conv2d,
    .links = link_conv2d,
    .narrow = narrow_depthwise<Conv2dAttrs>,
};

}  // namespace lathe::ops
