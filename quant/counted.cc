#include "quant/counted.h"

#include <algorithm>
#include <cmath>

#include "graph/op_def.h"

namespace lathe {
namespace {

// How far below the largest of its row a value counts for those that read v; 0: all of it, or somebody wants the whole range.
float reach_of(const Graph& graph, ValueId v) {
  float reach = 0;
  if (graph.is_output(v)) return 0;
  for (const NodeId n : graph.consumers(v)) {
    const Node& node = graph.node(n);
    const OpDef& def = op_def(node.op);
    const bool other = std::count(node.inputs.begin() + 1, node.inputs.end(), v) > 0;
    const float own = def.reach == nullptr || other ? 0 : def.reach(node.attrs, graph.value(v).type.dims.size());
    if (own == 0) return 0;
    reach = std::max(reach, own);
  }
  return reach;
}

}  // namespace

CountedValues::CountedValues(const Graph& graph, const SampleRunner& runner) : runner_(runner) {
  for (const ValueId v : runner.activations()) reach_.push_back(v == kNoId ? 0 : reach_of(graph, v));
}

std::span<const float> CountedValues::of(uint32_t tensor, std::span<const float> values) {
  return reach_[tensor] > 0 ? lifted(values, runner_.row(tensor), reach_[tensor]) : values;
}

// The values with those that lie too low in their row raised to where they begin to count. A row of -infinity stays.
std::span<const float> CountedValues::lifted(std::span<const float> values, size_t row, float reach) {
  scratch_.assign(values.begin(), values.end());
  for (size_t at = 0; at + row <= scratch_.size() && row > 0; at += row) {
    const auto begin = scratch_.begin() + static_cast<ptrdiff_t>(at), end = begin + static_cast<ptrdiff_t>(row);
    const float lowest = *std::max_element(begin, end) - reach;
    std::for_each(begin, end, [&](float& v) { v = v < lowest ? lowest : v; });
  }
  return scratch_;
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace lathe
