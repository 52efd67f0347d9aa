// Segment GEMM: the one inner product of GEMM, fully connected and every dense convolution.
//
//   y[r][c] = epilogue(bias[c] + sum over segments s and k < seg_k of  a[at(r) + seg_a(s) + k] * w[seg_w(s)][k][c])
//
// Every index is affine, so that a call needs no table of offsets: output pixels are rows x cols, segments seg_rows x seg_cols,
// each with a step per axis (GemmGeometry). A plain GEMM is one row of m pixels and one segment. A convolution calls it once per
// rectangle of output pixels that see the same taps; with dilation 1 and one group a segment is one kernel row (kw * ic
// elements), else one tap (ic). Steps of the segments in `w` let a call leave out taps that would only read padding.
//
// Letters: m pixels, n output channels, k. Steps in elements. Serial: callers split pixels and n over threads.
// Reads up to 63 bytes past the last element of each segment of `a`, of `w`, `bias`, `scale`, of each pixel of `residual`; writes
// exactly rows x cols x n elements, nothing else. No alignment needed for a, y, residual; w, bias and scale start on 64 bytes.
// Kernels tile pixels across rows and panels as suits them; an empty rows, cols or seg_rows (the bias alone) is allowed.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

// Packed 8-bit weights: panels of 16 channels, quads of k: [ceil(n/16)][segs][ceil(seg_k/4)][16][4], zero padded. One vpdpbusd
// lane holds four k of a channel. bias and scale hold 16 * ceil(n/16) entries, zero padded.
inline constexpr uint32_t kGemmPanel = 16;
inline constexpr uint32_t kGemmQuad = 4;
constexpr uint32_t round_up(uint32_t v, uint32_t to) { return (v + to - 1) / to * to; }

// Where a call's operands lie, whatever their types. Pixel (i, j) of rows x cols reads a from i * a_row_step + j * a_col_step and
// writes y at i * y_row_step + j * y_col_step; `residual` likewise. Segment (i, j) of seg_rows x seg_cols starts
// i * a_seg_row_step + j * a_seg_col_step further in a, and i * w_seg_row_step + j * w_seg_col_step further in the panel.
// Requires (8-bit): seg_k is a multiple of 4, or the length the segments were packed with: behind it a kernel reads what the last
// quad's zero weights cancel.
struct GemmGeometry {
  uint32_t rows, cols, n;
  uint32_t a_row_step, a_col_step;
  uint32_t y_row_step, y_col_step;
  uint32_t residual_row_step, residual_col_step;
  uint32_t seg_rows, seg_cols, seg_k;
  int32_t a_seg_row_step, a_seg_col_step;
  uint32_t w_seg_row_step, w_seg_col_step;
  uint32_t w_panel_step;  // from a panel of 16 channels to the next: gemm_s8_panel_bytes() or gemm_f32_panel_elems()
};

// Bytes of one panel: 16 channels of all segments.
constexpr uint32_t gemm_s8_panel_bytes(uint32_t segs, uint32_t seg_k) { return segs * round_up(seg_k, kGemmQuad) * kGemmPanel; }
constexpr uint32_t gemm_s8_packed_bytes(uint32_t n, uint32_t segs, uint32_t seg_k) {
  return round_up(n, kGemmPanel) / kGemmPanel * gemm_s8_panel_bytes(segs, seg_k);
}
// Packs w[n][segs * seg_k] (row-major, OHWI) into `packed`, gemm_s8_packed_bytes() long; unpack is the inverse.
void gemm_s8_pack(const int8_t* w, uint32_t n, uint32_t segs, uint32_t seg_k, int8_t* packed);
void gemm_s8_unpack(const int8_t* packed, uint32_t n, uint32_t segs, uint32_t seg_k, int8_t* w);

// A matrix: m rows of k elements, a_step, y_step apart, by n channels.
constexpr GemmGeometry gemm_s8_matrix(uint32_t m, uint32_t n, uint32_t k, uint32_t a_step, uint32_t y_step) {
  return {.rows = 1, .cols = m, .n = n,
          .a_row_step = 0, .a_col_step = a_step,
          .y_row_step = 0, .y_col_step = y_step,
          .residual_row_step = 0, .residual_col_step = y_step,
          .seg_rows = 1, .seg_cols = 1, .seg_k = k,
          .a_seg_row_step = 0, .a_seg_col_step = 0,
          .w_seg_row_step = 0, .w_seg_col_step = 0,
          .w_panel_step = gemm_s8_panel_bytes(1, k)};
}

// 8-bit: exact int32 accumulation (bound checked when the model is made), then ARITHMETIC's requantize or
// requantize_residual. `storage` says how a, residual and y lie in memory; bias is folded for it (b - (z_x + shift) * colsum(w)),
// and zero_point, lo, hi, residual_zero are shifted by it. Bit-exact on every ISA.
struct GemmS8Args {
  GemmGeometry geo;
  const void* a;
  const int8_t* w;  // packed, first panel of this call
  const int32_t* bias;
  const float* scale;  // m[c] = s_x * s_w[c] / s_y
  void* y;
  const void* residual;   // same pixels and channels as y, or null; may be y itself
  float residual_scale;  // s_r / s_y
  int32_t residual_zero;
  int32_t zero_point, lo, hi;
};
using GemmS8Fn = void (*)(const GemmS8Args&);

// The same for weights with zero points, as imported models may have: every weight stands for w - w_zero[c], so the sum becomes
//   acc = bias[c] + sum a w - w_zero[c] * sum a      (bias folded: b - z_a * colsum(w) + K * z_a * w_zero[c], z_a shifted)
// The second sum runs over the call's own a: a pixel's padding must be in memory, not left out, unless z_a is 0.
struct GemmS8ZwArgs {
  GemmS8Args s8;
  const int32_t* w_zero;  // per channel, padded like bias
};
using GemmS8ZwFn = void (*)(const GemmS8ZwArgs&);

// 8-bit operands, float result (dynamic quantization):
//   y[r][c] = clamp((float(acc) * row_scale[r]) * scale[c] + bias_f32[c] [+ residual[r][c]], lo, hi)
// each step one float operation. `bias` starts the sum as above: -(z_a + shift) * colsum(w), which is -128 * colsum(w) for a
// symmetric activation in u8 storage and 0 in s8. Pixel (i, j) takes row_scale[(i * cols + j) * row_scale_step]: step 0 is one
// scale for all. lo, hi may be infinite; a NaN stays one. Bit-exact on every ISA.
struct GemmS8F32Args {
  GemmGeometry geo;
  const void* a;
  const int8_t* w;
  const int32_t* bias;
  const float* row_scale;
  uint32_t row_scale_step;  // 0 or 1
  const float* scale;       // padded like bias
  const float* bias_f32;    // padded like bias; or null
  float* y;
  const float* residual;  // or null; may be y itself
  float lo, hi;
};
using GemmS8F32Fn = void (*)(const GemmS8F32Args&);

// Packed float weights: [ceil(n/16)][segs * seg_k][16], zero padded in n only: seg_k is exact, because a kernel never relies on a
// zero weight to mask garbage. In half precision the same with 16-bit elements. bias holds 16 * ceil(n/16) entries.
constexpr uint32_t gemm_f32_panel_elems(uint32_t segs, uint32_t seg_k) { return segs * seg_k * kGemmPanel; }
constexpr uint32_t gemm_f32_packed_elems(uint32_t n, uint32_t segs, uint32_t seg_k) {
  return round_up(n, kGemmPanel) * segs * seg_k;
}
void gemm_f32_pack(const float* w, uint32_t n, uint32_t segs, uint32_t seg_k, float* packed);
void gemm_f32_unpack(const float* packed, uint32_t n, uint32_t segs, uint32_t seg_k, float* w);
void gemm_f16_pack(const uint16_t* w, uint32_t n, uint32_t segs, uint32_t seg_k, uint16_t* packed);
void gemm_f16_unpack(const uint16_t* packed, uint32_t n, uint32_t segs, uint32_t seg_k, uint16_t* w);

// Float: y = clamp(bias + sum + residual, lo, hi); lo, hi may be infinite; a NaN stays one. Sums start with the bias and run over
// k in order with one accumulator per element on every ISA (fused multiply-add where the ISA has it), so that a result depends on
// neither m, n, batch nor threads. T: how activations and weights are stored, float or half precision (uint16_t,
// lathe/float16.h); all arithmetic is in float32, and a result is rounded once, to T.
template <class T>
struct GemmRealArgs {
  GemmGeometry geo;
  const T* a;
  const T* w;
  const float* bias;  // or null
  T* y;
  const T* residual;  // or null; may be y itself
  float lo, hi;
};
using GemmF32Args = GemmRealArgs<float>;
using GemmF32Fn = void (*)(const GemmF32Args&);
using GemmF16Args = GemmRealArgs<uint16_t>;
using GemmF16Fn = void (*)(const GemmF16Args&);

// A matrix in float or half precision; otherwise as gemm_s8_matrix().
constexpr GemmGeometry gemm_f32_matrix(uint32_t m, uint32_t n, uint32_t k, uint32_t a_step, uint32_t y_step) {
  GemmGeometry g = gemm_s8_matrix(m, n, k, a_step, y_step);
  g.w_panel_step = gemm_f32_panel_elems(1, k);
  return g;
}

}  // namespace lathe::kernels
