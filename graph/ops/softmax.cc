// Softmax along `axis`.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_softmax(const InferInput& in) {
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_real(x, "input"));
  LATHE_CHECK_OK(want_axis(std::get<AxisAttrs>(in.attrs).axis, x.type->dims.size()));
  return result(*x.type, is_quantized(x));
}

Ints permute_softmax(Attrs& attrs, const Ints& perm) {
  auto& a = std::get<AxisAttrs>(attrs);
  a.axis = perm[a.axis];
  return perm;
}

// The 16-bit exponentials of the integer form are 0 from here on: 65535 exp(-11.8) < 0.5.
float softmax_reach(const Attrs& attrs, size_t rank) {
  return std::get<AxisAttrs>(attrs).axis + 1 == static_cast<int32_t>(rank) ? 11.8f : 0.0f;
}

}  // namespace

constinit const OpDef kSoftmax = {
    .op = Op::kSoftmax,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_softmax,
    .quant_in = {{QuantRole::kActivation}},
    .quant_out = {QuantRole::kFixed, -1, -1, {.scale = 1.0f / 256, .zero_point = -128}},
    .has_s8 = true,
    .reach = softmax_reach,
    .half = HalfForm::kNative,
    .layout_free = true,
    .permute = permute_softmax,
};

}  // namespace lathe::ops
