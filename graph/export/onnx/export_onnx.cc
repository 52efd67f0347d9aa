#include "graph/export/onnx/export_onnx.h"

#include <algorithm>

#include "graph/export/onnx/node_export.h"
#include "graph/op_def.h"
#include "graph/passes/permutation.h"

namespace lathe {
namespace onnx {
namespace {

constexpr Ints kToSecond{4, {0, 3, 1, 2}}, kToNative{4, {0, 2, 3, 1}};

// Whether a layout-free op's operands are, or can become, tensors with channels second.
bool fits_channels_second(Exporter& out, const Node& node) {
  const Graph& graph = out.graph;
  bool any = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.inputs[i];
    if (v == kNoId) continue;
    const Value& value = graph.value(v);
    const size_t rank = value.type.dims.size();
    // Operands past the first of ops with parameters along an axis lie as they are.
    if (i > 0 && !std::holds_alternative<BinaryAttrs>(node.attrs) && node.op != Op::kConcat) continue;
    if (value.kind == ValueKind::kConstant ? rank > 4 || value.quant : rank != 4) return false;
    any = any || out.is_channels_second(v);
  }
  return any;
}

struct Choice {
  bool operands_second = false, result_second = false;
  Attrs attrs;
};

Choice choose_layout(Exporter& out, const OpExport& op, const Node& node) {
  if (op.layout == TensorLayout::kNative) return {false, false, node.attrs};
  if (op.layout == TensorLayout::kChannelsSecond) return {true, true, node.attrs};
  Choice choice{true, true, node.attrs};
  if (!op_def(node.op).layout_free || !fits_channels_second(out, node)) return {false, false, node.attrs};
  if (op_def(node.op).permute == nullptr) return choice;
  const Ints left = op_def(node.op).permute(choice.attrs, kToNative);
  choice.result_second = left == kToNative;
  if (!choice.result_second && !passes::is_identity(left)) return {false, false, node.attrs};
  return choice;
}

// A Transpose between the two orders is another name for its operand's other tensor.
bool export_as_name(Exporter& out, const Node& node) {
  const Ints* perm = passes::transpose_perm(&node);
  if (perm == nullptr || !(*perm == kToSecond || *perm == kToNative)) return false;
  const bool to_second = *perm == kToSecond;
  const ValueId x = node.inputs[0], y = node.outputs[0];
  if (out.graph.value(x).kind == ValueKind::kConstant) return false;
  // With channels second already, y's own order is x's second tensor; else y's second tensor is x itself.
  out.alias(y, !to_second, out.tensor(x, to_second));
  return true;
}

// QDQ is written for 8 bits; integer biases are constants.
Result<void> check_widths(const Exporter& out, const std::vector<ValueId>& values) {
  for (const ValueId v : values) {
    if (v == kNoId || !out.graph.value(v).quant) continue;
    const Value& value = out.graph.value(v);
    const DType t = value.type.dtype;
    if (t == DType::kS16 || (t == DType::kS32 && value.kind != ValueKind::kConstant))
      return fail(Code::kUnsupported, std::string("a quantized value of type ") + dtype_name(t));
  }
  return {};
}

Result<void> export_node(Exporter& out, const Node& node) {
  const OpExport* op = find_op_export(node.op);
  if (op == nullptr || op->run == nullptr)
    return fail(Code::kUnsupported, op == nullptr ? "it is in no list of what ONNX has" : op->reason);
  if (!node.regions.empty()) return fail(Code::kUnsupported, "its regions cannot be written");
  LATHE_CHECK_OK(check_widths(out, node.inputs));
  LATHE_CHECK_OK(check_widths(out, node.outputs));
  if (export_as_name(out, node)) return {};
  Choice choice = choose_layout(out, *op, node);
  NodeExport e(out, node, std::move(choice.attrs), choice.operands_second, choice.result_second);
  return op->run(e);
}

Result<void> export_inputs(Exporter& out) {
  for (const ValueId v : out.graph.inputs()) {
    const Value& value = out.graph.value(v);
    out.writer.input(value.name, out.graph.dims(), value.type);
    if (value.quant) out.define_steps(v, false);
    else out.alias(v, false, value.name);
  }
  for (ValueId v = 0; v < out.graph.value_count(); ++v) {
    if (!out.graph.value(v).dead && out.graph.value(v).kind == ValueKind::kVariable)
      return fail(Code::kUnsupported, "variable '" + out.graph.value(v).name + "': ONNX has no state between runs");
  }
  return {};
}

Result<void> export_nodes(Exporter& out) {
  std::vector<std::string> unsupported;
  for (const NodeId n : out.graph.order()) {
    const Node& node = out.graph.node(n);
    if (auto done = export_node(out, node); !done)
      unsupported.push_back("node '" + node.name + "' (" + op_name(node.op) + "): " + done.error().message);
  }
  if (unsupported.empty() && out.missing.empty()) return {};
  if (unsupported.empty()) return fail(Code::kUnsupported, "ONNX has no tensor for '" + out.missing + "', which others read");
  std::string message =
      std::to_string(unsupported.size()) + (unsupported.size() == 1 ? " node" : " nodes") + " cannot be exported:";
  for (const std::string& line : unsupported) message += "\n  " + line;
  return fail(Code::kUnsupported, std::move(message));
}

OnnxFile finish(Exporter& out) {
  for (const ValueId v : out.graph.outputs()) {
    out.finish_output(v);
    out.writer.output(out.graph.value(v).name, out.graph.dims(), out.graph.value(v).type);
  }
  return {out.writer.finish(out.opset), out.opset, out.writer.nodes()};
}

}  // namespace
}  // namespace onnx

Result<OnnxFile> export_onnx(const Graph& graph) {
  // How some nodes are written depends on the opset, which others may raise: then everything is written again.
  for (int64_t opset = onnx::kLeastOpset;;) {
    onnx::Exporter out(graph, opset);
    LATHE_CHECK_OK(onnx::export_inputs(out));
    LATHE_CHECK_OK(onnx::export_nodes(out));
    if (out.opset == opset) return onnx::finish(out);
    opset = out.opset;
  }
}

}  // namespace lathe
