// Add(conv, c) and Sub(conv, c) with a constant per output channel go into the bias of the Conv2d or FullyConnected, which
// nothing else may read and which has no residual or clamp. A clamp of the Add becomes the op's.
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

struct BiasMatch {
  NodeId producer;
  std::vector<float> bias;
};

// The producer of operand `side` with its new bias, if the other operand is a constant per channel.
std::optional<BiasMatch> match(const Graph& graph, const Node& node, size_t side) {
  const ValueId made = node.inputs[side];
  const Node* above = graph.producer(made);
  if (above == nullptr || !open_epilogue(graph, *above) || !read_once(graph, made)) return std::nullopt;
  if (!(graph.value(made).type == graph.value(node.outputs[0]).type)) return std::nullopt;
  const int64_t n = out_channels(graph, *above);
  std::optional<std::vector<float>> added = per_channel_constant(graph, node.inputs[1 - side], n);
  if (!added) return std::nullopt;
  std::vector<float> bias(static_cast<size_t>(n), 0.0f);
  if (above->inputs.size() > 2 && above->inputs[2] != kNoId) {
    std::optional<std::vector<float>> old = f32_constant(graph, above->inputs[2]);
    if (!old) return std::nullopt;
    bias = std::move(*old);
  }
  const float sign = node.op == Op::kSub ? -1.0f : 1.0f;
  for (size_t c = 0; c < bias.size(); ++c) bias[c] += sign * (*added)[c];
  return BiasMatch{graph.value(made).producer, std::move(bias)};
}

}  // namespace

Result<void> fuse_bias(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    if (node.dead || (node.op != Op::kAdd && node.op != Op::kSub)) continue;
    std::optional<BiasMatch> found = match(graph, node, 0);
    if (!found && node.op == Op::kAdd) found = match(graph, node, 1);
    if (!found) continue;
    Attrs attrs = graph.node(found->producer).attrs;
    set_clamp(attrs, *clamp_of(node.attrs));
    const ValueId result = graph.node(found->producer).outputs[0], sum = node.outputs[0];
    const int64_t channels = static_cast<int64_t>(found->bias.size());
    rewriter.set_input(found->producer, 2,
                       new_f32_constant(rewriter, graph.node(found->producer).name + ".bias", {channels}, found->bias));
    rewriter.set_attrs(found->producer, attrs);
    rewriter.replace(sum, result);
    rewriter.erase(n);
  }
  return rewriter.ok();
}

}  // namespace lathe::passes
