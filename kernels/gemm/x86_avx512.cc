// Float and half-precision segment GEMM on AVX-512: tiles of 6 x 4, 8 x 3, 8 x 2 or 8 x 1 panels of 16 channels, one register per
// panel and row. Every element has one accumulator that starts with the bias and takes k in order, fused.
#include <immintrin.h>

#include "kernels/gemm/real_blocks.h"
#include "kernels/math/x86_avx512_storage.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

template <int kRows, int kPanels, class W>
LATHE_INLINE void piece(const float* const* a, const W* w, size_t panel_step, uint32_t n, const W* ahead, __m512* acc) {
  for (uint32_t k = 0; k < n; ++k, w += 16, ahead += 16) {
    __m512 weights[kPanels];
    LATHE_UNROLL
    for (int z = 0; z < kPanels; ++z) weights[z] = load16(w + static_cast<size_t>(z) * panel_step);
    _mm_prefetch(ahead, _MM_HINT_T1);
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 v = _mm512_set1_ps(a[r][k]);
      LATHE_UNROLL
      for (int z = 0; z < kPanels; ++z) acc[r * kPanels + z] = _mm512_fmadd_ps(v, weights[z], acc[r * kPanels + z]);
    }
  }
}

template <int kRows, int kPanels, class W, class T>
LATHE_INLINE void finish(const Place<W, T>& p, const RealPixels<T>& px, const __m512* acc) {
  const __m512 lo = _mm512_set1_ps(p.g->lo), hi = _mm512_set1_ps(p.g->hi);
  const __mmask16 tail = static_cast<__mmask16>((1u << p.tail) - 1);
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LATHE_UNROLL
    for (int z = 0; z < kPanels; ++z) {
      __m512 v = acc[r * kPanels + z];
      if (px.residual != nullptr) v = _mm512_add_ps(v, load16(px.residual + px.residual_at[r] + 16 * z));
      // The second operand passes when either is NaN.
      v = _mm512_min_ps(hi, _mm512_max_ps(lo, v));
      store16(px.y + px.y_at[r] + 16 * z, v, z + 1 == kPanels ? tail : static_cast<__mmask16>(0xffff));
    }
  }
}

struct Avx512 {
  static constexpr uint32_t kMaxPanels = 4;
  static constexpr int kSumRow = 16 * kMaxPanels;

  static LATHE_INLINE void widen(const uint16_t* from, uint32_t n, float* to) {
    for (uint32_t i = 0; i < n; i += 16) _mm512_storeu_ps(to + i, load16(from + i));
  }

  // Panels that the next group takes of `left`: no group is left with one panel, which would load as much as it multiplies.
  static uint32_t group_panels(uint32_t left, uint32_t m) {
    const uint32_t most = m == 7 || m == 8 ? 3 : 4;
    if (left == most + 1) return most - 1;
    return left < most ? left : most;
  }

  template <int kRows, int kPanels, class W, class T>
  static __attribute__((noinline)) void tiles(Place<W, T>& p, RealPixels<T> px, uint32_t count) {
    const Chunk& chunk = *p.chunk;
    for (; count > 0; --count, px.advance(kRows), p.sums += kRows * kSumRow) {
      const W* ahead = p.take_ahead() - chunk.w_begin();
      __m512 acc[kRows * kPanels];
      LATHE_UNROLL
      for (int i = 0; i < kRows * kPanels; ++i) {
        const float* from = chunk.first ? p.bias + 16 * (i % kPanels) : p.sums + kSumRow * (i / kPanels) + 16 * (i % kPanels);
        acc[i] = chunk.first && p.bias == nullptr ? _mm512_setzero_ps() : _mm512_load_ps(from);
      }
      for (uint32_t i = 0; i < chunk.count; ++i) {
        const Piece& at = chunk.pieces[i];
        const float* a[kRows];
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) a[r] = px.a + px.a_at[r] + at.a_at;
        piece<kRows, kPanels>(a, p.w + at.w_at, p.panel_step, at.k, ahead + at.w_at, acc);
      }
      if (chunk.last) {
        finish<kRows, kPanels>(p, px, acc);
        continue;
      }
      LATHE_UNROLL
      for (int i = 0; i < kRows * kPanels; ++i) _mm512_store_ps(p.sums + kSumRow * (i / kPanels) + 16 * (i % kPanels), acc[i]);
    }
  }

  template <int kMaxRows, int kPanels, class W, class T>
  static void group(Place<W, T>& p, RealPixels<T> px, uint32_t m) {
    for_each_tile_size<kMaxRows>(m, [&]<int kRows>(uint32_t count) {
      tiles<kRows, kPanels>(p, px, count);
      px.advance(count * kRows);
    });
  }

  template <class W, class T>
  static void run(Place<W, T>& p, const RealPixels<T>& px, uint32_t m) {
    switch (p.panels) {
      case 4: return group<6, 4>(p, px, m);
      case 3: return group<8, 3>(p, px, m);
      case 2: return group<8, 2>(p, px, m);
      default: return group<8, 1>(p, px, m);
    }
  }
};

}  // namespace

void gemm_f32_6x64_x86_avx512(const GemmF32Args& g) { real_gemm<Avx512>(g); }
void gemm_f16_6x64_x86_avx512(const GemmF16Args& g) { real_gemm<Avx512>(g); }

}  // namespace lathe::kernels
