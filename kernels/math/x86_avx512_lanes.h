// Vectors of sixteen lanes for the AVX-512 files: the counterpart of x86_avx2_lanes.h, with masks for partial vectors.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include <xsimd/xsimd.hpp>

namespace lathe::kernels {
namespace {

struct Lanes {
  static constexpr uint32_t kWidth = 16;
  using Arch = xsimd::avx512bw;
  using F = xsimd::batch<float, Arch>;
  using I = xsimd::batch<int32_t, Arch>;

  struct Whole {};
  struct Part {
    uint32_t n;
  };

  static __mmask16 mask(Part p) { return static_cast<__mmask16>((1u << p.n) - 1); }
  static F load(const float* p, Whole) { return _mm512_loadu_ps(p); }
  static F load(const float* p, Part n) { return _mm512_maskz_loadu_ps(mask(n), p); }
  static void store(float* p, F v, Whole) { _mm512_storeu_ps(p, v); }
  static void store(float* p, F v, Part n) { _mm512_mask_storeu_ps(p, mask(n), v); }
  static void store(int32_t* p, I v) { _mm512_storeu_si512(p, v); }
  static F select(F::batch_bool_type m, F v, F other) { return xsimd::select(m, v, other); }
  static F keep(F v, F, Whole) { return v; }
  static F keep(F v, F other, Part n) { return _mm512_mask_mov_ps(other, mask(n), v); }
  static I keep(I v, I, Whole) { return v; }
  static I keep(I v, I other, Part n) { return _mm512_mask_mov_epi32(other, mask(n), v); }

  template <bool kUnsigned> static I widen(__m128i bytes, uint32_t flip) {
    const __m128i v = _mm_xor_si128(bytes, _mm_set1_epi8(static_cast<char>(flip)));
    return kUnsigned ? _mm512_cvtepu8_epi32(v) : _mm512_cvtepi8_epi32(v);
  }
  template <bool kUnsigned> static I load8(const uint8_t* p, uint32_t flip, Whole) {
    return widen<kUnsigned>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), flip);
  }
  template <bool kUnsigned> static I load8(const uint8_t* p, uint32_t flip, Part n) {
    return widen<kUnsigned>(_mm_maskz_loadu_epi8(mask(n), p), flip);
  }
  static void store8(uint8_t* p, I v, Whole) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v)); }
  static void store8(uint8_t* p, I v, Part n) { _mm_mask_storeu_epi8(p, mask(n), _mm512_cvtepi32_epi8(v)); }

  static F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  static I round(F v) { return _mm512_cvtps_epi32(v); }
  static F max(F v, F a) { return _mm512_max_ps(v, a); }
  static F min(F v, F a) { return _mm512_min_ps(v, a); }
  static F limit(F v, F lo, F hi) { return min(max(v, lo), hi); }
  static I max(I a, I b) { return _mm512_max_epi32(a, b); }
  static F mul_add(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F neg_mul_add(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static F sqrt(F v) { return _mm512_sqrt_ps(v); }
  static float sqrt_one(float v) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v))); }
  static F times_exp2(F e, F n) { return _mm512_scalef_ps(e, n); }
  static F add_exponent(F e, F shifted) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(e), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
  }
  static F zero_below(F v, F x, F limit) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), v); }
  static float sum_lanes(F v) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float max_lanes(F v) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  static F abs(F v) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), v); }
  static F with_sign(F v, F sign) { return _mm512_or_ps(v, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f))); }

  // Bytes a block of four vectors at a time. Unpacking bytes and packing results lane by lane undo one another, so that a block
  // that goes from bytes to bytes needs no permutation; `in_order` is for blocks that meet floats in memory.
  static constexpr uint32_t kBlock = 4 * kWidth;

  // q - zero of 64 bytes q, every byte xor `flip` first: the bits 0x4b000000 + u are the float 2^23 + u, and s8 is u - 128.
  template <bool kUnsigned> struct BlockIn {
    __m512i flips, magic;
    __m512 bias;
    BlockIn(uint32_t flip, int32_t zero)
        : flips(_mm512_set1_epi8(static_cast<char>(flip ^ (kUnsigned ? 0u : 0x80u)))),
          magic(_mm512_set1_epi32(0x4b000000)),
          bias(_mm512_set1_ps(static_cast<float>(0x800000 + zero + (kUnsigned ? 0 : 128)))) {}
    [[gnu::always_inline]] void operator()(const uint8_t* p, F* out) const {
      const __m512i none = _mm512_setzero_si512(), u = _mm512_xor_si512(_mm512_loadu_si512(p), flips);
      const __m512i low = _mm512_unpacklo_epi8(u, none), high = _mm512_unpackhi_epi8(u, none);
      const __m512i top = _mm512_set1_epi16(0x4b00);
      out[0] = _mm512_sub_ps(_mm512_castsi512_ps(_mm512_unpacklo_epi16(low, top)), bias);
      out[1] = _mm512_sub_ps(_mm512_castsi512_ps(_mm512_unpackhi_epi16(low, top)), bias);
      out[2] = _mm512_sub_ps(_mm512_castsi512_ps(_mm512_unpacklo_epi16(high, top)), bias);
      out[3] = _mm512_sub_ps(_mm512_castsi512_ps(_mm512_unpackhi_epi16(high, top)), bias);
    }
    [[gnu::always_inline]] void in_order(const uint8_t* p, F* out) const {
      const __m512i turn = _mm512_or_si512(magic, _mm512_and_si512(flips, _mm512_set1_epi32(0xff)));
      for (uint32_t v = 0; v < 4; ++v) {
        const __m512i u = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * v)));
        out[v] = _mm512_sub_ps(_mm512_castsi512_ps(_mm512_xor_si512(u, turn)), bias);
      }
    }
  };

  // R(v, z) of a block. The upper limit is applied before the conversion, which turns an overflow and NaN into INT_MIN; that and
  // what lies below saturates while packing, so that the lower limit is one byte maximum.
  template <bool kUnsigned> struct BlockOut {
    __m512 hi;
    __m512i lo, zero;
    BlockOut(int32_t z, int32_t q_lo, int32_t q_hi)
        : hi(_mm512_set1_ps(static_cast<float>(q_hi - z))),
          lo(_mm512_set1_epi8(static_cast<char>(q_lo))),
          zero(_mm512_set1_epi16(static_cast<int16_t>(z))) {}
    [[gnu::always_inline]] __m512i packed(const F* v) const {
      const auto round = [&](__m512 f) __attribute__((always_inline)) { return _mm512_cvtps_epi32(_mm512_min_ps(hi, f)); };
      const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(round(v[0]), round(v[1])), zero);
      const __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(round(v[2]), round(v[3])), zero);
      return kUnsigned ? _mm512_max_epu8(_mm512_packus_epi16(a, b), lo) : _mm512_max_epi8(_mm512_packs_epi16(a, b), lo);
    }
    [[gnu::always_inline]] void operator()(uint8_t* p, const F* v) const { _mm512_storeu_si512(p, packed(v)); }
    [[gnu::always_inline]] void in_order(uint8_t* p, const F* v) const {
      const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
      _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, packed(v)));
    }
  };
};

// The sum of 16 lanes modulo 2^32: _mm512_reduce_add_epi32 adds as signed, where that overflows.
inline uint32_t sum_u32(__m512i v) {
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
}

}  // namespace
}  // namespace lathe::kernels
