// Self-checks: inputs and outputs that travel with a model, so that a device can prove that it computes what the maker saw.
#pragma once
#include <vector>

#include "data/dataset.h"
#include "graph/file/model_file.h"
#include "runtime/host/session.h"

namespace lathe::tools {

// The first calibration sample and what the model makes of it; none if both together are over 16 KB, so that files stay small.
Result<std::vector<SelfCheck>> make_self_checks(const Graph& graph, const Dataset& data, const SessionOptions& session);

// Runs them. Integer outputs must be equal, float outputs within 1e-4 (max|a-b| / max|b|). The error names check, output and
// element.
Result<void> run_self_checks(const std::vector<SelfCheck>& checks, std::shared_ptr<const LoadedProgram> program,
                             const SessionOptions& session);

}  // namespace lathe::tools
