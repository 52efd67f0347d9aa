// Loads and stores of 16 floats as they lie in memory: float, or half precision. For AVX-512 files only.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace lathe::kernels {
namespace {

inline __attribute__((always_inline)) __m512 load16(const float* p) { return _mm512_loadu_ps(p); }
inline __attribute__((always_inline)) __m512 load16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline __attribute__((always_inline)) void store16(float* p, __m512 v, __mmask16 mask) {
  if (mask == 0xffff) {
    _mm512_storeu_ps(p, v);
  } else {
    _mm512_mask_storeu_ps(p, mask, v);
  }
}
inline __attribute__((always_inline)) void store16(uint16_t* p, __m512 v, __mmask16 mask) {
  const __m256i halves = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  if (mask == 0xffff) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), halves);
  } else {
    _mm256_mask_storeu_epi16(p, mask, halves);
  }
}

}  // namespace
}  // namespace lathe::kernels
