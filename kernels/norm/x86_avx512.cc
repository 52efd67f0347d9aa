// Layer normalization for AVX-512.
#include "kernels/math/x86_avx512_lanes.h"

#include "kernels/norm/simd_loops.h"

namespace lathe::kernels {
namespace {

// psadbw adds the bytes, pmaddwd their squares.
RowSums row_sums(const uint8_t* x, uint32_t n, uint8_t flip) {
  const __m512i zero = _mm512_setzero_si512(), flips = _mm512_set1_epi8(static_cast<char>(flip));
  __m512i sums = zero, squares = zero;
  for (uint32_t i = 0; i < n; i += 64) {
    const __mmask64 lanes = n - i < 64 ? (uint64_t{1} << (n - i)) - 1 : ~uint64_t{0};
    const __m512i v = _mm512_maskz_mov_epi8(lanes, _mm512_xor_si512(_mm512_maskz_loadu_epi8(lanes, x + i), flips));
    const __m512i low = _mm512_unpacklo_epi8(v, zero), high = _mm512_unpackhi_epi8(v, zero);
    sums = _mm512_add_epi64(sums, _mm512_sad_epu8(v, zero));
    squares = _mm512_add_epi32(squares, _mm512_add_epi32(_mm512_madd_epi16(low, low), _mm512_madd_epi16(high, high)));
  }
  return {static_cast<uint32_t>(_mm512_reduce_add_epi64(sums)), sum_u32(squares)};
}

}  // namespace

void layer_norm_f32_x86_avx512(const LayerNormF32Args& a) { layer_norm_f32<Lanes>(a); }
void layer_norm_s8_x86_avx512(const LayerNormS8Args& a) {
  layer_norm_8<Lanes, false>(a, [](const uint8_t* x, uint32_t n) { return row_sums(x, n, 0x80); });
}
void layer_norm_u8_x86_avx512(const LayerNormS8Args& a) {
  layer_norm_8<Lanes, true>(a, [](const uint8_t* x, uint32_t n) { return row_sums(x, n, 0); });
}

}  // namespace lathe::kernels
