// Loads and stores of 8 floats as they lie in memory: float, or half precision. For AVX2 files only.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace lathe::kernels {
namespace {

inline __attribute__((always_inline)) __m256 load8(const float* p) { return _mm256_loadu_ps(p); }
inline __attribute__((always_inline)) __m256 load8(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// The first min(n, 8).
inline __attribute__((always_inline)) void store8(float* p, __m256 v, uint32_t n) {
  if (n >= 8) return _mm256_storeu_ps(p, v);
  alignas(32) float row[8];
  _mm256_store_ps(row, v);
  for (uint32_t i = 0; i < n; ++i) p[i] = row[i];
}
inline __attribute__((always_inline)) void store8(uint16_t* p, __m256 v, uint32_t n) {
  const __m128i halves = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  if (n >= 8) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), halves);
  alignas(16) uint16_t row[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(row), halves);
  for (uint32_t i = 0; i < n; ++i) p[i] = row[i];
}

}  // namespace
}  // namespace lathe::kernels
