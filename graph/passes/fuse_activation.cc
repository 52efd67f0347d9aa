// A Clamp goes into the op that makes its operand, when that op ends in a clamp (its attributes have lo and hi), nothing else
// reads the unclamped value, and both are float or have the same quantization parameters: then the op rounds once, to the same
// grid, as before. The op keeps its name; a residual is added before the clamp, so this pass runs after fuse-residual.
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

bool fits(const Graph& graph, const Node& clamp, const Node& above) {
  const Value &x = graph.value(clamp.inputs[0]), &y = graph.value(clamp.outputs[0]);
  return above.op != Op::kClamp && clamp_of(above.attrs) && x.type == y.type && x.quant == y.quant &&
         read_once(graph, clamp.inputs[0]);
}

}  // namespace

Result<void> fuse_activation(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    if (node.dead || node.op != Op::kClamp) continue;
    const Node* above = graph.producer(node.inputs[0]);
    if (above == nullptr || !fits(graph, node, *above)) continue;
    Attrs attrs = above->attrs;
    set_clamp(attrs, clamp_after(*clamp_of(attrs), *clamp_of(node.attrs)));
    const ValueId from = node.inputs[0], to = node.outputs[0];
    rewriter.set_attrs(graph.value(from).producer, attrs);
    rewriter.replace(to, from);
    rewriter.erase(n);
  }
  return rewriter.ok();
}

}  // namespace lathe::passes
