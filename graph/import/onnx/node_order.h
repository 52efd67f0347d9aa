// Puts the nodes of a file in topological order.
#pragma once
#include <set>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/import/onnx/model_proto.h"

namespace lathe::onnx {

// How messages call a node: by its name, else by its first output.
std::string node_label(const NodeProto& node);

// Indices of graph.nodes so that each stands after the makers of its operands, otherwise in the file's order. `given`: names that
// no node makes (inputs, initializers); `fixed`: names that nobody waits for, though a node may make them. Errors: a value that
// two nodes make, or a node and an input; an operand that nothing makes; a cycle.
Result<std::vector<size_t>> node_order(const GraphProto& graph, const std::set<std::string_view>& given,
                                       const std::set<std::string_view>& fixed);

}  // namespace lathe::onnx
