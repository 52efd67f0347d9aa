// Mean over axes.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

bool reduces(const Ints& axes, int32_t axis) {
  for (int32_t i = 0; i < axes.count; ++i)
    if (axes[i] == axis) return true;
  return false;
}

Types infer_mean(const InferInput& in) {
  const auto& a = std::get<ReduceAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_real(x, "input"));
  for (int32_t i = 0; i < a.axes.count; ++i) {
    LATHE_CHECK_OK(want_axis(a.axes[i], x.type->dims.size()));
    if (i > 0 && a.axes[i] <= a.axes[i - 1]) return fail(Code::kInvalidArgument, "axes are not ascending");
  }
  std::vector<Dim> out;
  for (size_t i = 0; i < x.type->dims.size(); ++i) {
    if (!reduces(a.axes, static_cast<int32_t>(i))) out.push_back(x.type->dims[i]);
    else if (a.keep_dims) out.push_back(in.dims.constant(1));
  }
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

// Without keep_dims the result has only the kept axes: each comes from the kept axis of x with the same place among them.
Ints permute_mean(Attrs& attrs, const Ints& perm) {
  auto& a = std::get<ReduceAttrs>(attrs);
  const Ints old_axes = a.axes;
  a.axes = permuted_axes(old_axes, perm);
  if (a.keep_dims) return perm;
  int32_t place[kMaxRank] = {};
  int32_t kept = 0;
  for (int32_t axis = 0; axis < perm.count; ++axis)
    if (!reduces(a.axes, axis)) place[axis] = kept++;
  Ints out;
  for (int32_t i = 0; i < perm.count; ++i)
    if (!reduces(old_axes, i)) out.values[out.count++] = place[perm[i]];
  return out;
}

}  // namespace

constinit const OpDef kMean = {
    .op = Op::kMean,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_mean,
    .quant_in = {{QuantRole::kActivation}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .half = HalfForm::kWidened,
    .layout_free = true,
    .permute = permute_mean,
};

}  // namespace lathe::ops
