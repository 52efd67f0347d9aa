// What a network's operators cost on this device in each precision, measured once and kept in a table.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "quant/mixed.h"
#include "tools/cost_table.h"

namespace lathe::tools {

struct DeviceCosts {
  MixedCosts costs;
  std::vector<std::string> not_int8, not_half;  // by position: why a node cannot have that precision; empty where it can
  size_t measured = 0;                          // entries that the table did not have yet
};

struct CostRequest {
  QuantizeOptions quantize = {};
  SessionOptions session = {};
  double seconds = 1;  // of profiling, or timing, each network
  uint32_t batch = 1;  // of float_times(); precisions are compared at batch 1
};

// Costs at batch 1. The network is profiled whole, in FP32, FP16 and INT8 in turn, so that operators meet their data where they
// will find it; operators of the same kind and shapes share an entry. Requires: `graph` went through lowering_passes(). Errors:
// mixed_graph()'s, the sessions'.
Result<DeviceCosts> device_costs(const Graph& graph, const RangeTable& ranges, const CostRequest& request, CostTable* table);

// Microseconds of every node of a float graph by its name, from one profile of the whole network, or from the table if that knows all of
// them. Requires: `graph` went through lowering_passes(). Errors: the session's.
Result<std::map<std::string, double>> float_times(const Graph& graph, const CostRequest& request, CostTable* table);

// "Conv2d 1x32x32x16 16x3x3x16 16 > 1x32x32x16", symbols taken as 1.
std::string node_signature(const Graph& graph, const Node& node);

// Ranges as one pseudo-random sample gives them: for costs, which hardly depend on them.
Result<RangeTable> random_ranges(const Graph& graph, const SessionOptions& session);

}  // namespace lathe::tools
