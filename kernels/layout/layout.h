// Moving bytes: strided copies and 2-D transposes, for elements of 1, 2, 4 or 8 bytes of any type.
//
// Serial; y never overlaps x. Strides count bytes and may be negative for x, so that a slice can run backwards.
#pragma once
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

// y[c][r] = x[r][c] for r < rows, c < cols: element (r, c) is read at x + r * x_row + c * elem_bytes and written at
// y + c * y_row + r * elem_bytes.
struct TransposeArgs {
  const void* x;
  void* y;
  uint32_t rows, cols;
  int32_t x_row, y_row;
  uint32_t elem_bytes;
};
using TransposeFn = void (*)(const TransposeArgs&);

// y[r][i] = x[r][i] for r < rows, i < n: read at x + r * x_row + i * x_step, written at y + r * y_row + i * elem_bytes. x_step is
// elem_bytes for dense rows.
struct CopyArgs {
  const void* x;
  void* y;
  uint32_t rows, n;
  int32_t x_row, y_row;
  int32_t x_step;
  uint32_t elem_bytes;
};
using CopyFn = void (*)(const CopyArgs&);

// y[i] = value for i < n; the first elem_bytes bytes of `value` (little-endian) are the element.
void fill(void* y, uint32_t n, uint32_t elem_bytes, uint64_t value);

}  // namespace lathe::kernels
