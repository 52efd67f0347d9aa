// Plain integers beside quantized values: tensors that a model hands over or asks for as integers (FromInteger, ToInteger), and
// operators whose scales are operands or lie along an axis, which stay as the model states them.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

bool is_byte(DType t) { return t == DType::kS8 || t == DType::kU8; }
bool is_step(DType t) { return is_byte(t) || t == DType::kS16 || t == DType::kU16 || t == DType::kS32; }

Result<void> want_plain(const OperandView& v, const char* what, bool (*accepts)(DType), const char* types) {
  if (accepts(v.type->dtype) && !is_quantized(v)) return {};
  return fail(Code::kInvalidArgument, std::string(what) + " is " + (is_quantized(v) ? "quantized " : "") +
                                          dtype_name(v.type->dtype) + ", must be plain " + types);
}

Types infer_from_integer(const InferInput& in) {
  LATHE_CHECK_OK(want_plain(in.in[0], "input", is_byte, "s8 or u8"));
  return result({DType::kS8, in.in[0].type->dims}, true);
}

Types infer_to_integer(const InferInput& in) {
  const auto to = static_cast<DType>(std::get<CastAttrs>(in.attrs).to);
  if (!is_quantized(in.in[0]) || in.in[0].type->dtype != DType::kS8)
    return fail(Code::kInvalidArgument, std::string("input is ") + dtype_name(in.in[0].type->dtype) + ", must be quantized s8");
  if (!is_byte(to))
    return fail(Code::kInvalidArgument, "type number " + std::to_string(static_cast<int>(to)) + " is not s8 or u8");
  return result({to, in.in[0].type->dims}, false);
}

// scale and zero point fit x: one element, a vector along `axis`, or a tensor of blocks.
Result<void> check_parameters(const InferInput& in, int32_t axis, int32_t block, DType steps) {
  const OperandView &x = in.in[0], &scale = in.in[1];
  if (scale.type->dtype != DType::kF32)
    return fail(Code::kInvalidArgument, std::string("scale is ") + dtype_name(scale.type->dtype) + ", must be f32");
  if (in.in.size() > 2 && in.in[2]) {
    const OperandView& zero = in.in[2];
    if (zero.type->dtype != steps || is_quantized(zero))
      return fail(Code::kInvalidArgument,
                  std::string("zero point is ") + dtype_name(zero.type->dtype) + ", must be plain " + dtype_name(steps));
    LATHE_CHECK_OK(agree_all(in.dims, scale.type->dims, zero.type->dims, "zero point"));
  }
  if (block < 0) return fail(Code::kInvalidArgument, "block is " + std::to_string(block) + ", must not be negative");
  if (block == 0 && in.dims.is(product(in.dims, scale.type->dims), 1)) return {};
  LATHE_CHECK_OK(want_axis(axis, x.type->dims.size()));
  const auto at = static_cast<size_t>(axis);
  if (block == 0) {
    LATHE_CHECK_OK(want_rank(scale, 1, "scale"));
    return agree_all(in.dims, std::span(x.type->dims).subspan(at, 1), scale.type->dims, "scale");
  }
  std::vector<Dim> blocks = x.type->dims;
  blocks[at] = in.dims.ceildiv(blocks[at], in.dims.constant(block));
  return agree_all(in.dims, blocks, scale.type->dims, "scale");
}

Types infer_quantize_linear(const InferInput& in) {
  const auto& a = std::get<QuantizeLinearAttrs>(in.attrs);
  const auto to = static_cast<DType>(a.to);
  if (in.in[0].type->dtype != DType::kF32)
    return fail(Code::kInvalidArgument, std::string("input is ") + dtype_name(in.in[0].type->dtype) + ", must be f32");
  if (!is_step(to) || to == DType::kS32)
    return fail(Code::kInvalidArgument, "type number " + std::to_string(a.to) + " is not s8, u8, s16 or u16");
  LATHE_CHECK_OK(check_parameters(in, a.axis, a.block, to));
  return result({to, in.in[0].type->dims}, false);
}

Types infer_dequantize_linear(const InferInput& in) {
  const auto& a = std::get<DequantizeLinearAttrs>(in.attrs);
  LATHE_CHECK_OK(want_plain(in.in[0], "input", is_step, "s8, u8, s16, u16 or s32"));
  LATHE_CHECK_OK(check_parameters(in, a.axis, a.block, in.in[0].type->dtype));
  return result({DType::kF32, in.in[0].type->dims}, false);
}

// The steps, their scale and their zero point.
Types infer_dynamic_quantize_linear(const InferInput& in) {
  const OperandView& x = in.in[0];
  if (x.type->dtype != DType::kF32)
    return fail(Code::kInvalidArgument, std::string("input is ") + dtype_name(x.type->dtype) + ", must be f32");
  return std::vector<Inferred>{{.type = {DType::kU8, x.type->dims}}, {.type = {DType::kF32, {}}}, {.type = {DType::kU8, {}}}};
}

// Zero point `i` of operand `of`: of its type, with one element or as many as `channels`.
Result<void> check_zero(const InferInput& in, size_t i, size_t of, std::optional<Dim> channels, const char* what) {
  if (i >= in.in.size() || !in.in[i]) return {};
  const OperandView& zero = in.in[i];
  if (zero.type->dtype != in.in[of].type->dtype || is_quantized(zero))
    return fail(Code::kInvalidArgument, std::string(what) + " is " + dtype_name(zero.type->dtype) + ", must be plain " +
                                            dtype_name(in.in[of].type->dtype));
  const Dim count = product(in.dims, zero.type->dims);
  if (in.dims.is(count, 1)) return {};
  if (!channels || zero.type->dims.size() != 1)
    return fail(Code::kUnsupported, std::string(what) + " has " + in.dims.text(count) + " elements, only one is supported");
  return agree_all(in.dims, std::span(&*channels, 1), zero.type->dims, what);
}

// a [.., m, k], b [k, n] or [.., k, n].
Types infer_matmul_integer(const InferInput& in) {
  const OperandView &a = in.in[0], &b = in.in[1];
  LATHE_CHECK_OK(want_plain(a, "first input", is_byte, "s8 or u8"));
  LATHE_CHECK_OK(want_plain(b, "second input", is_byte, "s8 or u8"));
  const auto &x = a.type->dims, &w = b.type->dims;
  if (x.size() < 2 || w.size() < 2)
    return fail(Code::kInvalidArgument,
                "an input has rank " + std::to_string(std::min(x.size(), w.size())) + ", must have at least 2");
  LATHE_CHECK_OK(agree(in.dims, x.back(), w[w.size() - 2], "rows of the second input"));
  LATHE_CHECK_OK(check_zero(in, 2, 0, std::nullopt, "zero point of the first input"));
  LATHE_CHECK_OK(check_zero(in, 3, 1, w.back(), "zero point of the second input"));
  LATHE_TRY(std::vector<Dim> out, broadcast(in.dims, std::span(x).first(x.size() - 2), std::span(w).first(w.size() - 2)));
  out.push_back(x[x.size() - 2]);
  out.push_back(w.back());
  return result({DType::kS32, std::move(out)}, false);
}

Types infer_conv_integer(const InferInput& in) {
  const auto& a = std::get<Conv2dAttrs>(in.attrs);
  LATHE_CHECK_OK(want_plain(in.in[0], "input", is_byte, "s8 or u8"));
  LATHE_CHECK_OK(want_plain(in.in[1], "weight", is_byte, "s8 or u8"));
  LATHE_TRY(std::vector<Dim> out, convolution_dims(in, a));
  LATHE_CHECK_OK(check_zero(in, 2, 0, std::nullopt, "zero point of the input"));
  LATHE_CHECK_OK(check_zero(in, 3, 1, out[3], "zero point of the weight"));
  return result({DType::kS32, std::move(out)}, false);
}

Dim macs_matmul_integer(const InferInput& in, std::span<const TensorType> out) {
  return in.dims.mul(product(in.dims, out[0].dims), in.in[0].type->dims.back());
}

Dim macs_conv_integer(const InferInput& in, std::span<const TensorType> out) {
  return in.dims.mul(product(in.dims, out[0].dims), product(in.dims, std::span(in.in[1].type->dims).subspan(1)));
}

constexpr OpDef integer_op(Op op, uint8_t min_inputs, uint8_t max_inputs, Types (*infer)(const InferInput&)) {
  OpDef def{.op = op, .min_inputs = min_inputs, .max_inputs = max_inputs, .outputs = 1, .infer = infer};
  for (size_t i = 0; i < max_inputs; ++i) def.quant_in[i] = {QuantRole::kInteger};
  def.quant_out = {QuantRole::kInteger};
  return def;
}

constexpr OpDef border(Op op, Types (*infer)(const InferInput&), QuantRole in, QuantRole out) {
  return {.op = op, .min_inputs = 1, .max_inputs = 1, .outputs = 1, .infer = infer, .quant_in = {{in}}, .quant_out = {out},
          .has_s8 = true, .layout_free = true};
}

constexpr OpDef with_macs(OpDef def, Dim (*macs)(const InferInput&, std::span<const TensorType>)) {
  def.macs = macs;
  return def;
}

constexpr OpDef dynamic_quantize_linear() {
  OpDef def = integer_op(Op::kDynamicQuantizeLinear, 1, 1, infer_dynamic_quantize_linear);
  def.outputs = 3;
  return def;
}

}  // namespace

// The same steps as a value with parameters: u8 becomes s8, 128 lower. And back.
constinit const OpDef kFromInteger = border(Op::kFromInteger, infer_from_integer, QuantRole::kInteger, QuantRole::kActivation);
constinit const OpDef kToInteger = border(Op::kToInteger, infer_to_integer, QuantRole::kActivation, QuantRole::kInteger);

// x, scale, zero point*.
constinit const OpDef kQuantizeLinear = integer_op(Op::kQuantizeLinear, 2, 3, infer_quantize_linear);
constinit const OpDef kDequantizeLinear = integer_op(Op::kDequantizeLinear, 2, 3, infer_dequantize_linear);
constinit const OpDef kDynamicQuantizeLinear = dynamic_quantize_linear();

// a, b, zero point* of each.
constinit const OpDef kMatMulInteger =
    with_macs(integer_op(Op::kMatMulInteger, 2, 4, infer_matmul_integer), macs_matmul_integer);
// x [n,h,w,ic], w [oc,kh,kw,ic/groups], zero point* of each. Padding counts nothing.
constinit const OpDef kConvInteger = with_macs(integer_op(Op::kConvInteger, 2, 4, infer_conv_integer), macs_conv_integer);

}  // namespace lathe::ops
