// Depthwise convolution: every output channel reads one input channel.
//
//   y[i][j][c] = epilogue(bias[c] + sum over p < kh, q < kw of  x(r, s, c / multiplier) * w[p][q][c])
//   r = row0 + i * stride_h + p * dilation_h,  s = col0 + j * stride_w + q * dilation_w
//
// where x(r, s, ..) is input pixel (r, s) of one image, or padding where that is outside of it: unlike segment GEMM, whose padded
// copy is cheap beside its work, a depthwise kernel handles borders itself. Letters: rows x cols output pixels, n output
// channels, kh x kw taps. Strides of memory in elements. Serial: callers split rows and channels. Reads up to 63 bytes past the
// last channel of each pixel of `a`, `pad_row` and `residual`, and of `w`, `bias` and `scale`; writes exactly rows x cols x n
// elements. No alignment needed for a, pad_row, y, residual; w, bias and scale start on 64 bytes.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "kernels/gemm/gemm.h"

namespace lathe::kernels {

// Where taps find their input. T: element type.
template <class T>
struct DwConvInput {
  const T* a;           // pixel (0, 0) of the image
  const T* pad_row;     // `cols` pixels of padding (zero point or 0.0), laid out as a row; not read if no tap falls outside
  uint32_t rows, cols;  // of the image
  uint32_t row_step, col_step;  // to its next row, next pixel
  int32_t row0, col0;           // input position under tap (0, 0) of output (0, 0); negative in the padding
  uint32_t stride_h, stride_w;
  uint32_t dilation_h, dilation_w;
  uint32_t kh, kw;
};

// Packed 8-bit weights: panels of 16 channels, kernel columns, quads of kernel rows: [ceil(n/16)][kw][ceil(kh/4)][16][4], zero
// padded. One vpdpbusd lane holds four rows of a column of a channel. bias and scale hold 16 * ceil(n/16) entries, zero padded.
constexpr uint32_t dwconv_s8_packed_bytes(uint32_t n, uint32_t kh, uint32_t kw) {
  return round_up(n, kGemmPanel) * kw * round_up(kh, kGemmQuad);
}
// Packs w[n][kh][kw] (OHWI with one input channel) into `packed`, dwconv_s8_packed_bytes() long; unpack is the inverse.
void dwconv_s8_pack(const int8_t* w, uint32_t n, uint32_t kh, uint32_t kw, int8_t* packed);
void dwconv_s8_unpack(const int8_t* packed, uint32_t n, uint32_t kh, uint32_t kw, int8_t* w);

// 8-bit: as GemmS8Args (kernels/gemm/gemm.h) says for storage, folded bias, clamp and residual. Bit-exact on every ISA.
struct DwConvS8Args {
  DwConvInput<void> in;
  const int8_t* w;
  const int32_t* bias;
  const float* scale;
  void* y;
  uint32_t y_row_step, y_col_step;
  const void* residual;  // or null; may be y itself
  uint32_t residual_row_step, residual_col_step;
  float residual_scale;
  int32_t residual_zero;
  int32_t zero_point, lo, hi;
  uint32_t rows, cols, n;
  uint32_t multiplier;  // output channels per input channel
};
using DwConvS8Fn = void (*)(const DwConvS8Args&);

// Packed float weights: [ceil(n/16)][kh * kw][16], zero padded; in half precision the same with 16-bit elements. bias holds
// 16 * ceil(n/16) entries.
constexpr uint32_t dwconv_f32_packed_elems(uint32_t n, uint32_t kh, uint32_t kw) { return round_up(n, kGemmPanel) * kh * kw; }
void dwconv_f32_pack(const float* w, uint32_t n, uint32_t kh, uint32_t kw, float* packed);
void dwconv_f32_unpack(const float* packed, uint32_t n, uint32_t kh, uint32_t kw, float* w);
void dwconv_f16_pack(const uint16_t* w, uint32_t n, uint32_t kh, uint32_t kw, uint16_t* packed);
void dwconv_f16_unpack(const uint16_t* packed, uint32_t n, uint32_t kh, uint32_t kw, uint16_t* w);

// Float: y = clamp(bias + sum + residual, lo, hi); one accumulator per element that starts with the bias and takes the taps row
// by row. T: how activations and weights are stored, float or half precision (uint16_t, lathe/float16.h); all arithmetic is in
// float32, and a result is rounded once, to T.
template <class T>
struct DwConvRealArgs {
  DwConvInput<T> in;
  const T* w;
  const float* bias;  // or null
  T* y;
  uint32_t y_row_step, y_col_step;
  const T* residual;  // or null; may be y itself
  uint32_t residual_row_step, residual_col_step;
  float lo, hi;
  uint32_t rows, cols, n;
  uint32_t multiplier;
};
using DwConvF32Args = DwConvRealArgs<float>;
using DwConvF32Fn = void (*)(const DwConvF32Args&);
using DwConvF16Args = DwConvRealArgs<uint16_t>;
using DwConvF16Fn = void (*)(const DwConvF16Args&);

}  // namespace lathe::kernels
