// Segment GEMM on AVX2 and FMA, u8 storage and float.
//
// The 8-bit one is exact: activations and weights are widened to 16 bits for vpmaddwd (vpmaddubsw would saturate). Rows are
// widened once for all channels, into a buffer that stays in L1; neighbouring pixels of a convolution share most of their bytes,
// which are then widened only once. A tile is 6 rows x 8 channels, half of a panel, in 12 accumulators of two partial sums per
// channel. Multiply and add are one piece of inline assembly, because g++ 12 spills when it schedules 12 accumulators itself.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/requantize_x86_avx2.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kMaxRows = 6;
constexpr uint32_t kChunkQuads = 128;                        // quads of k that are widened at a time
constexpr uint32_t kWideRow = kChunkQuads * kGemmQuad + 16;  // the copy runs up to 15 elements over
constexpr uint32_t kWideElems = kMaxRows * kWideRow;
constexpr uint32_t kMaxPanels = 4;

LATHE_INLINE void dot(__m256i& acc, __m256i a, __m256i w) {
  __m256i product;
  asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(a), "x"(w));
}

LATHE_INLINE void widen_run(const uint8_t* from, uint32_t n, int16_t* to) {
  for (uint32_t i = 0; i < n; i += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
}

// Widened rows of a tile: row r of segment s starts at data + s * seg_step + r * row_step.
struct Wide {
  int16_t* data;
  uint32_t row_step, seg_step;
  uint32_t segs, quads;  // of this chunk; quads per segment
};

// Rows that overlap: per segment the one run of bytes that holds all of them.
void widen_overlapping(const GemmS8Args& g, const uint8_t* a, uint32_t rows, const Wide& w) {
  const uint32_t run = (rows - 1) * g.a_stride + w.quads * kGemmQuad;
  for (uint32_t s = 0; s < w.segs; ++s) widen_run(a + g.seg_offset[s], run, w.data + static_cast<size_t>(s) * w.seg_step);
}

// Any rows: quads [first, first + w.quads) of the flat (segment, quad) order, row by row, as one segment.
void widen_flat(const GemmS8Args& g, const uint8_t* a, uint32_t rows, uint32_t first, const Wide& w) {
  const uint32_t quads = (g.seg_k + kGemmQuad - 1) / kGemmQuad;
  int16_t* row = w.data;
  for (uint32_t r = 0; r < rows; ++r, a += g.a_stride, row += w.row_step) {
    int16_t* to = row;
    uint32_t s = first / quads, q = first % quads;
    for (uint32_t left = w.quads; left > 0; ++s, q = 0) {
      const uint32_t run = quads - q < left ? quads - q : left;
      widen_run(a + g.seg_offset[s] + static_cast<ptrdiff_t>(q * kGemmQuad), run * kGemmQuad, to);
      to += run * kGemmQuad;
      left -= run;
    }
  }
}

// Half a panel, 8 channels, of the rows of a tile over one chunk of k. Sums are in the order that the horizontal add leaves:
// channels 0 1 4 5 2 3 6 7.
struct Half {
  Wide wide;
  const int8_t* w;
  const int32_t* bias;  // in channel order; null: `sums` holds what earlier chunks left
  int32_t* sums;        // 8 per row, rows 64 apart
  bool last;            // finish instead of leaving sums
  const Requantize* q;
  const float* scale;
  const uint8_t* residual;  // or null
  size_t residual_step;
  uint8_t* y;
  size_t y_step;
  uint32_t n;  // channels that exist
};

LATHE_INLINE __m256i summed_order(__m256i v) { return _mm256_permute4x64_epi64(v, 0xd8); }

// Requantizes and stores up to 4 rows. Pairs of channels 2 and 4 change places to come back in order.
template <int kRows>
LATHE_INLINE void finish(const Half& h, const __m256i* sums, const uint8_t* residual, uint8_t* y) {
  const Requantize& q = *h.q;
  const __m256 scale = _mm256_castsi256_ps(summed_order(_mm256_castps_si256(_mm256_load_ps(h.scale))));
  __m256i v[4];
  LATHE_UNROLL
  for (int r = 0; r < 4; ++r) {
    if (r >= kRows) {
      v[r] = v[0];
      continue;
    }
    __m256 x = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[r]), scale);
    if (residual != nullptr)
      x = _mm256_add_ps(x, _mm256_castsi256_ps(summed_order(
                               _mm256_castps_si256(residual8(q, residual + static_cast<size_t>(r) * h.residual_step)))));
    v[r] = round_scaled(q, x);
  }
  const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12,
                                         13, 10, 11, 14, 15);
  const __m256i bytes = _mm256_shuffle_epi8(pack_ordered(q, v[0], v[1], v[2], v[3]), order);
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const __m128i pair = r < 2 ? _mm256_castsi256_si128(bytes) : _mm256_extracti128_si256(bytes, 1);
    const int64_t row = r % 2 == 0 ? _mm_cvtsi128_si64(pair) : _mm_extract_epi64(pair, 1);
    uint8_t* to = y + static_cast<size_t>(r) * h.y_step;
    if (h.n >= 8) {
      __builtin_memcpy(to, &row, 8);
    } else {
      __builtin_memcpy(to, &row, h.n);
    }
  }
}

template <int kRows>
LATHE_INLINE void accumulate(const Half& h, __m256i* acc) {
  LATHE_UNROLL
  for (int i = 0; i < 2 * kRows; ++i) acc[i] = _mm256_setzero_si256();
  const int8_t* w = h.w;
  const size_t step = h.wide.row_step;
  for (uint32_t s = 0; s < h.wide.segs; ++s) {
    const int16_t *wide = h.wide.data + static_cast<size_t>(s) * h.wide.seg_step, *wide3 = wide + 3 * step;
    for (uint32_t k = h.wide.quads; k > 0; --k, w += 64, wide += 4, wide3 += 4) {
      const __m256i w0 = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(w)));
      const __m256i w1 = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(w + 16)));
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        int64_t quad;
        __builtin_memcpy(&quad, r < 3 ? wide + static_cast<size_t>(r) * step : wide3 + static_cast<size_t>(r - 3) * step,
                         sizeof(quad));
        const __m256i a = _mm256_set1_epi64x(quad);
        dot(acc[2 * r], a, w0);
        dot(acc[2 * r + 1], a, w1);
      }
    }
  }
}

template <int kRows>
__attribute__((noinline)) void half_tile(const Half& h) {
  __m256i acc[2 * kRows], sums[kRows];
  accumulate<kRows>(h, acc);
  const __m256i bias =
      h.bias == nullptr ? _mm256_setzero_si256() : summed_order(_mm256_load_si256(reinterpret_cast<const __m256i*>(h.bias)));
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    sums[r] = _mm256_hadd_epi32(acc[2 * r], acc[2 * r + 1]);
    sums[r] = _mm256_add_epi32(sums[r],
                               h.bias != nullptr ? bias : _mm256_load_si256(reinterpret_cast<const __m256i*>(h.sums + r * 64)));
  }
  if (!h.last) {
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) _mm256_store_si256(reinterpret_cast<__m256i*>(h.sums + r * 64), sums[r]);
    return;
  }
  finish<(kRows < 4 ? kRows : 4)>(h, sums, h.residual, h.y);
  if constexpr (kRows > 4)
    finish<kRows - 4>(h, sums + 4, h.residual == nullptr ? nullptr : h.residual + 4 * h.residual_step, h.y + 4 * h.y_step);
}

template <int kRows>
LATHE_INLINE void half_tile_of(uint32_t rows, const Half& h) {
  if constexpr (kRows > 1) {
    if (rows != kRows) return half_tile_of<kRows - 1>(rows, h);
  }
  half_tile<kRows>(h);
}

// `rows` rows from `row` on, channels [first_c, end_c), at most 64: one chunk of k that is widened already.
void chunk_tile(const GemmS8Args& g, const Requantize& q, const Wide& wide, uint32_t row, uint32_t rows, uint32_t first_c,
                uint32_t end_c, uint32_t first_quad, bool last, int32_t* sums) {
  const size_t panel_bytes = gemm_s8_panel_bytes(g.segs, g.seg_k);
  Half h;
  h.wide = wide;
  h.last = last;
  h.q = &q;
  h.residual_step = g.residual_stride;
  h.y_step = g.y_stride;
  for (uint32_t c = first_c; c < end_c; c += 8) {
    h.w = g.w + c / 16 * panel_bytes + static_cast<size_t>(first_quad) * 64 + c % 16 * 4;
    h.bias = first_quad == 0 ? g.bias + c : nullptr;
    h.sums = sums + (c - first_c);
    h.scale = g.scale + c;
    h.residual = g.residual == nullptr
                     ? nullptr
                     : static_cast<const uint8_t*>(g.residual) + static_cast<size_t>(row) * g.residual_stride + c;
    h.y = static_cast<uint8_t*>(g.y) + static_cast<size_t>(row) * g.y_stride + c;
    h.n = g.n - c;
    half_tile_of<kMaxRows>(rows, h);
  }
}

// `rows` rows from `row` on. All of k at once if it fits the buffer, else in chunks for up to 64 channels at a time.
void row_tile(const GemmS8Args& g, const Requantize& q, uint32_t row, uint32_t rows, int16_t* buffer) {
  alignas(32) int32_t sums[kMaxRows * 64];
  const uint32_t quads = (g.seg_k + kGemmQuad - 1) / kGemmQuad, all_quads = g.segs * quads;
  const uint8_t* a = static_cast<const uint8_t*>(g.a) + static_cast<size_t>(row) * g.a_stride;
  const uint64_t overlapping = static_cast<uint64_t>(kMaxRows - 1) * g.a_stride + static_cast<uint64_t>(quads) * kGemmQuad + 16;
  if (g.a_stride < g.seg_k && overlapping * g.segs <= kWideElems) {
    const Wide wide{buffer, g.a_stride, static_cast<uint32_t>(overlapping), g.segs, quads};
    widen_overlapping(g, a, rows, wide);
    return chunk_tile(g, q, wide, row, rows, 0, g.n, 0, true, sums);
  }
  if (all_quads <= kChunkQuads) {
    const Wide wide{buffer, kWideRow, 0, 1, all_quads};
    widen_flat(g, a, rows, 0, wide);
    return chunk_tile(g, q, wide, row, rows, 0, g.n, 0, true, sums);
  }
  for (uint32_t c = 0; c < g.n; c += 16 * kMaxPanels) {
    const uint32_t end_c = g.n - c < 16 * kMaxPanels ? g.n : c + 16 * kMaxPanels;
    for (uint32_t first = 0; first < all_quads; first += kChunkQuads) {
      const Wide wide{buffer, kWideRow, 0, 1, all_quads - first < kChunkQuads ? all_quads - first : kChunkQuads};
      widen_flat(g, a, rows, first, wide);
      chunk_tile(g, q, wide, row, rows, c, end_c, first, first + wide.quads == all_quads, sums);
    }
  }
}

// Float: kRows x 16 channels, one panel.
template <int kRows>
__attribute__((noinline)) void float_tile(const GemmF32Args& g, const float* a, const float* w, const float* bias,
                                          const float* residual, float* y, uint32_t n) {
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
      if (residual != nullptr)
        v[i] = _mm256_add_ps(v[i], _mm256_loadu_ps(residual + static_cast<size_t>(r) * g.residual_stride + 8 * i));
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
LATHE_INLINE void float_tile_of(uint32_t rows, const GemmF32Args& g, const float* a, const float* w, const float* bias,
                                const float* residual, float* y, uint32_t n) {
  if constexpr (kRows > 1) {
    if (rows != kRows) return float_tile_of<kRows - 1>(rows, g, a, w, bias, residual, y, n);
  }
  float_tile<kRows>(g, a, w, bias, residual, y, n);
}

}  // namespace

void gemm_u8s8s32_6x8x4_x86_avx2(const GemmS8Args& g) {
  if (g.m == 0) return;
  alignas(32) int16_t wide[kWideElems];
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
      float_tile_of<kMaxRows>(rows, g, g.a + static_cast<size_t>(row) * g.a_stride, g.w + c / 16 * panel_elems,
                              g.bias == nullptr ? nullptr : g.bias + c,
                              g.residual == nullptr ? nullptr : g.residual + static_cast<size_t>(row) * g.residual_stride + c,
                              g.y + static_cast<size_t>(row) * g.y_stride + c, n);
    }
  }
}

}  // namespace lathe::kernels
