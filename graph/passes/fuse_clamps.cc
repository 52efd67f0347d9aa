// Clamp(Clamp(x)) becomes one Clamp of x, if only the second reads the first.
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {

Result<void> fuse_clamps(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    if (node.dead || node.op != Op::kClamp || !is_float(graph, node.inputs[0])) continue;
    const ValueId between = node.inputs[0];
    const Node* above = graph.producer(between);
    if (above == nullptr || above->op != Op::kClamp || !read_once(graph, between)) continue;
    Attrs attrs = node.attrs;
    set_clamp(attrs, clamp_after(*clamp_of(above->attrs), *clamp_of(attrs)));
    const NodeId first = graph.value(between).producer;
    const ValueId from = above->inputs[0];
    rewriter.set_input(n, 0, from);
    rewriter.set_attrs(n, attrs);
    rewriter.erase(first);
  }
  return rewriter.ok();
}

}  // namespace lathe::passes
