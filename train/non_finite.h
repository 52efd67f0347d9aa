// Where a run goes wrong. Internal to train/.
#pragma once
#include <string>

#include "train/training_program.h"

namespace lathe::train {

// Repeats the run that `program` is loaded for from `variables`, and names the first tensor, in order of execution, that holds
// NaN or infinity while everything it is computed from is finite: an input, a variable, or "the result of Conv2d 'layer1'". An
// infinity that comes from a constant, as in an attention's mask, is not at fault. Empty: there is none.
Result<std::string> find_non_finite(const TrainingProgram& program, const VariableBytes& variables);

}  // namespace lathe::train
