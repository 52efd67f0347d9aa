// What the pass fuse-quantized says about the ops that it leaves.
#pragma once
#include <string>

#include "graph/ir.h"

namespace lathe::passes {

// Why node n, which stands between Dequantize and Quantize, stays float; empty if it would not.
std::string integer_obstacle(const Graph& graph, NodeId n);

}  // namespace lathe::passes
