// Transposes in registers, 16 bytes by 16 bytes.
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/layout/layout.h"

namespace lathe::kernels {
namespace {

template <uint32_t kBytes> __m128i unpack_low(__m128i a, __m128i b) {
  if constexpr (kBytes == 1) return _mm_unpacklo_epi8(a, b);
  if constexpr (kBytes == 2) return _mm_unpacklo_epi16(a, b);
  if constexpr (kBytes == 4) return _mm_unpacklo_epi32(a, b);
  return _mm_unpacklo_epi64(a, b);
}
template <uint32_t kBytes> __m128i unpack_high(__m128i a, __m128i b) {
  if constexpr (kBytes == 1) return _mm_unpackhi_epi8(a, b);
  if constexpr (kBytes == 2) return _mm_unpackhi_epi16(a, b);
  if constexpr (kBytes == 4) return _mm_unpackhi_epi32(a, b);
  return _mm_unpackhi_epi64(a, b);
}

// A square of kN x kN elements, kN = 16 / kBytes. Interleaving rows i and i + kN / 2 into rows 2 i and 2 i + 1 rotates the
// bits of the flattened index (row, column) by one; after log2(kN) rounds row and column have changed places.
template <uint32_t kBytes> void transpose_square(const uint8_t* x, ptrdiff_t x_row, uint8_t* y, ptrdiff_t y_row) {
  constexpr uint32_t kN = 16 / kBytes;
  __m128i v[kN], w[kN];
  for (uint32_t i = 0; i < kN; ++i)
    v[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + static_cast<ptrdiff_t>(i) * x_row));
  for (uint32_t round = 1; round < kN; round *= 2) {
    for (uint32_t i = 0; i < kN / 2; ++i) {
      w[2 * i] = unpack_low<kBytes>(v[i], v[i + kN / 2]);
      w[2 * i + 1] = unpack_high<kBytes>(v[i], v[i + kN / 2]);
    }
    for (uint32_t i = 0; i < kN; ++i) v[i] = w[i];
  }
  for (uint32_t i = 0; i < kN; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(y + static_cast<ptrdiff_t>(i) * y_row), v[i]);
}

template <uint32_t kBytes> void transpose_edge(const TransposeArgs& g, uint32_t r0, uint32_t r1, uint32_t c0, uint32_t c1) {
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  for (uint32_t c = c0; c < c1; ++c) {
    for (uint32_t r = r0; r < r1; ++r) {
      __builtin_memcpy(y + static_cast<ptrdiff_t>(c) * g.y_row + r * kBytes, x + static_cast<ptrdiff_t>(r) * g.x_row + c * kBytes,
                       kBytes);
    }
  }
}

// Three rows to dense pixels of three elements (an image's planes to NHWC): a fourth row of zeros makes squares of four, and
// every pixel is stored as four elements of which the last is overwritten by the next pixel. Returns the columns done; the
// last pixel is left to others, so that nothing past y is written. Requires: y_row is three elements.
uint32_t interleave_planes_4(const uint8_t* x, ptrdiff_t x_row, uint32_t cols, uint8_t* y) {
  uint32_t c = 0;
  for (; c + 4 < cols; c += 4) {
    const float* p = reinterpret_cast<const float*>(x + c * 4);
    const __m128 a = _mm_loadu_ps(p), b = _mm_loadu_ps(reinterpret_cast<const float*>(x + x_row + c * 4));
    const __m128 d = _mm_loadu_ps(reinterpret_cast<const float*>(x + 2 * x_row + c * 4)), zero = _mm_setzero_ps();
    const __m128 ab_low = _mm_unpacklo_ps(a, b), ab_high = _mm_unpackhi_ps(a, b), d_low = _mm_unpacklo_ps(d, zero),
                 d_high = _mm_unpackhi_ps(d, zero);
    float* q = reinterpret_cast<float*>(y + c * 12);
    _mm_storeu_ps(q, _mm_movelh_ps(ab_low, d_low));
    _mm_storeu_ps(q + 3, _mm_movehl_ps(d_low, ab_low));
    _mm_storeu_ps(q + 6, _mm_movelh_ps(ab_high, d_high));
    _mm_storeu_ps(q + 9, _mm_movehl_ps(d_high, ab_high));
  }
  return c;
}

// The same for bytes, four pixels to a store of 16 bytes of which 12 count.
uint32_t interleave_planes_1(const uint8_t* x, ptrdiff_t x_row, uint32_t cols, uint8_t* y) {
  const __m128i squeeze = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  uint32_t c = 0;
  for (; c + 18 <= cols; c += 16) {
    const auto row = [&](ptrdiff_t r) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + r * x_row + c));
    };
    const __m128i a = row(0), b = row(1), d = row(2), zero = _mm_setzero_si128();
    const __m128i ab_low = _mm_unpacklo_epi8(a, b), ab_high = _mm_unpackhi_epi8(a, b), d_low = _mm_unpacklo_epi8(d, zero),
                  d_high = _mm_unpackhi_epi8(d, zero);
    const auto store = [&](uint32_t at, __m128i pixels) __attribute__((always_inline)) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + c * 3 + at), _mm_shuffle_epi8(pixels, squeeze));
    };
    store(0, _mm_unpacklo_epi16(ab_low, d_low));
    store(12, _mm_unpackhi_epi16(ab_low, d_low));
    store(24, _mm_unpacklo_epi16(ab_high, d_high));
    store(36, _mm_unpackhi_epi16(ab_high, d_high));
  }
  return c;
}

// Strips of columns that fill a cache line of x; within a strip y is written row by row.
template <uint32_t kBytes> void transpose(const TransposeArgs& g) {
  constexpr uint32_t kN = 16 / kBytes, kStrip = 64 / kBytes;
  const uint32_t rows = g.rows / kN * kN, cols = g.cols / kN * kN;
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  if ((kBytes == 4 || kBytes == 1) && g.rows == 3 && g.y_row == 3 * static_cast<int32_t>(kBytes)) {
    const uint32_t done = kBytes == 4 ? interleave_planes_4(x, g.x_row, g.cols, y) : interleave_planes_1(x, g.x_row, g.cols, y);
    return transpose_edge<kBytes>(g, 0, g.rows, done, g.cols);
  }
  for (uint32_t strip = 0; strip < cols; strip += kStrip) {
    const uint32_t end = cols - strip < kStrip ? cols : strip + kStrip;
    for (uint32_t r = 0; r < rows; r += kN) {
      for (uint32_t c = strip; c < end; c += kN) {
        transpose_square<kBytes>(x + static_cast<ptrdiff_t>(r) * g.x_row + c * kBytes, g.x_row,
                                 y + static_cast<ptrdiff_t>(c) * g.y_row + r * kBytes, g.y_row);
      }
    }
  }
  if (rows < g.rows) transpose_edge<kBytes>(g, rows, g.rows, 0, g.cols);
  if (cols < g.cols) transpose_edge<kBytes>(g, 0, rows, cols, g.cols);
}

}  // namespace

void transpose_x86_avx2(const TransposeArgs& g) {
  switch (g.elem_bytes) {
    case 1: return transpose<1>(g);
    case 2: return transpose<2>(g);
    case 4: return transpose<4>(g);
    default: return transpose<8>(g);
  }
}

}  // namespace lathe::kernels
