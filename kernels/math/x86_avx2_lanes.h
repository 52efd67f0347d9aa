// Vectors of eight lanes for the AVX2 files of the elementwise, pooling and softmax families: what their loops (simd_*.h) are
// written in.
//
// Only x86_avx2.cc files include this. Everything is in an anonymous namespace and inlined: an ISA archive may hold no weak
// symbol.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include <xsimd/xsimd.hpp>

namespace lathe::kernels {
namespace {

struct Lanes {
  static constexpr uint32_t kWidth = 8;
  using Arch = xsimd::fma3<xsimd::avx2>;
  using F = xsimd::batch<float, Arch>;
  using I = xsimd::batch<int32_t, Arch>;

  // All lanes, or the first n of them.
  struct Whole {};
  struct Part {
    uint32_t n;
  };

  static __m256i mask(Part p) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(p.n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F load(const float* p, Whole) { return _mm256_loadu_ps(p); }
  static F load(const float* p, Part n) { return _mm256_maskload_ps(p, mask(n)); }
  static void store(float* p, F v, Whole) { _mm256_storeu_ps(p, v); }
  static void store(float* p, F v, Part n) { _mm256_maskstore_ps(p, mask(n), v); }
  static void store(int32_t* p, I v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  // v where `m` holds, `other` elsewhere.
  static F select(F::batch_bool_type m, F v, F other) { return xsimd::select(m, v, other); }
  // v where there are lanes, `other` in the rest.
  static F keep(F v, F, Whole) { return v; }
  static F keep(F v, F other, Part n) { return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(mask(n))); }

  static I keep(I v, I, Whole) { return v; }
  static I keep(I v, I other, Part n) { return _mm256_blendv_epi8(other, v, mask(n)); }

  // Bytes as int32, every byte xor `flip` first; kUnsigned says how they extend.
  template <bool kUnsigned> static I widen(__m128i bytes, uint32_t flip) {
    const __m128i v = _mm_xor_si128(bytes, _mm_set1_epi8(static_cast<char>(flip)));
    return kUnsigned ? _mm256_cvtepu8_epi32(v) : _mm256_cvtepi8_epi32(v);
  }
  template <bool kUnsigned> static I load8(const uint8_t* p, uint32_t flip, Whole) {
    return widen<kUnsigned>(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), flip);
  }
  template <bool kUnsigned> static I load8(const uint8_t* p, uint32_t flip, Part n) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n.n; ++i) bytes |= static_cast<uint64_t>(p[i]) << (8 * i);
    return widen<kUnsigned>(_mm_cvtsi64_si128(static_cast<long long>(bytes)), flip);
  }
  // The low byte of every lane.
  static uint64_t low_bytes(I v) {
    const __m256i pick = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1,
                                          -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i b = _mm256_shuffle_epi8(v, pick);
    return static_cast<uint64_t>(
        _mm_cvtsi128_si64(_mm_unpacklo_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1))));
  }
  static void store8(uint8_t* p, I v, Whole) {
    const uint64_t bytes = low_bytes(v);
    __builtin_memcpy(p, &bytes, 8);
  }
  static void store8(uint8_t* p, I v, Part n) {
    const uint64_t bytes = low_bytes(v);
    for (uint32_t i = 0; i < n.n; ++i) p[i] = static_cast<uint8_t>(bytes >> (8 * i));
  }

  static F to_float(I v) { return _mm256_cvtepi32_ps(v); }
  // Half to even. Requires: |v| < 2^31.
  static I round(F v) { return _mm256_cvtps_epi32(v); }
  // v > a ? v : a and v < a ? v : a: with a NaN the second operand.
  static F max(F v, F a) { return _mm256_max_ps(v, a); }
  static F min(F v, F a) { return _mm256_min_ps(v, a); }
  // min(max(v, lo), hi) for limits that are numbers: a NaN gives lo.
  static F limit(F v, F lo, F hi) { return min(max(v, lo), hi); }
  static I max(I a, I b) { return _mm256_max_epi32(a, b); }
  // a * b + c and c - a * b, rounded once.
  static F mul_add(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F neg_mul_add(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  static F sqrt(F v) { return _mm256_sqrt_ps(v); }
  static float sqrt_one(float v) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v))); }
  // 2^k. Requires: -126 <= k <= 127.
  static F exp2(I k) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(k, _mm256_set1_epi32(127)), 23)); }
  // e * 2^n. Requires: n is an integer, |n| <= 252.
  static F times_exp2(F e, F n) {
    // Two factors, because 2^n itself may be infinite or denormal while e * 2^n is not.
    const I k = round(n), half = _mm256_srai_epi32(k, 1);
    return e * exp2(half) * exp2(k - half);
  }
  // e with the low nine bits of `shifted` added to its exponent. Requires: the result is normal.
  static F add_exponent(F e, F shifted) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(e), _mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
  }
  // 0 where x < limit, else v.
  static F zero_below(F v, F x, F limit) { return _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), v); }
  // A tree over the lanes.
  static float sum_lanes(F v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float max_lanes(F v) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  static F abs(F v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
  // The size of `v` with the sign of `sign`. Requires: v >= 0.
  static F with_sign(F v, F sign) { return _mm256_or_ps(v, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f))); }

  // Bytes a block of four vectors at a time. Unpacking bytes and packing results lane by lane undo one another, so that a block
  // that goes from bytes to bytes needs no permutation; `in_order` is for blocks that meet floats in memory.
  static constexpr uint32_t kBlock = 4 * kWidth;

  // q - zero of 32 bytes q, every byte xor `flip` first: the bits 0x4b000000 + u are the float 2^23 + u, and s8 is u - 128.
  template <bool kUnsigned> struct BlockIn {
    __m256i flips;
    __m256 bias;
    BlockIn(uint32_t flip, int32_t zero)
        : flips(_mm256_set1_epi8(static_cast<char>(flip ^ (kUnsigned ? 0u : 0x80u)))),
          bias(_mm256_set1_ps(static_cast<float>(0x800000 + zero + (kUnsigned ? 0 : 128)))) {}
    [[gnu::always_inline]] void operator()(const uint8_t* p, F* out) const {
      const __m256i none = _mm256_setzero_si256(), top = _mm256_set1_epi16(0x4b00);
      const __m256i u = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), flips);
      const __m256i low = _mm256_unpacklo_epi8(u, none), high = _mm256_unpackhi_epi8(u, none);
      out[0] = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_unpacklo_epi16(low, top)), bias);
      out[1] = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_unpackhi_epi16(low, top)), bias);
      out[2] = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_unpacklo_epi16(high, top)), bias);
      out[3] = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_unpackhi_epi16(high, top)), bias);
    }
    [[gnu::always_inline]] void in_order(const uint8_t* p, F* out) const {
      const __m256i turn =
          _mm256_or_si256(_mm256_set1_epi32(0x4b000000), _mm256_and_si256(flips, _mm256_set1_epi32(0xff)));
      for (uint32_t v = 0; v < 4; ++v) {
        const __m256i u = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * v)));
        out[v] = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_xor_si256(u, turn)), bias);
      }
    }
  };

  // R(v, z) of a block. The upper limit is applied before the conversion, which turns an overflow and NaN into INT_MIN; that and
  // what lies below saturates while packing, so that the lower limit is one byte maximum.
  template <bool kUnsigned> struct BlockOut {
    __m256 hi;
    __m256i lo, zero;
    BlockOut(int32_t z, int32_t q_lo, int32_t q_hi)
        : hi(_mm256_set1_ps(static_cast<float>(q_hi - z))),
          lo(_mm256_set1_epi8(static_cast<char>(q_lo))),
          zero(_mm256_set1_epi16(static_cast<int16_t>(z))) {}
    [[gnu::always_inline]] __m256i packed(const F* v) const {
      const auto round = [&](__m256 f) __attribute__((always_inline)) { return _mm256_cvtps_epi32(_mm256_min_ps(hi, f)); };
      const __m256i a = _mm256_adds_epi16(_mm256_packs_epi32(round(v[0]), round(v[1])), zero);
      const __m256i b = _mm256_adds_epi16(_mm256_packs_epi32(round(v[2]), round(v[3])), zero);
      return kUnsigned ? _mm256_max_epu8(_mm256_packus_epi16(a, b), lo) : _mm256_max_epi8(_mm256_packs_epi16(a, b), lo);
    }
    [[gnu::always_inline]] void operator()(uint8_t* p, const F* v) const {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed(v));
    }
    [[gnu::always_inline]] void in_order(uint8_t* p, const F* v) const {
      const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(packed(v), order));
    }
  };
};

// The sum of 8 lanes modulo 2^32.
inline uint32_t sum_u32(__m256i v) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
}

// The sum of what psadbw leaves.
inline uint32_t sum_u64(__m256i v) {
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  return static_cast<uint32_t>(_mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1));
}

}  // namespace
}  // namespace lathe::kernels
