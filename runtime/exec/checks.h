// What prepare functions of several families check and derive in the same way.
//
// program_open() has checked arity, attribute lists and quantization parameters, and bind the shapes (checked_elems); prepare
// checks all the rest, because a program's bytes come from outside. Host-side code of the core: constants are made in double
// and rounded once.
#pragma once
#include <stdint.h>

#include "lathe/arith.h"
#include "runtime/exec/exec.h"

namespace lathe {

inline uint32_t step_index(const PrepareInput& in) {
  const uint8_t* first = reinterpret_cast<const uint8_t*>(&in.program->step(0));
  return static_cast<uint32_t>(reinterpret_cast<const uint8_t*>(in.step) - first) / in.program->header().step_bytes;
}

// An error about this step; `needed` and `got` are the two numbers that disagree.
inline Status refuse(const PrepareInput& in, Code code, uint32_t needed = 0, uint32_t got = 0) {
  return {code, step_index(in), needed, got};
}
// Operand `i` has a type that this op cannot take (got: its dtype), or quantization parameters that it cannot.
inline Status unsupported_operand(const PrepareInput& in, uint32_t i) {
  return refuse(in, Code::kUnsupported, i, static_cast<uint32_t>(in.tensor(i).dtype));
}

inline bool has_quant(const PrepareInput& in, uint32_t i) { return (in.tensor(i).flags & kTensorHasQuant) != 0; }
inline bool is_plain(const PrepareInput& in, uint32_t i) { return in.tensor(i).layout == Layout::kPlain; }
inline bool is_f32(const PrepareInput& in, uint32_t i) { return in.tensor(i).dtype == DType::kF32 && is_plain(in, i); }
inline bool is_f16(const PrepareInput& in, uint32_t i) { return in.tensor(i).dtype == DType::kF16 && is_plain(in, i); }
// An 8-bit value with quantization parameters, lying in the plan's storage or (a constant) as s8.
inline bool is_q8(const PrepareInput& in, uint32_t i) {
  return in.tensor(i).dtype == DType::kS8 && has_quant(in, i) && is_plain(in, i);
}

// Constants lie as s8 in the file whatever the plan's storage: what a kernel's *_flip must be for operand `i`. Kernels
// without a flip cannot take such an operand.
inline uint32_t stored_flip(const PrepareInput& in, uint32_t i) {
  const bool flip = in.storage == kernels::Storage::kU8 && in.tensor(i).kind == TensorKind::kConstant && has_quant(in, i);
  return flip ? 0x80u : 0u;
}
inline bool is_q8_in_storage(const PrepareInput& in, uint32_t i) { return is_q8(in, i) && stored_flip(in, i) == 0; }

// Operand `i` may be moved to output 0 byte by byte: same dtype, and one grid whose values all fit the output's.
inline bool same_bytes(const PrepareInput& in, uint32_t i) {
  const ProgramTensor &x = in.tensor(i), &y = in.tensor(in.out());
  if (x.dtype != y.dtype || !is_plain(in, i) || has_quant(in, i) != has_quant(in, in.out())) return false;
  if (!has_quant(in, i)) return true;
  return x.quant.scale == y.quant.scale && x.quant.zero_point == y.quant.zero_point && x.quant.qmin >= y.quant.qmin &&
         x.quant.qmax <= y.quant.qmax;
}

// Rounds a constant once to float32; false unless the result is finite and > 0.
inline bool round_multiplier(double value, float* m) {
  *m = static_cast<float>(value);
  return *m > 0 && *m - *m == 0;
}

// Clamp of a result in quantized steps: real limits [lo, hi] on the grid `q` (in the plan's storage). False if nothing is left.
inline bool quantized_limits(const QuantParams& q, float lo, float hi, int32_t* q_lo, int32_t* q_hi) {
  *q_lo = quantize(lo, q.scale, q.zero_point, q.qmin, q.qmax);
  *q_hi = quantize(hi, q.scale, q.zero_point, q.qmin, q.qmax);
  return *q_lo <= *q_hi;
}

inline uint32_t elems(const PrepareInput& in, uint32_t i) { return in.shape(i).elems(); }
inline uint32_t elem_bytes(const PrepareInput& in, uint32_t i) { return dtype_bytes(in.tensor(i).dtype); }

}  // namespace lathe
