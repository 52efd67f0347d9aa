// x * Sigmoid(x) becomes Silu, if both are float, nothing else reads the Sigmoid, and the product does not clamp.
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

// x if `node` is x * Sigmoid(x), or kNoId.
ValueId silu_operand(const Graph& graph, const Node& node) {
  const std::optional<ClampBounds> c = clamp_of(node.attrs);
  if (node.op != Op::kMul || c->lo != -kInfinity || c->hi != kInfinity) return kNoId;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const ValueId gate = node.inputs[side], x = node.inputs[1 - side];
    const Node* above = graph.producer(gate);
    if (above == nullptr || above->op != Op::kSigmoid || above->inputs[0] != x) continue;
    if (is_float(graph, x) && read_once(graph, gate)) return x;
  }
  return kNoId;
}

}  // namespace

Result<void> fuse_silu(Rewriter& rewriter) {
  const Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    const ValueId x = node.dead ? kNoId : silu_operand(graph, node);
    if (x != kNoId) rewriter.substitute(n, Op::kSilu, NoAttrs{}, {x});
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
