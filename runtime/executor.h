// The one executor: inference, calibration, evaluation and training all run here. It allocates nothing, chooses nothing and
// cannot fail.
#pragma once
#include "runtime/bound.h"
#include "runtime/exec/exec.h"

namespace lathe {

// Copies what is not the plan's to use in place: inputs before the steps (`inputs`: one pointer per input port) and outputs after
// them. Ports that are kDirect are skipped: their pointers must be in RunMemory::external.
void load_inputs(const BoundPlan& plan, const RunMemory& memory, const void* const* inputs);
void store_outputs(const BoundPlan& plan, const RunMemory& memory, void* const* outputs);
// `bytes` between the caller's form of a port or variable and the plan's: `mode` is its own.
void copy_port(uint8_t* to, const uint8_t* from, uint32_t bytes, PortMode mode);
// Variables to their initial values.
void reset_variables(const BoundPlan& plan, const RunMemory& memory);

// Runs steps [begin, end) of `plan` with the table that it was bound with. `hook` may be null.
void run_steps(const BoundPlan& plan, const ExecEntry* table, const RunMemory& memory, const Parallel& parallel,
               const StepHook* hook, uint32_t begin, uint32_t end);

}  // namespace lathe
