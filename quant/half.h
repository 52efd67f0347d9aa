// Half-precision storage: a float graph becomes one whose activations and weights are stored as f16.
//
// Driven by the op table (`half`): nodes that have a half-precision form are converted, the others stay float between Casts, one
// per value. Biases stay float32, and so do the graph's inputs and outputs. All arithmetic is float32 either way: what changes is
// that a result is rounded to 11 bits, and takes half the memory. Nothing here asks for an op by name.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/ir.h"
#include "quant/calibrate.h"

namespace lathe {

struct HalfOptions {
  // Nodes that stay float: a node's name, a pattern with * and ?, or an op type.
  std::vector<std::string> keep_float = {};
  // If set: of the others, too, only nodes of these very names change.
  std::optional<std::set<std::string>> only = {};
  // What calibration saw, by value name. A node that makes a value beyond kMaxHalfRange stays float. May be empty.
  RangeTable ranges = {};
};

// Halves reach 65504; real inputs may go twice as far as calibration saw.
inline constexpr double kMaxHalfRange = 32768;

// One row of the summary: every node of the float graph.
struct HalfRow {
  std::string node;
  std::string op;
  bool half = false;
  std::string reason;  // why it stayed float; empty if half
};

struct HalfResult {
  Graph graph;
  std::vector<HalfRow> rows;
  // Constants with elements beyond 65504, which were clamped, and how many: "conv1.weight: 3".
  std::vector<std::string> clamped;
};

// Requires: `graph` went through lowering_passes(); operators that are quantized already stay as they are. Errors: a keep_float
// entry that matches nothing; weights that are not finite (named).
Result<HalfResult> half_graph(const Graph& graph, const HalfOptions& options);

}  // namespace lathe
