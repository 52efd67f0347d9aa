// Run-time packing with AVX2. Where a row of b holds columns of the product, four rows are interleaved to quads of k; where it
// holds k (a transposed right-hand matrix), sixteen rows are transposed in squares of four 32-bit elements, a quad of k each.
#include <immintrin.h>

#include "kernels/gemm_pack/gemm_pack.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

struct Bytes16 {
  const uint8_t* b;
  __m128i flip;
};

// `count` bytes at p, the others zero; nothing at all for count 0.
inline __attribute__((always_inline)) __m128i load_bytes(const Bytes16& s, const uint8_t* p, uint32_t count) {
  if (count == 0) return _mm_setzero_si128();
  const __m128i v = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), s.flip);
  if (count >= 16) return v;
  const __m128i index = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm_and_si128(v, _mm_cmpgt_epi8(_mm_set1_epi8(static_cast<char>(count)), index));
}

// Sums of quads of k: adding bytes in pairs cannot saturate (two of them fit 16 bits by far).
inline __attribute__((always_inline)) __m256i quad_sums(__m256i v) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), v), _mm256_set1_epi16(1));
}

// One panel and its column sums.
struct PanelOut {
  int8_t* packed;
  __m256i low, high;
};

inline __attribute__((always_inline)) void put_quad(PanelOut* out, __m128i c0, __m128i c1, __m128i c2, __m128i c3) {
  const __m256i low = _mm256_set_m128i(c1, c0), high = _mm256_set_m128i(c3, c2);
  _mm256_store_si256(reinterpret_cast<__m256i*>(out->packed), low);
  _mm256_store_si256(reinterpret_cast<__m256i*>(out->packed + 32), high);
  out->low = _mm256_add_epi32(out->low, quad_sums(low));
  out->high = _mm256_add_epi32(out->high, quad_sums(high));
  out->packed += 64;
}

// Rows of b run along the columns of the product.
void pack_rows(const GemmPackS8Args& g, const Bytes16& s, uint32_t columns, PanelOut* out) {
  for (uint32_t k = 0; k < g.k; k += kGemmQuad) {
    __m128i r[4];
    LATHE_UNROLL
    for (uint32_t i = 0; i < 4; ++i)
      r[i] = load_bytes(s, s.b + static_cast<size_t>(k + i) * g.k_stride, k + i < g.k ? columns : 0);
    const __m128i ab_low = _mm_unpacklo_epi8(r[0], r[1]), ab_high = _mm_unpackhi_epi8(r[0], r[1]);
    const __m128i cd_low = _mm_unpacklo_epi8(r[2], r[3]), cd_high = _mm_unpackhi_epi8(r[2], r[3]);
    put_quad(out, _mm_unpacklo_epi16(ab_low, cd_low), _mm_unpackhi_epi16(ab_low, cd_low), _mm_unpacklo_epi16(ab_high, cd_high),
             _mm_unpackhi_epi16(ab_high, cd_high));
  }
}

// Turns a square of 32-bit elements.
inline __attribute__((always_inline)) void transpose4(__m128i r[4]) {
  const __m128i a = _mm_unpacklo_epi32(r[0], r[1]), b = _mm_unpackhi_epi32(r[0], r[1]);
  const __m128i c = _mm_unpacklo_epi32(r[2], r[3]), d = _mm_unpackhi_epi32(r[2], r[3]);
  r[0] = _mm_unpacklo_epi64(a, c);
  r[1] = _mm_unpackhi_epi64(a, c);
  r[2] = _mm_unpacklo_epi64(b, d);
  r[3] = _mm_unpackhi_epi64(b, d);
}

// Rows of b run along k: 16 columns of the product by 16 k at a time.
void pack_columns(const GemmPackS8Args& g, const Bytes16& s, uint32_t columns, PanelOut* out) {
  for (uint32_t k = 0; k < g.k; k += 16) {
    const uint32_t count = g.k - k < 16 ? g.k - k : 16;
    __m128i r[16];
    LATHE_UNROLL
    for (uint32_t c = 0; c < 16; ++c)
      r[c] = load_bytes(s, s.b + static_cast<size_t>(c) * g.n_stride + k, c < columns ? count : 0);
    LATHE_UNROLL
    for (uint32_t c = 0; c < 16; c += 4) transpose4(r + c);
    LATHE_UNROLL
    for (uint32_t q = 0; q < 4; ++q) {
      if (q * kGemmQuad < count) put_quad(out, r[q], r[4 + q], r[8 + q], r[12 + q]);
    }
  }
}

// The first `count` floats at p, scaled; zeros behind them.
inline __attribute__((always_inline)) __m256 load_floats(const float* p, uint32_t count, __m256 scale) {
  if (count == 0) return _mm256_setzero_ps();
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), index);
  return _mm256_mul_ps(_mm256_maskload_ps(p, mask), scale);
}

void pack_float_rows(const GemmPackF32Args& g, const float* b, uint32_t columns, float* packed) {
  const __m256 scale = _mm256_set1_ps(g.scale);
  const uint32_t second = columns > 8 ? columns - 8 : 0;
  for (uint32_t k = 0; k < g.k; ++k, b += g.k_stride, packed += kGemmPanel) {
    _mm256_store_ps(packed, load_floats(b, columns, scale));
    _mm256_store_ps(packed + 8, load_floats(b + 8, second, scale));
  }
}

inline __attribute__((always_inline)) void transpose8(__m256 r[8]) {
  __m256 t[8], u[8];
  LATHE_UNROLL
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  LATHE_UNROLL
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
  LATHE_UNROLL
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

void pack_float_columns(const GemmPackF32Args& g, const float* b, uint32_t columns, float* packed) {
  const __m256 scale = _mm256_set1_ps(g.scale);
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t k = 0; k < g.k; k += 8) {
      const uint32_t count = g.k - k < 8 ? g.k - k : 8;
      __m256 r[8];
      LATHE_UNROLL
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t c = 8 * half + i;
        r[i] = load_floats(b + static_cast<size_t>(c) * g.n_stride + k, c < columns ? count : 0, scale);
      }
      transpose8(r);
      for (uint32_t i = 0; i < count; ++i) _mm256_store_ps(packed + static_cast<size_t>(k + i) * kGemmPanel + 8 * half, r[i]);
    }
  }
}

}  // namespace

void gemm_pack_s8_x86_avx2(const GemmPackS8Args& g) {
  const size_t panel_bytes = gemm_s8_panel_bytes(1, g.k);
  const __m256i factor = _mm256_set1_epi32(g.bias_factor);
  for (uint32_t c = 0; c < g.n; c += kGemmPanel) {
    const uint32_t columns = g.n - c < kGemmPanel ? g.n - c : kGemmPanel;
    const Bytes16 s{static_cast<const uint8_t*>(g.b) + static_cast<size_t>(c) * g.n_stride,
                    _mm_set1_epi8(static_cast<char>(g.flip))};
    PanelOut out{g.packed + c / kGemmPanel * panel_bytes, _mm256_setzero_si256(), _mm256_setzero_si256()};
    if (g.k_stride == 1) {
      pack_columns(g, s, columns, &out);
    } else {
      pack_rows(g, s, columns, &out);
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(g.bias + c), _mm256_mullo_epi32(out.low, factor));
    _mm256_store_si256(reinterpret_cast<__m256i*>(g.bias + c + 8), _mm256_mullo_epi32(out.high, factor));
  }
}

void gemm_pack_f32_x86_avx2(const GemmPackF32Args& g) {
  for (uint32_t c = 0; c < g.n; c += kGemmPanel) {
    const uint32_t columns = g.n - c < kGemmPanel ? g.n - c : kGemmPanel;
    const float* b = g.b + static_cast<size_t>(c) * g.n_stride;
    float* packed = g.packed + static_cast<size_t>(c / kGemmPanel) * g.k * kGemmPanel;
    if (g.k_stride == 1) {
      pack_float_columns(g, b, columns, packed);
    } else {
      pack_float_rows(g, b, columns, packed);
    }
  }
}

}  // namespace lathe::kernels
