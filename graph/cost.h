// Cost of nodes from the op table, with every symbol taken as 1 (batch 1).
#pragma once
#include "graph/ir.h"

namespace lathe {

// Multiply-accumulates; 0 for ops that have none or whose dims cannot be evaluated.
double node_cost_macs(const Graph& graph, const Node& node);
double total_macs(const Graph& graph);

// Bytes of the constants a node reads.
uint64_t node_parameter_bytes(const Graph& graph, const Node& node);

}  // namespace lathe
