// Float depthwise convolution on AVX-512: 16 channels of up to 8 pixels of a row at a time, one accumulator each that takes the taps row by row.
#include <immintrin.h>

#include "kernels/dwconv/dwconv.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

// One panel of 16 channels.
struct Panel {
  const DwConvF32Args* d;
  const float* w;
  const float* bias;  // or null
  __mmask16 mask;     // channels that exist
};

template <int kPixels>
inline __attribute__((always_inline)) void pixels(const Panel& p, const float* a, const float* residual, float* y) {
  const DwConvF32Args& d = *p.d;
  const size_t col = d.a_col_step;
  __m512 acc[kPixels];
  LATHE_UNROLL
  for (int i = 0; i < kPixels; ++i) acc[i] = p.bias == nullptr ? _mm512_setzero_ps() : _mm512_load_ps(p.bias);
  const float* w = p.w;
  for (uint32_t r = 0; r < d.kh; ++r, a += d.a_tap_row) {
    const float* tap = a;
    for (uint32_t s = 0; s < d.kw; ++s, tap += d.a_tap_col, w += 16) {
      const __m512 weight = _mm512_load_ps(w);
      const float *tap3 = tap + 3 * col, *tap6 = tap + 6 * col;
      LATHE_UNROLL
      for (int i = 0; i < kPixels; ++i) {
        const float* pixel = i < 3 ? tap + static_cast<size_t>(i) * col : i < 6 ? tap3 + static_cast<size_t>(i - 3) * col : tap6 + static_cast<size_t>(i - 6) * col;
        acc[i] = _mm512_fmadd_ps(_mm512_loadu_ps(pixel), weight, acc[i]);
      }
    }
  }
  const __m512 lo = _mm512_set1_ps(d.lo), hi = _mm512_set1_ps(d.hi);
  LATHE_UNROLL
  for (int i = 0; i < kPixels; ++i, y += d.y_col_step) {
    __m512 v = acc[i];
    if (residual != nullptr) v = _mm512_add_ps(v, _mm512_loadu_ps(residual + static_cast<size_t>(i) * d.residual_col_step));
    // The second operand passes when either is NaN.
    v = _mm512_min_ps(hi, _mm512_max_ps(lo, v));
    if (p.mask == 0xffff) {
      _mm512_storeu_ps(y, v);
    } else {
      _mm512_mask_storeu_ps(y, p.mask, v);
    }
  }
}

template <int kPixels>
inline __attribute__((always_inline)) void pixels_of(uint32_t count, const Panel& p, const float* a, const float* residual, float* y) {
  if constexpr (kPixels > 1) {
    if (count != kPixels) return pixels_of<kPixels - 1>(count, p, a, residual, y);
  }
  pixels<kPixels>(p, a, residual, y);
}

void row(const Panel& p, const float* a, const float* residual, float* y) {
  const DwConvF32Args& d = *p.d;
  // Split evenly: 10 pixels are 5 + 5, not 8 + 2.
  const uint32_t tiles = (d.cols + 7) / 8, base = d.cols / tiles, larger = d.cols % tiles;
  for (uint32_t t = 0; t < tiles; ++t) {
    const uint32_t count = base + (t < larger ? 1 : 0);
    pixels_of<8>(count, p, a, residual, y);
    a += static_cast<size_t>(count) * d.a_col_step;
    y += static_cast<size_t>(count) * d.y_col_step;
    if (residual != nullptr) residual += static_cast<size_t>(count) * d.residual_col_step;
  }
}

}  // namespace

void dwconv_f32_8x16_x86_avx512(const DwConvF32Args& d) {
  if (d.cols == 0) return;
  const size_t panel_elems = static_cast<size_t>(d.kh) * d.kw * kGemmPanel;
  for (uint32_t c = 0; c < d.n; c += 16) {
    const uint32_t left = d.n - c < 16 ? d.n - c : 16;
    const Panel p{&d, d.w + c / 16 * panel_elems, d.bias == nullptr ? nullptr : d.bias + c, static_cast<__mmask16>((1u << left) - 1)};
    for (uint32_t i = 0; i < d.rows; ++i) {
      row(p, d.a + static_cast<size_t>(i) * d.a_row_step + c, d.residual == nullptr ? nullptr : d.residual + static_cast<size_t>(i) * d.residual_row_step + c,
          d.y + static_cast<size_t>(i) * d.y_row_step + c);
    }
  }
}

}  // namespace lathe::kernels
