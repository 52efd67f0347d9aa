// Depthwise convolution on AVX2 and FMA, u8 storage and float.
//
// 8-bit: up to four kernel rows of a column are interleaved into quads and widened to 16 bits for vpmaddwd, which is exact; weights are widened once
// per 8 channels. Float: 16 channels of up to 4 pixels at a time, one accumulator per element that takes the taps row by row.
#include <immintrin.h>

#include "kernels/dwconv/dwconv.h"
#include "kernels/gemm/requantize_x86_avx2.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kStoredQuads = 32;  // (column, quad) pairs whose weights are widened once per block

// Half a panel: 8 channels.
struct Half {
  const DwConvS8Args* d;
  const int8_t* w;        // records of 64 bytes per (column, quad); this half's 32
  uint32_t quads, pairs;  // quads of a column; (column, quad) pairs
  __m256i bias;
  __m256 scale;
  __m256i weights[kStoredQuads][2];
};

LATHE_INLINE __m256i widen_weights(const int8_t* w) { return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(w))); }

LATHE_INLINE __m128i load8(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

// 16-bit quads of channels 0 .. 3 and 4 .. 7.
struct Column {
  __m256i v[2];
};

LATHE_INLINE Column interleave(__m128i r0, __m128i r1, __m128i r2, __m128i r3) {
  const __m128i t = _mm_unpacklo_epi8(r0, r1), u = _mm_unpacklo_epi8(r2, r3);
  return {{_mm256_cvtepu8_epi16(_mm_unpacklo_epi16(t, u)), _mm256_cvtepu8_epi16(_mm_unpackhi_epi16(t, u))}};
}

// Four kernel rows from `first` on. Rows past the kernel repeat its last one: their weights are zero.
LATHE_INLINE Column any_column(const DwConvS8Args& d, const uint8_t* a, uint32_t first) {
  __m128i r[4];
  LATHE_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t p = first + i < d.kh ? first + i : d.kh - 1;
    r[i] = load8(a + static_cast<size_t>(p) * d.a_tap_row);
  }
  return interleave(r[0], r[1], r[2], r[3]);
}

LATHE_INLINE Column short_column(const uint8_t* a, size_t row1, size_t row2) {
  const __m128i r2 = load8(a + row2);
  return interleave(load8(a), load8(a + row1), r2, r2);
}

LATHE_INLINE void dot(__m256i* acc, const Column& column, __m256i w0, __m256i w1) {
  acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(column.v[0], w0));
  acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(column.v[1], w1));
}

// Channel sums, bias added. Lane order after the horizontal add is channels 0 1 4 5 | 2 3 6 7.
LATHE_INLINE __m256i sums(const Half& h, const __m256i* acc) { return _mm256_add_epi32(h.bias, _mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[0], acc[1]), 0xd8)); }

LATHE_INLINE void finish(const Half& h, const Requantize& q, const __m256i* acc, const uint8_t* residual, uint8_t* y, uint32_t n) {
  const __m256i v = requantize8(q, sums(h, acc), h.scale, residual);
  // Both halves of the packs: bytes 0 .. 7 are in order after the permutation.
  const __m256i bytes = pack_ordered(q, v, v, v, v);
  if (n >= 8) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(bytes));
  } else {
    store_bytes(y, bytes, n);
  }
}

void half_rows(const Half& h, const Requantize& q, uint32_t c, uint32_t n) {
  const DwConvS8Args& d = *h.d;
  const bool short_kernel = d.kw == 3 && d.kh <= 3 && d.a_col_step == d.a_tap_col;
  const size_t row1 = d.kh > 1 ? d.a_tap_row : 0, row2 = d.kh > 2 ? 2 * static_cast<size_t>(d.a_tap_row) : row1;
  for (uint32_t i = 0; i < d.rows; ++i) {
    const uint8_t* a = static_cast<const uint8_t*>(d.a) + static_cast<size_t>(i) * d.a_row_step + c;
    const uint8_t* residual = d.residual == nullptr ? nullptr : static_cast<const uint8_t*>(d.residual) + static_cast<size_t>(i) * d.residual_row_step + c;
    uint8_t* y = static_cast<uint8_t*>(d.y) + static_cast<size_t>(i) * d.y_row_step + c;
    Column left{}, middle{};
    if (short_kernel) {
      left = short_column(a, row1, row2);
      middle = short_column(a + d.a_tap_col, row1, row2);
    }
    for (uint32_t x = 0; x < d.cols; ++x, a += d.a_col_step, y += d.y_col_step) {
      __m256i acc[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
      if (short_kernel) {
        const Column right = short_column(a + 2 * static_cast<size_t>(d.a_tap_col), row1, row2);
        dot(acc, left, h.weights[0][0], h.weights[0][1]);
        dot(acc, middle, h.weights[1][0], h.weights[1][1]);
        dot(acc, right, h.weights[2][0], h.weights[2][1]);
        left = middle;
        middle = right;
      } else {
        for (uint32_t s = 0, pair = 0; s < d.kw; ++s) {
          for (uint32_t quad = 0; quad < h.quads; ++quad, ++pair) {
            const Column column = any_column(d, a + static_cast<size_t>(s) * d.a_tap_col, quad * 4);
            const bool stored = pair < kStoredQuads;
            dot(acc, column, stored ? h.weights[pair][0] : widen_weights(h.w + static_cast<size_t>(pair) * 64),
                stored ? h.weights[pair][1] : widen_weights(h.w + static_cast<size_t>(pair) * 64 + 16));
          }
        }
      }
      finish(h, q, acc, residual, y, n);
      if (residual != nullptr) residual += d.residual_col_step;
    }
  }
}

// Float: one panel of 16 channels.
template <int kPixels>
LATHE_INLINE void float_pixels(const DwConvF32Args& d, const float* a, const float* w, const float* bias, const float* residual, float* y, uint32_t n) {
  __m256 acc[kPixels][2];
  LATHE_UNROLL
  for (int i = 0; i < kPixels; ++i) {
    acc[i][0] = bias == nullptr ? _mm256_setzero_ps() : _mm256_load_ps(bias);
    acc[i][1] = bias == nullptr ? _mm256_setzero_ps() : _mm256_load_ps(bias + 8);
  }
  for (uint32_t r = 0; r < d.kh; ++r, a += d.a_tap_row) {
    const float* tap = a;
    for (uint32_t s = 0; s < d.kw; ++s, tap += d.a_tap_col, w += 16) {
      const __m256 w0 = _mm256_load_ps(w), w1 = _mm256_load_ps(w + 8);
      LATHE_UNROLL
      for (int i = 0; i < kPixels; ++i) {
        const float* pixel = tap + static_cast<size_t>(i) * d.a_col_step;
        acc[i][0] = _mm256_fmadd_ps(_mm256_loadu_ps(pixel), w0, acc[i][0]);
        acc[i][1] = _mm256_fmadd_ps(_mm256_loadu_ps(pixel + 8), w1, acc[i][1]);
      }
    }
  }
  const __m256 lo = _mm256_set1_ps(d.lo), hi = _mm256_set1_ps(d.hi);
  LATHE_UNROLL
  for (int i = 0; i < kPixels; ++i, y += d.y_col_step) {
    alignas(32) float row[16];
    float* to = n == 16 ? y : row;
    LATHE_UNROLL
    for (int v = 0; v < 2; ++v) {
      __m256 sum = acc[i][v];
      if (residual != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(residual + static_cast<size_t>(i) * d.residual_col_step + 8 * v));
      // The second operand passes when either is NaN.
      _mm256_storeu_ps(to + 8 * v, _mm256_min_ps(hi, _mm256_max_ps(lo, sum)));
    }
    if (n != 16) __builtin_memcpy(y, row, n * sizeof(float));
  }
}

void float_row(const DwConvF32Args& d, const float* a, const float* w, const float* bias, const float* residual, float* y, uint32_t n) {
  const uint32_t tiles = (d.cols + 3) / 4, base = d.cols / tiles, larger = d.cols % tiles;
  for (uint32_t t = 0; t < tiles; ++t) {
    const uint32_t count = base + (t < larger ? 1 : 0);
    switch (count) {
      case 4: float_pixels<4>(d, a, w, bias, residual, y, n); break;
      case 3: float_pixels<3>(d, a, w, bias, residual, y, n); break;
      case 2: float_pixels<2>(d, a, w, bias, residual, y, n); break;
      default: float_pixels<1>(d, a, w, bias, residual, y, n); break;
    }
    a += static_cast<size_t>(count) * d.a_col_step;
    y += static_cast<size_t>(count) * d.y_col_step;
    if (residual != nullptr) residual += static_cast<size_t>(count) * d.residual_col_step;
  }
}

}  // namespace

void dwconv_u8s8s32_8_x86_avx2(const DwConvS8Args& d) {
  const Requantize q = make_requantize(d.zero_point, d.lo, d.hi, d.residual_scale, d.residual_zero);
  Half h;
  h.d = &d;
  h.quads = (d.kh + kGemmQuad - 1) / kGemmQuad;
  h.pairs = d.kw * h.quads;
  for (uint32_t c = 0; c < d.n; c += 8) {
    h.w = d.w + static_cast<size_t>(c / 16) * h.pairs * 64 + c % 16 / 8 * 32;
    h.bias = _mm256_load_si256(reinterpret_cast<const __m256i*>(d.bias + c));
    h.scale = _mm256_load_ps(d.scale + c);
    for (uint32_t pair = 0; pair < h.pairs && pair < kStoredQuads; ++pair) {
      h.weights[pair][0] = widen_weights(h.w + static_cast<size_t>(pair) * 64);
      h.weights[pair][1] = widen_weights(h.w + static_cast<size_t>(pair) * 64 + 16);
    }
    half_rows(h, q, c, d.n - c < 8 ? d.n - c : 8);
  }
}

void dwconv_f32_4x16_x86_avx2(const DwConvF32Args& d) {
  if (d.cols == 0) return;
  const size_t panel_elems = static_cast<size_t>(d.kh) * d.kw * kGemmPanel;
  for (uint32_t c = 0; c < d.n; c += 16) {
    const uint32_t n = d.n - c < 16 ? d.n - c : 16;
    for (uint32_t i = 0; i < d.rows; ++i) {
      float_row(d, d.a + static_cast<size_t>(i) * d.a_row_step + c, d.w + c / 16 * panel_elems, d.bias == nullptr ? nullptr : d.bias + c,
                d.residual == nullptr ? nullptr : d.residual + static_cast<size_t>(i) * d.residual_row_step + c, d.y + static_cast<size_t>(i) * d.y_row_step + c, n);
    }
  }
}

}  // namespace lathe::kernels
