// Float segment GEMM on AVX-512: tiles of 6 x 4, 8 x 3, 12 x 2 or 12 x 1 panels of 16 channels, one register per panel and row.
// Every element has one accumulator that starts with the bias and takes k in order, fused.
#include <immintrin.h>

#include "kernels/gemm/pixels.h"

namespace lathe::kernels {
namespace {

using FloatPixels = Pixels<float, float>;

// One call's constants, and where the current panels are.
struct Place {
  const GemmF32Args* g;
  const float* w;
  const float* bias;  // or null
  __mmask16 tail;     // channels of the last panel here
};

template <int kRows, int kPanels>
inline __attribute__((always_inline)) void segment(const float* const* row, ptrdiff_t a_at, const float* w, size_t panel_step,
                                                   uint32_t seg_k, __m512* acc) {
  const float* a[kRows];
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) a[r] = row[r] + a_at;
  for (uint32_t k = 0; k < seg_k; ++k, w += 16) {
    __m512 weights[kPanels];
    LATHE_UNROLL
    for (int z = 0; z < kPanels; ++z) weights[z] = _mm512_load_ps(w + static_cast<size_t>(z) * panel_step);
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 v = _mm512_set1_ps(a[r][k]);
      LATHE_UNROLL
      for (int z = 0; z < kPanels; ++z) acc[r * kPanels + z] = _mm512_fmadd_ps(v, weights[z], acc[r * kPanels + z]);
    }
  }
}

template <int kRows, int kPanels>
inline __attribute__((always_inline)) void accumulate(const Place& p, const float* const* row, __m512* acc) {
  LATHE_UNROLL
  for (int i = 0; i < kRows * kPanels; ++i)
    acc[i] = p.bias == nullptr ? _mm512_setzero_ps() : _mm512_load_ps(p.bias + 16 * (i % kPanels));
  const GemmGeometry& g = p.g->geo;
  for (uint32_t i = 0; i < g.seg_rows; ++i) {
    ptrdiff_t a_at = static_cast<ptrdiff_t>(i) * g.a_seg_row_step;
    const float* w = p.w + static_cast<size_t>(i) * g.w_seg_row_step;
    for (uint32_t j = 0; j < g.seg_cols; ++j, a_at += g.a_seg_col_step, w += g.w_seg_col_step)
      segment<kRows, kPanels>(row, a_at, w, g.w_panel_step, g.seg_k, acc);
  }
}

template <int kRows, int kPanels>
__attribute__((noinline)) void tiles(const Place& p, FloatPixels px, uint32_t count) {
  const __m512 lo = _mm512_set1_ps(p.g->lo), hi = _mm512_set1_ps(p.g->hi);
  for (; count > 0; --count, px.advance(kRows)) {
    const float* row[kRows];
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) row[r] = px.a + px.a_at[r];
    __m512 acc[kRows * kPanels];
    accumulate<kRows, kPanels>(p, row, acc);
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LATHE_UNROLL
      for (int z = 0; z < kPanels; ++z) {
        __m512 v = acc[r * kPanels + z];
        const __mmask16 mask = z + 1 == kPanels ? p.tail : static_cast<__mmask16>(0xffff);
        if (px.residual != nullptr)
          v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, px.residual + px.residual_at[r] + 16 * z));
        // The second operand passes when either is NaN.
        v = _mm512_min_ps(hi, _mm512_max_ps(lo, v));
        float* y = px.y + px.y_at[r] + 16 * z;
        if (mask == 0xffff) {
          _mm512_storeu_ps(y, v);
        } else {
          _mm512_mask_storeu_ps(y, mask, v);
        }
      }
    }
  }
}

// All pixels of a block for one group of panels.
template <int kMaxRows, int kPanels>
void group(const Place& p, FloatPixels px, uint32_t m) {
  for_each_tile_size<kMaxRows>(m, [&]<int kRows>(uint32_t count) {
    tiles<kRows, kPanels>(p, px, count);
    px.advance(count * kRows);
  });
}

void block(const GemmF32Args& g, Place p, FloatPixels px, uint32_t m) {
  float* const y = px.y;
  const float* const residual = px.residual;
  for (uint32_t c = 0, panels; c < g.geo.n; c += 16 * panels) {
    const uint32_t left = (g.geo.n - c + 15) / 16;
    panels = left < 4 ? left : 4;
    p.w = g.w + static_cast<size_t>(c / 16) * g.geo.w_panel_step;
    p.bias = g.bias == nullptr ? nullptr : g.bias + c;
    px.y = y + c;
    px.residual = residual == nullptr ? nullptr : residual + c;
    const uint32_t last = g.geo.n - c >= 16 * panels ? 16 : (g.geo.n - c) - 16 * (panels - 1);
    p.tail = static_cast<__mmask16>((1u << last) - 1);
    switch (panels) {
      case 4: group<6, 4>(p, px, m); break;
      case 3: group<8, 3>(p, px, m); break;
      case 2: group<12, 2>(p, px, m); break;
      default: group<12, 1>(p, px, m); break;
    }
  }
}

}  // namespace

void gemm_f32_12x32_x86_avx512(const GemmF32Args& g) {
  Place p{};
  p.g = &g;
  for_each_block(g.geo, g.a, g.y, g.residual, [&](const FloatPixels& px, uint32_t m) { block(g, p, px, m); });
}

}  // namespace lathe::kernels
