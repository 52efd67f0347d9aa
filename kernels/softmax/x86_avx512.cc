// Softmax for AVX-512.
#include "kernels/math/x86_avx512_lanes.h"

#include "kernels/softmax/simd_loops.h"

namespace lathe::kernels {
namespace {

// The 256 terms in eight registers.
struct Table {
  static constexpr uint32_t kChunk = 64;
  using Vector = __m512i;
  struct Terms {
    __m512i even, odd;  // words: of the even and the odd bytes
    [[gnu::always_inline]] Terms(__m512i first, __m512i second) : even(first), odd(second) {}
    [[gnu::always_inline]] explicit Terms(const __m512i* kept)
        : even(_mm512_load_si512(kept)), odd(_mm512_load_si512(kept + 1)) {}
    [[gnu::always_inline]] void store(__m512i* kept) const {
      _mm512_store_si512(kept, even);
      _mm512_store_si512(kept + 1, odd);
    }
  };
  using Sums = __m512i;

  struct Whole {
    static __m512i load(const uint8_t* p, __m512i) { return _mm512_loadu_si512(p); }
    static void store(uint8_t* p, __m512i v) { _mm512_storeu_si512(p, v); }
  };
  struct Part {
    __mmask64 lanes;
    explicit Part(uint32_t n) : lanes((uint64_t{1} << n) - 1) {}
    __m512i load(const uint8_t* p, __m512i other) const { return _mm512_mask_loadu_epi8(other, lanes, p); }
    void store(uint8_t* p, __m512i v) const { _mm512_mask_storeu_epi8(p, lanes, v); }
  };

  explicit Table(const uint16_t* table) {
    for (int i = 0; i < 8; ++i) part_[i] = _mm512_xor_si512(_mm512_loadu_si512(table + 32 * i), _mm512_set1_epi16(-0x8000));
  }

  [[gnu::always_inline]] Terms terms(__m512i x, __m512i top, Whole) const {
    const __m512i distance = _mm512_sub_epi8(top, x);
    return {look_up(_mm512_and_si512(distance, _mm512_set1_epi16(0xff))), look_up(_mm512_srli_epi16(distance, 8))};
  }
  [[gnu::always_inline]] Terms terms(__m512i x, __m512i top, Part part) const {
    const Terms t = terms(x, top, Whole{});
    const __m512i there = _mm512_movm_epi8(part.lanes), none = _mm512_set1_epi16(-0x8000);
    return {_mm512_mask_mov_epi16(none, _mm512_test_epi16_mask(there, _mm512_set1_epi16(0xff)), t.even),
            _mm512_mask_mov_epi16(none, _mm512_movepi16_mask(there), t.odd)};
  }

  [[gnu::always_inline]] static void add(Sums& sums, Terms t) {
    const __m512i one = _mm512_set1_epi16(1);
    sums = _mm512_add_epi32(sums, _mm512_add_epi32(_mm512_madd_epi16(t.even, one), _mm512_madd_epi16(t.odd, one)));
  }
  static uint32_t total(Sums sums) { return sum_u32(sums); }

  template <bool kUnsigned> static __m512i lowest() { return _mm512_set1_epi8(kUnsigned ? 0 : -128); }
  template <bool kUnsigned> static __m512i max(__m512i a, __m512i b) {
    return kUnsigned ? _mm512_max_epu8(a, b) : _mm512_max_epi8(a, b);
  }
  // Turned into descending unsigned bytes first: then VPHMINPOSUW finds it.
  template <bool kUnsigned> [[gnu::always_inline]] static __m512i broadcast_largest(__m512i v) {
    const __m512i reverse = _mm512_set1_epi8(kUnsigned ? -1 : 0x7f);
    v = _mm512_xor_si512(v, reverse);
    const __m256i half = _mm256_min_epu8(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    const __m128i quarter = _mm_min_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i least = _mm_minpos_epu16(_mm_min_epu8(quarter, _mm_srli_epi16(quarter, 8)));
    return _mm512_xor_si512(_mm512_broadcastb_epi8(least), reverse);
  }

  template <bool kUnsigned> [[gnu::always_inline]] static __m512i scaled(Terms t, float scale) {
    const __m512i bytes = _mm512_or_si512(scaled_words(t.even, scale), _mm512_slli_epi16(scaled_words(t.odd, scale), 8));
    return kUnsigned ? bytes : _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
  }

 private:
  // Terms of the 32 words of `index`, each below 256. VPERMI2W looks a word's low six bits up in two registers, and the result
  // takes the index's place where the mask allows: two of them look up a half of the table, each at the indices of its quarter.
  [[gnu::always_inline]] __m512i look_up(__m512i index) const {
    const __mmask32 bit6 = _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x40)),
                    bit7 = _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x80));
    return _mm512_mask_blend_epi16(bit7, half(0, index, bit6), half(4, index, bit6));
  }
  [[gnu::always_inline]] __m512i half(int first, __m512i index, __mmask32 bit6) const {
    const __m512i v = _mm512_mask2_permutex2var_epi16(part_[first], index, ~bit6, part_[first + 1]);
    return _mm512_mask2_permutex2var_epi16(part_[first + 2], v, bit6, part_[first + 3]);
  }

  // rne(t * scale), at most 255: low words of the pairs as they are, high ones as multiples of 2^16. t * scale is at most 256 and
  // a little, so that clamping after rounding gives the same.
  [[gnu::always_inline]] static __m512i scaled_words(__m512i terms, float scale) {
    const __m512i half = _mm512_set1_epi32(0xffff), flip = _mm512_set1_epi16(-0x8000);
    const __m512i low = _mm512_ternarylogic_epi32(terms, flip, half, 0x28);   // (terms ^ flip) & half
    const __m512i high = _mm512_ternarylogic_epi32(terms, flip, half, 0x14);  // (terms ^ flip) & ~half
    const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(low), _mm512_set1_ps(scale)));
    const __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepu32_ps(high), _mm512_set1_ps(scale * 0x1p-16f)));
    return _mm512_min_epu16(_mm512_or_si512(a, _mm512_slli_epi32(b, 16)), _mm512_set1_epi16(255));
  }

  __m512i part_[8];
};

}  // namespace
}  // namespace lathe::kernels

#include "kernels/softmax/x86_rows.h"

namespace lathe::kernels {

void softmax_f32_x86_avx512(const SoftmaxF32Args& g) { softmax_f32<Lanes>(g); }
void softmax_s8_x86_avx512(const SoftmaxS8Args& g) { softmax_table_8<false>(g); }
void softmax_u8_x86_avx512(const SoftmaxS8Args& g) { softmax_table_8<true>(g); }

}  // namespace lathe::kernels
