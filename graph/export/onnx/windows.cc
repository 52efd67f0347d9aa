// Convolutions and pools, with channels second.
#include "graph/export/onnx/node_export.h"

namespace lathe::onnx {
namespace {

template <size_t N> std::string list(const char* name, const int32_t (&values)[N]) {
  return ints_attribute(name, {values, values + N});
}

template <class A> std::vector<std::string> window(const A& a, const std::vector<int64_t>& kernel) {
  return {ints_attribute("kernel_shape", kernel), list("strides", a.stride), list("pads", a.pad), list("dilations", a.dilation)};
}

// Height and width of an OHWI weight.
Result<std::vector<int64_t>> kernel_of(NodeExport& e) {
  std::vector<int64_t> kernel;
  for (size_t i = 1; i < 3; ++i) {
    const auto size = e.graph().dims().value(e.type(1).dims[i]);
    if (!size) return fail(Code::kUnsupported, "a kernel of unknown size");
    kernel.push_back(*size);
  }
  return kernel;
}

Result<void> finish_convolution(NodeExport& e, const char* op, std::string weight, std::vector<std::string> attributes) {
  std::vector<std::string> inputs = {e.input(0), std::move(weight)};
  if (e.has(2)) {
    LATHE_TRY(inputs.emplace_back(), e.bias_operand(2));
  }
  if (!e.has(3)) return e.result(op, inputs, attributes);
  return e.result("Add", {e.step("open", op, inputs, attributes), e.input(3)});
}

// IOHW of every group behind each other: groups share no input channels.
Result<std::string> transposed_weight(NodeExport& e, int32_t groups) {
  if (groups == 1) return e.stored_operand(1, {3, 0, 1, 2});
  const Value& w = e.value(1);
  if (w.kind != ValueKind::kConstant || w.type.dtype != DType::kF32)
    return fail(Code::kUnsupported, "a transposed convolution in groups whose weight is no constant float");
  std::vector<int64_t> d;
  for (const Dim dim : w.type.dims) d.push_back(e.graph().dims().value(dim).value_or(0));
  const int64_t oc = d[0] / groups, pixels = d[1] * d[2], ic = d[3];
  const auto from = w.constant.as<float>();
  std::vector<float> to(from.size());
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t o = 0; o < oc; ++o)
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t i = 0; i < ic; ++i)
          to[static_cast<size_t>(((g * ic + i) * oc + o) * pixels + p)] =
              from[static_cast<size_t>(((g * oc + o) * pixels + p) * ic + i)];
  return e.out().constant(w.name + ":iohw", DType::kF32, {groups * ic, oc, d[1], d[2]}, to);
}

}  // namespace

Result<void> export_conv(NodeExport& e) {
  const auto& a = e.attrs<Conv2dAttrs>();
  LATHE_TRY(const auto kernel, kernel_of(e));
  std::vector<std::string> attributes = window(a, kernel);
  attributes.push_back(int_attribute("group", a.groups));
  LATHE_TRY(std::string weight, e.stored_operand(1, {0, 3, 1, 2}));
  return finish_convolution(e, "Conv", std::move(weight), std::move(attributes));
}

Result<void> export_conv_transpose(NodeExport& e) {
  const auto& a = e.attrs<ConvTranspose2dAttrs>();
  LATHE_TRY(const auto kernel, kernel_of(e));
  std::vector<std::string> attributes = window(a, kernel);
  attributes.push_back(list("output_padding", a.output_pad));
  attributes.push_back(int_attribute("group", a.groups));
  LATHE_TRY(std::string weight, transposed_weight(e, a.groups));
  return finish_convolution(e, "ConvTranspose", std::move(weight), std::move(attributes));
}

Result<void> export_conv_integer(NodeExport& e) {
  const auto& a = e.attrs<Conv2dAttrs>();
  LATHE_TRY(const auto kernel, kernel_of(e));
  std::vector<std::string> attributes = window(a, kernel);
  attributes.push_back(int_attribute("group", a.groups));
  std::vector<std::string> inputs = {e.input(0)};
  LATHE_TRY(inputs.emplace_back(), e.stored_operand(1, {0, 3, 1, 2}));
  for (size_t i = 2; i < e.node().inputs.size(); ++i) inputs.push_back(e.has(i) ? e.native_input(i) : "");
  return e.result("ConvInteger", inputs, attributes);
}

Result<void> export_pool(NodeExport& e) {
  const auto& a = e.attrs<Pool2dAttrs>();
  const bool average = e.node().op == Op::kAvgPool2d, dilated = a.dilation[0] != 1 || a.dilation[1] != 1;
  std::vector<std::string> attributes = {list("kernel_shape", a.kernel), list("strides", a.stride), list("pads", a.pad)};
  if (dilated) attributes.push_back(list("dilations", a.dilation));
  if (a.ceil_mode != 0) attributes.push_back(int_attribute("ceil_mode", 1));
  if (average && a.count_pad != 0) attributes.push_back(int_attribute("count_include_pad", 1));
  if (average && dilated) e.need_opset(19);
  return e.result(average ? "AveragePool" : "MaxPool", {e.input(0)}, attributes);
}

}  // namespace lathe::onnx
