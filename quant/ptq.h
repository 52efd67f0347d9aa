// Post-training quantization: a float graph and its calibration become an integer graph.
//
// Driven by the op table alone: quant rules say which operands are activations, weights and biases, `has_s8` whether an integer
// kernel exists. Quantize and Dequantize stand only at the borders, one per value. Nothing here asks for an op by name.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "graph/ir.h"
#include "quant/calibrate.h"

namespace lathe {

struct QuantizeOptions {
  bool per_channel = true;
  int32_t weight_bits = 8;  // 2 to 8: steps of weights are in [-(2^(bits-1) - 1), 2^(bits-1) - 1]; fewer than 8 are stored as int8, too
  bool weight_mse = false;  // weight scales of least squared error instead of those that reach the largest weight
  // Nodes that stay float: a node's name, a pattern with * and ?, or an op type (as ops.def names it, any case).
  std::vector<std::string> keep_float = {};
  // The same by id, for whoever tries one node after another.
  std::set<NodeId> keep_nodes = {};
};

// One row of the summary: every node of the float graph.
struct QuantizeRow {
  std::string node;
  std::string op;
  bool int8 = false;
  std::string reason;  // why it stayed float; empty if int8
  double share = 0;    // of the graph's multiply-accumulates at batch 1
};

struct QuantizeResult {
  Graph graph;
  std::vector<QuantizeRow> rows;
  uint32_t widened_channels = 0;  // weight scales that grew so that a bias fits
};

// Requires: `graph` went through lowering_passes(). Errors: already quantized (an integer value with quantization parameters),
// weights that are not finite, a keep_float entry that matches nothing, weight_bits out of range, a tensor that calibration did not see.
Result<QuantizeResult> quantize_graph(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options);

// What quantize_graph() calls the 8-bit form of a value whose name the float form keeps is that name and a suffix: without it.
std::string float_name(const std::string& name);

}  // namespace lathe
