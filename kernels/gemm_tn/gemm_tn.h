// The product of a matrix's transpose with another, both stored with k outside: what the gradient of a weight is, as a sum over
// pixels.
//
//   y[r][c] = (add ? y[r][c] : 0) + sum over i < rows, j < cols of  a[i][j][r] * b[i][j][c]
//
// Pixel (i, j) lies at i * row_step + j * col_step of a and b, its r and c are contiguous. Steps in elements. Serial; reads and
// writes exactly the elements that the equation names; no alignment needed. Float sums run over the pixels in order with one
// accumulator per element on every ISA (fused multiply-add where the ISA has it): they depend on neither m, n nor threads, and
// two calls that add equal one over all their pixels.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

struct GemmTnF32Args {
  const float* a;
  const float* b;
  float* y;
  uint32_t rows, cols;
  uint32_t a_row_step, a_col_step;
  uint32_t b_row_step, b_col_step;
  uint32_t m, n;
  uint32_t y_step;  // from row r of y to the next
  uint32_t add;     // 0 or 1
};
using GemmTnF32Fn = void (*)(const GemmTnF32Args&);

}  // namespace lathe::kernels
