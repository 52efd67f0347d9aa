// BatchNorm: x, then scale, bias, mean and variance [c] along `axis`. It is folded or stays float.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_batch_norm(const InferInput& in) {
  const auto& a = std::get<BatchNormAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  if (!is_float(x.type->dtype))
    return fail(Code::kInvalidArgument, std::string("input is ") + dtype_name(x.type->dtype) + ", must be float");
  LATHE_CHECK_OK(want_axis(a.axis, x.type->dims.size()));
  if (!(a.epsilon >= 0)) return fail(Code::kInvalidArgument, "epsilon is " + std::to_string(a.epsilon) + ", must be at least 0");
  const char* names[] = {"input", "scale", "bias", "mean", "variance"};
  for (size_t i = 1; i < 5; ++i) {
    LATHE_CHECK_OK(want_same_kind(x, in.in[i], names[i]));
    LATHE_CHECK_OK(
        agree_all(in.dims, std::span(x.type->dims).subspan(static_cast<size_t>(a.axis), 1), in.in[i].type->dims, names[i]));
  }
  return result(*x.type, false);
}

Ints permute_batch_norm(Attrs& attrs, const Ints& perm) {
  auto& a = std::get<BatchNormAttrs>(attrs);
  a.axis = perm[a.axis];
  return perm;
}

void link_batch_norm(Links& l) {
  const auto axis = static_cast<size_t>(std::get<BatchNormAttrs>(l.attrs).axis);
  for (size_t i = 0; i < l.rank(0); ++i) l.same(in_axis(0, i), out_axis(i));
  for (size_t operand = 1; operand < 5; ++operand) l.same(in_axis(operand, 0), out_axis(axis));
  l.role(in_axis(1, 0), LinkRole::kGamma);
}

}  // namespace

constinit const OpDef kBatchNorm = {
    .op = Op::kBatchNorm,
    .min_inputs = 5,
    .max_inputs = 5,
    .outputs = 1,
    .infer = infer_batch_norm,
    .half = HalfForm::kWidened,
    .layout_free = true,
    .permute = permute_batch_norm,
    .links = link_batch_norm,
};

}  // namespace lathe::ops
