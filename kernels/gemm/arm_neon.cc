// Segment GEMM for NEON: s8 storage, float and half precision.
//
// 8-bit: tiles of 4 pixels x 8 channels or 2 x 16 (tile_arm_neon.h). A quad of k of a pixel is repeated over a register; SMULL
// and SMULL2 multiply it with the quads of four channels, and SADALP adds pairs of the 16-bit products in 32 bits, so that
// nothing can overflow, -128 x -128 included. Pairs of sums are added when the tile ends. A quad of a tile of 4 x 8 is 6 loads, 4
// DUP, 16 SMULL and 16 SADALP: with the loop's own three, 0.35 instructions per product.
//
// Float: tiles of 8 pixels x 8 channels, with few pixels 4 x 16. Four k of a pixel are one register, of which FMLA multiplies one
// with four channels: 4 k of a tile of 8 x 8 are 16 loads and 64 FMLA, 0.33 instructions per product. Half precision is widened
// by FCVTL as it is loaded. Every element has one accumulator that starts with the bias and takes k in order.
#include "kernels/gemm/tile_arm_neon.h"

namespace lathe::kernels {
namespace {

struct Multiply {
  static constexpr int kPixels = 4;

  template <int kRows, int kFours>
  struct Accumulators {
    int32x4_t acc[kRows][2 * kFours];

    LATHE_INLINE Accumulators() {
      LATHE_UNROLL
      for (int i = 0; i < kRows * 2 * kFours; ++i) acc[i / (2 * kFours)][i % (2 * kFours)] = vdupq_n_s32(0);
    }
    LATHE_INLINE int32x4_t sum(int r, int v) const { return vpaddq_s32(acc[r][2 * v], acc[r][2 * v + 1]); }

    LATHE_INLINE void add_segment(const int8_t* const* row, ptrdiff_t at, const int8_t* w, uint32_t quads) {
      const int8_t* from[kRows];
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) from[r] = row[r] + at;
      for (; quads > 0; --quads, w += 64) {
        int8x16_t a[kRows];
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r, from[r - 1] += 4) {
          int32_t quad;
          __builtin_memcpy(&quad, from[r], sizeof(quad));
          a[r] = vreinterpretq_s8_s32(vdupq_n_s32(quad));
        }
        LATHE_UNROLL
        for (int v = 0; v < kFours; ++v) {
          const int8x16_t weights = vld1q_s8(w + 16 * v);
          LATHE_UNROLL
          for (int r = 0; r < kRows; ++r) {
            acc[r][2 * v] = vpadalq_s16(acc[r][2 * v], vmull_s8(vget_low_s8(weights), vget_low_s8(a[r])));
            acc[r][2 * v + 1] = vpadalq_s16(acc[r][2 * v + 1], vmull_high_s8(weights, a[r]));
          }
        }
      }
    }
  };
};

template <int kRows, int kFours, class T>
struct RealTile {
  float32x4_t acc[kRows][kFours];

  template <int kLane>
  LATHE_INLINE void add_k(const float32x4_t (&a)[kRows], const T* w) {
    LATHE_UNROLL
    for (int v = 0; v < kFours; ++v) {
      const float32x4_t weights = load4(w + static_cast<int>(kGemmPanel) * kLane + 4 * v);
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) acc[r][v] = vfmaq_laneq_f32(acc[r][v], weights, a[r], kLane);
    }
  }

  LATHE_INLINE void add_segment(const T* const* row, ptrdiff_t at, const T* w, uint32_t k) {
    float32x4_t a[kRows];
    const auto load = [&]() __attribute__((always_inline)) {
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) a[r] = load4(row[r] + at);
    };
    for (; k >= 4; k -= 4, at += 4, w += 4 * kGemmPanel) {
      load();
      add_k<0>(a, w);
      add_k<1>(a, w);
      add_k<2>(a, w);
      add_k<3>(a, w);
    }
    if (k == 0) return;
    load();
    add_k<0>(a, w);
    if (k > 1) add_k<1>(a, w);
    if (k > 2) add_k<2>(a, w);
  }

  LATHE_INLINE void compute(const GemmRealArgs<T>& g, const T* const* row, uint32_t c) {
    LATHE_UNROLL
    for (uint32_t i = 0; i < kRows * kFours; ++i)
      acc[i / kFours][i % kFours] = g.bias == nullptr ? vdupq_n_f32(0) : vld1q_f32(g.bias + c + 4 * (i % kFours));
    const T* w = g.w + static_cast<size_t>(c / kGemmPanel) * g.geo.w_panel_step + c % kGemmPanel;
    for (uint32_t i = 0; i < g.geo.seg_rows; ++i) {
      ptrdiff_t a_at = static_cast<ptrdiff_t>(i) * g.geo.a_seg_row_step;
      const T* seg_w = w + static_cast<size_t>(i) * g.geo.w_seg_row_step;
      for (uint32_t j = 0; j < g.geo.seg_cols; ++j, a_at += g.geo.a_seg_col_step, seg_w += g.geo.w_seg_col_step)
        add_segment(row, a_at, seg_w, g.geo.seg_k);
    }
  }

  LATHE_INLINE void finish(const GemmRealArgs<T>& g, const Pixels<T, T>& px, uint32_t c) const {
    const float32x4_t lo = vdupq_n_f32(g.lo), hi = vdupq_n_f32(g.hi);
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LATHE_UNROLL
      for (uint32_t v = 0; v < kFours; ++v) {
        const uint32_t at = c + 4 * v;
        if (at >= g.geo.n) continue;
        float32x4_t x = acc[r][v];
        if (px.residual != nullptr) x = vaddq_f32(x, load4(px.residual + px.residual_at[r] + at));
        store4(px.y + px.y_at[r] + at, clamp_with_nan(x, lo, hi), g.geo.n - at);
      }
    }
  }
};

// `tiles` tiles of kRows pixels x 4 kFours channels from channel c on.
template <int kRows, int kFours, class T>
__attribute__((noinline)) void real_tiles(const GemmRealArgs<T>& g, uint32_t c, Pixels<T, T> px, uint32_t tiles) {
  for (; tiles > 0; --tiles, px.advance(kRows)) {
    const T* row[kRows];
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) row[r] = px.a + px.a_at[r];
    RealTile<kRows, kFours, T> tile;
    tile.compute(g, row, c);
    tile.finish(g, px, c);
  }
}

template <int kRowsMax, int kFours, class T>
LATHE_INLINE void real_channels(const GemmRealArgs<T>& g, uint32_t c, Pixels<T, T> px, uint32_t m) {
  for_each_tile_size<kRowsMax>(m, [&]<int kRows>(uint32_t tiles) __attribute__((always_inline)) {
    real_tiles<kRows, kFours>(g, c, px, tiles);
    px.advance(kRows * tiles);
  });
}

template <class T> LATHE_INLINE void gemm_real(const GemmRealArgs<T>& g) {
  for_each_block(g.geo, g.a, g.y, g.residual, [&](const Pixels<T, T>& px, uint32_t m) __attribute__((always_inline)) {
    for (uint32_t c = 0; c < g.geo.n;) {
      if (m <= 4 && g.geo.n - c > 8) {
        real_channels<4, 4>(g, c, px, m);
        c += 16;
      } else {
        real_channels<8, 2>(g, c, px, m);
        c += 8;
      }
    }
  });
}

}  // namespace

void gemm_f32_8x8_arm_neon(const GemmF32Args& g) { gemm_real(g); }
void gemm_f16_8x8_arm_neon(const GemmF16Args& g) { gemm_real(g); }

void gemm_s8s8s32_4x8x4_arm_neon(const GemmS8Args& g) { gemm_s8<Multiply>(g); }
void gemm_s8s8zws32_4x8x4_arm_neon(const GemmS8ZwArgs& g) { gemm_s8_zw<Multiply>(g); }
void gemm_s8s8f32_4x8x4_arm_neon(const GemmS8F32Args& g) { gemm_s8_f32<Multiply>(g); }

}  // namespace lathe::kernels
