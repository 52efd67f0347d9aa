// Mixed precision under budgets: the fastest assignment of precisions on this device whose accuracy holds the gates.
//
// The costs choose (quant/mixed.h), the real metric verifies. While a gate does not hold, the operators that disturb the
// outputs most for the time that they save lose their precision, in growing steps, ranked anew each time; then those that can
// have it back get it.
// In the end the choice is measured beside all of FP32, FP16 and INT8, and gives way to one of these that holds the gates and is
// faster. Every measurement is in the table's file before anything depends on it: the same table leads to the same choice.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/device_costs.h"
#include "tools/evaluation.h"

namespace lathe::tools {

struct MixedRequest {
  std::string model;  // opens errors
  Metric metric;
  Gates gates;
  const Graph* baseline = nullptr;  // that drops are of; null: the float graph itself
  std::optional<double> target_ms;
  uint64_t limit = 2000;        // samples of the split for choices that verify
  uint64_t noise_samples = 16;  // that rank
  CostRequest costs;
};

// A way to run the network.
struct MixedPoint {
  std::string name;  // "FP32", "FP16", "INT8", "chosen"
  Assignment assignment;
  double predicted_us = 0, measured_us = 0;
  double drop = 0, worst_drop = 0;
  std::string worst_group;  // empty without groups of enough samples
  bool passes = false;
};

// One row per node of the graph.
struct MixedRow {
  std::string node, op, why;
  Precision precision = Precision::kFloat;
  PrecisionCosts us = {kImpossible, kImpossible, kImpossible};
};

struct MixedChoice {
  MixedResult result;
  std::vector<MixedRow> rows;
  std::vector<MixedPoint> points;  // the three uniform ones, then the chosen one
  double border_us = 0;            // of the prediction: conversions
  size_t evaluations = 0;          // networks that the metric saw
  uint64_t samples = 0;
};

// `split` verifies; labels or targets as the metric wants them. Errors: no assignment holds the gates or the target (with the
// nearest figures); those of costs, quantizing and evaluating.
Result<MixedChoice> choose_mixed(const Graph& graph, const RangeTable& ranges, const Dataset& data, const DataSplit& split,
                                 const MixedRequest& request, CostTable* table);

}  // namespace lathe::tools
