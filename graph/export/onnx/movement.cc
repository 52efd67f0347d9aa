// Ops that move data, and conversions of type.
#include "graph/export/onnx/node_export.h"

namespace lathe::onnx {
namespace {

std::vector<int64_t> list(const Ints& ints) { return {ints.values, ints.values + ints.count}; }

}  // namespace

// ONNX takes the target as s64 only.
Result<void> export_reshape(NodeExport& e) {
  std::string target = e.input(1);
  if (e.type(1).dtype != DType::kS64)
    target = e.step("target", "Cast", {target}, {int_attribute("to", static_cast<int64_t>(ElemType::kInt64))});
  return e.result("Reshape", {e.input(0), target});
}

Result<void> export_transpose(NodeExport& e) {
  return e.result("Transpose", {e.input(0)}, {ints_attribute("perm", list(e.attrs<PermAttrs>().perm))});
}

Result<void> export_concat(NodeExport& e) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < e.node().inputs.size(); ++i) inputs.push_back(e.input(i));
  return e.result("Concat", inputs, {int_attribute("axis", e.attrs<AxisAttrs>().axis)});
}

Result<void> export_slice(NodeExport& e) {
  const auto& a = e.attrs<SliceAttrs>();
  return e.result("Slice", {e.input(0), e.integers("starts", list(a.begins)), e.integers("ends", list(a.ends)),
                            e.integers("axes", list(a.axes)), e.integers("steps", list(a.steps))});
}

Result<void> export_pad(NodeExport& e) {
  const auto& a = e.attrs<PadAttrs>();
  std::vector<int64_t> pads = list(a.before);
  pads.insert(pads.end(), a.after.values, a.after.values + a.after.count);
  std::vector<std::string> inputs = {e.input(0), e.integers("pads", pads)};
  if (a.value != 0) {
    if (e.type(0).dtype != DType::kF32 && !e.value(0).quant)
      return fail(Code::kUnsupported, std::string("a pad of ") + dtype_name(e.type(0).dtype) + " with a value");
    inputs.push_back(e.real("value", a.value));
  }
  return e.result("Pad", inputs);
}

// Gather and GatherElements.
Result<void> export_gather(NodeExport& e) {
  return e.result(op_name(e.node().op), {e.input(0), e.input(1)}, {int_attribute("axis", e.attrs<AxisAttrs>().axis)});
}

Result<void> export_cast(NodeExport& e) {
  const auto to = static_cast<DType>(e.attrs<CastAttrs>().to);
  return e.result("Cast", {e.input(0)}, {int_attribute("to", elem_number(to))});
}

}  // namespace lathe::onnx
