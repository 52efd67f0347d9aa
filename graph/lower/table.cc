// One-input functions on s8 as tables of 256 bytes, and the exponential table of Softmax. Tables are made here, once, in double
// with the host's libm and rounded by ARITHMETIC.md's quantize, and stored: devices only look up.
#include <cmath>

#include "graph/lower/lowering.h"
#include "lathe/arith.h"

namespace lathe {
namespace {

double gelu(bool tanh_form, double x) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  return 0.5 * x * (tanh_form ? 1.0 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)) : std::erfc(-x / std::sqrt(2.0)));
}

double elu(const EluAttrs& a, double x) {
  const double gamma = static_cast<double>(a.gamma);
  return x >= 0 ? gamma * x : gamma * static_cast<double>(a.alpha) * std::expm1(static_cast<double>(a.beta) * x);
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

double hard_sigmoid(const HardSigmoidAttrs& a, double x) {
  return std::min(std::max(static_cast<double>(a.alpha) * x + static_cast<double>(a.beta), 0.0), 1.0);
}

double evaluate(const Node& node, double x) {
  switch (node.op) {
    case Op::kSigmoid: return 1.0 / (1.0 + std::exp(-x));
    case Op::kTanh: return std::tanh(x);
    case Op::kExp: return std::exp(x);
    case Op::kSqrt: return std::sqrt(x);
    case Op::kHardSwish: return x * std::min(std::max(x + 3.0, 0.0), 6.0) / 6.0;
    case Op::kErf: return std::erf(x);
    case Op::kGelu: return gelu(std::get<GeluAttrs>(node.attrs).approximate != 0, x);
    case Op::kSilu: return x / (1.0 + std::exp(-x));
    case Op::kAbs: return std::fabs(x);
    case Op::kSign: return x > 0 ? 1.0 : (x < 0 ? -1.0 : 0.0);
    case Op::kFloor: return std::floor(x);
    case Op::kCeil: return std::ceil(x);
    case Op::kRound: return std::nearbyint(x);
    case Op::kLog: return std::log(x);
    case Op::kSin: return std::sin(x);
    case Op::kCos: return std::cos(x);
    case Op::kTan: return std::tan(x);
    case Op::kAsin: return std::asin(x);
    case Op::kAcos: return std::acos(x);
    case Op::kAtan: return std::atan(x);
    case Op::kSinh: return std::sinh(x);
    case Op::kCosh: return std::cosh(x);
    case Op::kAsinh: return std::asinh(x);
    case Op::kAcosh: return std::acosh(x);
    case Op::kAtanh: return std::atanh(x);
    case Op::kElu: return elu(std::get<EluAttrs>(node.attrs), x);
    case Op::kSoftplus: return softplus(x);
    case Op::kMish: return x * std::tanh(softplus(x));
    case Op::kHardSigmoid: return hard_sigmoid(std::get<HardSigmoidAttrs>(node.attrs), x);
    default: return std::nan("");
  }
}

}  // namespace

Result<void> lower_table(Lowering& state, const Node& node) {
  LATHE_TRY(const QuantParams x, tensor_quant(state.graph.value(node.inputs[0])));
  LATHE_TRY(const QuantParams y, tensor_quant(state.graph.value(node.outputs[0])));
  std::vector<int8_t> table(256);
  for (int32_t q = -128; q < 128; ++q) {
    const auto value = static_cast<float>(evaluate(node, static_cast<double>(dequantize(q, x.scale, x.zero_point))));
    table[static_cast<size_t>(q + 128)] = static_cast<int8_t>(quantize(value, y.scale, y.zero_point, y.qmin, y.qmax));
  }
  std::vector<uint32_t> in(2, kNoTensor);
  const int64_t dims[] = {256};
  LATHE_TRY(in[0], state.operand(node.inputs[0]));
  LATHE_TRY(in[1], state.derived(table, DType::kS8, dims));
  return state.emit(node, node.op, node.attrs, std::move(in));
}

Result<void> lower_softmax(Lowering& state, const Node& node) {
  LATHE_TRY(const QuantParams x, tensor_quant(state.graph.value(node.inputs[0])));
  std::vector<uint16_t> table(256);
  for (int32_t d = 0; d < 256; ++d)
    table[static_cast<size_t>(d)] = static_cast<uint16_t>(std::nearbyint(65535.0 * std::exp(-static_cast<double>(x.scale) * d)));
  std::vector<uint32_t> in(2, kNoTensor);
  const int64_t dims[] = {256};
  LATHE_TRY(in[0], state.operand(node.inputs[0]));
  LATHE_TRY(in[1], state.derived(table, DType::kU16, dims));
  return state.emit(node, node.op, node.attrs, std::move(in));
}

}  // namespace lathe
