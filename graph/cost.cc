#include "graph/cost.h"

#include "graph/op_def.h"

namespace lathe {

double node_cost_macs(const Graph& graph, const Node& node) {
  const auto macs = node_macs(graph, node);
  if (!macs || !macs->valid()) return 0;
  const std::vector<std::optional<int64_t>> ones(graph.dims().symbol_count(), 1);
  const auto n = graph.dims().evaluate(*macs, ones);
  return n ? static_cast<double>(*n) : 0;
}

double total_macs(const Graph& graph) {
  double total = 0;
  for (const NodeId n : graph.order()) total += node_cost_macs(graph, graph.node(n));
  return total;
}

uint64_t node_parameter_bytes(const Graph& graph, const Node& node) {
  uint64_t bytes = 0;
  for (const ValueId v : node.inputs)
    if (v != kNoId && graph.value(v).kind == ValueKind::kConstant) bytes += graph.value(v).constant.bytes.size();
  return bytes;
}

}  // namespace lathe
