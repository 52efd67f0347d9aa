// Views: tensors that lie inside others, so that concatenating and slicing need no copy.
//
// The inputs of a Concat are written straight into its result, and a Slice is read where it lies, if the parts are whole pixels
// (rows of the last dim), or channels of pixels and every step that touches them takes tensors with gaps between pixels.
#pragma once
#include <stdint.h>

#include "runtime/exec/exec.h"
#include "runtime/plan/memory.h"

namespace lathe {

// What the planner keeps of a step's Prepared.
struct StepTraits {
  uint32_t share_input_mask, exact_input_mask, strided_input_mask;
  bool alias_input0, strided_output;
  Pieces pieces;
};

// By tensor. A tensor without a whole stands alone and is dense.
struct Views {
  uint32_t* wholes = nullptr;   // kNoTensor: none
  uint32_t* offsets = nullptr;  // elements from the first one of the whole
  uint32_t* strides = nullptr;  // elements from one pixel to the next; 0: dense
};

// What the caller's memory is good for.
struct ForeignMemory {
  bool direct;         // the plan may work on inputs and outputs where they are
  bool padded_inputs;  // and read past the ends of inputs
  const uint32_t* carried = nullptr;  // BindSegment::carried: those tensors lie outside the plan
};

// Finds views, or none if `elide` is false. False: out of memory.
bool find_views(const Program& program, const Shape* shapes, const StepTraits* traits, const ForeignMemory& foreign, bool elide,
                const PlanMemory& memory, Views* out);

// Whether every step that reads `tensor`, or a slice that lies in it, stays inside.
bool reads_exactly(const Program& program, const StepTraits* traits, const Views& views, uint32_t tensor);

}  // namespace lathe
