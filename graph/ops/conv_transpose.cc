// ConvTranspose2d: x [n,h,w,ic], w [oc,kh,kw,ic/groups], bias* [oc], residual* of the result's shape.
#include "graph/ops/link_conv.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

struct Axis {
  Dim in;
  int64_t kernel, stride, dilation, pad_before, pad_after, output_pad;
};

Result<Dim> transposed_extent(DimTable& dims, const Axis& a, const char* name) {
  if (a.stride < 1 || a.dilation < 1 || a.kernel < 1)
    return fail(Code::kInvalidArgument, std::string(name) + ": kernel " + std::to_string(a.kernel) + ", stride " +
                                            std::to_string(a.stride) + " and dilation " + std::to_string(a.dilation) +
                                            " must be at least 1");
  if (a.pad_before < 0 || a.pad_after < 0) return fail(Code::kInvalidArgument, std::string(name) + ": pad is negative");
  if (a.output_pad < 0 || a.output_pad >= std::max(a.stride, a.dilation))
    return fail(Code::kInvalidArgument, std::string(name) + ": output_pad is " + std::to_string(a.output_pad) +
                                            ", must be below stride " + std::to_string(a.stride) + " or dilation " +
                                            std::to_string(a.dilation));
  // 32-bit attributes and dims: fits.
  const int64_t added = a.dilation * (a.kernel - 1) + 1 + a.output_pad - a.pad_before - a.pad_after;
  const Dim steps = dims.sub(a.in, dims.constant(1));
  const Dim out = dims.add(dims.mul(steps, dims.constant(a.stride)), dims.constant(added));
  if (const auto high = dims.upper_bound(out); !out.valid() || (high && *high < 1))
    return fail(Code::kInvalidArgument, std::string(name) + ": pads of " + std::to_string(a.pad_before) + " and " +
                                            std::to_string(a.pad_after) + " leave nothing of the result");
  return out;
}

Types infer_conv_transpose2d(const InferInput& in) {
  const auto& a = std::get<ConvTranspose2dAttrs>(in.attrs);
  return infer_convolution(in, a.groups, [&](size_t i, int64_t kernel, const char* name) {
    const Axis axis{.in = in.in[0].type->dims[1 + i],
                    .kernel = kernel,
                    .stride = a.stride[i],
                    .dilation = a.dilation[i],
                    .pad_before = a.pad[i],
                    .pad_after = a.pad[2 + i],
                    .output_pad = a.output_pad[i]};
    return transposed_extent(in.dims, axis, name);
  });
}

// Every input pixel meets all weights, but for what pads cut off.
Dim macs_conv_transpose2d(const InferInput& in, std::span<const TensorType>) {
  const std::vector<Dim>&x = in.in[0].type->dims, &w = in.in[1].type->dims;
  return in.dims.mul(product(in.dims, std::span(x).first(3)), product(in.dims, w));
}

}  // namespace

constinit const OpDef kConvTranspose2d = {
    .op = Op::kConvTranspose2d,
    .min_inputs = 2,
    .max_inputs = 4,
    .outputs = 1,
    .infer = infer_conv_transpose2d,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kWeight, 0}, {QuantRole::kBias}, {QuantRole::kActivation}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .half = HalfForm::kNative,
    .macs = macs_conv_transpose2d,
    .links = [](Links& l) { link_convolution(l, std::get<ConvTranspose2dAttrs>(l.attrs).groups); },
    .narrow = narrow_depthwise<ConvTranspose2dAttrs>,
};

}  // namespace lathe::ops
