// Transposes for AVX2.
#include <immintrin.h>

#include "kernels/layout/simd_loops.h"

namespace lathe::kernels {
namespace {

struct Vectors {
  using Bytes = __m128i;
  static Bytes load(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static void store(uint8_t* p, Bytes v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
  template <uint32_t kBytes> static __m128i interleave_low(__m128i a, __m128i b) {
    if constexpr (kBytes == 1) return _mm_unpacklo_epi8(a, b);
    if constexpr (kBytes == 2) return _mm_unpacklo_epi16(a, b);
    if constexpr (kBytes == 4) return _mm_unpacklo_epi32(a, b);
    return _mm_unpacklo_epi64(a, b);
  }
  template <uint32_t kBytes> static __m128i interleave_high(__m128i a, __m128i b) {
    if constexpr (kBytes == 1) return _mm_unpackhi_epi8(a, b);
    if constexpr (kBytes == 2) return _mm_unpackhi_epi16(a, b);
    if constexpr (kBytes == 4) return _mm_unpackhi_epi32(a, b);
    return _mm_unpackhi_epi64(a, b);
  }

  // A fourth row of zeros makes squares of four, and every pixel is stored as four elements of which the last is overwritten by
  // the next pixel. The last pixel is left to others, so that nothing past y is written.
  static uint32_t interleave_planes_4(const uint8_t* x, ptrdiff_t x_row, uint32_t cols, uint8_t* y) {
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

  // The same for bytes and halves, 4 / kBytes pixels to a store of 16 bytes of which 12 count.
  template <uint32_t kBytes>
  static uint32_t interleave_planes_small(const uint8_t* x, ptrdiff_t x_row, uint32_t cols, uint8_t* y) {
    const __m128i squeeze = kBytes == 1 ? _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)
                                        : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1);
    constexpr uint32_t kN = 16 / kBytes, kWide = 2 * kBytes;
    uint32_t c = 0;
    for (; c + kN + 2 <= cols; c += kN) {
      const auto row = [&](ptrdiff_t r) __attribute__((always_inline)) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + r * x_row + c * kBytes));
      };
      const __m128i a = row(0), b = row(1), d = row(2), zero = _mm_setzero_si128();
      const __m128i ab_low = interleave_low<kBytes>(a, b), ab_high = interleave_high<kBytes>(a, b),
                    d_low = interleave_low<kBytes>(d, zero), d_high = interleave_high<kBytes>(d, zero);
      const auto store = [&](uint32_t at, __m128i pixels) __attribute__((always_inline)) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + c * 3 * kBytes + at), _mm_shuffle_epi8(pixels, squeeze));
      };
      store(0, interleave_low<kWide>(ab_low, d_low));
      store(12, interleave_high<kWide>(ab_low, d_low));
      store(24, interleave_low<kWide>(ab_high, d_high));
      store(36, interleave_high<kWide>(ab_high, d_high));
    }
    return c;
  }

  template <uint32_t kBytes> static uint32_t interleave_planes(const uint8_t* x, ptrdiff_t x_row, uint32_t cols, uint8_t* y) {
    if constexpr (kBytes == 4) return interleave_planes_4(x, x_row, cols, y);
    else return interleave_planes_small<kBytes>(x, x_row, cols, y);
  }
};

}  // namespace

void transpose_x86_avx2(const TransposeArgs& g) { transpose_any<Vectors>(g); }

}  // namespace lathe::kernels
