// Requantization of four vectors of accumulators to 64 bytes, equal to lathe/arith.h bit for bit. For the AVX-512 files of the
// gemm and dwconv families only.
//
// R(v, z) = rne(min(max(v, lo - z), hi - z)) + z. The upper bound is applied in float, before the conversion, because the
// conversion turns an overflow into INT_MIN; below, INT_MIN saturates in the right direction, so that the lower bound is one byte
// maximum after packing: both bounds are integers and rounding is monotonic, so the order does not change the value. Packing to
// 16 bits and adding z there saturates beyond every 8-bit bound. Where no product reaches 2^31 (is_bounded), the upper bound in
// float can go (convert without round_scaled): one byte minimum after packing does its work.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace lathe::kernels {
namespace {

struct Requantize {
  __m512 hi;     // hi - z
  __m512i lo, hi_bytes;
  __m512i zero;  // z in 16 bits
  __m512 residual_scale;
  __m512i residual_zero;
  __m512i lane_order;  // undoes the packs: dword 4 i + j of the result comes from lane j, vector i
};

inline __attribute__((always_inline)) Requantize make_requantize(int32_t z, int32_t lo, int32_t hi, float residual_scale,
                                                                 int32_t residual_zero) {
  Requantize q;
  q.hi = _mm512_set1_ps(static_cast<float>(hi - z));
  q.lo = _mm512_set1_epi8(static_cast<char>(lo));
  q.hi_bytes = _mm512_set1_epi8(static_cast<char>(hi));
  q.zero = _mm512_set1_epi16(static_cast<int16_t>(z));
  q.residual_scale = _mm512_set1_ps(residual_scale);
  q.residual_zero = _mm512_set1_epi32(residual_zero);
  q.lane_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return q;
}

inline __attribute__((always_inline)) __m512i round_scaled(const Requantize& q, __m512 v) {
  return _mm512_cvtps_epi32(_mm512_min_ps(v, q.hi));
}

// float(r - z_r) * m_r of 16 bytes of u8.
inline __attribute__((always_inline)) __m512 residual16(const Requantize& q, const uint8_t* residual) {
  const __m512i r =
      _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(residual))), q.residual_zero);
  return _mm512_mul_ps(_mm512_cvtepi32_ps(r), q.residual_scale);
}

// float(acc) * m, rounded; `residual`: null or 16 bytes of u8.
inline __attribute__((always_inline)) __m512i requantize16(const Requantize& q, __m512i acc, __m512 scale,
                                                           const uint8_t* residual) {
  __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), scale);
  if (residual != nullptr) v = _mm512_add_ps(v, residual16(q, residual));
  return round_scaled(q, v);
}

// Four rounded vectors to u8, in two steps: dwords to 16 bits, then to clamped bytes.
inline __attribute__((always_inline)) __m512i pack_words(const Requantize& q, __m512i v0, __m512i v1) {
  return _mm512_adds_epi16(_mm512_packs_epi32(v0, v1), q.zero);
}
inline __attribute__((always_inline)) __m512i pack_bytes(const Requantize& q, __m512i words0, __m512i words1) {
  return _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(words0, words1), q.lo), q.hi_bytes);
}

// Both: 128-bit lane j of the result holds dwords 4 j .. 4 j + 3 of v0, then of v1, v2, v3.
inline __attribute__((always_inline)) __m512i pack_lanes(const Requantize& q, __m512i v0, __m512i v1, __m512i v2, __m512i v3) {
  return pack_bytes(q, pack_words(q, v0, v1), pack_words(q, v2, v3));
}

// Whether no accumulator times one of these multipliers, plus a residual, reaches 2^31: |acc| <= 2^31, |r - z_r| < 2^9.
inline __attribute__((always_inline)) bool is_bounded(__m512 scale, float residual_scale) {
  return _mm512_cmp_ps_mask(scale, _mm512_set1_ps(0.5f), _CMP_NLE_UQ) == 0 && residual_scale < 1048576.0f;
}

// pack_lanes in order: v0's 16 bytes, then v1's, v2's, v3's.
inline __attribute__((always_inline)) __m512i pack_ordered(const Requantize& q, __m512i v0, __m512i v1, __m512i v2, __m512i v3) {
  return _mm512_permutexvar_epi32(q.lane_order, pack_lanes(q, v0, v1, v2, v3));
}

}  // namespace
}  // namespace lathe::kernels
