// `lathe calibrate --build`: from a data set's split to the file of a calibration set, and what to say of it.
#pragma once
#include <string>
#include <vector>

#include "graph/ir.h"
#include "tools/arguments.h"
#include "tools/calibration.h"

namespace lathe::tools {

struct BuildFlags {
  bool build = false;
  std::vector<std::string> by;
  std::string pool;
  uint64_t seed = 0;
  void add_to(Arguments& args);
};

// Builds a set of `calibration.samples` samples for `graph`, which went through lowering_passes(), prints what is in it and
// writes it to `output` unless that is empty. Errors: a pool that must not be used, the data's, the network's.
Result<void> build_set(const Graph& graph, const CalibrationFlags& calibration, const BuildFlags& flags,
                       const SessionOptions& session, const std::string& output, bool json);

}  // namespace lathe::tools
