// Float segment GEMM on AVX-512: tiles of 6 x 4, 8 x 3, 12 x 2 or 12 x 1 panels of 16 channels, one register per panel and row.
// Every element has one accumulator that starts with the bias and takes k in order, fused.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

// One call's constants, and where the current panels and rows are.
struct Place {
  const GemmF32Args* g;
  size_t panel_elems;
  const float* w;
  const float* bias;  // or null
  const float* a;
  float* y;
  const float* residual;
  __mmask16 tail;  // channels of the last panel here
};

// Row r is addressed as base[r / 3] + (r % 3) * stride, which x86 does without a pointer per row.
template <int kRows, int kPanels>
inline __attribute__((always_inline)) void accumulate(const Place& p, __m512* acc) {
  constexpr int kBases = (kRows + 2) / 3;
  LATHE_UNROLL
  for (int i = 0; i < kRows * kPanels; ++i)
    acc[i] = p.bias == nullptr ? _mm512_setzero_ps() : _mm512_load_ps(p.bias + 16 * (i % kPanels));
  const float* w = p.w;
  const size_t stride = p.g->a_stride;
  for (uint32_t s = 0; s < p.g->segs; ++s) {
    const float* base[kBases];
    LATHE_UNROLL
    for (int i = 0; i < kBases; ++i) base[i] = p.a + p.g->seg_offset[s] + 3 * stride * static_cast<size_t>(i);
    for (uint32_t k = 0; k < p.g->seg_k; ++k, w += 16) {
      __m512 weights[kPanels];
      LATHE_UNROLL
      for (int z = 0; z < kPanels; ++z) weights[z] = _mm512_load_ps(w + static_cast<size_t>(z) * p.panel_elems);
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512 a = _mm512_set1_ps(base[r / 3][static_cast<size_t>(r % 3) * stride]);
        LATHE_UNROLL
        for (int z = 0; z < kPanels; ++z) acc[r * kPanels + z] = _mm512_fmadd_ps(a, weights[z], acc[r * kPanels + z]);
      }
      LATHE_UNROLL
      for (int i = 0; i < kBases; ++i) base[i] += 1;
    }
  }
}

template <int kRows, int kPanels>
__attribute__((noinline)) void tile(const Place& p) {
  __m512 acc[kRows * kPanels];
  accumulate<kRows, kPanels>(p, acc);
  const __m512 lo = _mm512_set1_ps(p.g->lo), hi = _mm512_set1_ps(p.g->hi);
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LATHE_UNROLL
    for (int z = 0; z < kPanels; ++z) {
      __m512 v = acc[r * kPanels + z];
      const __mmask16 mask = z + 1 == kPanels ? p.tail : static_cast<__mmask16>(0xffff);
      if (p.residual != nullptr)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, p.residual + static_cast<size_t>(r) * p.g->residual_stride + 16 * z));
      // The second operand passes when either is NaN.
      v = _mm512_min_ps(hi, _mm512_max_ps(lo, v));
      float* y = p.y + static_cast<size_t>(r) * p.g->y_stride + 16 * z;
      if (mask == 0xffff) {
        _mm512_storeu_ps(y, v);
      } else {
        _mm512_mask_storeu_ps(y, mask, v);
      }
    }
  }
}

template <int kRows, int kPanels>
inline __attribute__((always_inline)) void tile_of(uint32_t rows, const Place& p) {
  if constexpr (kRows > 1) {
    if (rows != kRows) return tile_of<kRows - 1, kPanels>(rows, p);
  }
  tile<kRows, kPanels>(p);
}

// All rows of one group of panels, split evenly: 14 rows are 7 + 7, not 12 + 2.
template <int kMaxRows, int kPanels>
void all_rows(Place p) {
  const GemmF32Args& g = *p.g;
  const uint32_t tiles = (g.m + kMaxRows - 1) / kMaxRows, base = g.m / tiles, larger = g.m % tiles;
  for (uint32_t t = 0; t < tiles; ++t) {
    const uint32_t rows = base + (t < larger ? 1 : 0);
    tile_of<kMaxRows, kPanels>(rows, p);
    p.a += static_cast<size_t>(rows) * g.a_stride;
    p.y += static_cast<size_t>(rows) * g.y_stride;
    if (p.residual != nullptr) p.residual += static_cast<size_t>(rows) * g.residual_stride;
  }
}

}  // namespace

void gemm_f32_12x32_x86_avx512(const GemmF32Args& g) {
  if (g.m == 0) return;
  Place p;
  p.g = &g;
  p.panel_elems = static_cast<size_t>(g.segs) * g.seg_k * kGemmPanel;
  p.a = g.a;
  for (uint32_t c = 0, panels; c < g.n; c += 16 * panels) {
    const uint32_t left = (g.n - c + 15) / 16;
    panels = left < 4 ? left : 4;
    p.w = g.w + c / 16 * p.panel_elems;
    p.bias = g.bias == nullptr ? nullptr : g.bias + c;
    p.y = g.y + c;
    p.residual = g.residual == nullptr ? nullptr : g.residual + c;
    const uint32_t last = g.n - c >= 16 * panels ? 16 : (g.n - c) - 16 * (panels - 1);
    p.tail = static_cast<__mmask16>((1u << last) - 1);
    switch (panels) {
      case 4: all_rows<6, 4>(p); break;
      case 3: all_rows<8, 3>(p); break;
      case 2: all_rows<12, 2>(p); break;
      default: all_rows<12, 1>(p); break;
    }
  }
}

}  // namespace lathe::kernels
