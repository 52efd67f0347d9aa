// Domain com.microsoft: operators that ONNX Runtime's quantizer and optimizer write, as those of the default domain.
#include "graph/import/onnx/float_form.h"
#include "graph/import/onnx/quantize.h"

namespace lathe::onnx {
namespace {

Result<ValueId> binary(NodeImport& n, const std::string& tag, Op op, ValueId a, ValueId b) {
  return n.emit(tag, op, BinaryAttrs{}, {a, b});
}

Result<ValueId> as_float(NodeImport& n, ValueId v) {
  return n.emit("real", Op::kCast, CastAttrs{static_cast<int32_t>(DType::kF32)}, {v});
}

Result<ValueId> plus_operand(NodeImport& n, ValueId x, size_t i, const std::string& tag) {
  if (!n.has_input(i)) return x;
  LATHE_TRY(const ValueId b, n.value(i));
  return binary(n, tag, Op::kAdd, x, b);
}

// The float operator on operand 0 (scale and zero point behind it) and its result on the grid of operands 3 and 4.
Result<void> finish_unary(NodeImport& n, FloatForm& form) {
  LATHE_TRY(Binding x, dequantized_operand(n, "input", 0, {1, 2}, 0));
  form.operand(std::move(x));
  LATHE_TRY(const ValueId y, form.run());
  LATHE_TRY(const DType steps, step_type(n, 4, DType::kU8));
  return finish_quantized(n, y, {3, 4}, steps);
}

Result<void> finish_binary(NodeImport& n, std::string_view op_type) {
  FloatForm form(n, op_type);
  for (size_t i : {size_t{0}, size_t{3}}) {
    LATHE_TRY(Binding b, dequantized_operand(n, "input" + std::to_string(i), i, {i + 1, i + 2}, 0));
    form.operand(std::move(b));
  }
  LATHE_TRY(const ValueId y, form.run());
  LATHE_TRY(const DType steps, step_type(n, 7, DType::kU8));
  return finish_quantized(n, y, {6, 7}, steps);
}

// The layout that pools of this domain may have.
Result<void> want_channels_first(NodeImport& n) {
  LATHE_TRY(const bool last, n.flag("channels_last", false));
  return last ? fail(Code::kUnsupported, "attribute 'channels_last' 1 is not supported") : Result<void>{};
}

}  // namespace

Result<void> import_qlinear_add(NodeImport& n) { return finish_binary(n, "Add"); }
Result<void> import_qlinear_mul(NodeImport& n) { return finish_binary(n, "Mul"); }

// Scale and zero point of the result, then tensor, scale, zero point of every input.
Result<void> import_qlinear_concat(NodeImport& n) {
  FloatForm form(n, "Concat");
  form.take_attributes();
  if (n.input_count() % 3 != 2)
    return fail(Code::kInvalidArgument, "it has " + std::to_string(n.input_count()) + " inputs, not 2 and triples");
  for (size_t i = 2; i < n.input_count(); i += 3) {
    LATHE_TRY(Binding b, dequantized_operand(n, "input" + std::to_string(i), i, {i + 1, i + 2}, 0));
    form.operand(std::move(b));
  }
  LATHE_TRY(const ValueId y, form.run());
  LATHE_TRY(const DType steps, step_type(n, 1, DType::kU8));
  return finish_quantized(n, y, {0, 1}, steps);
}

Result<void> import_qlinear_sigmoid(NodeImport& n) {
  FloatForm form(n, "Sigmoid");
  return finish_unary(n, form);
}

Result<void> import_qlinear_leaky_relu(NodeImport& n) {
  FloatForm form(n, "LeakyRelu");
  form.take_attributes();
  return finish_unary(n, form);
}

Result<void> import_qlinear_global_average_pool(NodeImport& n) {
  LATHE_CHECK_OK(want_channels_first(n));
  FloatForm form(n, "GlobalAveragePool");
  return finish_unary(n, form);
}

Result<void> import_qlinear_average_pool(NodeImport& n) {
  LATHE_CHECK_OK(want_channels_first(n));
  FloatForm form(n, "AveragePool");
  form.take_attributes({"channels_last"});
  return finish_unary(n, form);
}

// Attribute 'opset' says whose Softmax it is: before 13 it runs over all axes from 'axis' on.
Result<void> import_qlinear_softmax(NodeImport& n) {
  LATHE_TRY(const int64_t opset, n.integer("opset", 13));
  const int64_t outer = n.builder().opset;
  FloatForm form(n, "Softmax");
  form.take_attributes({"opset"});
  n.builder().opset = opset;
  auto done = finish_unary(n, form);
  n.builder().opset = outer;
  return done;
}

// a, scale, zero, b, scale, zero, c* (s32 in steps of both scales and alpha), scale*, zero* of the result: a float without them.
Result<void> import_qgemm(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.0f));
  FloatForm form(n, "Gemm");
  form.take_attributes();
  LATHE_TRY(Binding a, dequantized_operand(n, "a", 0, {1, 2}, 0));
  form.operand(std::move(a));
  LATHE_TRY(const bool trans_b, n.flag("transB", false));
  LATHE_TRY(Binding b, dequantized_operand(n, "b", 3, {4, 5}, trans_b ? 0 : 1));
  form.operand(std::move(b));
  if (n.has_input(6)) {
    LATHE_TRY(Binding c, sum_operand(n, 6, 1, 4, alpha));
    form.operand(std::move(c));
  }
  LATHE_TRY(const ValueId y, form.run());
  if (!n.has_input(7)) {
    n.bind({y, nullptr});
    return {};
  }
  LATHE_TRY(const DType steps, step_type(n, 8, DType::kU8));
  return finish_quantized(n, y, {7, 8}, steps);
}

namespace {

// float(a b) * (scale of a * scale of b) [+ bias].
Result<void> finish_scaled(NodeImport& n, std::vector<ValueId> operands, ValueId a_scale, ValueId b_scale, size_t bias) {
  LATHE_TRY(const ValueId sum, n.emit("", Op::kMatMulInteger, NoAttrs{}, std::move(operands)));
  LATHE_TRY(const ValueId real, as_float(n, sum));
  LATHE_TRY(const ValueId scale, binary(n, "scale", Op::kMul, a_scale, b_scale));
  if (!n.has_input(bias)) return n.finish(Op::kMul, BinaryAttrs{}, {real, scale}, 0, "scaled");
  LATHE_TRY(const ValueId scaled, binary(n, "scaled", Op::kMul, real, scale));
  LATHE_TRY(const ValueId b, n.value(bias));
  return n.finish(Op::kAdd, BinaryAttrs{}, {scaled, b}, 0, "biased");
}

}  // namespace

// a (float), b, its scale, zero point*, bias*.
Result<void> import_dynamic_quantize_matmul(NodeImport& n) {
  LATHE_TRY(const ValueId a, n.value(0));
  LATHE_TRY(const ValueId b, n.value(1));
  LATHE_TRY(const ValueId b_scale, n.value(2));
  LATHE_TRY(const std::vector<ValueId> q, n.emit_all("quantize", Op::kDynamicQuantizeLinear, NoAttrs{}, {a}));
  std::vector<ValueId> operands = {q[0], b, q[2]};
  if (n.has_input(3)) {
    LATHE_TRY(operands.emplace_back(), n.value(3));
  }
  return finish_scaled(n, std::move(operands), q[1], b_scale, 4);
}

// a, b, scale and scale, zero point* and zero point*, bias*.
Result<void> import_matmul_integer_to_float(NodeImport& n) {
  std::vector<ValueId> operands;
  for (size_t i : {0, 1, 4, 5}) {
    LATHE_TRY(operands.emplace_back(), n.has_input(i) ? n.value(i) : Result<ValueId>(kNoId));
  }
  LATHE_TRY(const ValueId a_scale, n.value(2));
  LATHE_TRY(const ValueId b_scale, n.value(3));
  return finish_scaled(n, std::move(operands), a_scale, b_scale, 6);
}

namespace {

Result<void> finish_activated(NodeImport& n, ValueId x, std::string_view kind, const std::vector<float>& params) {
  const auto param = [&](size_t i, float absent) { return i < params.size() ? params[i] : absent; };
  if (kind.empty()) {
    n.bind({x, nullptr});
    return {};
  }
  if (kind == "Relu") return n.finish(Op::kClamp, ClampAttrs{0.0f, kInfinity}, {x}, 0, "activation");
  if (kind == "Clip") return n.finish(Op::kClamp, ClampAttrs{param(0, -kInfinity), param(1, kInfinity)}, {x}, 0, "activation");
  if (kind == "Tanh") return n.finish(Op::kTanh, NoAttrs{}, {x}, 0, "activation");
  if (kind == "Sigmoid") return n.finish(Op::kSigmoid, NoAttrs{}, {x}, 0, "activation");
  if (kind == "LeakyRelu") return n.finish(Op::kLeakyRelu, LeakyReluAttrs{param(0, 0.01f)}, {x}, 0, "activation");
  if (kind != "HardSigmoid") return fail(Code::kUnsupported, "activation '" + std::string(kind) + "' is not supported");
  FloatForm form(n, "HardSigmoid");
  form.operand(x);
  form.set("alpha", param(0, 0.2f));
  form.set("beta", param(1, 0.5f));
  LATHE_TRY(const ValueId y, form.run());
  n.bind({y, nullptr});
  return {};
}

}  // namespace

// x, w, bias*, addend*: activation(conv + addend).
Result<void> import_fused_conv(NodeImport& n) {
  LATHE_TRY(const std::string_view activation, n.text("activation", ""));
  LATHE_TRY(const std::vector<float> params, n.reals("activation_params"));
  FloatForm form(n, "Conv");
  form.take_attributes({"activation", "activation_params"});
  for (size_t i = 0; i < 3 && i < n.input_count(); ++i)
    if (n.has_input(i)) form.operand(n.stored_binding(i));
  LATHE_TRY(ValueId y, form.run());
  LATHE_TRY(y, plus_operand(n, y, 3, "add"));
  return finish_activated(n, y, activation, params);
}

namespace {

// Operand i with its last two axes swapped on request.
Result<Binding> maybe_transposed(NodeImport& n, size_t i, bool swap) {
  if (!swap) return n.stored_binding(i);
  LATHE_TRY(const auto constant, n.weight(i));
  PermAttrs attrs;
  LATHE_TRY(const size_t rank,
            constant ? Result<size_t>(constant->dims.size()) : n.value(i).map([&](ValueId v) { return n.rank(v); }));
  if (rank < 2) return fail(Code::kInvalidArgument, "an operand of rank " + std::to_string(rank) + " cannot be transposed");
  std::vector<int32_t> perm(rank);
  for (size_t a = 0; a < rank; ++a) perm[a] = static_cast<int32_t>(a);
  std::swap(perm[rank - 2], perm[rank - 1]);
  if (constant) return Binding{kNoId, std::make_shared<const ConstTensor>(permuted(*constant, perm))};
  for (int32_t axis : perm) attrs.perm.values[attrs.perm.count++] = axis;
  LATHE_TRY(const ValueId x, n.value(i));
  LATHE_TRY(const ValueId t, n.emit("transposed" + std::to_string(i), Op::kTranspose, attrs, {x}));
  return Binding{t, nullptr};
}

}  // namespace

// alpha * A' * B', with A' and B' transposed on request.
Result<void> import_fused_matmul(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.0f));
  LATHE_TRY(const bool trans_a, n.flag("transA", false));
  LATHE_TRY(const bool trans_b, n.flag("transB", false));
  for (const char* name : {"transBatchA", "transBatchB"}) {
    LATHE_TRY(const bool batch, n.flag(name, false));
    if (batch) return fail(Code::kUnsupported, std::string("attribute '") + name + "' 1 is not supported");
  }
  FloatForm form(n, "MatMul");
  LATHE_TRY(Binding a, maybe_transposed(n, 0, trans_a));
  form.operand(std::move(a));
  LATHE_TRY(Binding b, maybe_transposed(n, 1, trans_b));
  form.operand(std::move(b));
  LATHE_TRY(const ValueId product, form.run());
  if (alpha == 1.0f) {
    n.bind({product, nullptr});
    return {};
  }
  LATHE_TRY(const ValueId factor, n.scalar_constant("alpha", alpha));
  return n.finish(Op::kMul, BinaryAttrs{}, {product, factor}, 0, "scaled");
}

Result<void> import_bias_gelu(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId sum, plus_operand(n, x, 1, "bias"));
  return n.finish(Op::kGelu, GeluAttrs{0}, {sum});
}

Result<void> import_fast_gelu(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId sum, plus_operand(n, x, 1, "bias"));
  return n.finish(Op::kGelu, GeluAttrs{1}, {sum});
}

// x * sigmoid(alpha x)
Result<void> import_quick_gelu(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.702f));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId factor, n.scalar_constant("alpha", alpha));
  LATHE_TRY(const ValueId scaled, binary(n, "scale", Op::kMul, x, factor));
  LATHE_TRY(const ValueId gate, n.emit("sigmoid", Op::kSigmoid, NoAttrs{}, {scaled}));
  return n.finish(Op::kMul, BinaryAttrs{}, {x, gate});
}

namespace {

// input + skip [+ bias], which is output 3 too.
Result<ValueId> skip_sum(NodeImport& n, size_t bias) {
  for (size_t i : {1, 2})
    if (n.has_output(i)) return fail(Code::kUnsupported, "output " + std::to_string(i) + " is for training and not supported");
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId skip, n.value(1));
  LATHE_TRY(ValueId sum, binary(n, "skip", Op::kAdd, x, skip));
  LATHE_TRY(sum, plus_operand(n, sum, bias, "bias"));
  n.bind({sum, nullptr}, 3);
  return sum;
}

Result<void> finish_rms_norm(NodeImport& n, ValueId x, size_t scale, int64_t axis, float epsilon) {
  FloatForm form(n, "RMSNormalization");
  form.set("axis", axis);
  form.set("epsilon", epsilon);
  form.operand(x);
  form.operand(n.stored_binding(scale));
  LATHE_TRY(const ValueId y, form.run());
  n.bind({y, nullptr});
  return {};
}

}  // namespace

// input, skip, gamma, beta*, bias*.
Result<void> import_skip_layer_norm(NodeImport& n) {
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-12f));
  LATHE_TRY(const ValueId x, skip_sum(n, 4));
  LATHE_TRY(const ValueId gamma, n.value(2));
  std::vector<ValueId> operands = {x, gamma};
  if (n.has_input(3)) {
    LATHE_TRY(operands.emplace_back(), n.value(3));
  }
  return n.finish(Op::kLayerNorm, LayerNormAttrs{static_cast<int32_t>(n.rank(x)) - 1, epsilon}, operands);
}

// input, skip, gamma, bias*.
Result<void> import_skip_rms_norm(NodeImport& n) {
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-12f));
  LATHE_TRY(const ValueId x, skip_sum(n, 3));
  return finish_rms_norm(n, x, 2, -1, epsilon);
}

// The optimizer writes it into the default domain: x, scale.
Result<void> import_simplified_layer_norm(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", -1));
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-5f));
  n.ignore("stash_type");
  LATHE_TRY(const ValueId x, n.value(0));
  return finish_rms_norm(n, x, 1, given, epsilon);
}

}  // namespace lathe::onnx
