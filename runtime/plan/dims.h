// Dims at bind: from the caller's input shapes to the shape of every tensor.
#pragma once
#include <stdint.h>

#include "runtime/plan/memory.h"
#include "runtime/program.h"

namespace lathe {

struct BoundDims {
  const int64_t* values = nullptr;  // of every dim record
  const Shape* shapes = nullptr;    // of every tensor
};

// Matches `inputs` (one per input port) with the program's input tensors, which gives every symbol its value, evaluates all dim
// records in checked int64 and makes all shapes. Errors: kInvalidArgument (a shape does not fit. where: port * kMaxRank + axis;
// needed, got: the dim, at least 1 for a symbol; or for a wrong rank where: port * kMaxRank, needed, got: the ranks), kCorrupt
// (overflow, division by zero, a negative dim or a tensor over 2 GiB. where: the dim record, or dim_count + tensor), kUnsupported
// (a dim that depends on data), kOutOfMemory.
Status evaluate_dims(const Program& program, const Shape* inputs, const PlanMemory& memory, BoundDims* out);

}  // namespace lathe
