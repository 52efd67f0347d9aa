// Batch normalization in training, over rows of `c` contiguous channels: sums of a block of rows per channel, and the passes that
// write. Serial; reads and writes exactly rows * c elements and c of the vectors; no alignment needed. Outputs may be exactly an
// input. Float sums run in an order that depends on rows and c only, with a few partial sums per channel on vector ISAs.
//
// A value is normalized as n = (x - mean[c]) * factor[c] + bias[c] and clamped to [lo, hi], which may be infinite; a NaN stays
// one. The gradient passes through where lo < n < hi: `clamps` 0 leaves the clamp out.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

// sum[c] = sum of x, squares[c] = sum of (x - sum[c] / rows)^2. Reads x twice: a block should fit a near cache.
struct ChannelSumsF32Args {
  const float* x;
  uint32_t rows, c;
  float* sum;
  float* squares;
};
using ChannelSumsF32Fn = void (*)(const ChannelSumsF32Args&);

struct NormalizeClamp {
  float lo, hi;
  uint32_t clamps;  // 0: lo and hi are infinite
};

// y = clamp(n)
struct NormalizeF32Args {
  const float* x;
  const float* mean;
  const float* factor;
  const float* bias;
  float* y;
  uint32_t rows, c;
  NormalizeClamp clamp;
};
using NormalizeF32Fn = void (*)(const NormalizeF32Args&);

// g = dy where n is inside the clamp, else 0: sum[c] = sum of g, product[c] = sum of g (x - mean[c]).
struct NormalizeSumsF32Args {
  const float* x;
  const float* dy;
  const float* mean;
  const float* factor;
  const float* bias;
  uint32_t rows, c;
  NormalizeClamp clamp;
  float* sum;
  float* product;
};
using NormalizeSumsF32Fn = void (*)(const NormalizeSumsF32Args&);

// dx = factor[c] g - slope[c] (x - mean[c]) - offset[c]
struct NormalizeGradF32Args {
  const float* x;
  const float* dy;
  const float* mean;
  const float* factor;
  const float* bias;
  const float* slope;
  const float* offset;
  float* dx;
  uint32_t rows, c;
  NormalizeClamp clamp;
};
using NormalizeGradF32Fn = void (*)(const NormalizeGradF32Args&);

}  // namespace lathe::kernels
