// Softmax over rows of contiguous values.
//
// Serial; reads and writes exactly rows * n elements; y may be exactly x.
#pragma once
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

// y[r][i] = exp(x[r][i] - max_r) / sum_r. A row with NaN gives NaN throughout. The order of the sum depends on n only.
struct SoftmaxF32Args {
  const float* x;
  float* y;
  uint32_t rows, n;
};
using SoftmaxF32Fn = void (*)(const SoftmaxF32Args&);

// y = softmax_quantized(t, sum) (lathe/arith.h; +128 for u8 storage) with t = table[max_r - x], sum of t in uint32, so n <=
// 65536. table[d] is rne(65535 exp(-s d)), so table[0] is 65535. Bit-exact on every ISA.
struct SoftmaxS8Args {
  const void* x;
  void* y;
  uint32_t rows, n;
  const uint16_t* table;  // 256 entries
};
using SoftmaxS8Fn = void (*)(const SoftmaxS8Args&);

}  // namespace lathe::kernels
