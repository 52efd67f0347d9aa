// Functions of one input: activations, and the mathematical ones.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/import/onnx/expression.h"
#include "runtime/element_types.h"

namespace lathe::onnx {
namespace {

Result<void> import_function(NodeImport& n, Op op) {
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(op, NoAttrs{}, {x});
}

// x sigmoid(alpha x).
ValueId swish(Expression& e, ValueId x, float alpha) {
  if (alpha == 1.0f) return e.node(Op::kSilu, {x});
  const ValueId scaled = e.node(Op::kMul, {x, e.number(x, static_cast<double>(alpha))});
  return e.node(Op::kMul, {x, e.node(Op::kSigmoid, {scaled})});
}

}  // namespace

Result<void> import_ceil(NodeImport& n) { return import_function(n, Op::kCeil); }
Result<void> import_floor(NodeImport& n) { return import_function(n, Op::kFloor); }
Result<void> import_round(NodeImport& n) { return import_function(n, Op::kRound); }
Result<void> import_exp(NodeImport& n) { return import_function(n, Op::kExp); }
Result<void> import_log(NodeImport& n) { return import_function(n, Op::kLog); }
Result<void> import_sqrt(NodeImport& n) { return import_function(n, Op::kSqrt); }
Result<void> import_erf(NodeImport& n) { return import_function(n, Op::kErf); }
Result<void> import_sin(NodeImport& n) { return import_function(n, Op::kSin); }
Result<void> import_cos(NodeImport& n) { return import_function(n, Op::kCos); }
Result<void> import_tan(NodeImport& n) { return import_function(n, Op::kTan); }
Result<void> import_asin(NodeImport& n) { return import_function(n, Op::kAsin); }
Result<void> import_acos(NodeImport& n) { return import_function(n, Op::kAcos); }
Result<void> import_atan(NodeImport& n) { return import_function(n, Op::kAtan); }
Result<void> import_sinh(NodeImport& n) { return import_function(n, Op::kSinh); }
Result<void> import_cosh(NodeImport& n) { return import_function(n, Op::kCosh); }
Result<void> import_tanh(NodeImport& n) { return import_function(n, Op::kTanh); }
Result<void> import_asinh(NodeImport& n) { return import_function(n, Op::kAsinh); }
Result<void> import_acosh(NodeImport& n) { return import_function(n, Op::kAcosh); }
Result<void> import_atanh(NodeImport& n) { return import_function(n, Op::kAtanh); }
Result<void> import_sigmoid(NodeImport& n) { return import_function(n, Op::kSigmoid); }
Result<void> import_softplus(NodeImport& n) { return import_function(n, Op::kSoftplus); }
Result<void> import_mish(NodeImport& n) { return import_function(n, Op::kMish); }
Result<void> import_hard_swish(NodeImport& n) { return import_function(n, Op::kHardSwish); }

Result<void> import_relu(NodeImport& n) {
  Expression e(n);
  const ValueId x = e.operand(0);
  if (e.dtype(x) != DType::kF32) return e.finish(Op::kMax, {x, e.number(x, 0)});
  return e.finish(Op::kClamp, {x}, ClampAttrs{0.0f, kInfinity});
}

namespace {

// A bound of Clip: an attribute before opset 11, an optional operand from then on. Its number if it is known.
struct Bound {
  bool given = false;
  std::optional<float> value;
};
Result<Bound> read_bound(NodeImport& n, const char* attribute, size_t operand, float absent) {
  if (n.opset() < 11) {
    if (n.input_count() > 1) return fail(Code::kInvalidArgument, "bounds are inputs from opset 11 on");
    LATHE_TRY(const float v, n.real(attribute, absent));
    return Bound{false, v};
  }
  if (!n.has_input(operand)) return Bound{false, absent};
  LATHE_TRY(const auto t, n.known_tensor(operand));
  if (t == nullptr || t->dtype != DType::kF32) return Bound{true, std::nullopt};
  if (t->elems() != 1)
    return fail(Code::kInvalidArgument,
                "bound " + std::to_string(operand) + " has " + std::to_string(t->elems()) + " elements, not 1");
  return Bound{true, t->bytes.as<float>()[0]};
}

// min(max(x, lo), hi) with bounds that are computed, or of integers.
Result<void> clip_by_operands(NodeImport& n, bool has_low, bool has_high) {
  Expression e(n);
  const ValueId x = e.operand(0);
  if (has_low && has_high) return e.finish(Op::kMin, {e.node(Op::kMax, {x, e.operand(1)}), e.operand(2)});
  if (has_low) return e.finish(Op::kMax, {x, e.operand(1)});
  if (has_high) return e.finish(Op::kMin, {x, e.operand(2)});
  return e.finish(x);
}

}  // namespace

// The upper bound is applied last, so it wins over a larger lower one.
Result<void> import_clip(NodeImport& n) {
  LATHE_TRY(const Bound low, read_bound(n, "min", 1, -kInfinity));
  LATHE_TRY(const Bound high, read_bound(n, "max", 2, kInfinity));
  LATHE_TRY(const ValueId x, n.value(0));
  if (!low.value || !high.value || n.type(x).dtype != DType::kF32) return clip_by_operands(n, low.given, high.given);
  if (std::isnan(*low.value) || std::isnan(*high.value)) return fail(Code::kInvalidArgument, "a bound is NaN");
  return n.finish(Op::kClamp, ClampAttrs{std::min(*low.value, *high.value), *high.value}, {x});
}

Result<void> import_leaky_relu(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 0.01f));
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kLeakyRelu, LeakyReluAttrs{alpha}, {x});
}

// max(x, 0) + slope * min(x, 0), all of which have an 8-bit form; one constant slope is a leaky ReLU.
Result<void> import_prelu(NodeImport& n) {
  LATHE_TRY(const auto slope, n.known_tensor(1));
  Expression e(n);
  const ValueId x = e.operand(0);
  if (e.dtype(x) != DType::kF32) {
    const ValueId zero = e.number(x, 0), negative = e.node(Op::kMul, {x, e.operand(1)});
    return e.finish(Op::kWhere, {e.node(Op::kLess, {x, zero}), negative, x});
  }
  if (slope != nullptr && slope->elems() == 1 && slope->dtype == DType::kF32 && std::isfinite(slope->bytes.as<float>()[0]) &&
      slope->dims.size() <= e.dims(x).size())
    return e.finish(Op::kLeakyRelu, {x}, LeakyReluAttrs{slope->bytes.as<float>()[0]});
  const ValueId positive = e.node(Op::kClamp, {x}, ClampAttrs{0.0f, kInfinity});
  const ValueId negative = e.node(Op::kClamp, {x}, ClampAttrs{-kInfinity, 0.0f});
  return e.finish(Op::kAdd, {positive, e.node(Op::kMul, {negative, e.operand(1)})});
}

Result<void> import_gelu(NodeImport& n) {
  LATHE_TRY(const std::string_view form, n.text("approximate", "none"));
  if (form != "none" && form != "tanh")
    return fail(Code::kUnsupported, "attribute 'approximate' is '" + std::string(form) + "', must be 'none' or 'tanh'");
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kGelu, GeluAttrs{form == "tanh" ? 1 : 0}, {x});
}

Result<void> import_hard_sigmoid(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 0.2f));
  LATHE_TRY(const float beta, n.real("beta", 0.5f));
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kHardSigmoid, HardSigmoidAttrs{alpha, beta}, {x});
}

Result<void> import_elu(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.0f));
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kElu, EluAttrs{alpha, 1.0f, 1.0f}, {x});
}

Result<void> import_selu(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.67326319217681884765625f));
  LATHE_TRY(const float gamma, n.real("gamma", 1.05070102214813232421875f));
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kElu, EluAttrs{alpha, 1.0f, gamma}, {x});
}

// max(x, 0) + min(alpha (exp(x / alpha) - 1), 0), whose second part is 0 for positive x if alpha is positive.
Result<void> import_celu(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.0f));
  if (!(alpha > 0))
    return fail(Code::kUnsupported, "attribute 'alpha' is " + std::to_string(alpha) + ", only positive ones are supported");
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kElu, EluAttrs{alpha, 1.0f / alpha, 1.0f}, {x});
}

// x where it is above alpha, else 0.
Result<void> import_thresholded_relu(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.0f));
  Expression e(n);
  const ValueId x = e.operand(0);
  return e.finish(Op::kWhere, {e.node(Op::kLess, {e.number(x, static_cast<double>(alpha)), x}), x, e.number(x, 0)});
}

// x + bias below -lambd, x - bias above lambd, else 0.
Result<void> import_shrink(NodeImport& n) {
  LATHE_TRY(const float bias, n.real("bias", 0.0f));
  LATHE_TRY(const float lambda, n.real("lambd", 0.5f));
  Expression e(n);
  const ValueId x = e.operand(0);
  const double l = static_cast<double>(lambda), b = static_cast<double>(bias);
  const ValueId below = e.node(Op::kLess, {x, e.number(x, -l)}), above = e.node(Op::kLess, {e.number(x, l), x});
  const ValueId upper = e.node(Op::kWhere, {above, e.node(Op::kSub, {x, e.number(x, b)}), e.number(x, 0)});
  return e.finish(Op::kWhere, {below, e.node(Op::kAdd, {x, e.number(x, b)}), upper});
}

// x / (1 + |x|).
Result<void> import_softsign(NodeImport& n) {
  Expression e(n);
  const ValueId x = e.operand(0);
  return e.finish(Op::kDiv, {x, e.node(Op::kAdd, {e.node(Op::kAbs, {x}), e.number(x, 1)})});
}

Result<void> import_swish(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.0f));
  Expression e(n);
  const ValueId x = e.operand(0);
  if (alpha == 1.0f) return e.finish(Op::kSilu, {x});
  const ValueId scaled = e.node(Op::kMul, {x, e.number(x, static_cast<double>(alpha))});
  return e.finish(Op::kMul, {x, e.node(Op::kSigmoid, {scaled})});
}

// swish(a) b.
Result<void> import_swiglu(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.0f));
  Expression e(n);
  const ValueId gate = swish(e, e.operand(0), alpha);
  return e.finish(Op::kMul, {gate, e.operand(1)});
}

}  // namespace lathe::onnx
