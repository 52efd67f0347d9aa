// Dims at bind: from the caller's input shapes to the shape of every tensor.
#pragma once
#include <stdint.h>

#include "runtime/plan/memory.h"
#include "runtime/program.h"

namespace lathe {

struct BoundDims {
  const int64_t* values = nullptr;  // of every dim record; 0 if it is not known
  const Shape* shapes = nullptr;    // of every tensor; dims that are not known are -1
  const uint8_t* open = nullptr;    // per tensor: 1 if a dim is not known
};

// Dims that depend on data, as far as the program has come: by dim record, used for kValue only.
struct DataDims {
  const int64_t* values = nullptr;
  const uint8_t* known = nullptr;
};

// Matches `inputs` (one per input port) with the program's input tensors, which gives every symbol its value, evaluates all dim
// records in checked int64 and makes all shapes. Errors: kInvalidArgument (a shape does not fit. where: port * kMaxRank + axis;
// needed, got: the dim, at least 1 for a symbol; or for a wrong rank where: port * kMaxRank, needed, got: the ranks), kCorrupt
// (overflow, division by zero, a negative dim or a tensor over 2 GiB. where: the dim record, or dim_count + tensor), kUnsupported
// (a dim that depends on data, in a program of one segment), kOutOfMemory.
//
// Programs of several segments: what depends on data that is not known yet stays open; `data` may be null before the first run.
Status evaluate_dims(const Program& program, const Shape* inputs, const PlanMemory& memory, BoundDims* out,
                     const DataDims* data = nullptr);

}  // namespace lathe
