// From a lowered image to what sessions run.
#pragma once
#include <memory>

#include "graph/lower/lower.h"
#include "runtime/host/session.h"

namespace lathe {

// A loaded program that owns the image's bytes. Errors: those of program_open().
Result<std::shared_ptr<const LoadedProgram>> load_program(ProgramImage image);

// lowering_passes(), lower() and load_program() on a copy of `graph`, for this host.
Result<std::shared_ptr<const LoadedProgram>> compile_for_host(const Graph& graph);

}  // namespace lathe
