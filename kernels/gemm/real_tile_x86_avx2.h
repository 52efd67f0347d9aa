// Tiles of the AVX2 float and half-precision kernels: 6 x 16 channels in two registers a row. Every element has one accumulator
// that starts with the bias and takes k in order, fused. For this folder's ISA file only.
#pragma once
#include <immintrin.h>

#include "kernels/gemm/real_blocks.h"
#include "kernels/math/x86_avx2_storage.h"

namespace lathe::kernels {
namespace {

struct Avx2 {
  static constexpr uint32_t kMaxPanels = 1;

  static inline __attribute__((always_inline)) void widen(const uint16_t* from, uint32_t n, float* to) {
    for (uint32_t i = 0; i < n; i += 8) _mm256_storeu_ps(to + i, load8(from + i));
  }

  static uint32_t group_panels(uint32_t, uint32_t) { return 1; }

  template <int kRows, class W>
  static inline __attribute__((always_inline)) void piece(const float* const* a, const W* w, uint32_t n, const W* ahead,
                                                          __m256* acc) {
    for (uint32_t k = 0; k < n; ++k, w += 16, ahead += 16) {
      const __m256 w0 = load8(w), w1 = load8(w + 8);
      _mm_prefetch(ahead, _MM_HINT_T1);
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m256 v = _mm256_broadcast_ss(a[r] + k);
        acc[2 * r] = _mm256_fmadd_ps(v, w0, acc[2 * r]);
        acc[2 * r + 1] = _mm256_fmadd_ps(v, w1, acc[2 * r + 1]);
      }
    }
  }

  template <int kRows, class W, class T>
  static inline __attribute__((always_inline)) void finish(const Place<W, T>& p, const RealPixels<T>& px, const __m256* acc) {
    const __m256 lo = _mm256_set1_ps(p.g->lo), hi = _mm256_set1_ps(p.g->hi);
    LATHE_UNROLL
    for (int i = 0; i < 2 * kRows; ++i) {
      const uint32_t r = static_cast<uint32_t>(i) / 2, c = static_cast<uint32_t>(i) % 2 * 8;
      if (c >= p.tail) continue;
      __m256 v = acc[i];
      if (px.residual != nullptr) v = _mm256_add_ps(v, load8(px.residual + px.residual_at[r] + c));
      // The second operand passes when either is NaN.
      store8(px.y + px.y_at[r] + c, _mm256_min_ps(hi, _mm256_max_ps(lo, v)), p.tail - c);
    }
  }

  template <int kRows, class W, class T>
  static __attribute__((noinline)) void tiles(Place<W, T>& p, RealPixels<T> px, uint32_t count) {
    const Chunk& chunk = *p.chunk;
    for (; count > 0; --count, px.advance(kRows), p.sums += kRows * 16) {
      const W* ahead = p.take_ahead() - chunk.w_begin();
      __m256 acc[2 * kRows];
      LATHE_UNROLL
      for (int i = 0; i < 2 * kRows; ++i) {
        const float* from = chunk.first ? p.bias + 8 * (i % 2) : p.sums + 8 * i;
        acc[i] = chunk.first && p.bias == nullptr ? _mm256_setzero_ps() : _mm256_load_ps(from);
      }
      for (uint32_t i = 0; i < chunk.count; ++i) {
        const Piece& at = chunk.pieces[i];
        const float* a[kRows];
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) a[r] = px.a + px.a_at[r] + at.a_at;
        piece<kRows>(a, p.w + at.w_at, at.k, ahead + at.w_at, acc);
      }
      if (chunk.last) {
        finish<kRows>(p, px, acc);
        continue;
      }
      LATHE_UNROLL
      for (int i = 0; i < 2 * kRows; ++i) _mm256_store_ps(p.sums + 8 * i, acc[i]);
    }
  }

  template <class W, class T>
  static void run(Place<W, T>& p, RealPixels<T> px, uint32_t m) {
    for_each_tile_size<6>(m, [&]<int kRows>(uint32_t count) {
      tiles<kRows>(p, px, count);
      px.advance(count * kRows);
    });
  }
};

}  // namespace
}  // namespace lathe::kernels
