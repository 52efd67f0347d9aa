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
};

// One decision per node of graph.order(). Error: an entry of keep_float that matches no node.
Result<std::vector<Decision>> decide(const Graph& graph, const QuantizeOptions& options);

// Whether `text` matches a pattern of literal characters, * (any run) and ? (any one), ignoring case.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace lathe
