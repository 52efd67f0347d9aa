// What a user does with a model that loads: lower, bind, run once.
#pragma once
#include <memory>

#include "graph/ir.h"
#include "runtime/host/session.h"

namespace lathe::fuzz {

// Errors end it; models that need more than a small machine for a moment are not run.
void exercise(const Graph& graph);
void exercise(const std::shared_ptr<const LoadedProgram>& program);

}  // namespace lathe::fuzz
