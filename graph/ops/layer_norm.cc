// LayerNorm: x, then scale and bias, shaped like x's axes from `axis` on. They stay float where x is quantized.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_layer_norm(const InferInput& in) {
  const auto& a = std::get<LayerNormAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_real(x, "input"));
  LATHE_CHECK_OK(want_axis(a.axis, x.type->dims.size()));
  if (!(a.epsilon >= 0)) return fail(Code::kInvalidArgument, "epsilon is " + std::to_string(a.epsilon) + ", must be at least 0");
  const char* names[] = {"input", "scale", "bias"};
  const DType wanted = is_quantized(x) ? DType::kF32 : x.type->dtype;
  for (size_t i = 1; i < in.in.size(); ++i) {
    if (!in.in[i]) continue;
    if (in.in[i].type->dtype != wanted)
      return fail(Code::kInvalidArgument, std::string(names[i]) + " is " + dtype_name(in.in[i].type->dtype) + ", must be " +
                                              dtype_name(wanted));
    LATHE_CHECK_OK(
        agree_all(in.dims, std::span(x.type->dims).subspan(static_cast<size_t>(a.axis)), in.in[i].type->dims, names[i]));
  }
  return result(*x.type, is_quantized(x));
}

void link_layer_norm(Links& l) {
  const auto first = static_cast<size_t>(std::get<LayerNormAttrs>(l.attrs).axis);
  for (size_t i = 0; i < l.rank(0); ++i) {
    l.same(in_axis(0, i), out_axis(i));
    if (i < first) continue;
    l.averaged(in_axis(0, i));
    for (size_t operand = 1; operand < l.in.size(); ++operand)
      if (l.has(operand)) l.same(in_axis(operand, i - first), out_axis(i));
  }
}

}  // namespace

constinit const OpDef kLayerNorm = {
    .op = Op::kLayerNorm,
    .min_inputs = 2,
    .max_inputs = 3,
    .outputs = 1,
    .infer = infer_layer_norm,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kFloatConstant}, {QuantRole::kFloatConstant}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .channel_affine = true,
    .half = HalfForm::kWidened,
    .links = link_layer_norm,
};

}  // namespace lathe::ops
