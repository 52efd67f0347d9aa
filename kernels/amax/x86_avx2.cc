#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/amax/amax.h"

namespace lathe::kernels {
namespace {

inline __attribute__((always_inline)) __m256 magnitude(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }

// The second operand stands where the first is NaN.
inline __attribute__((always_inline)) __m256 larger(__m256 v, __m256 most) { return _mm256_max_ps(v, most); }

inline float largest_lane(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

float row_amax(const float* x, uint32_t n) {
  __m256 most[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  uint32_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (uint32_t k = 0; k < 4; ++k) most[k] = larger(magnitude(_mm256_loadu_ps(x + i + 8 * k)), most[k]);
  }
  for (; i < n; i += 8) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n - i)), lane);
    most[0] = larger(magnitude(_mm256_maskload_ps(x + i, mask)), most[0]);
  }
  return largest_lane(_mm256_max_ps(_mm256_max_ps(most[0], most[1]), _mm256_max_ps(most[2], most[3])));
}

}  // namespace

void amax_f32_x86_avx2(const AmaxF32Args& g) {
  for (uint32_t r = 0; r < g.rows; ++r) g.y[r] = row_amax(g.x + static_cast<size_t>(r) * g.x_row, g.n);
}

}  // namespace lathe::kernels
