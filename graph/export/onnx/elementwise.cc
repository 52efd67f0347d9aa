// Elementwise ops, reductions and normalization.
#include "graph/export/onnx/node_export.h"

namespace lathe::onnx {

// ONNX calls it the same, with the same operands and no attributes.
Result<void> export_same_name(NodeExport& e) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < e.node().inputs.size(); ++i) inputs.push_back(e.has(i) ? e.input(i) : "");
  return e.result(op_name(e.node().op), inputs);
}

// ONNX has one operator for bools and, since opset 18, one for the bits of integers.
Result<void> export_bits(NodeExport& e) {
  const std::string name = e.node().op == Op::kBitAnd ? "And" : e.node().op == Op::kBitOr ? "Or" : "Xor";
  if (e.type(0).dtype == DType::kBool) return e.result(name, {e.input(0), e.input(1)});
  e.need_opset(18);
  return e.result("Bitwise" + name, {e.input(0), e.input(1)});
}

Result<void> export_bit_shift(NodeExport& e) {
  const DType type = e.type(0).dtype;
  if (type == DType::kS8 || type == DType::kS16 || type == DType::kS32 || type == DType::kS64)
    return fail(Code::kUnsupported, std::string("a shift of ") + dtype_name(type) + ", ONNX shifts unsigned integers");
  const bool left = e.attrs<BitShiftAttrs>().left != 0;
  return e.result("BitShift", {e.input(0), e.input(1)}, {text_attribute("direction", left ? "LEFT" : "RIGHT")});
}

Result<void> export_mod(NodeExport& e) {
  const auto& a = e.attrs<ModAttrs>();
  if (a.truncated == 0 && e.type(0).dtype == DType::kF32)
    return fail(Code::kUnsupported, "a remainder of floats with the divisor's sign");
  return e.result("Mod", {e.input(0), e.input(1)}, {int_attribute("fmod", a.truncated)});
}

Result<void> export_clamp(NodeExport& e) {
  const auto& a = e.attrs<ClampAttrs>();
  if (a.lo == 0 && a.hi == kInfinity) return e.result("Relu", {e.input(0)});
  std::vector<std::string> inputs = {e.input(0)};
  if (a.lo != -kInfinity || a.hi != kInfinity) inputs.push_back(a.lo == -kInfinity ? "" : e.real("lo", a.lo));
  if (a.hi != kInfinity) inputs.push_back(e.real("hi", a.hi));
  return e.result("Clip", inputs);
}

Result<void> export_leaky_relu(NodeExport& e) {
  return e.result("LeakyRelu", {e.input(0)}, {float_attribute("alpha", e.attrs<LeakyReluAttrs>().alpha)});
}

Result<void> export_gelu(NodeExport& e) {
  e.need_opset(20);
  return e.result("Gelu", {e.input(0)}, {text_attribute("approximate", e.attrs<GeluAttrs>().approximate != 0 ? "tanh" : "none")});
}

Result<void> export_less_equal(NodeExport& e) { return e.result("LessOrEqual", {e.input(0), e.input(1)}); }

Result<void> export_elu(NodeExport& e) {
  const auto& a = e.attrs<EluAttrs>();
  if (a.beta == 1.0f && a.gamma != 1.0f)
    return e.result("Selu", {e.input(0)}, {float_attribute("alpha", a.alpha), float_attribute("gamma", a.gamma)});
  if (a.gamma == 1.0f && a.beta != 1.0f && a.beta == 1.0f / a.alpha)
    return e.result("Celu", {e.input(0)}, {float_attribute("alpha", a.alpha)});
  if (a.beta != 1.0f) return fail(Code::kUnsupported, "neither Elu, Selu nor Celu has its parameters");
  return e.result("Elu", {e.input(0)}, {float_attribute("alpha", a.alpha)});
}

Result<void> export_hard_sigmoid(NodeExport& e) {
  const auto& a = e.attrs<HardSigmoidAttrs>();
  return e.result("HardSigmoid", {e.input(0)}, {float_attribute("alpha", a.alpha), float_attribute("beta", a.beta)});
}

// x * tanh(softplus(x)): Mish came with opset 18, where the axes of reductions lie elsewhere.
Result<void> export_mish(NodeExport& e) {
  const std::string x = e.input(0);
  return e.result("Mul", {x, e.step("tanh", "Tanh", {e.step("softplus", "Softplus", {x})})});
}

// x * sigmoid(x)
Result<void> export_silu(NodeExport& e) {
  const std::string x = e.input(0);
  return e.result("Mul", {x, e.step("sigmoid", "Sigmoid", {x})});
}

Result<void> export_softmax(NodeExport& e) {
  return e.result("Softmax", {e.input(0)}, {int_attribute("axis", e.attrs<AxisAttrs>().axis)});
}

namespace {

// Axes are an attribute up to opset 17 and an operand from then on; of ReduceSum always.
Result<void> export_reduction(NodeExport& e, const std::string& op) {
  const auto& a = e.attrs<ReduceAttrs>();
  const std::vector<int64_t> axes(a.axes.values, a.axes.values + a.axes.count);
  const std::string keep = int_attribute("keepdims", a.keep_dims);
  if (op == "ReduceSum" || e.out().opset >= 18) return e.result(op, {e.input(0), e.integers("axes", axes)}, {keep});
  return e.result(op, {e.input(0)}, {ints_attribute("axes", axes), keep});
}

}  // namespace

Result<void> export_reduce(NodeExport& e) { return export_reduction(e, op_name(e.node().op)); }

// A mean over all pixels of an image has an operator of its own, which quantizing runtimes know.
Result<void> export_mean(NodeExport& e) {
  const auto& a = e.attrs<ReduceAttrs>();
  std::vector<int64_t> axes(a.axes.values, a.axes.values + a.axes.count);
  if (e.type(0).dims.size() == 4 && axes == std::vector<int64_t>{2, 3} && a.keep_dims != 0)
    return e.result("GlobalAveragePool", {e.input(0)});
  return export_reduction(e, "ReduceMean");
}

Result<void> export_batch_norm(NodeExport& e) {
  const auto& a = e.attrs<BatchNormAttrs>();
  if (a.axis != 1)
    return fail(Code::kUnsupported, "channels along axis " + std::to_string(a.axis) + ", ONNX has them along axis 1");
  std::vector<std::string> inputs = {e.input(0)};
  for (size_t i = 1; i < 5; ++i) inputs.push_back(e.native_input(i));
  return e.result("BatchNormalization", inputs, {float_attribute("epsilon", a.epsilon)});
}

Result<void> export_linear_attention(NodeExport& e) {
  const auto& a = e.attrs<LinearAttentionAttrs>();
  e.need_opset(27);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < e.node().inputs.size(); ++i) inputs.push_back(e.has(i) ? e.input(i) : "");
  const char* rule = e.has(4) ? (e.has(5) ? "gated_delta" : "gated") : e.has(5) ? "delta" : "linear";
  return e.results("LinearAttention", inputs,
                   {text_attribute("update_rule", rule), int_attribute("q_num_heads", a.q_heads),
                    int_attribute("kv_num_heads", a.kv_heads), float_attribute("scale", a.scale)});
}

Result<void> export_layer_norm(NodeExport& e) {
  const auto& a = e.attrs<LayerNormAttrs>();
  std::vector<std::string> inputs;
  for (size_t i = 0; i < e.node().inputs.size(); ++i)
    if (e.has(i)) inputs.push_back(e.input(i));
  return e.result("LayerNormalization", inputs, {int_attribute("axis", a.axis), float_attribute("epsilon", a.epsilon)});
}

}  // namespace lathe::onnx
