// Winograd's F(4x4, 3x3): a 3x3 convolution of stride 1 in tiles of 4 x 4 outputs, with 36 multiplications where the sum over taps
// takes 144. Lavin, Gray, "Fast Algorithms for Convolutional Neural Networks" (2016); points 0, 1, -1, 2, -2 and infinity:
//
//   B^T = | 4  0 -5  0  1  0 |   G = | 1/4    0    0   |   A^T = | 1  1  1  1  1  0 |
//         | 0 -4 -4  1  1  0 |       |-1/6 -1/6  -1/6  |         | 0  1 -1  2 -2  0 |
//         | 0  4 -4 -1  1  0 |       |-1/6  1/6  -1/6  |         | 0  1  1  4  4  0 |
//         | 0 -2 -1  2  1  0 |       | 1/24 1/12  1/6  |         | 0  1 -1  8 -8  1 |
//         | 0  2 -1 -2  1  0 |       | 1/24 -1/12 1/6  |
//         | 0  4  0 -5  0  1 |       | 0    0     1    |
//
//   forward           y  = A^T [sum over ic of (G w G^T) * (B^T x B)] A
//   gradient of w     dw = G^T [sum over tiles of (A dy A^T) * (B^T x B)] G
//   gradient of x     the forward one of dy with w turned by half and its channels swapped
//
// with * element by element over 6 x 6 points, so that a sum is 36 products of matrices, one a point. The kernels here are the
// transformations; the products are gemm's and gemm_tn's. Results differ from those of a direct convolution by a few times the
// rounding of its sums. Images are NHWC. Steps in elements. Serial; no alignment needed; exactly what is named is read
// and written.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

inline constexpr uint32_t kWinogradTile = 4;     // outputs along an axis
inline constexpr uint32_t kWinogradPatch = 6;    // inputs along an axis, and points
inline constexpr uint32_t kWinogradPoints = 36;  // of a tile

// Into points, for `tiles` tiles side by side, kWinogradTile pixels apart:
//   v[point * point_step + tile * channels + c]
// Tile 0 begins at pixel (row, col), which may lie outside of the image, as may pixels behind: those are 0.
// WinogradInputF32 is B^T x B of 6 x 6 pixels, WinogradGradientF32 is A x A^T of 4 x 4.
struct WinogradTilesF32Args {
  const float* x;  // the image
  uint32_t rows, cols, channels;
  uint32_t pixel;  // from one pixel to the next: channels or more
  int32_t row, col;
  uint32_t tiles;
  float* v;
  uint32_t point_step;
};
using WinogradInputF32Fn = void (*)(const WinogradTilesF32Args&);
using WinogradGradientF32Fn = void (*)(const WinogradTilesF32Args&);

// And back: the 4 x 4 pixels of every tile, as far as they lie in the image, are clamp(A^T m A + bias + residual, lo, hi); lo, hi
// may be infinite; a NaN stays one.
struct WinogradOutputF32Args {
  const float* m;  // m[point * point_step + tile * channels + c]
  uint32_t point_step;
  const float* bias;      // or null
  const float* residual;  // or null; an image like y
  float* y;               // the image
  uint32_t rows, cols, channels;
  uint32_t row, col;  // of the first tile's first pixel
  uint32_t tiles;
  float lo, hi;
};
using WinogradOutputF32Fn = void (*)(const WinogradOutputF32Args&);

// G w G^T of weights [oc][3][3][ic], for each point packed as gemm takes weights of one segment: n = oc, k = ic.
// `turned`: of the weights with both kernel axes reversed.
void winograd_pack_f32(const float* w, uint32_t oc, uint32_t ic, bool turned, float* packed);
constexpr uint32_t winograd_packed_elems(uint32_t oc, uint32_t ic) { return kWinogradPoints * ((oc + 15) / 16 * 16) * ic; }

// G^T u G for 16 channels: u[36][16] to w[9][16].
void winograd_weight_gradient(const float* u, float* w);

}  // namespace lathe::kernels
