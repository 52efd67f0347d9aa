// Runs a graph on seeded random inputs. Used by prune/ only.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir.h"

namespace lathe::prune {

struct RandomRun {
  uint64_t seed = 1;
  int64_t batch = 3;  // of symbols that are the first axis of an input; others are 64, or 256 or 1024 where that is too small
};

struct RunOutput {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<double> values;
};

// All outputs, in order. Float inputs are normal with deviation 1, drawn by name, so that graphs with the same inputs get the
// same; integer inputs that pick rows of a table are rows of it, others 0 or 1. Errors: lowering's, the session's; outputs of
// unknown size.
Result<std::vector<RunOutput>> run_random(const Graph& graph, const RandomRun& options);

}  // namespace lathe::prune
