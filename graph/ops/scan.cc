// Operators along one axis or on the last two: positions of extremes, the k best, running sums and products, triangles,
// determinants; and BitCast.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

template <Op kOp> Types infer_arg(const InferInput& in) {
  const auto& a = std::get<ArgAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  if (!is_quantized(x)) LATHE_CHECK_OK(want_type_of(x, kOp, "input"));
  LATHE_CHECK_OK(want_axis(a.axis, x.type->dims.size()));
  std::vector<Dim> out = x.type->dims;
  if (in.dims.is(out[static_cast<size_t>(a.axis)], 0)) return fail(Code::kInvalidArgument, "axis has no element");
  if (a.keep_dims != 0) out[static_cast<size_t>(a.axis)] = in.dims.constant(1);
  else out.erase(out.begin() + a.axis);
  return result({DType::kS64, std::move(out)}, false);
}

Types infer_top_k(const InferInput& in) {
  const auto& a = std::get<TopKAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_type_of(x, Op::kTopK, "input"));
  LATHE_CHECK_OK(want_axis(a.axis, x.type->dims.size()));
  std::vector<Dim> out = x.type->dims;
  Dim& n = out[static_cast<size_t>(a.axis)];
  const auto most = in.dims.upper_bound(n);
  if (a.k < 0 || (most && *most < a.k))
    return fail(Code::kInvalidArgument, "k is " + std::to_string(a.k) + ", the axis has " + in.dims.text(n) + " elements");
  n = in.dims.constant(a.k);
  std::vector<Inferred> results(2);
  results[0] = {.type = {x.type->dtype, out}};
  results[1] = {.type = {DType::kS64, std::move(out)}};
  return results;
}

template <Op kOp> Types infer_cumulate(const InferInput& in) {
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_type_of(x, kOp, "input"));
  LATHE_CHECK_OK(want_axis(std::get<CumulateAttrs>(in.attrs).axis, x.type->dims.size()));
  return result(*x.type, false);
}

Result<void> want_matrices(const OperandView& x) {
  if (x.type->dims.size() >= 2) return {};
  return fail(Code::kInvalidArgument, "input has rank " + std::to_string(x.type->dims.size()) + ", must have at least 2");
}

Types infer_trilu(const InferInput& in) {
  LATHE_CHECK_OK(want_matrices(in.in[0]));
  return result(*in.in[0].type, is_quantized(in.in[0]));
}

Types infer_det(const InferInput& in) {
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_real(x, "input"));
  LATHE_CHECK_OK(want_matrices(x));
  std::vector<Dim> out = x.type->dims;
  LATHE_CHECK_OK(agree(in.dims, out[out.size() - 2], out.back(), "number of columns"));
  out.resize(out.size() - 2);
  return result({x.type->dtype, std::move(out)}, false);
}

Types infer_bit_cast(const InferInput& in) {
  const OperandView& x = in.in[0];
  const int32_t number = std::get<CastAttrs>(in.attrs).to;
  const auto to = static_cast<DType>(number);
  if (number < 0 || number > 255 || dtype_bytes(to) == 0)
    return fail(Code::kInvalidArgument, "type number " + std::to_string(number) + " is unknown");
  if (dtype_bytes(to) != dtype_bytes(x.type->dtype))
    return fail(Code::kInvalidArgument,
                std::string("input is ") + dtype_name(x.type->dtype) + ", which has another size than " + dtype_name(to));
  return result({to, x.type->dims}, false);
}

constexpr OpDef one_input(Op op, Types (*infer)(const InferInput&), QuantRule in, QuantRule out) {
  return {.op = op,
          .min_inputs = 1,
          .max_inputs = 1,
          .outputs = 1,
          .infer = infer,
          .quant_in = {in},
          .quant_out = out,
          .has_s8 = in.role == QuantRole::kActivation,
          .half = HalfForm::kWidened};
}

constexpr QuantRule kActivation = {QuantRole::kActivation}, kFloat = {QuantRole::kFloatOnly};
constexpr QuantRule kInteger = {QuantRole::kInteger}, kSame = {QuantRole::kSameAs, -1, 0};

constexpr OpDef top_k() {
  OpDef def = one_input(Op::kTopK, infer_top_k, kFloat, kFloat);
  def.outputs = 2;
  return def;
}

// Moves bytes, so halves stay halves.
constexpr OpDef trilu() {
  OpDef def = one_input(Op::kTrilu, infer_trilu, kActivation, kSame);
  def.half = HalfForm::kNative;
  return def;
}

// The bits of a half are not those of the float that it would be widened to.
constexpr OpDef bit_cast() {
  OpDef def = one_input(Op::kBitCast, infer_bit_cast, kFloat, kFloat);
  def.half = HalfForm::kNone;
  return def;
}

}  // namespace

constinit const OpDef kArgMax = one_input(Op::kArgMax, infer_arg<Op::kArgMax>, kActivation, kInteger);
constinit const OpDef kArgMin = one_input(Op::kArgMin, infer_arg<Op::kArgMin>, kActivation, kInteger);
constinit const OpDef kTopK = top_k();
constinit const OpDef kCumSum = one_input(Op::kCumSum, infer_cumulate<Op::kCumSum>, kFloat, kFloat);
constinit const OpDef kCumProd = one_input(Op::kCumProd, infer_cumulate<Op::kCumProd>, kFloat, kFloat);
constinit const OpDef kTrilu = trilu();
constinit const OpDef kDet = one_input(Op::kDet, infer_det, kFloat, kFloat);
constinit const OpDef kBitCast = bit_cast();

}  // namespace lathe::ops
