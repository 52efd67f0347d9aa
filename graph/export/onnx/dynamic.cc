// Ops whose results have a size that depends on data. In the graph NonZero and its like give as much as there can be, and how
// much there is, which Extents names as a dim and Trim cuts to; ONNX's operators give the cut tensors. So each writes its Trims'
// results.
#include "graph/export/onnx/node_export.h"

namespace lathe::onnx {
namespace {

// The Trim that cuts v.
ValueId cut(const Graph& graph, ValueId v) {
  for (const NodeId reader : graph.consumers(v))
    if (graph.node(reader).op == Op::kTrim && graph.node(reader).inputs[0] == v) return graph.node(reader).outputs[0];
  return kNoId;
}

// `wanted` results of the ONNX node; one that is whole in the graph too goes by its own name.
Result<void> cutter(NodeExport& e, const std::string& op_type, const std::vector<std::string>& inputs, size_t wanted,
                    size_t whole, const std::vector<std::string>& attributes) {
  std::vector<std::string> outputs;
  for (size_t i = 0; i < wanted; ++i) {
    const ValueId v = e.node().outputs[i], named = i == whole ? v : cut(e.graph(), v);
    outputs.push_back(named == kNoId ? "" : e.out().define(named, false));
  }
  e.out().writer.node(op_type, e.out().node_name(e.node().name), inputs, outputs, attributes);
  return {};
}

constexpr size_t kNone = SIZE_MAX;

}  // namespace

Result<void> export_non_zero(NodeExport& e) { return cutter(e, "NonZero", {e.input(0)}, 1, kNone, {}); }

Result<void> export_compress(NodeExport& e) {
  return cutter(e, "Compress", {e.input(0), e.input(1)}, 1, kNone, {int_attribute("axis", e.attrs<AxisAttrs>().axis)});
}

Result<void> export_unique(NodeExport& e) {
  const auto& a = e.attrs<UniqueAttrs>();
  return cutter(e, "Unique", {e.input(0)}, 4, 2, {int_attribute("axis", a.axis), int_attribute("sorted", a.sorted)});
}

Result<void> export_non_max_suppression(NodeExport& e) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < e.node().inputs.size(); ++i) inputs.push_back(e.has(i) ? e.input(i) : "");
  return cutter(e, "NonMaxSuppression", inputs, 1, kNone, {int_attribute("center_point_box", e.attrs<NmsAttrs>().center)});
}

Result<void> export_trim(NodeExport& e) {
  if (e.out().is_made(e.node().outputs[0])) return {};
  return fail(Code::kUnsupported, "it cuts what ONNX does not give uncut");
}

// Another name, of what the file has.
Result<void> export_extents(NodeExport& e) {
  if (e.out().is_made(e.node().inputs[0]) || e.value(0).kind == ValueKind::kConstant)
    e.out().alias(e.node().outputs[0], false, e.input(0));
  return {};
}

// Range counts for itself.
Result<void> export_range_count(NodeExport&) { return {}; }
Result<void> export_range(NodeExport& e) { return e.result("Range", {e.input(0), e.input(1), e.input(2)}); }

}  // namespace lathe::onnx
