// Add(conv, other) becomes conv with a residual operand: y = clamp(conv(x) + residual). The convolution (or fully connected op)
// must be float, read by the Add alone, have no residual and no clamp yet (a clamp would come after the sum), and make the very
// shape of the sum. Of two candidates the later one takes the residual; it moves down to where the Add stood if the residual is
// made after it.
#include <algorithm>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

// Whether the producer of operand `side` can take the other operand as residual.
bool can_take(const Graph& graph, const Node& add, size_t side) {
  const Node* above = graph.producer(add.inputs[side]);
  if (above == nullptr || !open_epilogue(graph, *above) || !read_once(graph, add.inputs[side])) return false;
  const ValueId residual = add.inputs[1 - side];
  if (!is_float(graph, residual) || graph.value(residual).kind == ValueKind::kConstant) return false;
  const TensorType& sum = graph.value(add.outputs[0]).type;
  return graph.value(add.inputs[side]).type == sum && graph.value(residual).type == sum;
}

// Position of the producer in order, +1; 0 for what is there from the start.
uint32_t made_at(const Graph& graph, const std::vector<uint32_t>& pos, ValueId v) {
  return graph.producer(v) == nullptr ? 0 : pos[graph.value(v).producer] + 1;
}

void fuse(Rewriter& rewriter, NodeId add, size_t side) {
  Graph& graph = rewriter.graph();
  const ValueId result = graph.node(add).inputs[side], residual = graph.node(add).inputs[1 - side],
                sum = graph.node(add).outputs[0];
  const NodeId conv = graph.value(result).producer;
  Attrs attrs = graph.node(conv).attrs;
  set_clamp(attrs, clamp_after(*clamp_of(attrs), *clamp_of(graph.node(add).attrs)));
  const std::vector<uint32_t> pos = positions(graph);
  if (made_at(graph, pos, residual) > pos[conv]) rewriter.move(conv, add);
  rewriter.set_input(conv, 3, residual);
  rewriter.set_attrs(conv, attrs);
  rewriter.replace(sum, result);
  rewriter.erase(add);
}

}  // namespace

Result<void> fuse_residual(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    if (node.dead || node.op != Op::kAdd || node.inputs[0] == node.inputs[1]) continue;
    const bool first = can_take(graph, node, 0), second = can_take(graph, node, 1);
    if (!first && !second) continue;
    const std::vector<uint32_t> pos = positions(graph);
    const bool second_later = made_at(graph, pos, node.inputs[1]) > made_at(graph, pos, node.inputs[0]);
    fuse(rewriter, n, first && second ? (second_later ? 1 : 0) : (second ? 1 : 0));
  }
  return rewriter.ok();
}

}  // namespace lathe::passes
