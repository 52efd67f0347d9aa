// Segment GEMM on AVX2 and FMA, u8 storage and float.
//
// The 8-bit one is exact: activations and weights are widened to 16 bits for vpmaddwd (vpmaddubsw would saturate). Rows are widened once for up to
// 64 channels, into a buffer that stays in L1; a tile is 6 rows x 8 channels, half of a panel, in 12 accumulators of two partial sums per
// channel. Multiply and add are one piece of inline assembly, because g++ 12 spills when it schedules 12 accumulators itself.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/requantize_x86_avx2.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kMaxRows = 6;
constexpr uint32_t kChunkQuads = 128;                      // quads of k that are widened at a time
constexpr uint32_t kWideRow = kChunkQuads * kGemmQuad + 16;  // the copy runs up to 15 elements over
constexpr uint32_t kMaxPanels = 4;

LATHE_INLINE void dot(__m256i& acc, __m256i a, __m256i w) {
  __m256i product;
  asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(a), "x"(w));
}

// Widens quads [first, first + count) of the flat (segment, quad) order of `rows` rows.
void widen(const GemmS8Args& g, const uint8_t* a, uint32_t rows, uint32_t quads, uint32_t first, uint32_t count, int16_t* wide) {
  for (uint32_t r = 0; r < rows; ++r, a += g.a_stride, wide += kWideRow) {
    int16_t* to = wide;
    uint32_t s = first / quads, q = first % quads;
    for (uint32_t left = count; left > 0; ++s, q = 0) {
      const uint32_t run = quads - q < left ? quads - q : left;
      const uint8_t* from = a + g.seg_offset[s] + static_cast<ptrdiff_t>(q * kGemmQuad);
      for (uint32_t i = 0; i < run * kGemmQuad; i += 16) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
      }
      to += run * kGemmQuad;
      left -= run;
    }
  }
}

// Half a panel, 8 channels, of the rows of a tile over one chunk of k.
struct Half {
  const int16_t* wide;
  const int8_t* w;
  uint32_t quads;
  const int32_t* before;  // 8 sums per row: the bias for all rows (step 0), or what earlier chunks left
  uint32_t before_step;
  int32_t* sums;          // where to leave sums for the next chunk, or null after the last one:
  const Requantize* q;
  const float* scale;
  const uint8_t* residual;  // or null
  size_t residual_step;
  uint8_t* y;
  size_t y_step;
  uint32_t n;  // channels that exist
};

// Requantizes and stores 8 channels of a row.
LATHE_INLINE void finish(const Half& h, __m256i sum, const uint8_t* residual, uint8_t* y) {
  const Requantize& q = *h.q;
  const __m256i v = requantize8(q, sum, _mm256_load_ps(h.scale), residual);
  const __m128i words = _mm_adds_epi16(_mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)), _mm256_castsi256_si128(q.zero));
  const __m128i bytes = _mm_max_epu8(_mm_packus_epi16(words, words), _mm256_castsi256_si128(q.lo));
  if (h.n >= 8) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(y), bytes);
  } else {
    const uint64_t all = static_cast<uint64_t>(_mm_cvtsi128_si64(bytes));
    __builtin_memcpy(y, &all, h.n);
  }
}

template <int kRows>
__attribute__((noinline)) void half_tile(const Half& h) {
  __m256i acc[kRows][2];
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
  const int8_t* w = h.w;
  const int16_t *wide = h.wide, *wide3 = h.wide + 3 * kWideRow;
  for (uint32_t k = h.quads; k > 0; --k, w += 64, wide += 4, wide3 += 4) {
    const __m256i w0 = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(w)));
    const __m256i w1 = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(w + 16)));
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int16_t* row = r < 3 ? wide + r * static_cast<int>(kWideRow) : wide3 + (r - 3) * static_cast<int>(kWideRow);
      int64_t quad;
      __builtin_memcpy(&quad, row, sizeof(quad));
      const __m256i a = _mm256_set1_epi64x(quad);
      dot(acc[r][0], a, w0);
      dot(acc[r][1], a, w1);
    }
  }
  const uint8_t* residual = h.residual;
  uint8_t* y = h.y;
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    // Lane order after the horizontal add is channels 0 1 4 5 | 2 3 6 7.
    const __m256i chunk = _mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[r][0], acc[r][1]), 0xd8);
    const __m256i sum = _mm256_add_epi32(chunk, _mm256_load_si256(reinterpret_cast<const __m256i*>(h.before + static_cast<uint32_t>(r) * h.before_step)));
    if (h.sums != nullptr) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(h.sums + r * 64), sum);
      continue;
    }
    finish(h, sum, residual, y);
    y += h.y_step;
    if (residual != nullptr) residual += h.residual_step;
  }
}

template <int kRows>
LATHE_INLINE void half_tile_of(uint32_t rows, const Half& h) {
  if constexpr (kRows > 1) {
    if (rows != kRows) return half_tile_of<kRows - 1>(rows, h);
  }
  half_tile<kRows>(h);
}

// `rows` rows from `row` on: up to 64 channels at a time, k in chunks.
void row_tile(const GemmS8Args& g, const Requantize& q, uint32_t row, uint32_t rows, int16_t* wide) {
  alignas(32) int32_t sums[kMaxRows * 64];
  const uint32_t quads = (g.seg_k + kGemmQuad - 1) / kGemmQuad, all_quads = g.segs * quads;
  const size_t panel_bytes = gemm_s8_panel_bytes(g.segs, g.seg_k);
  const uint8_t* a = static_cast<const uint8_t*>(g.a) + static_cast<size_t>(row) * g.a_stride;
  for (uint32_t first_c = 0; first_c < g.n; first_c += 16 * kMaxPanels) {
    const uint32_t end_c = g.n - first_c < 16 * kMaxPanels ? g.n : first_c + 16 * kMaxPanels;
    for (uint32_t first = 0; first < all_quads; first += kChunkQuads) {
      const uint32_t count = all_quads - first < kChunkQuads ? all_quads - first : kChunkQuads;
      if (all_quads > kChunkQuads || first_c == 0) widen(g, a, rows, quads, first, count, wide);
      for (uint32_t c = first_c; c < end_c; c += 8) {
        int32_t* partial = sums + (c - first_c);
        const size_t res_at = static_cast<size_t>(row) * g.residual_stride + c;
        const Half h{wide, g.w + c / 16 * panel_bytes + static_cast<size_t>(first) * 64 + c % 16 * 4, count, first == 0 ? g.bias + c : partial, first == 0 ? 0u : 64u,
                     first + count < all_quads ? partial : nullptr, &q, g.scale + c, g.residual == nullptr ? nullptr : static_cast<const uint8_t*>(g.residual) + res_at, g.residual_stride,
                     static_cast<uint8_t*>(g.y) + static_cast<size_t>(row) * g.y_stride + c, g.y_stride, g.n - c};
        half_tile_of<kMaxRows>(rows, h);
      }
    }
  }
}

// Float: kRows x 16 channels, one panel.
template <int kRows>
__attribute__((noinline)) void float_tile(const GemmF32Args& g, const float* a, const float* w, const float* bias, const float* residual, float* y, uint32_t n) {
  __m256 acc[kRows][2];
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    acc[r][0] = bias == nullptr ? _mm256_setzero_ps() : _mm256_load_ps(bias);
    acc[r][1] = bias == nullptr ? _mm256_setzero_ps() : _mm256_load_ps(bias + 8);
  }
  const size_t stride = g.a_stride;
  for (uint32_t s = 0; s < g.segs; ++s) {
    const float* base = a + g.seg_offset[s];
    const float* base3 = base + 3 * stride;
    for (uint32_t k = 0; k < g.seg_k; ++k, w += 16, ++base, ++base3) {
      const __m256 w0 = _mm256_load_ps(w), w1 = _mm256_load_ps(w + 8);
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m256 v = _mm256_broadcast_ss(r < 3 ? base + r * stride : base3 + (r - 3) * stride);
        acc[r][0] = _mm256_fmadd_ps(v, w0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(v, w1, acc[r][1]);
      }
    }
  }
  const __m256 lo = _mm256_set1_ps(g.lo), hi = _mm256_set1_ps(g.hi);
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r, y += g.y_stride) {
    alignas(32) float row[16];
    __m256 v[2];
    LATHE_UNROLL
    for (int i = 0; i < 2; ++i) {
      v[i] = acc[r][i];
      if (residual != nullptr) v[i] = _mm256_add_ps(v[i], _mm256_loadu_ps(residual + static_cast<size_t>(r) * g.residual_stride + 8 * i));
      // The second operand passes when either is NaN.
      v[i] = _mm256_min_ps(hi, _mm256_max_ps(lo, v[i]));
    }
    float* to = n == 16 ? y : row;
    _mm256_storeu_ps(to, v[0]);
    _mm256_storeu_ps(to + 8, v[1]);
    if (n != 16) __builtin_memcpy(y, row, n * sizeof(float));
  }
}

template <int kRows>
LATHE_INLINE void float_tile_of(uint32_t rows, const GemmF32Args& g, const float* a, const float* w, const float* bias, const float* residual, float* y, uint32_t n) {
  if constexpr (kRows > 1) {
    if (rows != kRows) return float_tile_of<kRows - 1>(rows, g, a, w, bias, residual, y, n);
  }
  float_tile<kRows>(g, a, w, bias, residual, y, n);
}

}  // namespace

void gemm_u8s8s32_6x8x4_x86_avx2(const GemmS8Args& g) {
  if (g.m == 0) return;
  alignas(32) int16_t wide[kMaxRows * kWideRow];
  const Requantize q = make_requantize(g.zero_point, g.lo, g.hi, g.residual_scale, g.residual_zero);
  // Rows are split evenly: 8 rows are 4 + 4, not 6 + 2.
  const uint32_t tiles = (g.m + kMaxRows - 1) / kMaxRows, base = g.m / tiles, larger = g.m % tiles;
  for (uint32_t t = 0, row = 0, rows; t < tiles; ++t, row += rows) {
    rows = base + (t < larger ? 1 : 0);
    row_tile(g, q, row, rows, wide);
  }
}

void gemm_f32_6x16_x86_avx2(const GemmF32Args& g) {
  if (g.m == 0) return;
  const size_t panel_elems = static_cast<size_t>(g.segs) * g.seg_k * kGemmPanel;
  const uint32_t tiles = (g.m + kMaxRows - 1) / kMaxRows, base = g.m / tiles, larger = g.m % tiles;
  for (uint32_t c = 0; c < g.n; c += 16) {
    const uint32_t n = g.n - c < 16 ? g.n - c : 16;
    for (uint32_t t = 0, row = 0, rows; t < tiles; ++t, row += rows) {
      rows = base + (t < larger ? 1 : 0);
      float_tile_of<kMaxRows>(rows, g, g.a + static_cast<size_t>(row) * g.a_stride, g.w + c / 16 * panel_elems, g.bias == nullptr ? nullptr : g.bias + c,
                              g.residual == nullptr ? nullptr : g.residual + static_cast<size_t>(row) * g.residual_stride + c,
                              g.y + static_cast<size_t>(row) * g.y_stride + c, n);
    }
  }
}

}  // namespace lathe::kernels
