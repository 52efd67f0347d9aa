// Reductions over axes.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

bool reduces(const Ints& axes, int32_t axis) {
  for (int32_t i = 0; i < axes.count; ++i)
    if (axes[i] == axis) return true;
  return false;
}

Types infer_axes(const InferInput& in) {
  const auto& a = std::get<ReduceAttrs>(in.attrs);
  const OperandView& x = in.in[0];
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

Types infer_mean(const InferInput& in) {
  LATHE_CHECK_OK(want_real(in.in[0], "input"));
  return infer_axes(in);
}

template <Op kOp> Types infer_reduction(const InferInput& in) {
  if (!is_quantized(in.in[0])) LATHE_CHECK_OK(want_type_of(in.in[0], kOp, "input"));
  LATHE_TRY(auto types, infer_axes(in));
  // The product of a whole shape is a number of elements.
  const bool whole = in.in[0].type->dims.size() == 1 && std::get<ReduceAttrs>(in.attrs).axes.count == 1;
  if (kOp == Op::kReduceProd && whole && in.in[0].contents) types[0].contents = {product(in.dims, *in.in[0].contents)};
  return types;
}

// Without keep_dims the result has only the kept axes: each comes from the kept axis of x with the same place among them.
Ints permute_axes(Attrs& attrs, const Ints& perm) {
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

enum class Mixes : uint8_t { kSum, kMean, kOther };

// Kept axes stay; what runs over the others decides whether positions of them may go.
template <Mixes kMixes> void link_reduction(Links& l) {
  const auto& a = std::get<ReduceAttrs>(l.attrs);
  size_t to = 0;
  for (size_t axis = 0; axis < l.rank(0); ++axis) {
    const bool over = reduces(a.axes, static_cast<int32_t>(axis));
    if (!over) l.same(in_axis(0, axis), out_axis(to));
    else if (kMixes == Mixes::kSum) l.reduced(in_axis(0, axis));
    else if (kMixes == Mixes::kMean) l.averaged(in_axis(0, axis));
    if (!over || a.keep_dims) ++to;
  }
}

constexpr OpDef reduction(Op op, Types (*infer)(const InferInput&), QuantRule in, QuantRule out,
                          void (*links)(Links&) = link_reduction<Mixes::kOther>) {
  return {.op = op,
          .min_inputs = 1,
          .max_inputs = 1,
          .outputs = 1,
          .infer = infer,
          .quant_in = {in},
          .quant_out = out,
          .has_s8 = in.role != QuantRole::kFloatOnly,
          .half = HalfForm::kWidened,
          .layout_free = true,
          .permute = permute_axes,
          .links = links};
}

constexpr QuantRule kActivation = {QuantRole::kActivation}, kFloat = {QuantRole::kFloatOnly}, kSame = {QuantRole::kSameAs, -1, 0};

}  // namespace

constinit const OpDef kReduceSum =
    reduction(Op::kReduceSum, infer_reduction<Op::kReduceSum>, kFloat, kFloat, link_reduction<Mixes::kSum>);
constinit const OpDef kReduceProd = reduction(Op::kReduceProd, infer_reduction<Op::kReduceProd>, kFloat, kFloat);
constinit const OpDef kReduceMax = reduction(Op::kReduceMax, infer_reduction<Op::kReduceMax>, kActivation, kSame);
constinit const OpDef kReduceMin = reduction(Op::kReduceMin, infer_reduction<Op::kReduceMin>, kActivation, kSame);
constinit const OpDef kMean = reduction(Op::kMean, infer_mean, kActivation, kActivation, link_reduction<Mixes::kMean>);

}  // namespace lathe::ops
