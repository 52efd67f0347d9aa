// Mixed precision: which operators compute in INT8, FP16 or FP32, and the network that follows from it.
//
// The choice minimises a predicted time: the cost of every node in its precision, and a conversion at every border between two of
// them, once per value and precision that its readers ask for. Costs are given (measured by whoever calls), so the choice itself
// is pure. A lone node in another precision than its neighbours pays for its borders and goes unless it earns them.
#pragma once
#include <array>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "quant/ptq.h"

namespace lathe {

enum class Precision : uint8_t { kInt8, kHalf, kFloat };
inline constexpr size_t kPrecisions = 3;
const char* precision_text(Precision precision);  // "INT8", "FP16", "FP32"

// Microseconds; infinite: not possible.
inline constexpr double kImpossible = std::numeric_limits<double>::infinity();
using PrecisionCosts = std::array<double, kPrecisions>;

// What turns a float32 value into an 8-bit or half one, and back.
struct BorderCosts {
  double quantize = 0, dequantize = 0, narrow = 0, widen = 0;
};

struct MixedCosts {
  std::vector<PrecisionCosts> nodes;  // by position in graph.order()
  std::vector<BorderCosts> borders;   // by value
};

// By position in graph.order().
using Assignment = std::vector<Precision>;

// Infinite if a node has a precision that it cannot have. Requires: costs and assignment fit the graph.
double predicted_us(const Graph& graph, const MixedCosts& costs, const Assignment& assignment);

// The best assignment that changing any run of consecutive nodes to one precision does not improve, found from all nodes in each
// precision in turn (where a node cannot have it, in FP32). Nodes that only move data go with the one whose result they move.
// Deterministic. Requires: every node can be FP32.
Assignment fastest_assignment(const Graph& graph, const MixedCosts& costs);

struct MixedResult {
  Graph graph;
  Assignment actual;  // what each node really became: data movement settles by its neighbours
  // As of QuantizeResult and HalfResult: why a node is not INT8, and why not FP16; empty where it is.
  std::vector<std::string> not_int8, not_half;
  uint32_t widened_channels = 0;
  std::vector<std::string> clamped;
};

// Requires: `graph` went through lowering_passes(). Errors: quantize_graph()'s and half_graph()'s.
Result<MixedResult> mixed_graph(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options,
                                const Assignment& assignment);

}  // namespace lathe
