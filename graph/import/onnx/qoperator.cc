// Operators on integers with their scales beside them, written out: Dequantize, the float operator, Quantize.
#include <cmath>

#include "graph/import/onnx/float_form.h"
#include "graph/import/onnx/quantize.h"

namespace lathe::onnx {
namespace {

// Adds the real numbers behind operand i to `form`.
Result<void> add_real(NodeImport& n, FloatForm& form, size_t i, int64_t axis = 0) {
  LATHE_TRY(Binding b, dequantized_operand(n, "input" + std::to_string(i), i, {i + 1, i + 2}, axis));
  form.operand(std::move(b));
  return {};
}

Result<void> finish_steps(NodeImport& n, ValueId real, size_t scale, size_t zero, DType absent = DType::kU8) {
  LATHE_TRY(const DType steps, step_type(n, zero, absent));
  return finish_quantized(n, real, {scale, zero}, steps);
}

}  // namespace

Result<Binding> sum_operand(NodeImport& n, size_t i, size_t a_scale, size_t b_scale, float factor) {
  LATHE_TRY(const auto c, n.constant(i));
  LATHE_TRY(const auto b, n.constant(b_scale));
  LATHE_TRY(const float a, n.known_real(a_scale, "the scale"));
  if (!c || !b)
    return fail(Code::kUnsupported,
                "bias '" + std::string(n.proto().inputs[i]) + "' or its scale is not constant; --const can fix it");
  if (c->dtype != DType::kS32 || b->dtype != DType::kF32)
    return fail(Code::kInvalidArgument, std::string("the bias is ") + dtype_name(c->dtype) + ", must be s32");
  Quant q{{}, {}, -1, INT32_MIN, INT32_MAX};
  if (b->elems() != 1) {
    q.axis = static_cast<int32_t>(c->dims.size()) - 1;
    if (q.axis < 0 || static_cast<size_t>(c->dims.back()) != b->elems())
      return fail(Code::kInvalidArgument,
                  "the bias has dims " + dims_text(c->dims) + ", the weight has " + std::to_string(b->elems()) + " scales");
  }
  for (const float s : b->bytes.as<float>()) q.scales.push_back(a * s * factor);
  q.zero_points.assign(q.scales.size(), 0);
  for (const float s : q.scales)
    if (!std::isnormal(s) || s < 0) return fail(Code::kUnsupported, "the scale of the bias is " + std::to_string(s));
  return Binding{kNoId, std::make_shared<const ConstTensor>(ConstTensor{c->name, c->dtype, c->dims, c->bytes, q})};
}

// x, scale, zero, w, scale, zero, scale, zero of the result, bias*.
Result<void> import_qlinear_conv(NodeImport& n) {
  FloatForm conv(n, "Conv");
  conv.take_attributes();
  for (size_t i = 3; i < 6; ++i) {
    LATHE_TRY(const auto t, n.constant(i));
    if (!t && n.has_input(i))
      return fail(Code::kUnsupported,
                  "weight or parameter '" + std::string(n.proto().inputs[i]) + "' is not constant; --const can fix it");
  }
  LATHE_CHECK_OK(add_real(n, conv, 0));
  LATHE_CHECK_OK(add_real(n, conv, 3, 0));
  if (n.has_input(8)) {
    LATHE_TRY(Binding b, sum_operand(n, 8, 1, 4));
    conv.operand(std::move(b));
  }
  LATHE_TRY(const ValueId y, conv.run());
  return finish_steps(n, y, 6, 7);
}

// a, scale, zero, b, scale, zero, scale, zero of the result. Parameters that are vectors run along a's rows and b's columns.
Result<void> import_qlinear_matmul(NodeImport& n) {
  FloatForm product(n, "MatMul");
  LATHE_CHECK_OK(add_real(n, product, 0, -2));
  LATHE_CHECK_OK(add_real(n, product, 3, -1));
  LATHE_TRY(const ValueId y, product.run());
  return finish_steps(n, y, 6, 7);
}

}  // namespace lathe::onnx
