// Requantization of accumulators to u8, equal to lathe/arith.h bit for bit. For the AVX2 files of the gemm and dwconv families
// only; the algebra is in requantize_x86_avx512.h.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace lathe::kernels {
namespace {

struct Requantize {
  __m256 hi;     // hi - z
  __m256i lo;    // bytes
  __m256i zero;  // z in 16 bits
  __m256 residual_scale;
  __m256i residual_zero;
  __m256i lane_order;  // undoes the packs
};

inline __attribute__((always_inline)) Requantize make_requantize(int32_t z, int32_t lo, int32_t hi, float residual_scale,
                                                                 int32_t residual_zero) {
  Requantize q;
  q.hi = _mm256_set1_ps(static_cast<float>(hi - z));
  q.lo = _mm256_set1_epi8(static_cast<char>(lo));
  q.zero = _mm256_set1_epi16(static_cast<int16_t>(z));
  q.residual_scale = _mm256_set1_ps(residual_scale);
  q.residual_zero = _mm256_set1_epi32(residual_zero);
  q.lane_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return q;
}

inline __attribute__((always_inline)) __m256i round_scaled(const Requantize& q, __m256 v) {
  return _mm256_cvtps_epi32(_mm256_min_ps(v, q.hi));
}

// float(r - z_r) * m_r of 8 bytes of u8.
inline __attribute__((always_inline)) __m256 residual8(const Requantize& q, const uint8_t* residual) {
  const __m256i r =
      _mm256_sub_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(residual))), q.residual_zero);
  return _mm256_mul_ps(_mm256_cvtepi32_ps(r), q.residual_scale);
}

// float(acc) * m, rounded; `residual`: null or 8 bytes of u8.
inline __attribute__((always_inline)) __m256i requantize8(const Requantize& q, __m256i acc, __m256 scale,
                                                          const uint8_t* residual) {
  __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale);
  if (residual != nullptr) v = _mm256_add_ps(v, residual8(q, residual));
  return round_scaled(q, v);
}

// Four rounded vectors to 32 bytes of u8 in order.
inline __attribute__((always_inline)) __m256i pack_ordered(const Requantize& q, __m256i v0, __m256i v1, __m256i v2, __m256i v3) {
  const __m256i a = _mm256_adds_epi16(_mm256_packs_epi32(v0, v1), q.zero);
  const __m256i b = _mm256_adds_epi16(_mm256_packs_epi32(v2, v3), q.zero);
  return _mm256_permutevar8x32_epi32(_mm256_max_epu8(_mm256_packus_epi16(a, b), q.lo), q.lane_order);
}

// The first `count` <= 32 bytes.
inline __attribute__((always_inline)) void store_bytes(uint8_t* y, __m256i v, uint32_t count) {
  if (count >= 32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), v);
  } else if (count == 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(v));
  } else {
    alignas(32) uint8_t bytes[32];
    _mm256_store_si256(reinterpret_cast<__m256i*>(bytes), v);
    __builtin_memcpy(y, bytes, count);
  }
}

}  // namespace
}  // namespace lathe::kernels
