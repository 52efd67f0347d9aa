// Runs every node whose operands are all constants, once, and puts its results in its place. What the executor cannot run, what writes variables, and results much larger than
// their operands stay.
#include <algorithm>

#include "graph/passes/evaluate.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

// A result may be this many times as large as the node's operands together, or this many bytes: a model does not grow much by
// folding.
constexpr uint64_t kMaxGrowth = 4, kAlwaysBytes = 4096;

bool all_constant(const Graph& graph, const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId v) { return v == kNoId || graph.value(v).kind == ValueKind::kConstant; });
}

bool worth_folding(const Graph& graph, const Node& node) {
  uint64_t in = 0, out = 0;
  for (ValueId v : node.inputs) in += v == kNoId ? 0 : graph.value(v).constant.bytes.size();
  for (ValueId v : node.outputs) {
    const std::optional<uint64_t> bytes = known_bytes(graph, v);
    if (!bytes || graph.is_output(v)) return false;
    out += *bytes;
  }
  return out <= kAlwaysBytes || out <= kMaxGrowth * in;
}

}  // namespace

Result<void> fold_constants(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node node = graph.node(n);
    // Weights on their way to the op that reads them: fuse-quantized wants their integers.
    if (node.op == Op::kDequantize) continue;
    if (node.inputs.empty() || node.outputs.empty() || !node.regions.empty() || !all_constant(graph, node) ||
        !worth_folding(graph, node))
      continue;
    const NodeId nodes[] = {n};
    LATHE_TRY(const Graph alone, nodes_alone(graph, nodes));
    const Result<std::vector<Constant>> results = run_alone(alone);
    if (!results) {
      if (results.error().code == Code::kUnsupported) continue;
      return tl::unexpected<Error>(with_context(results.error(), "folding '" + node.name + "'"));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value value = graph.value(node.outputs[i]);
      rewriter.replace(node.outputs[i], rewriter.constant(graph.fresh_name(value.name), value.type, (*results)[i], value.quant));
    }
    rewriter.erase(n);
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
