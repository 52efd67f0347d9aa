// Binding: a program, input shapes and a target become a plan that the executor can run.
//
// Every step's prepare() chooses kernels and scratch; then tensors get their place: constants in WEIGHTS, variables in a region
// of their own, the caller's inputs and outputs in the caller's memory where that is possible, everything else in one arena. An
// output shares its input's bytes when its step allows it and nobody reads the input later; parts of a concatenation or slice lie
// in the whole (runtime/plan/views.h). Thread-safe: all state is in the arguments.
#pragma once
#include <stdint.h>

#include "runtime/bound.h"
#include "runtime/exec/exec.h"
#include "runtime/plan/dims.h"
#include "runtime/plan/memory.h"
#include "runtime/program.h"

namespace lathe {

// How 8-bit values lie on a machine: u8 where vpdpbusd or its AVX2 equivalent wants an unsigned left operand.
constexpr kernels::Storage storage_for(kernels::IsaSet isa) {
  return kernels::covers(isa, kernels::kIsaAvx2) ? kernels::Storage::kU8 : kernels::Storage::kS8;
}

// One segment of a program of several: its steps, and the tensors that live across segments, among them all inputs and outputs.
// Those lie outside the plan: the i-th is RunMemory::external[i], with `tail` readable bytes behind it.
struct BindSegment {
  uint32_t begin = 0, end = 0;         // steps
  const uint32_t* carried = nullptr;   // by tensor: its position, or kNoTensor
};

struct BindOptions {
  kernels::IsaSet isa = kernels::kIsaScalar;
  kernels::Storage storage = kernels::Storage::kS8;
  uint32_t threads = 1;
  const ExecEntry* table = nullptr;             // BoundStep::exec indexes it
  uint32_t (*index)(uint16_t op) = nullptr;     // position of an op in `table`, kNoTensor if it is not there
  uint32_t align = 64;                          // of everything in the arena and the variables, a power of two, at least 8
  uint32_t tail = 64;                           // readable bytes behind the last one in the arena and the variables
  bool external_ports = true;                   // false: inputs and outputs lie in the arena (firmware)
  bool padded_inputs = false;                   // the caller's inputs may be read 63 bytes past their ends
  bool elide = true;                            // parts of a Concat or Slice lie in the whole where their steps allow it
  const BindSegment* segment = nullptr;         // null: the program has one segment
};

struct Binding {
  BoundPlan plan;
  BoundDims dims;
  // Per step: its kernels are kernels[kernel_first[s] .. kernel_first[s + 1]). For reports and generated code.
  const kernels::Kernel* const* kernels = nullptr;
  const uint32_t* kernel_first = nullptr;
  uint32_t kernel_count = 0;
  const uint32_t* unread = nullptr;  // per step: Prepared::unread_input_mask
  const uint32_t* strides = nullptr;  // per tensor: elements from one pixel to the next, 0 if it is dense
  const uint8_t* elided = nullptr;    // per step: 1 if it has nothing left to do
  uint32_t params_bytes = 0, operand_count = 0;
};

// `dims`: from evaluate_dims() on `program`. Everything in `out` lives in `memory`. With `options.segment` only its steps are
// bound, and ports are left to the caller (their mode is kUnused). Errors: those of prepare() and kUnsupported (an op without an
// entry in the table; got: its number, or kNoTensor for a shape that depends on data which is not known yet), where: the step;
// kUnsupported (several segments and no `segment`, or weights over 4 GiB), kOutOfMemory (needed: bytes).
Status bind(const Program& program, const BoundDims& dims, const BindOptions& options, const PlanMemory& memory, Binding* out);

}  // namespace lathe
