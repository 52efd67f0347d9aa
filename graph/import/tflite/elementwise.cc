// Elementwise operators: of two inputs, of one, activations, softmax.
#include <cmath>

#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

namespace code {
constexpr int32_t kAdd = 0, kLogistic = 14, kMul = 18, kRelu = 19, kReluN1To1 = 20, kRelu6 = 21, kTanh = 28, kSub = 41,
                  kExp = 47, kMaximum = 55, kSqrt = 75;
constexpr int32_t kFloor = 8, kSin = 66, kLog = 73, kAbs = 101, kCeil = 104, kCos = 108, kRound = 116, kSign = 158;
}

fbs::Activation binary_activation(const fbs::Operator& o) {
  const fbs::ActivationOptions* a = o.options_as_Add();
  if (a == nullptr) a = o.options_as_Sub();
  if (a == nullptr) a = o.options_as_Mul();
  if (a == nullptr) a = o.options_as_Div();
  return a == nullptr ? fbs::Activation_NONE : a->activation();
}

Op binary_op(int32_t number) {
  switch (number) {
    case code::kAdd: return Op::kAdd;
    case code::kSub: return Op::kSub;
    case code::kMul: return Op::kMul;
    default: return Op::kDiv;
  }
}

Op unary_op(int32_t number) {
  switch (number) {
    case code::kLogistic: return Op::kSigmoid;
    case code::kTanh: return Op::kTanh;
    case code::kExp: return Op::kExp;
    case code::kSqrt: return Op::kSqrt;
    case code::kFloor: return Op::kFloor;
    case code::kSin: return Op::kSin;
    case code::kLog: return Op::kLog;
    case code::kAbs: return Op::kAbs;
    case code::kCeil: return Op::kCeil;
    case code::kCos: return Op::kCos;
    case code::kRound: return Op::kRound;
    case code::kSign: return Op::kSign;
    default: return Op::kHardSwish;
  }
}

// The one value that all elements of a float constant have.
std::optional<float> uniform(NodeImport& n, ValueId v) {
  const Value& value = n.builder().graph.value(v);
  if (value.kind != ValueKind::kConstant || value.type.dtype != DType::kF32) return std::nullopt;
  const std::span<const float> data = value.constant.as<float>();
  for (const float f : data)
    if (f != data[0]) return std::nullopt;
  return data.empty() ? std::nullopt : std::optional<float>(data[0]);
}

// Operands as float, and the result of a chain of float nodes at the end: finish_value quantizes it where the file says so.
Result<ValueId> real_operand(NodeImport& n, size_t i) {
  LATHE_TRY(const ValueId v, n.value(i));
  return n.real(v);
}

}  // namespace

Result<void> import_binary(NodeImport& n) {
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(binary_activation(n.options())));
  LATHE_TRY(const ValueId a, n.value(0));
  LATHE_TRY(const ValueId b, n.value(1));
  return n.finish(binary_op(n.op().code), BinaryAttrs{bounds.lo, bounds.hi}, {a, b});
}

Result<void> import_unary(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(unary_op(n.op().code), NoAttrs{}, {x});
}

Result<void> import_gelu(NodeImport& n) {
  const auto* o = n.options().options_as_Gelu();
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kGelu, GeluAttrs{o != nullptr && o->approximate() ? 1 : 0}, {x});
}

Result<void> import_clamp(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  switch (n.op().code) {
    case code::kRelu: return n.finish(Op::kClamp, ClampAttrs{0.0f, kInfinity}, {x});
    case code::kReluN1To1: return n.finish(Op::kClamp, ClampAttrs{-1.0f, 1.0f}, {x});
    case code::kRelu6: return n.finish(Op::kClamp, ClampAttrs{0.0f, 6.0f}, {x});
    default: return n.finish(Op::kClamp, ClampAttrs{0.0f, 1.0f}, {x});
  }
}

Result<void> import_leaky_relu(NodeImport& n) {
  const auto* o = n.options().options_as_LeakyRelu();
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kLeakyRelu, LeakyReluAttrs{o == nullptr ? 0.0f : o->alpha()}, {x});
}

// max(x, 0) + alpha min(x, 0), alpha broadcast.
Result<void> import_prelu(NodeImport& n) {
  LATHE_TRY(const ValueId x, real_operand(n, 0));
  LATHE_TRY(const ValueId alpha, real_operand(n, 1));
  LATHE_TRY(const ValueId high, n.emit("high", Op::kClamp, ClampAttrs{0.0f, kInfinity}, {x}));
  LATHE_TRY(const ValueId low, n.emit("low", Op::kClamp, ClampAttrs{-kInfinity, 0.0f}, {x}));
  LATHE_TRY(const ValueId scaled, n.emit("scaled", Op::kMul, BinaryAttrs{}, {low, alpha}));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kAdd, BinaryAttrs{}, {high, scaled}));
  return n.finish_value(y);
}

// Against one constant number, a clamp.
Result<void> import_extremum(NodeImport& n) {
  const bool is_max = n.op().code == code::kMaximum;
  ValueId operands[2];
  for (size_t i = 0; i < 2; ++i) {
    LATHE_TRY(operands[i], n.value(i));
  }
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = operands[1 - i];
    const auto limit = uniform(n, operands[i]);
    if (!limit || n.rank(operands[i]) > n.rank(x)) continue;
    return n.finish(Op::kClamp, is_max ? ClampAttrs{*limit, kInfinity} : ClampAttrs{-kInfinity, *limit}, {x});
  }
  return n.finish(is_max ? Op::kMax : Op::kMin, NoAttrs{}, {operands[0], operands[1]});
}

Result<void> import_elu(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kElu, EluAttrs{}, {x});
}

Result<void> import_neg(NodeImport& n) {
  LATHE_TRY(const ValueId x, real_operand(n, 0));
  if (n.type(x).dtype != DType::kF32) {
    LATHE_TRY(const ValueId zero, n.number("zero", n.type(x).dtype, 0));
    return n.finish(Op::kSub, BinaryAttrs{}, {zero, x});
  }
  LATHE_TRY(const ValueId minus_one, n.real_constant("factor", -1.0f));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kMul, BinaryAttrs{}, {x, minus_one}));
  return n.finish_value(y);
}

Result<void> import_rsqrt(NodeImport& n) {
  LATHE_TRY(const ValueId x, real_operand(n, 0));
  LATHE_TRY(const ValueId root, n.emit("root", Op::kSqrt, NoAttrs{}, {x}));
  LATHE_TRY(const ValueId one, n.real_constant("one", 1.0f));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kDiv, BinaryAttrs{}, {one, root}));
  return n.finish_value(y);
}

Result<void> import_square(NodeImport& n) {
  LATHE_TRY(const ValueId x, real_operand(n, 0));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kMul, BinaryAttrs{}, {x, x}));
  return n.finish_value(y);
}

Result<void> import_squared_difference(NodeImport& n) {
  LATHE_TRY(const ValueId a, real_operand(n, 0));
  LATHE_TRY(const ValueId b, real_operand(n, 1));
  LATHE_TRY(const ValueId d, n.emit("difference", Op::kSub, BinaryAttrs{}, {a, b}));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kMul, BinaryAttrs{}, {d, d}));
  return n.finish_value(y);
}

// Of integers, what the remainder leaves divides without rest.
Result<void> import_floor_div(NodeImport& n) {
  LATHE_TRY(const ValueId a, real_operand(n, 0));
  LATHE_TRY(const ValueId b, real_operand(n, 1));
  if (n.type(a).dtype == DType::kF32) {
    LATHE_TRY(const ValueId quotient, n.emit("quotient", Op::kDiv, BinaryAttrs{}, {a, b}));
    LATHE_TRY(const ValueId y, n.emit("real", Op::kFloor, NoAttrs{}, {quotient}));
    return n.finish_value(y);
  }
  LATHE_TRY(const ValueId rest, n.emit("rest", Op::kMod, ModAttrs{}, {a, b}));
  LATHE_TRY(const ValueId multiple, n.emit("multiple", Op::kSub, BinaryAttrs{}, {a, rest}));
  return n.finish(Op::kDiv, BinaryAttrs{}, {multiple, b});
}

Result<void> import_floor_mod(NodeImport& n) {
  LATHE_TRY(const ValueId a, real_operand(n, 0));
  LATHE_TRY(const ValueId b, real_operand(n, 1));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kMod, ModAttrs{}, {a, b}));
  return n.finish_value(y);
}

Result<void> import_add_n(NodeImport& n) {
  LATHE_TRY(ValueId sum, real_operand(n, 0));
  for (size_t i = 1; i < n.input_count(); ++i) {
    LATHE_TRY(const ValueId x, real_operand(n, i));
    LATHE_TRY(sum, n.emit("sum", Op::kAdd, BinaryAttrs{}, {sum, x}));
  }
  return n.finish_value(sum);
}

// Small whole powers are products.
Result<void> import_pow(NodeImport& n) {
  constexpr float kMaxPower = 8;
  LATHE_TRY(const ValueId x, real_operand(n, 0));
  LATHE_TRY(const ValueId exponent, real_operand(n, 1));
  const auto power = uniform(n, exponent);
  const bool product = power && *power == std::trunc(*power) && *power >= 1 && *power <= kMaxPower;
  if (!product) {
    LATHE_TRY(const ValueId y, n.emit("real", Op::kPow, NoAttrs{}, {x, exponent}));
    return n.finish_value(y);
  }
  ValueId y = x;
  for (float i = 1; i < *power; ++i) {
    LATHE_TRY(y, n.emit("real", Op::kMul, BinaryAttrs{}, {y, x}));
  }
  return n.finish_value(y);
}

// Of the last axis; beta scales the input.
Result<void> import_softmax(NodeImport& n) {
  const auto* o = n.options().options_as_Softmax();
  const float beta = o == nullptr ? 1.0f : o->beta();
  LATHE_TRY(ValueId x, n.value(0));
  if (n.rank(x) == 0) return fail(Code::kInvalidArgument, "its input has rank 0");
  const AxisAttrs last{static_cast<int32_t>(n.rank(x)) - 1};
  if (beta == 1.0f) return n.finish(Op::kSoftmax, last, {x});
  LATHE_TRY(x, n.real(x));
  LATHE_TRY(const ValueId factor, n.real_constant("beta", beta));
  LATHE_TRY(const ValueId scaled, n.emit("scaled", Op::kMul, BinaryAttrs{}, {x, factor}));
  LATHE_TRY(const ValueId y, n.emit("real", Op::kSoftmax, last, {scaled}));
  return n.finish_value(y);
}

}  // namespace lathe::tflite
