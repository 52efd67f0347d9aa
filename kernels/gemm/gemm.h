// Segment GEMM: the one inner product of GEMM, fully connected and every dense convolution.
//
//   y[r][c] = epilogue(bias[c] + sum over segments s, k < seg_k of  a[r * a_stride + seg_offset[s] + k] * w[s][k][c])
//
// A plain GEMM has one segment. A convolution calls it once per run of output pixels with equal distance (one output row,
// input already padded in scratch): with dilation 1 and one group a segment is one kernel row (kw * ic elements), else one tap
// (ic).
//
// Letters: m rows (pixels), n output channels, k. Strides in elements. Serial: callers split m and n over threads.
// Reads up to 63 bytes past the last element of each row of `a`, of `w`, `bias`, `scale`, `residual`; writes exactly
// m x n elements, nothing else. No alignment needed for a, y, residual; w, bias and scale start on 64 bytes.
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
// Bytes of one panel: 16 channels of all segments.
constexpr uint32_t gemm_s8_panel_bytes(uint32_t segs, uint32_t seg_k) { return segs * round_up(seg_k, kGemmQuad) * kGemmPanel; }
constexpr uint32_t gemm_s8_packed_bytes(uint32_t n, uint32_t segs, uint32_t seg_k) {
  return round_up(n, kGemmPanel) / kGemmPanel * gemm_s8_panel_bytes(segs, seg_k);
}
// Packs w[n][segs * seg_k] (row-major, OHWI) into `packed`, gemm_s8_packed_bytes() long; unpack is the inverse.
void gemm_s8_pack(const int8_t* w, uint32_t n, uint32_t segs, uint32_t seg_k, int8_t* packed);
void gemm_s8_unpack(const int8_t* packed, uint32_t n, uint32_t segs, uint32_t seg_k, int8_t* w);

// 8-bit: exact int32 accumulation (bound checked when the model is made), then ARITHMETIC's requantize or
// requantize_residual. `storage` says how a, residual and y lie in memory; bias is folded for it (b - (z_x + shift) * colsum(w)),
// and zero_point, lo, hi, residual_zero are shifted by it. Bit-exact on every ISA.
struct GemmS8Args {
  const void* a;
  uint32_t a_stride;
  const int32_t* seg_offset;  // `segs` entries, in elements of a
  uint32_t segs;
  uint32_t seg_k;
  const int8_t* w;  // packed, first panel of this call
  const int32_t* bias;
  const float* scale;  // m[c] = s_x * s_w[c] / s_y
  void* y;
  uint32_t y_stride;
  const void* residual;  // same rows and channels as y, or null; may be y itself
  uint32_t residual_stride;
  float residual_scale;  // s_r / s_y
  int32_t residual_zero;
  int32_t zero_point, lo, hi;
  uint32_t m, n;
};
using GemmS8Fn = void (*)(const GemmS8Args&);

// Packed float weights: [ceil(n/16)][segs * seg_k][16], zero padded in n only: seg_k is exact, because a kernel never relies on a
// zero weight to mask garbage. bias holds 16 * ceil(n/16) entries.
constexpr uint32_t gemm_f32_packed_elems(uint32_t n, uint32_t segs, uint32_t seg_k) {
  return round_up(n, kGemmPanel) * segs * seg_k;
}
void gemm_f32_pack(const float* w, uint32_t n, uint32_t segs, uint32_t seg_k, float* packed);
void gemm_f32_unpack(const float* packed, uint32_t n, uint32_t segs, uint32_t seg_k, float* w);

// Float: y = clamp(bias + sum + residual, lo, hi); lo, hi may be infinite; a NaN stays one. Sums start with the bias and run over
// k in order with one accumulator per element on every ISA (fused multiply-add where the ISA has it), so that a result depends on
// neither m, n, batch nor threads.
struct GemmF32Args {
  const float* a;
  uint32_t a_stride;
  const int32_t* seg_offset;
  uint32_t segs;
  uint32_t seg_k;
  const float* w;
  const float* bias;  // or null
  float* y;
  uint32_t y_stride;
  const float* residual;  // or null; may be y itself
  uint32_t residual_stride;
  float lo, hi;
  uint32_t m, n;
};
using GemmF32Fn = void (*)(const GemmF32Args&);

}  // namespace lathe::kernels
