// Quantize (float to s8, or to what the parameters of its result need: infer_node.cc), Dequantize (back to f32), Regrid (s8 to s8 with other parameters): the borders of a quantized graph.
// Parameters are those of the values.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_quantize(const InferInput& in) {
  const OperandView& x = in.in[0];
  if (!is_float(x.type->dtype))
    return fail(Code::kInvalidArgument, std::string("input is ") + dtype_name(x.type->dtype) + ", must be float");
  return result({DType::kS8, x.type->dims}, true);
}

Result<void> want_quantized(const OperandView& x) {
  if (is_quantized(x)) return {};
  return fail(Code::kInvalidArgument, std::string("input is ") + dtype_name(x.type->dtype) + " without quantization parameters");
}

Types infer_dequantize(const InferInput& in) {
  LATHE_CHECK_OK(want_quantized(in.in[0]));
  return result({DType::kF32, in.in[0].type->dims}, false);
}

Types infer_regrid(const InferInput& in) {
  LATHE_CHECK_OK(want_quantized(in.in[0]));
  return result(*in.in[0].type, true);
}

constexpr OpDef border(Op op, Types (*infer)(const InferInput&), QuantRole in, QuantRole out) {
  return {.op = op,
          .min_inputs = 1,
          .max_inputs = 1,
          .outputs = 1,
          .infer = infer,
          .quant_in = {{in}},
          .quant_out = {out},
          .has_s8 = true,
          .layout_free = true};
}

}  // namespace

constinit const OpDef kQuantize = border(Op::kQuantize, infer_quantize, QuantRole::kFloatOnly, QuantRole::kActivation);
constinit const OpDef kDequantize = border(Op::kDequantize, infer_dequantize, QuantRole::kActivation, QuantRole::kFloatOnly);
constinit const OpDef kRegrid = border(Op::kRegrid, infer_regrid, QuantRole::kActivation, QuantRole::kActivation);

}  // namespace lathe::ops
