// Nodes that return their operand unchanged: a Cast to the same type, a Clamp without bounds, a Pad by nothing, a Reshape to the
// same dims, a Concat of one, an Add of zero or Mul by one that changes no shape. An identity between a graph input and a graph
// output stays: outputs have their own memory.
#include <algorithm>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

bool all_zero(const Ints& ints) { return std::all_of(ints.values, ints.values + ints.count, [](int32_t v) { return v == 0; }); }

bool unbounded(const Attrs& attrs) {
  const std::optional<ClampBounds> c = clamp_of(attrs);
  return c && c->lo == -kInfinity && c->hi == kInfinity;
}

// All elements of a constant second operand equal `neutral`.
bool neutral_operand(const Graph& graph, const Node& node, float neutral) {
  const std::optional<std::vector<float>> values = f32_constant(graph, node.inputs[1]);
  return unbounded(node.attrs) && values && std::all_of(values->begin(), values->end(), [&](float v) { return v == neutral; });
}

// Whether the result is the first operand, given that both have the same type and quantization parameters.
bool is_identity(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kCast:
    case Op::kReshape:
    case Op::kSlice:
    case Op::kRegrid:
      return true;
    case Op::kConcat:
      return node.inputs.size() == 1;
    case Op::kClamp:
      return unbounded(node.attrs);
    case Op::kPad:
      return all_zero(std::get<PadAttrs>(node.attrs).before) && all_zero(std::get<PadAttrs>(node.attrs).after);
    case Op::kAdd:
    case Op::kSub:
      return neutral_operand(graph, node, 0.0f);
    case Op::kMul:
    case Op::kDiv:
      return neutral_operand(graph, node, 1.0f);
    default:
      return false;
  }
}

// A slice keeps its operand's dims only if it takes everything, or reverses.
bool reverses(const Node& node) {
  if (node.op != Op::kSlice) return false;
  const Ints& steps = std::get<SliceAttrs>(node.attrs).steps;
  return std::any_of(steps.values, steps.values + steps.count, [](int32_t s) { return s < 0; });
}

}  // namespace

Result<void> drop_identities(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    if (node.dead || node.inputs.empty() || node.inputs[0] == kNoId || node.outputs.empty()) continue;
    const ValueId in = node.inputs[0], out = node.outputs[0];
    const Value &x = graph.value(in), &y = graph.value(out);
    if (!(x.type == y.type) || !(x.quant == y.quant) || reverses(node) || !is_identity(graph, node)) continue;
    if (graph.is_output(out) && (x.kind != ValueKind::kTemporary || graph.is_output(in))) continue;
    rewriter.replace(out, in);
    rewriter.erase(n);
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
