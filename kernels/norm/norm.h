// Layer normalization over rows of contiguous values.
//
// Serial; reads and writes exactly rows * n elements of x and y and n of the vectors; no alignment is needed; y may be exactly x.
#pragma once
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

// y[r][i] = (x[r][i] - mean_r) * (1 / sqrt(variance_r + epsilon)) * scale[i] + bias[i]; bias may be null. The variance is the
// mean of (x - mean_r)^2, in a second pass. The order of both sums depends on n only. Within a few ulp of the largest
// |x - mean_r|, scaled.
struct LayerNormF32Args {
  const float* x;
  const float* scale;
  const float* bias;
  float* y;
  uint32_t rows, n;
  float epsilon;
};
using LayerNormF32Fn = void (*)(const LayerNormF32Args&);

// y = layer_norm_quantized(d, layer_norm_inverse(V, c), g[i], b[i], ...) (lathe/arith.h). g = scale / s_y, b = bias / s_y,
// c = n^2 epsilon / s_x^2 > 0. Requires: 1 <= n <= kMaxLayerNorm. Bit-exact on every ISA.
struct LayerNormConstants {
  float c;
  int32_t zero_point, lo, hi;
};
struct LayerNormS8Args {
  const void* x;
  const float* g;
  const float* b;
  void* y;
  uint32_t rows, n;
  LayerNormConstants c;
};
using LayerNormS8Fn = void (*)(const LayerNormS8Args&);

}  // namespace lathe::kernels
