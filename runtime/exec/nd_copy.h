// A strided copy of up to eight dims: what Transpose, Slice, Concat, Pad and the reductions' rearrangements come down to.
//
// prepare describes it dim by dim, in bytes; nd_copy_prepare() merges dims and picks the kernel: rows that are dense on both
// sides are copied, two dims that are dense on opposite sides are transposed in blocks, anything else moves element by
// element.
#pragma once
#include <stdint.h>

#include "kernels/layout/layout.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/split.h"

namespace lathe {

// One dim of a copy, outermost first: its size and what one step along it means, in bytes, on either side.
struct CopyDim {
  uint32_t size;
  int32_t x_stride, y_stride;
};

// Prepared form; 32-bit fields only. Outer dims are looped over; the innermost two are the kernel's.
struct NdCopy {
  uint32_t transposed;  // kernel 0 is a Transpose, else a Copy
  uint32_t outer_rank;
  CopyDim outer[kMaxRank];
  uint32_t elem_bytes;
  uint32_t rows, n;  // of a kernel call; transposed: rows x cols
  int32_t x_row, y_row, x_step;
  int32_t x_base, y_base;  // bytes from the operands' starts
  Split split;             // outer: outer dims flattened; inner: rows (Copy) or cols (Transpose)
};

// Describes the copy of `rank` dims of elements of `elem_bytes` (1, 2, 4 or 8) in `out` and says which kernel family it
// needs. Every destination must be distinct. Requires: rank <= kMaxRank; all offsets fit 31 bits.
kernels::Family nd_copy_prepare(const CopyDim* dims, uint32_t rank, uint32_t elem_bytes, uint32_t threads, NdCopy* out);

// Runs it with the kernel of the family that nd_copy_prepare() named.
void nd_copy_run(const RunContext& ctx, const NdCopy& c, kernels::AnyFn kernel, const uint8_t* x, uint8_t* y);

// Strides in bytes of operand `i`, row-major: dense but for gaps between its pixels.
void operand_strides(const PrepareInput& in, uint32_t i, int32_t strides[kMaxRank]);

}  // namespace lathe
