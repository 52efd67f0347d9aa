// The pass fuse-quantized with ops that it must leave, and what it says about those that it leaves.
#pragma once
#include <set>
#include <string>

#include "graph/rewriter.h"

namespace lathe::passes {

// Why node n, which stands between Dequantize and Quantize, stays float; empty if it would not.
std::string integer_obstacle(const Graph& graph, NodeId n);

// fuse_quantized(), but these nodes stay float.
Result<void> fuse_quantized_but(Rewriter& rewriter, const std::set<NodeId>& kept);

}  // namespace lathe::passes
