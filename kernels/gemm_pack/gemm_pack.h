// Packs the right-hand matrix of a product of two activations into the panels that the segment GEMM reads (kernels/gemm/gemm.h),
// when the model runs: one segment, any range of columns.
//
//   packed[p][k][c] = b[k][16 p + c], element (k, c) of the matrix read at b + k * k_stride + c * n_stride
//
// Serial. Strides in elements. Fast where one of the strides is 1; the reference takes any. Reads up to 63 bytes past the last
// element of each contiguous run of `b`; writes exactly the packed panels (zero padded) and 16 * ceil(n / 16) entries of `bias`.
// `packed` and `bias` start on 64 bytes. Bit-exact on every ISA.
#pragma once
#include <stdint.h>

#include "kernels/gemm/gemm.h"

namespace lathe::kernels {

// 8 bit: GemmS8 wants signed weights, and activations lie as q + 128 on x86: `flip` (0x80 there, else 0) turns the top bit.
//
//   bias[c] = bias_factor * sum over k of b[k][c]
//
// With bias_factor = -z_a, the left operand's zero point as it lies in memory, this is the folded bias of the product:
// sum (a - z_a) b = sum a b - z_a sum b. Requires: k <= kMaxPackK, |bias_factor| <= 255.
struct GemmPackS8Args {
  const void* b;
  uint32_t k_stride, n_stride;
  uint32_t k, n;
  uint32_t flip;
  int32_t bias_factor;
  int8_t* packed;
  int32_t* bias;
};
using GemmPackS8Fn = void (*)(const GemmPackS8Args&);
// Largest k for which no sum of (a - z_a) b leaves int32: 255 * 128 * k < 2^31.
inline constexpr uint32_t kMaxPackK = 65793;

// Float: every element is multiplied by `scale`, the constant factor of the product.
struct GemmPackF32Args {
  const float* b;
  uint32_t k_stride, n_stride;
  uint32_t k, n;
  float scale;
  float* packed;
};
using GemmPackF32Fn = void (*)(const GemmPackF32Args&);

}  // namespace lathe::kernels
