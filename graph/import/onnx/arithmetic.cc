// Elementwise operators. Those that Lathe has no kernel for are written with others.
#include <algorithm>
#include <cmath>

#include "graph/import/onnx/importer.h"

namespace lathe::onnx {
namespace {

Result<void> import_binary(NodeImport& n, Op op) {
  LATHE_TRY(const ValueId a, n.value(0));
  LATHE_TRY(const ValueId b, n.value(1));
  return n.finish(op, BinaryAttrs{}, {a, b});
}

Result<void> import_unary(NodeImport& n, Op op) {
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(op, NoAttrs{}, {x});
}

Result<ValueId> scalar(NodeImport& n, const std::string& tag, float v) {
  return n.builder().constant(
      {n.builder().value_name(n.name() + ":" + tag), DType::kF32, {}, Constant::of(std::vector<float>{v})});
}

Result<ValueId> float_value(NodeImport& n, size_t i) {
  LATHE_TRY(const ValueId x, n.value(i));
  if (n.type(x).dtype != DType::kF32)
    return fail(Code::kUnsupported,
                std::string("an input of type ") + dtype_name(n.type(x).dtype) + " is not supported, only floats");
  return x;
}

}  // namespace

Result<void> import_add(NodeImport& n) { return import_binary(n, Op::kAdd); }
Result<void> import_sub(NodeImport& n) { return import_binary(n, Op::kSub); }
Result<void> import_mul(NodeImport& n) { return import_binary(n, Op::kMul); }
Result<void> import_div(NodeImport& n) { return import_binary(n, Op::kDiv); }

Result<void> import_neg(NodeImport& n) {
  LATHE_TRY(const ValueId x, float_value(n, 0));
  LATHE_TRY(const ValueId minus_one, scalar(n, "minus_one", -1.0f));
  return n.finish(Op::kMul, BinaryAttrs{}, {x, minus_one});
}

Result<void> import_reciprocal(NodeImport& n) {
  LATHE_TRY(const ValueId x, float_value(n, 0));
  LATHE_TRY(const ValueId one, scalar(n, "one", 1.0f));
  return n.finish(Op::kDiv, BinaryAttrs{}, {one, x});
}

// Powers that other ops compute exactly, or nearly: the exponent must be one constant among these.
Result<void> import_pow(NodeImport& n) {
  LATHE_TRY(const float exponent, n.known_real(1, "the exponent"));
  LATHE_TRY(const ValueId x, float_value(n, 0));
  if (exponent == 0.5f) return n.finish(Op::kSqrt, NoAttrs{}, {x});
  if (exponent == 2.0f) return n.finish(Op::kMul, BinaryAttrs{}, {x, x});
  if (exponent == 3.0f) {
    LATHE_TRY(const ValueId square, n.emit("square", Op::kMul, BinaryAttrs{}, {x, x}));
    return n.finish(Op::kMul, BinaryAttrs{}, {square, x});
  }
  if (exponent != 1.0f)
    return fail(Code::kUnsupported, "the exponent " + std::to_string(exponent) + " is not supported, only 0.5, 1, 2 and 3");
  n.bind({x, nullptr});
  return {};
}

Result<void> import_sum(NodeImport& n) {
  LATHE_TRY(ValueId sum, n.value(0));
  if (n.input_count() == 1) {
    n.bind({sum, nullptr});
    return {};
  }
  for (size_t i = 1; i + 1 < n.input_count(); ++i) {
    LATHE_TRY(const ValueId x, n.value(i));
    LATHE_TRY(sum, n.emit("sum" + std::to_string(i), Op::kAdd, BinaryAttrs{}, {sum, x}));
  }
  LATHE_TRY(const ValueId last, n.value(n.input_count() - 1));
  return n.finish(Op::kAdd, BinaryAttrs{}, {sum, last});
}

Result<void> import_relu(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kClamp, ClampAttrs{0.0f, kInfinity}, {x});
}

// Bounds are attributes before opset 11 and optional inputs from then on.
Result<void> import_clip(NodeImport& n) {
  ClampAttrs attrs;
  if (n.opset() < 11) {
    LATHE_TRY(attrs.lo, n.real("min", -kInfinity));
    LATHE_TRY(attrs.hi, n.real("max", kInfinity));
    if (n.input_count() > 1) return fail(Code::kInvalidArgument, "bounds are inputs from opset 11 on");
  }
  if (n.has_input(1)) {
    LATHE_TRY(attrs.lo, n.known_real(1, "the lower bound"));
  }
  if (n.has_input(2)) {
    LATHE_TRY(attrs.hi, n.known_real(2, "the upper bound"));
  }
  if (std::isnan(attrs.lo) || std::isnan(attrs.hi)) return fail(Code::kInvalidArgument, "a bound is NaN");
  // The upper bound is applied last, so it wins over a larger lower one.
  attrs.lo = std::min(attrs.lo, attrs.hi);
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kClamp, attrs, {x});
}

Result<void> import_leaky_relu(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 0.01f));
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kLeakyRelu, LeakyReluAttrs{alpha}, {x});
}

Result<void> import_sigmoid(NodeImport& n) { return import_unary(n, Op::kSigmoid); }
Result<void> import_tanh(NodeImport& n) { return import_unary(n, Op::kTanh); }
Result<void> import_exp(NodeImport& n) { return import_unary(n, Op::kExp); }
Result<void> import_sqrt(NodeImport& n) { return import_unary(n, Op::kSqrt); }
Result<void> import_hard_swish(NodeImport& n) { return import_unary(n, Op::kHardSwish); }

Result<void> import_erf(NodeImport& n) { return import_unary(n, Op::kErf); }

Result<void> import_gelu(NodeImport& n) {
  LATHE_TRY(const std::string_view form, n.text("approximate", "none"));
  if (form != "none" && form != "tanh")
    return fail(Code::kUnsupported, "attribute 'approximate' is '" + std::string(form) + "', must be 'none' or 'tanh'");
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kGelu, GeluAttrs{form == "tanh" ? 1 : 0}, {x});
}

// clamp(alpha * x + beta, 0, 1)
Result<void> import_hard_sigmoid(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 0.2f));
  LATHE_TRY(const float beta, n.real("beta", 0.5f));
  LATHE_TRY(const ValueId x, float_value(n, 0));
  LATHE_TRY(const ValueId a, scalar(n, "alpha", alpha));
  LATHE_TRY(const ValueId b, scalar(n, "beta", beta));
  LATHE_TRY(const ValueId scaled, n.emit("scale", Op::kMul, BinaryAttrs{}, {x, a}));
  LATHE_TRY(const ValueId shifted, n.emit("shift", Op::kAdd, BinaryAttrs{}, {scaled, b}));
  return n.finish(Op::kClamp, ClampAttrs{0.0f, 1.0f}, {shifted});
}

}  // namespace lathe::onnx
