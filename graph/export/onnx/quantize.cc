// The borders between real numbers and integers. A quantized value has a real tensor in the file, so that most of them write only
// names.
#include "graph/export/onnx/node_export.h"

namespace lathe::onnx {
namespace {

std::vector<std::string> with_parameters(NodeExport& e, const std::string& x, const Quant& q, DType steps) {
  std::vector<std::string> inputs = e.out().parameters(e.result_value().name, q, steps);
  inputs.insert(inputs.begin(), x);
  return inputs;
}

}  // namespace

// Quantize, and Regrid: its operand's real numbers on the other grid.
Result<void> export_quantize(NodeExport& e) {
  const Value& y = e.result_value();
  const auto inputs = with_parameters(e, e.input(0), *y.quant, e.out().steps_type(e.node().outputs[0]));
  e.out().writer.node("QuantizeLinear", e.out().node_name(e.node().name), inputs,
                      {e.out().define_steps(e.node().outputs[0], e.channels_second())}, {});
  return {};
}

Result<void> export_dequantize(NodeExport& e) {
  e.out().name_real(e.node().inputs[0], e.channels_second(), e.result_value().name, e.node().name);
  e.out().alias(e.node().outputs[0], e.channels_second(), e.input(0));
  return {};
}

Result<void> export_from_integer(NodeExport& e) {
  const Value& y = e.result_value();
  const DType steps = e.type(0).dtype;
  const std::string real = e.out().fresh(y.name + ":f32");
  e.out().writer.node("DequantizeLinear", e.out().node_name(e.node().name), with_parameters(e, e.input(0), *y.quant, steps),
                      {real}, {});
  e.out().alias(e.node().outputs[0], e.channels_second(), real);
  return {};
}

Result<void> export_to_integer(NodeExport& e) {
  const DType steps = e.result_value().type.dtype;
  return e.result("QuantizeLinear", with_parameters(e, e.input(0), *e.value(0).quant, steps));
}

namespace {

// Blocks and 16-bit integers came with opset 21.
Result<std::vector<std::string>> linear_attributes(NodeExport& e, int32_t axis, int32_t block, DType steps) {
  if (block != 0 || (steps != DType::kS8 && steps != DType::kU8 && steps != DType::kS32))
    e.need_opset(21);
  std::vector<std::string> attributes = {int_attribute("axis", axis)};
  if (block != 0) attributes.push_back(int_attribute("block_size", block));
  return attributes;
}

std::vector<std::string> all_inputs(NodeExport& e) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < e.node().inputs.size(); ++i)
    if (e.has(i)) inputs.push_back(e.input(i));
  return inputs;
}

}  // namespace

Result<void> export_quantize_linear(NodeExport& e) {
  const auto& a = e.attrs<QuantizeLinearAttrs>();
  LATHE_TRY(auto attributes, linear_attributes(e, a.axis, a.block, static_cast<DType>(a.to)));
  const auto steps = static_cast<DType>(a.to);
  if (!e.has(2) && steps != DType::kU8) {
    e.need_opset(21);
    attributes.push_back(int_attribute("output_dtype", elem_number(steps)));
  }
  return e.result("QuantizeLinear", all_inputs(e), attributes);
}

Result<void> export_dequantize_linear(NodeExport& e) {
  const auto& a = e.attrs<DequantizeLinearAttrs>();
  LATHE_TRY(const auto attributes, linear_attributes(e, a.axis, a.block, e.type(0).dtype));
  return e.result("DequantizeLinear", all_inputs(e), attributes);
}

// Steps of fewer than 8 bits are int8 that a Clip narrows.
Result<void> export_fake_quant(NodeExport& e) {
  const auto& a = e.attrs<FakeQuantAttrs>();
  const std::string stem = e.result_value().name, scale = e.native_input(1);
  std::vector<int64_t> dims;
  std::vector<std::string> attributes;
  if (a.axis >= 0) {
    const auto count = e.graph().dims().value(e.type(1).dims[0]);
    if (!count) return fail(Code::kUnsupported, "the number of scales is not known");
    dims = {*count};
    attributes = {int_attribute("axis", a.axis)};
  }
  const auto steps_of = [&](const char* what, int32_t value, const std::vector<int64_t>& shape) {
    const std::vector<int8_t> values(shape.empty() ? 1 : static_cast<size_t>(shape[0]), static_cast<int8_t>(value));
    return e.out().constant(stem + what, DType::kS8, shape, values);
  };
  const std::string zero = steps_of(":zero_point", a.zero_point, dims);
  std::string steps = e.step("steps", "QuantizeLinear", {e.native_input(0), scale, zero}, attributes);
  if (a.qmin != -128 || a.qmax != 127)
    steps = e.step("clip", "Clip", {steps, steps_of(":qmin", a.qmin, {}), steps_of(":qmax", a.qmax, {})});
  return e.result("DequantizeLinear", {steps, scale, zero}, attributes);
}

Result<void> export_step_size(NodeExport& e) {
  const auto& a = e.attrs<ClampAttrs>();
  const std::string factor = e.step("factor", "Clip", {e.native_input(0), e.real("lo", a.lo), e.real("hi", a.hi)});
  return e.results("Mul", {factor, e.native_input(1)});
}

Result<void> export_dynamic_quantize_linear(NodeExport& e) {
  return e.results("DynamicQuantizeLinear", {e.input(0)});
}

}  // namespace lathe::onnx
