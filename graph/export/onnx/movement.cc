// Ops that move data, and conversions of type.
#include "graph/export/onnx/node_export.h"

namespace lathe::onnx {
namespace {

std::vector<int64_t> list(const Ints& ints) { return {ints.values, ints.values + ints.count}; }

}  // namespace

namespace {

// The TargetDims that a reshape's target comes from, through Extents.
const Node* target_dims(const Graph& graph, const Node& reshape) {
  const Node* extents = graph.producer(reshape.inputs[1]);
  const Node* target = extents != nullptr && extents->op == Op::kExtents ? graph.producer(extents->inputs[0]) : nullptr;
  return target != nullptr && target->op == Op::kTargetDims && target->inputs[0] == reshape.inputs[0] ? target : nullptr;
}

}  // namespace

// ONNX's Reshape resolves its target itself: nothing else may read what that gives.
Result<void> export_target_dims(NodeExport& e) {
  for (const NodeId extents : e.graph().consumers(e.node().outputs[0]))
    for (const NodeId reader : e.graph().consumers(e.graph().node(extents).outputs[0]))
      if (e.graph().node(reader).op != Op::kReshape || target_dims(e.graph(), e.graph().node(reader)) != &e.node())
        return fail(Code::kUnsupported, "other nodes than the reshape read the dims");
  std::string target = e.input(1);
  if (e.type(1).dtype != DType::kS64)
    target = e.step("s64", "Cast", {target}, {int_attribute("to", static_cast<int64_t>(ElemType::kInt64))});
  e.out().alias(e.node().outputs[0], false, target);
  return {};
}

// ONNX takes the target as s64 only.
Result<void> export_reshape(NodeExport& e) {
  if (e.out().is_made(e.node().outputs[0]) || belongs_to_layer(e.graph(), e.node())) return {};
  std::string target = e.input(1);
  if (e.type(1).dtype != DType::kS64)
    target = e.step("target", "Cast", {target}, {int_attribute("to", static_cast<int64_t>(ElemType::kInt64))});
  const Node* dims = target_dims(e.graph(), e.node());
  const bool keep_zeros = dims != nullptr && std::get<TargetDimsAttrs>(dims->attrs).keep_zeros != 0;
  std::vector<std::string> attributes;
  if (keep_zeros) attributes.push_back(int_attribute("allowzero", 1));
  return e.result("Reshape", {e.input(0), target}, attributes);
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

Result<void> export_tile(NodeExport& e) {
  return e.result("Tile", {e.input(0), e.integers("repeats", list(e.attrs<TileAttrs>().repeats))});
}

Result<void> export_border(NodeExport& e) {
  static constexpr const char* kModes[] = {"reflect", "edge", "wrap"};
  const auto& a = e.attrs<BorderAttrs>();
  if (static_cast<BorderMode>(a.mode) == BorderMode::kWrap) e.need_opset(19);
  std::vector<int64_t> pads = list(a.before);
  pads.insert(pads.end(), a.after.values, a.after.values + a.after.count);
  return e.result("Pad", {e.input(0), e.integers("pads", pads)}, {text_attribute("mode", kModes[a.mode])});
}

Result<void> export_bit_cast(NodeExport& e) {
  e.need_opset(26);
  return e.result("BitCast", {e.input(0)}, {int_attribute("to", elem_number(static_cast<DType>(e.attrs<CastAttrs>().to)))});
}

Result<void> export_cast(NodeExport& e) {
  const auto to = static_cast<DType>(e.attrs<CastAttrs>().to);
  return e.result("Cast", {e.input(0)}, {int_attribute("to", elem_number(to))});
}

}  // namespace lathe::onnx
