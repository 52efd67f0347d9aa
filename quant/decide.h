// Which nodes become integer, and why the others stay float.
#pragma once
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "quant/ptq.h"

namespace lathe {

struct Decision {
  bool int8 = false;
  std::string reason;  // why it stays float
  bool by_row = false;  // INT8 is its table alone, row by row (quant/embedding.h); its result stays float
};

// One decision per node of graph.order(). Error: an entry of keep_float that matches no node.
Result<std::vector<Decision>> decide(const Graph& graph, const QuantizeOptions& options);

// Per node of graph.order(): whether an entry of `patterns` (as QuantizeOptions::keep_float) keeps it float. Error: one that
// matches no node.
Result<std::vector<bool>> kept_float(const Graph& graph, const std::vector<std::string>& patterns);

// Error: the graph has values with quantization parameters.
Result<void> check_is_float(const Graph& graph);

// Whether `text` matches a pattern of literal characters, * (any run) and ? (any one), ignoring case.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace lathe
