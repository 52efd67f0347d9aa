// Add, Sub, Mul, Div with broadcasting, and functions of one input. Integer Add, Sub, Mul and Div carry contents: shape
// arithmetic.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Dim dim_add(DimTable& dims, Dim a, Dim b) { return dims.add(a, b); }
Dim dim_sub(DimTable& dims, Dim a, Dim b) { return dims.sub(a, b); }
Dim dim_mul(DimTable& dims, Dim a, Dim b) { return dims.mul(a, b); }
// Integer division truncates toward zero, which is floordiv where both sides cannot be negative.
Dim dim_div(DimTable& dims, Dim a, Dim b) {
  const auto va = dims.value(a), vb = dims.value(b);
  if (va && vb) return *vb == 0 || (*va == INT64_MIN && *vb == -1) ? Dim{} : dims.constant(*va / *vb);
  if (dims.lower_bound(a).value_or(-1) < 0 || dims.lower_bound(b).value_or(0) < 1) return {};
  return dims.floordiv(a, b);
}

Types infer_binary(const InferInput& in, DimFn fn) {
  const OperandView &a = in.in[0], &b = in.in[1];
  if (!is_quantized(a)) LATHE_CHECK_OK(want_type_of(a, Op::kAdd, "input"));
  LATHE_CHECK_OK(want_same_kind(a, b, "second input"));
  LATHE_TRY(std::vector<Dim> out, broadcast(in.dims, a.type->dims, b.type->dims));
  auto contents = is_real(a) ? std::nullopt : binary_contents(in, out, fn);
  return result({a.type->dtype, std::move(out)}, is_quantized(a), std::move(contents));
}

Types infer_add(const InferInput& in) { return infer_binary(in, dim_add); }
Types infer_sub(const InferInput& in) { return infer_binary(in, dim_sub); }
Types infer_mul(const InferInput& in) { return infer_binary(in, dim_mul); }
Types infer_div(const InferInput& in) { return infer_binary(in, dim_div); }

Types infer_unary(const InferInput& in) {
  LATHE_CHECK_OK(want_real(in.in[0], "input"));
  return result(*in.in[0].type, is_quantized(in.in[0]));
}

Types infer_clamp(const InferInput& in) {
  const auto& a = std::get<ClampAttrs>(in.attrs);
  if (!(a.lo <= a.hi))
    return fail(Code::kInvalidArgument, "clamp from " + std::to_string(a.lo) + " to " + std::to_string(a.hi) + " is empty");
  return infer_unary(in);
}

Types infer_gelu(const InferInput& in) {
  const int32_t form = std::get<GeluAttrs>(in.attrs).approximate;
  if (form != 0 && form != 1) return fail(Code::kInvalidArgument, "approximate is " + std::to_string(form) + ", must be 0 or 1");
  return infer_unary(in);
}

constexpr OpDef binary(Op op, Types (*infer)(const InferInput&), bool has_s8) {
  const QuantRole role = has_s8 ? QuantRole::kActivation : QuantRole::kFloatOnly;
  return {.op = op,
          .min_inputs = 2,
          .max_inputs = 2,
          .outputs = 1,
          .infer = infer,
          .quant_in = {{role}, {role}},
          .quant_out = {role},
          .has_s8 = has_s8,
          .half = HalfForm::kNative,
          .layout_free = true,
          .links = link_elementwise};
}

constexpr OpDef add() {
  OpDef def = binary(Op::kAdd, infer_add, true);
  def.sum = true;
  return def;
}

constexpr OpDef unary(Op op, QuantRule out, bool as_table, HalfForm half = HalfForm::kWidened) {
  return {.op = op,
          .min_inputs = 1,
          .max_inputs = 1,
          .outputs = 1,
          .infer = infer_unary,
          .quant_in = {{QuantRole::kActivation}},
          .quant_out = out,
          .has_s8 = true,
          .as_table = as_table,
          .half = half,
          .layout_free = true,
          .links = link_elementwise};
}

constexpr QuantRule kOwnRange = {QuantRole::kActivation};
// The range of the function fills the grid: (0, 1) and (-1, 1).
constexpr QuantRule kUnitRange = {QuantRole::kFixed, -1, -1, {.scale = 1.0f / 256, .zero_point = -128}};
constexpr QuantRule kSignedUnitRange = {QuantRole::kFixed, -1, -1, {.scale = 1.0f / 128, .zero_point = 0}};

constexpr OpDef clamp() {
  OpDef def = unary(Op::kClamp, kOwnRange, false, HalfForm::kNative);
  def.infer = infer_clamp;
  return def;
}

constexpr OpDef gelu() {
  OpDef def = unary(Op::kGelu, kOwnRange, true, HalfForm::kNative);
  def.infer = infer_gelu;
  return def;
}

}  // namespace

constinit const OpDef kAdd = add();
constinit const OpDef kSub = binary(Op::kSub, infer_sub, true);
constinit const OpDef kMul = binary(Op::kMul, infer_mul, true);
constinit const OpDef kDiv = binary(Op::kDiv, infer_div, false);
constinit const OpDef kClamp = clamp();
constinit const OpDef kSigmoid = unary(Op::kSigmoid, kUnitRange, true, HalfForm::kNative);
constinit const OpDef kTanh = unary(Op::kTanh, kSignedUnitRange, true, HalfForm::kNative);
constinit const OpDef kExp = unary(Op::kExp, kOwnRange, true, HalfForm::kNative);
constinit const OpDef kSqrt = unary(Op::kSqrt, kOwnRange, true, HalfForm::kNative);
constinit const OpDef kLeakyRelu = unary(Op::kLeakyRelu, kOwnRange, false, HalfForm::kNative);
constinit const OpDef kHardSwish = unary(Op::kHardSwish, kOwnRange, true, HalfForm::kNative);
constinit const OpDef kGelu = gelu();
constinit const OpDef kSilu = unary(Op::kSilu, kOwnRange, true, HalfForm::kNative);
constinit const OpDef kAbs = unary(Op::kAbs, kOwnRange, true);
constinit const OpDef kSign = unary(Op::kSign, kOwnRange, true);
constinit const OpDef kFloor = unary(Op::kFloor, kOwnRange, true);
constinit const OpDef kCeil = unary(Op::kCeil, kOwnRange, true);
constinit const OpDef kRound = unary(Op::kRound, kOwnRange, true);
constinit const OpDef kLog = unary(Op::kLog, kOwnRange, true);
constinit const OpDef kSin = unary(Op::kSin, kOwnRange, true);
constinit const OpDef kCos = unary(Op::kCos, kOwnRange, true);
constinit const OpDef kTan = unary(Op::kTan, kOwnRange, true);
constinit const OpDef kAsin = unary(Op::kAsin, kOwnRange, true);
constinit const OpDef kAcos = unary(Op::kAcos, kOwnRange, true);
constinit const OpDef kAtan = unary(Op::kAtan, kOwnRange, true);
constinit const OpDef kSinh = unary(Op::kSinh, kOwnRange, true);
constinit const OpDef kCosh = unary(Op::kCosh, kOwnRange, true);
constinit const OpDef kAsinh = unary(Op::kAsinh, kOwnRange, true);
constinit const OpDef kAcosh = unary(Op::kAcosh, kOwnRange, true);
constinit const OpDef kAtanh = unary(Op::kAtanh, kOwnRange, true);
constinit const OpDef kElu = unary(Op::kElu, kOwnRange, true);
constinit const OpDef kSoftplus = unary(Op::kSoftplus, kOwnRange, true);
constinit const OpDef kMish = unary(Op::kMish, kOwnRange, true);
constinit const OpDef kHardSigmoid = unary(Op::kHardSigmoid, kUnitRange, true);
constinit const OpDef kErf = unary(Op::kErf, kSignedUnitRange, true, HalfForm::kNative);

}  // namespace lathe::ops
