// The inner product of the AVX512-VNNI kernels: sums of a tile of rows x panels in registers. For this folder's ISA file only.
//
// Four bytes of a row are broadcast straight from memory against one vector of weights per panel (4 k of 16 channels). The last
// panel of a tile may be a half: up to 8 channels cost a 256-bit dot product, half of a 512-bit one. The dot product is inline
// assembly: gcc 12 spills a tile of this size when it sees the intrinsic.
#pragma once
#include <immintrin.h>

#include "kernels/gemm/pixels.h"

namespace lathe::kernels {
namespace {

inline __attribute__((always_inline)) void dot(__m512i& acc, __m512i a, __m512i w) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(w));
}
inline __attribute__((always_inline)) void dot(__m256i& acc, __m256i a, __m256i w) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(w));
}

// Four bytes at row + at to every lane. In assembly, because gcc would otherwise keep and step a pointer per row.
inline __attribute__((always_inline)) __m512i broadcast4(const uint8_t* row, ptrdiff_t at) {
  __m512i v;
  asm("vpbroadcastd (%1,%2), %0" : "=v"(v) : "r"(row), "r"(at));
  return v;
}
inline __attribute__((always_inline)) __m256i broadcast4_half(const uint8_t* row, ptrdiff_t at) {
  __m256i v;
  asm("vpbroadcastd (%1,%2), %0" : "=v"(v) : "r"(row), "r"(at));
  return v;
}

// Sums of kRows x kPanels; with kHalf the last panel is 8 channels wide and lies in `half`.
template <int kRows, int kPanels, bool kHalf>
struct Sums {
  static constexpr int kFull = kPanels - (kHalf ? 1 : 0);
  __m512i full[kFull * kRows + 1];
  __m256i half[kHalf ? kRows : 1];

  // The sums of row r and panel z; of a half panel the upper 8 are undefined.
  inline __attribute__((always_inline)) __m512i at(int r, int z) const {
    if constexpr (kHalf) {
      if (z == kFull) return _mm512_castsi256_si512(half[r]);
    }
    return full[r * kFull + z];
  }

  // Takes away w_zero[c] * row_sum[r]; w_zero: of the tile's first channel.
  inline __attribute__((always_inline)) void subtract(const int32_t* w_zero, const int32_t* row_sum) {
    static_assert(!kHalf);
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512i sum = _mm512_set1_epi32(row_sum[r]);
      LATHE_UNROLL
      for (int z = 0; z < kPanels; ++z) {
        __m512i& acc = full[r * kFull + z];
        acc = _mm512_sub_epi32(acc, _mm512_mullo_epi32(_mm512_load_si512(w_zero + 16 * z), sum));
      }
    }
  }

  // w: the tile's first panel, `panel_step` bytes from the next; bias: of its first channel; row[r]: pixel r.
  inline __attribute__((always_inline)) void compute(const GemmGeometry& g, const uint8_t* const* row, const int8_t* w,
                                                     const int32_t* bias) {
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LATHE_UNROLL
      for (int z = 0; z < kFull; ++z) full[r * kFull + z] = _mm512_load_si512(bias + 16 * z);
      if constexpr (kHalf) half[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(bias + 16 * kFull));
    }
    ptrdiff_t a_at = 0, a_row = 0;
    const int8_t* w_row = w;
    for (uint32_t left = g.seg_rows * g.seg_cols, col = 0; left > 0; --left) {
      segment(row, a_at, w, g.w_panel_step, (g.seg_k + kGemmQuad - 1) / kGemmQuad);
      // Steps are read again where they are needed: registers are few.
      asm("" ::: "memory");
      a_at += g.a_seg_col_step;
      w += g.w_seg_col_step;
      if (++col == g.seg_cols) {
        col = 0;
        a_at = a_row += g.a_seg_row_step;
        w = w_row += g.w_seg_row_step;
      }
    }
  }

 private:
  // All rows share one index, so that a segment, however short, costs no arithmetic on pointers.
  inline __attribute__((always_inline)) void segment(const uint8_t* const* row, ptrdiff_t a_at, const int8_t* w,
                                                     size_t panel_step, size_t quads) {
    for (const ptrdiff_t end = a_at + static_cast<ptrdiff_t>(4 * quads); a_at < end; a_at += 4, w += 64) {
      __m512i weights[kPanels];
      LATHE_UNROLL
      for (int z = 0; z < kPanels; ++z) weights[z] = _mm512_load_si512(w + static_cast<size_t>(z) * panel_step);
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        if constexpr (kFull == 0) {
          dot(half[r], broadcast4_half(row[r], a_at), _mm512_castsi512_si256(weights[0]));
          continue;
        }
        const __m512i v = broadcast4(row[r], a_at);
        LATHE_UNROLL
        for (int z = 0; z < kFull; ++z) dot(full[r * kFull + z], v, weights[z]);
        if constexpr (kHalf) dot(half[r], _mm512_castsi512_si256(v), _mm512_castsi512_si256(weights[kFull]));
      }
    }
  }
};

// The sum of all elements that the pixel at `row` multiplies.
inline int32_t row_sum(const GemmGeometry& g, const uint8_t* row) {
  __m512i acc = _mm512_setzero_si512();
  const __m512i ones = _mm512_set1_epi8(1);
  for (uint32_t i = 0; i < g.seg_rows; ++i) {
    for (uint32_t j = 0; j < g.seg_cols; ++j) {
      const uint8_t* a = row + static_cast<ptrdiff_t>(i) * g.a_seg_row_step + static_cast<ptrdiff_t>(j) * g.a_seg_col_step;
      uint32_t k = 0;
      for (; k + 64 <= g.seg_k; k += 64) dot(acc, _mm512_loadu_si512(a + k), ones);
      if (k < g.seg_k) dot(acc, _mm512_maskz_loadu_epi8(~__mmask64{0} >> (64 - (g.seg_k - k)), a + k), ones);
    }
  }
  return _mm512_reduce_add_epi32(acc);
}

}  // namespace
}  // namespace lathe::kernels
