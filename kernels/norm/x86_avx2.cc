// Layer normalization for AVX2.
#include "kernels/math/x86_avx2_lanes.h"

#include "kernels/norm/simd_loops.h"

namespace lathe::kernels {
namespace {

// psadbw adds the bytes, pmaddwd their squares.
RowSums row_sums(const uint8_t* x, uint32_t n, uint8_t flip) {
  const __m256i zero = _mm256_setzero_si256(), flips = _mm256_set1_epi8(static_cast<char>(flip));
  __m256i sums = zero, squares = zero;
  uint32_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i v = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)), flips);
    const __m256i low = _mm256_unpacklo_epi8(v, zero), high = _mm256_unpackhi_epi8(v, zero);
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(v, zero));
    squares = _mm256_add_epi32(squares, _mm256_add_epi32(_mm256_madd_epi16(low, low), _mm256_madd_epi16(high, high)));
  }
  RowSums s{sum_u64(sums), sum_u32(squares)};
  for (; i < n; ++i) {
    const uint32_t q = x[i] ^ flip;
    s.sum += q;
    s.squares += q * q;
  }
  return s;
}

}  // namespace

void layer_norm_f32_x86_avx2(const LayerNormF32Args& a) { layer_norm_f32<Lanes>(a); }
void layer_norm_s8_x86_avx2(const LayerNormS8Args& a) {
  layer_norm_8<Lanes, false>(a, [](const uint8_t* x, uint32_t n) { return row_sums(x, n, 0x80); });
}
void layer_norm_u8_x86_avx2(const LayerNormS8Args& a) {
  layer_norm_8<Lanes, true>(a, [](const uint8_t* x, uint32_t n) { return row_sums(x, n, 0); });
}

}  // namespace lathe::kernels
