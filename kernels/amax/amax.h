// The largest magnitude of each row: what dynamic quantization takes its scales from.
//
//   y[r] = max over i < n of |x[r * x_row + i]|
//
// NaN counts as 0; a row without elements gives 0. Serial. Strides in elements, no alignment needed. Reads and writes exactly the
// elements named; equal bit for bit on every ISA.
#pragma once
#include <stdint.h>

namespace lathe::kernels {

struct AmaxF32Args {
  const float* x;
  float* y;
  uint32_t rows, n;
  uint32_t x_row;
};
using AmaxF32Fn = void (*)(const AmaxF32Args&);

}  // namespace lathe::kernels
