// Requantization of accumulators to u8, equal to lathe/arith.h bit for bit. For the AVX2 files of the gemm, gemm_sparse and
// dwconv families only; the algebra is in requantize_x86_avx512.h.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace lathe::kernels {
namespace {

struct Requantize {
  __m256 hi;         // hi - z
  __m256i hi_bytes;  // hi
  __m256i lo;        // bytes
  __m256i zero;      // z in 16 bits
  __m256 residual_scale;
  __m256i residual_zero;
  __m256i lane_order;  // undoes the packs
};

inline __attribute__((always_inline)) Requantize make_requantize(int32_t z, int32_t lo, int32_t hi, float residual_scale,
                                                                 int32_t residual_zero) {
  Requantize q;
  q.hi = _mm256_set1_ps(static_cast<float>(hi - z));
  q.hi_bytes = _mm256_set1_epi8(static_cast<char>(hi));
  q.lo = _mm256_set1_epi8(static_cast<char>(lo));
  q.zero = _mm256_set1_epi16(static_cast<int16_t>(z));
  q.residual_scale = _mm256_set1_ps(residual_scale);
  q.residual_zero = _mm256_set1_epi32(residual_zero);
  q.lane_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return q;
}

// Whether float(acc) * m converts to int32 whatever acc is, so that `hi` may clamp bytes instead of products: the conversion of a
// larger product would give INT_MIN.
inline __attribute__((always_inline)) bool products_convert(const float* scale, uint32_t n) {
  __m256 most = _mm256_setzero_ps();
  for (uint32_t c = 0; c < n; c += 8) most = _mm256_max_ps(most, _mm256_load_ps(scale + c));
  return _mm256_movemask_ps(_mm256_cmp_ps(most, _mm256_set1_ps(0.5f), _CMP_GT_OQ)) == 0;
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

// The first min(count, 16) bytes. Requires: count > 0. Short counts are two stores that overlap.
inline __attribute__((always_inline)) void store_bytes16(uint8_t* y, __m128i v, uint32_t count) {
  if (count >= 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(y), v);
  const __m128i iota = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const uint32_t part = count >= 8 ? 8 : count >= 4 ? 4 : count >= 2 ? 2 : 1;
  const __m128i last = _mm_shuffle_epi8(v, _mm_add_epi8(iota, _mm_set1_epi8(static_cast<char>(count - part))));
  const int64_t head = _mm_cvtsi128_si64(v), tail = _mm_cvtsi128_si64(last);
  if (part == 8) {
    __builtin_memcpy(y, &head, 8);
    __builtin_memcpy(y + count - 8, &tail, 8);
  } else if (part == 4) {
    __builtin_memcpy(y, &head, 4);
    __builtin_memcpy(y + count - 4, &tail, 4);
  } else if (part == 2) {
    __builtin_memcpy(y, &head, 2);
    __builtin_memcpy(y + count - 2, &tail, 2);
  } else {
    __builtin_memcpy(y, &head, 1);
  }
}

// The first `count` <= 32 bytes. Requires: count > 0.
inline __attribute__((always_inline)) void store_bytes(uint8_t* y, __m256i v, uint32_t count) {
  if (count >= 32) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), v);
  store_bytes16(y, _mm256_castsi256_si128(v), count);
  if (count > 16) store_bytes16(y + 16, _mm256_extracti128_si256(v, 1), count - 16);
}

}  // namespace
}  // namespace lathe::kernels
