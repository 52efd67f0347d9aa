// The 8-bit GEMM for the Arm files of this folder: walks over channels and pixels, and the three ways in which sums end.
//
// A tile is some pixels by 8 channels, half a panel, so that no channel count costs more than the next multiple of 8; where there
// are few pixels it is half as many by 16, so that weights, which then set the pace, are read once. M, the ISA file's, has
// kPixels, the largest number of pixels by 8 channels, and add_segment, the inner product.
#pragma once
#include <arm_neon.h>

#include "kernels/gemm/pixels.h"
#include "kernels/gemm/requantize_arm_neon.h"
#include "kernels/math/arm_neon_storage.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

// Sums of kRows pixels x 4 kFours channels. row[r]: pixel r; w: the tile's first channel in its panel.
template <class M, int kRows, int kFours>
LATHE_INLINE void sum_tile(const GemmGeometry& g, const int8_t* const* row, const int8_t* w, const int32_t* bias,
                           int32x4_t (&sums)[kRows][kFours]) {
  typename M::template Accumulators<kRows, kFours> acc;
  const uint32_t quads = (g.seg_k + kGemmQuad - 1) / kGemmQuad;
  for (uint32_t i = 0; i < g.seg_rows; ++i) {
    ptrdiff_t a_at = static_cast<ptrdiff_t>(i) * g.a_seg_row_step;
    const int8_t* seg_w = w + static_cast<size_t>(i) * g.w_seg_row_step;
    for (uint32_t j = 0; j < g.seg_cols; ++j, a_at += g.a_seg_col_step, seg_w += g.w_seg_col_step)
      acc.add_segment(row, a_at, seg_w, quads);
  }
  LATHE_UNROLL
  for (int v = 0; v < kFours; ++v) {
    const int32x4_t b = vld1q_s32(bias + 4 * v);
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r][v] = vaddq_s32(acc.sum(r, v), b);
  }
}

// Ends a tile in requantized bytes; with kZeros the weights have zero points and `row_sums` the pixels' sums.
template <bool kZeros>
struct FinishBytes {
  using Y = int8_t;
  const float* scale;
  const int32_t* w_zero;
  const int32_t* row_sums;  // of the block's first pixel
  Requantize q;

  template <int kRows, int kFours>
  LATHE_INLINE void operator()(const Pixels<int8_t, int8_t>& px, uint32_t pixel, uint32_t c, uint32_t n,
                               int32x4_t (&sums)[kRows][kFours]) const {
    if constexpr (kZeros) {
      LATHE_UNROLL
      for (int v = 0; v < kFours; ++v) {
        const int32x4_t zero = vld1q_s32(w_zero + c + 4 * static_cast<uint32_t>(v));
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) sums[r][v] = vmlsq_n_s32(sums[r][v], zero, row_sums[pixel + static_cast<uint32_t>(r)]);
      }
    }
    float32x4_t m[kFours];
    LATHE_UNROLL
    for (int v = 0; v < kFours; ++v) m[v] = vld1q_f32(scale + c + 4 * static_cast<uint32_t>(v));
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      int8_t* y = px.y + px.y_at[r] + c;
      Scaled8 v[kFours / 2];
      LATHE_UNROLL
      for (int h = 0; h < kFours / 2; ++h) v[h] = scaled(sums[r][2 * h], sums[r][2 * h + 1], m[2 * h], m[2 * h + 1]);
      if (px.residual != nullptr) {
        const int8_t* residual = px.residual + px.residual_at[r] + c;
        LATHE_UNROLL
        for (int h = 0; h < kFours / 2; ++h) v[h] = with_residual(q, v[h], vld1_s8(residual + 8 * h));
      }
      if constexpr (kFours == 4) {
        store_up_to16(y, clamped16(q, v[0], v[1]), n);
      } else if (n >= 8) {
        vst1_s8(y, clamped8(q, v[0]));
      } else {
        store_first(y, clamped8(q, v[0]), n);
      }
    }
  }
};

// Ends a tile in floats, step by step as GemmS8F32Args says.
struct FinishFloats {
  using Y = float;
  const GemmS8F32Args* g;

  template <int kRows, int kFours>
  LATHE_INLINE void operator()(const Pixels<int8_t, float>& px, uint32_t pixel, uint32_t c, uint32_t n,
                               int32x4_t (&sums)[kRows][kFours]) const {
    const float32x4_t lo = vdupq_n_f32(g->lo), hi = vdupq_n_f32(g->hi);
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float row_scale = g->row_scale[static_cast<size_t>(pixel + static_cast<uint32_t>(r)) * g->row_scale_step];
      float* y = px.y + px.y_at[r] + c;
      LATHE_UNROLL
      for (uint32_t v = 0; v < kFours; ++v) {
        float32x4_t x = vmulq_f32(vmulq_n_f32(vcvtq_f32_s32(sums[r][v]), row_scale), vld1q_f32(g->scale + c + 4 * v));
        if (g->bias_f32 != nullptr) x = vaddq_f32(x, vld1q_f32(g->bias_f32 + c + 4 * v));
        if (px.residual != nullptr) x = vaddq_f32(x, vld1q_f32(px.residual + px.residual_at[r] + c + 4 * v));
        x = clamp_with_nan(x, lo, hi);
        if (n > 4 * v) store4(y + 4 * v, x, n - 4 * v);
      }
    }
  }
};

// `tiles` tiles of kRows pixels x 4 kFours channels from channel c on.
template <class M, int kRows, int kFours, class Finish>
__attribute__((noinline)) void tiles_of(const GemmGeometry& g, const int8_t* w, const int32_t* bias, uint32_t c,
                                        const Finish& finish, Pixels<int8_t, typename Finish::Y> px, uint32_t pixel,
                                        uint32_t tiles) {
  const Finish local = finish;
  for (; tiles > 0; --tiles, pixel += kRows, px.advance(kRows)) {
    const int8_t* row[kRows];
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) row[r] = px.a + px.a_at[r];
    int32x4_t sums[kRows][kFours];
    sum_tile<M, kRows, kFours>(g, row, w, bias, sums);
    local(px, pixel, c, g.n - c, sums);
  }
}

template <class M, int kRowsMax, int kFours, class Finish>
LATHE_INLINE void channels_of(const GemmGeometry& g, const int8_t* w, const int32_t* bias, uint32_t c, const Finish& finish,
                              Pixels<int8_t, typename Finish::Y> px, uint32_t pixel, uint32_t m) {
  w += static_cast<size_t>(c / kGemmPanel) * g.w_panel_step + c % kGemmPanel * kGemmQuad;
  for_each_tile_size<kRowsMax>(m, [&]<int kRows>(uint32_t tiles) __attribute__((always_inline)) {
    tiles_of<M, kRows, kFours>(g, w, bias + c, c, finish, px, pixel, tiles);
    pixel += kRows * tiles;
    px.advance(kRows * tiles);
  });
}

// m pixels from number `pixel` of the call on.
template <class M, class Finish>
LATHE_INLINE void pixels_of(const GemmGeometry& g, const int8_t* w, const int32_t* bias, const Finish& finish,
                            const Pixels<int8_t, typename Finish::Y>& px, uint32_t pixel, uint32_t m) {
  constexpr int kFew = M::kPixels / 2;
  for (uint32_t c = 0; c < g.n;) {
    if (m <= kFew && g.n - c > 8) {
      channels_of<M, kFew, 4>(g, w, bias, c, finish, px, pixel, m);
      c += 16;
    } else {
      channels_of<M, M::kPixels, 2>(g, w, bias, c, finish, px, pixel, m);
      c += 8;
    }
  }
}

template <class M> LATHE_INLINE void gemm_s8(const GemmS8Args& g) {
  const FinishBytes<false> finish{g.scale, nullptr, nullptr,
                                  make_requantize(g.zero_point, g.lo, g.hi, g.residual_scale, g.residual_zero)};
  for_each_block(g.geo, static_cast<const int8_t*>(g.a), static_cast<int8_t*>(g.y), static_cast<const int8_t*>(g.residual),
                 [&](const Pixels<int8_t, int8_t>& px, uint32_t m) __attribute__((always_inline)) {
                   pixels_of<M>(g.geo, g.w, g.bias, finish, px, 0, m);
                 });
}

template <class M> LATHE_INLINE void gemm_s8_f32(const GemmS8F32Args& g) {
  uint32_t pixel = 0;
  for_each_block(g.geo, static_cast<const int8_t*>(g.a), g.y, g.residual,
                 [&](const Pixels<int8_t, float>& px, uint32_t m) __attribute__((always_inline)) {
                   pixels_of<M>(g.geo, g.w, g.bias, FinishFloats{&g}, px, pixel, m);
                   pixel += m;
                 });
}

// Sum of a pixel's own values over all segments.
inline int32_t row_sum(const GemmGeometry& g, const int8_t* a) {
  int32x4_t sums = vdupq_n_s32(0);
  int32_t rest = 0;
  for (uint32_t i = 0; i < g.seg_rows; ++i) {
    for (uint32_t j = 0; j < g.seg_cols; ++j) {
      const int8_t* p = a + static_cast<ptrdiff_t>(i) * g.a_seg_row_step + static_cast<ptrdiff_t>(j) * g.a_seg_col_step;
      uint32_t k = 0;
      for (; k + 16 <= g.seg_k; k += 16) sums = vpadalq_s16(sums, vpaddlq_s8(vld1q_s8(p + k)));
      for (; k < g.seg_k; ++k) rest += p[k];
    }
  }
  return vaddvq_s32(sums) + rest;
}

// Weights with zero points: the sums of a run of pixels first, once for all channels.
template <class M> LATHE_INLINE void gemm_s8_zw(const GemmS8ZwArgs& args) {
  constexpr uint32_t kRun = kBlockPixels;
  const GemmS8Args& g = args.s8;
  int32_t sums[kRun];
  const FinishBytes<true> finish{g.scale, args.w_zero, sums,
                                 make_requantize(g.zero_point, g.lo, g.hi, g.residual_scale, g.residual_zero)};
  for_each_block(g.geo, static_cast<const int8_t*>(g.a), static_cast<int8_t*>(g.y), static_cast<const int8_t*>(g.residual),
                 [&](Pixels<int8_t, int8_t> px, uint32_t m) __attribute__((always_inline)) {
                   for (uint32_t run; m > 0; m -= run, px.advance(run)) {
                     run = m < kRun ? m : kRun;
                     Pixels<int8_t, int8_t> one = px;
                     for (uint32_t p = 0; p < run; ++p, one.advance(1)) sums[p] = row_sum(g.geo, one.a + one.a_at[0]);
                     pixels_of<M>(g.geo, g.w, g.bias, finish, px, 0, run);
                   }
                 });
}

}  // namespace
}  // namespace lathe::kernels
