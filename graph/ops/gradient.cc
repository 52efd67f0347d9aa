// Ops of training graphs: weights packed when the program runs, gradients that other ops cannot express, batch normalization
// by the statistics of the batch, and rounding to a grid that is learned. Float only.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Result<void> want_f32(const InferInput& in) {
  for (size_t i = 0; i < in.in.size(); ++i) {
    if (in.in[i].type->dtype != DType::kF32)
      return fail(Code::kInvalidArgument,
                  "operand " + std::to_string(i) + " is " + dtype_name(in.in[i].type->dtype) + ", must be f32");
  }
  return {};
}

// The result lies otherwise but is the same tensor.
Types infer_pack(const InferInput& in) {
  LATHE_CHECK_OK(want_f32(in));
  return result(*in.in[0].type, false);
}

// x [n, h, w, ic] and dy [n, oh, ow, oc] give [oc, kh, kw, ic / groups].
Types infer_weight_grad(const InferInput& in) {
  const auto& a = std::get<Conv2dWeightGradAttrs>(in.attrs);
  LATHE_CHECK_OK(want_f32(in));
  LATHE_CHECK_OK(want_rank(in.in[0], 4, "input"));
  LATHE_CHECK_OK(want_rank(in.in[1], 4, "gradient"));
  const std::vector<Dim>&x = in.in[0].type->dims, &dy = in.in[1].type->dims;
  if (a.groups < 1) return fail(Code::kInvalidArgument, "groups is " + std::to_string(a.groups) + ", must be at least 1");
  for (const Dim channels : {x[3], dy[3]}) {
    const auto count = in.dims.value(channels);
    if (!count || *count % a.groups != 0)
      return fail(Code::kInvalidArgument,
                  in.dims.text(channels) + " channels do not divide into " + std::to_string(a.groups) + " groups");
  }
  const TensorType weight{DType::kF32, {dy[3], in.dims.constant(a.kernel[0]), in.dims.constant(a.kernel[1]),
                                        in.dims.constant(*in.dims.value(x[3]) / a.groups)}};
  LATHE_CHECK_OK(check_type(in.dims, weight));
  const Attrs conv = Conv2dAttrs{.stride = {a.stride[0], a.stride[1]},
                                 .dilation = {a.dilation[0], a.dilation[1]},
                                 .pad = {a.pad[0], a.pad[1], a.pad[2], a.pad[3]},
                                 .groups = a.groups};
  const OperandView operands[] = {in.in[0], {.type = &weight, .quant = in.in[0].quant}};
  LATHE_TRY(const std::vector<Dim> out, convolution_dims({in.dims, operands, conv}, std::get<Conv2dAttrs>(conv)));
  LATHE_CHECK_OK(agree_all(in.dims, out, dy, "gradient"));
  return result(weight, false);
}

Dim macs_weight_grad(const InferInput& in, std::span<const TensorType> out) {
  return in.dims.mul(product(in.dims, in.in[1].type->dims), product(in.dims, std::span(out[0].dims).subspan(1)));
}

// x of the pool and dy give dx.
Types infer_pool_grad(const InferInput& in) {
  const auto& a = std::get<Pool2dAttrs>(in.attrs);
  LATHE_CHECK_OK(want_f32(in));
  LATHE_CHECK_OK(want_rank(in.in[0], 4, "input"));
  std::vector<Dim> out = in.in[0].type->dims;
  for (size_t i = 0; i < 2; ++i) {
    LATHE_TRY(out[1 + i], pooled_extent(in.dims, a, i, out[1 + i]));
  }
  LATHE_CHECK_OK(agree_all(in.dims, out, in.in[1].type->dims, "gradient"));
  return result(*in.in[0].type, false);
}

// The clamp's result and its gradient give that of its operand: dy where lo < y < hi, else 0.
Types infer_clamp_grad(const InferInput& in) {
  LATHE_CHECK_OK(want_f32(in));
  LATHE_CHECK_OK(agree_all(in.dims, in.in[0].type->dims, in.in[1].type->dims, "gradient"));
  return result(*in.in[0].type, false);
}

Result<Dim> channels_of(const InferInput& in) {
  const auto& a = std::get<BatchNormTrainAttrs>(in.attrs);
  LATHE_CHECK_OK(want_f32(in));
  LATHE_CHECK_OK(want_axis(a.axis, in.in[0].type->dims.size()));
  if (!(a.lo <= a.hi)) return fail(Code::kInvalidArgument, "its clamp is empty");
  if (!(a.epsilon >= 0)) return fail(Code::kInvalidArgument, "epsilon is " + std::to_string(a.epsilon) + ", must be at least 0");
  return in.in[0].type->dims[static_cast<size_t>(a.axis)];
}

Result<void> want_vectors(const InferInput& in, size_t first, Dim channels) {
  for (size_t i = first; i < in.in.size(); ++i)
    LATHE_CHECK_OK(agree_all(in.dims, std::span(&channels, 1), in.in[i].type->dims, ("operand " + std::to_string(i)).c_str()));
  return {};
}

// x, scale and bias [c] give y, and the batch's mean and (biased) variance [c].
Types infer_batch_norm_train(const InferInput& in) {
  LATHE_TRY(const Dim c, channels_of(in));
  LATHE_CHECK_OK(want_vectors(in, 1, c));
  return std::vector<Inferred>{{.type = *in.in[0].type}, {.type = {DType::kF32, {c}}}, {.type = {DType::kF32, {c}}}};
}

// x, dy, scale, bias, mean and variance give dx, dscale and dbias.
Types infer_batch_norm_grad(const InferInput& in) {
  LATHE_TRY(const Dim c, channels_of(in));
  LATHE_CHECK_OK(agree_all(in.dims, in.in[0].type->dims, in.in[1].type->dims, "gradient"));
  LATHE_CHECK_OK(want_vectors(in, 2, c));
  return std::vector<Inferred>{{.type = *in.in[0].type}, {.type = {DType::kF32, {c}}}, {.type = {DType::kF32, {c}}}};
}

Result<void> want_grid(const InferInput& in) {
  const auto& a = std::get<FakeQuantAttrs>(in.attrs);
  LATHE_CHECK_OK(want_f32(in));
  if (a.qmin < -128 || a.qmax > 127 || a.qmin >= a.qmax || a.zero_point < a.qmin || a.zero_point > a.qmax)
    return fail(Code::kInvalidArgument, "steps " + std::to_string(a.qmin) + " to " + std::to_string(a.qmax) + " with zero point " +
                                            std::to_string(a.zero_point) + " are no grid of 8 bits");
  std::vector<Dim> scales;
  if (a.axis != -1) {
    LATHE_CHECK_OK(want_axis(a.axis, in.in[0].type->dims.size()));
    scales = {in.in[0].type->dims[static_cast<size_t>(a.axis)]};
  }
  return agree_all(in.dims, scales, in.in[1].type->dims, "scale");
}

// x and its scales.
Types infer_fake_quant(const InferInput& in) {
  LATHE_CHECK_OK(want_grid(in));
  return result(*in.in[0].type, false);
}

// x, its scales and dy give dx and the gradient of the scales.
Types infer_fake_quant_grad(const InferInput& in) {
  LATHE_CHECK_OK(want_grid(in));
  LATHE_CHECK_OK(agree_all(in.dims, in.in[0].type->dims, in.in[2].type->dims, "gradient"));
  return std::vector<Inferred>{{.type = *in.in[0].type}, {.type = *in.in[1].type}};
}

// Factors and the scales that they multiply.
Types infer_step_size(const InferInput& in) {
  const auto& a = std::get<ClampAttrs>(in.attrs);
  LATHE_CHECK_OK(want_f32(in));
  if (!(a.lo > 0) || !(a.lo <= a.hi))
    return fail(Code::kInvalidArgument, "factors from " + std::to_string(a.lo) + " to " + std::to_string(a.hi) + " are not positive");
  LATHE_CHECK_OK(agree_all(in.dims, in.in[0].type->dims, in.in[1].type->dims, "scale"));
  return result(*in.in[0].type, false);
}

constexpr OpDef training(Op op, uint8_t inputs, uint8_t outputs, Types (*infer)(const InferInput&)) {
  return {.op = op,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .outputs = outputs,
          .infer = infer,
          .quant_in = {{QuantRole::kFloatOnly}},
          .quant_out = {QuantRole::kFloatOnly}};
}

// The factors are parameters (QuantRole::kFloatConstant is what make_training_form() looks for), the scales are not.
constexpr OpDef step_size() {
  OpDef def = training(Op::kStepSize, 2, 1, infer_step_size);
  def.quant_in[0] = {QuantRole::kFloatConstant};
  return def;
}

constexpr OpDef weight_grad() {
  OpDef def = training(Op::kConv2dWeightGrad, 2, 1, infer_weight_grad);
  def.macs = macs_weight_grad;
  return def;
}

}  // namespace

constinit const OpDef kPack = training(Op::kPack, 1, 1, infer_pack);
constinit const OpDef kConv2dWeightGrad = weight_grad();
constinit const OpDef kMaxPool2dGrad = training(Op::kMaxPool2dGrad, 2, 1, infer_pool_grad);
constinit const OpDef kAvgPool2dGrad = training(Op::kAvgPool2dGrad, 2, 1, infer_pool_grad);
constinit const OpDef kClampGrad = training(Op::kClampGrad, 2, 1, infer_clamp_grad);
constinit const OpDef kBatchNormTrain = training(Op::kBatchNormTrain, 3, 3, infer_batch_norm_train);
constinit const OpDef kBatchNormGrad = training(Op::kBatchNormGrad, 6, 3, infer_batch_norm_grad);
constinit const OpDef kFakeQuant = training(Op::kFakeQuant, 2, 1, infer_fake_quant);
constinit const OpDef kFakeQuantGrad = training(Op::kFakeQuantGrad, 3, 2, infer_fake_quant_grad);
constinit const OpDef kStepSize = step_size();

}  // namespace lathe::ops
