// Softmax along `axis`.
#include "graph/links.h"
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

void link_softmax(Links& l) {
  const auto over = static_cast<size_t>(std::get<AxisAttrs>(l.attrs).axis);
  for (size_t axis = 0; axis < l.rank(0); ++axis) {
    if (axis != over) l.same(in_axis(0, axis), out_axis(axis));
    else for (const AxisRef at : {in_axis(0, axis), out_axis(axis)}) l.frozen(at, "a softmax runs over it");
  }
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
    .links = link_softmax,
};

}  // namespace lathe::ops
