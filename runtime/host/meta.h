// The META section: names and free-form facts, for reports and errors; running needs none of it.
//
// Who calls it: writers of model files (graph/file/) and loaders (runtime/host/model.h). Thread-safe: no state.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/program.h"

namespace lathe {

struct StepNames {
  std::string name;  // of the graph's node (fused nodes: the main one)
  std::string op;    // as ops.def names it
  uint64_t param_bytes = 0;
};

// Names for the PLAN section with the same tag; every list has one entry per port or step, or is empty (stripped file).
struct PlanNames {
  uint32_t tag = 0;
  std::vector<std::string> inputs, outputs;
  std::vector<StepNames> steps;
  std::vector<std::string> symbols;
};

struct Meta {
  std::map<std::string, std::string> entries;  // Graph::metadata
  std::vector<PlanNames> plans;
};

// The section's bytes.
std::vector<uint8_t> write_meta(const Meta& meta);
// Verifies the buffer before reading it. Error: kCorrupt.
Result<Meta> read_meta(Bytes section);

}  // namespace lathe
