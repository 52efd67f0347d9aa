// Softmax for AVX2.
#include "kernels/math/x86_avx2_lanes.h"

#include "kernels/softmax/simd_loops.h"

namespace lathe::kernels {
namespace {

// The 256 terms as rows of 16, their low and their high bytes. PSHUFB looks an index's low four bits up, and gives 0 where its
// top bit is set. Every row is kept as its difference (xor) from the one before, and every step takes 16 from the index: an
// index has then met all rows up to its own, whose xor is that row, when it turns negative. Indices from 128 on go through the
// upper rows in the same way. Rows of zeros at the end are left out.
struct Table {
  static constexpr uint32_t kChunk = 32;
  using Vector = __m256i;
  struct Terms {
    __m256i low, high;  // words: of bytes 0 .. 7, 16 .. 23, and others
    [[gnu::always_inline]] Terms(__m256i first, __m256i second) : low(first), high(second) {}
    [[gnu::always_inline]] explicit Terms(const __m256i* kept)
        : low(_mm256_load_si256(kept)), high(_mm256_load_si256(kept + 1)) {}
    [[gnu::always_inline]] void store(__m256i* kept) const {
      _mm256_store_si256(kept, low);
      _mm256_store_si256(kept + 1, high);
    }
  };
  using Sums = __m256i;

  struct Whole {
    static __m256i load(const uint8_t* p, __m256i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
    static void store(uint8_t* p, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  };
  struct Part {
    uint32_t n;
    explicit Part(uint32_t count) : n(count) {}
    __m256i load(const uint8_t* p, __m256i other) const {
      alignas(32) uint8_t bytes[kChunk];
      _mm256_store_si256(reinterpret_cast<__m256i*>(bytes), other);
      for (uint32_t i = 0; i < n; ++i) bytes[i] = p[i];
      return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
    }
    void store(uint8_t* p, __m256i v) const {
      alignas(32) uint8_t bytes[kChunk];
      _mm256_store_si256(reinterpret_cast<__m256i*>(bytes), v);
      for (uint32_t i = 0; i < n; ++i) p[i] = bytes[i];
    }
    __m256i mask() const {
      const __m256i place = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                                             24, 25, 26, 27, 28, 29, 30, 31);
      return _mm256_cmpgt_epi8(_mm256_set1_epi8(static_cast<char>(n)), place);
    }
  };

  explicit Table(const uint16_t* table) : rows_(16) {
    while (rows_ > 1 && is_zero(table + 16 * (rows_ - 1))) --rows_;
    if (rows_ < 16) ++rows_;  // one that ends the last
    const __m256i low_byte = _mm256_set1_epi16(0xff);
    __m256i before_low = _mm256_setzero_si256(), before_high = before_low;
    for (uint32_t r = 0; r < rows_; ++r) {
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table + 16 * r));
      const __m256i low = row(_mm256_and_si256(words, low_byte)), high = row(_mm256_srli_epi16(words, 8));
      low_[r] = r == 8 ? low : _mm256_xor_si256(low, before_low);
      high_[r] = r == 8 ? high : _mm256_xor_si256(high, before_high);
      before_low = low;
      before_high = high;
    }
  }

  [[gnu::always_inline]] Terms terms(__m256i x, __m256i top, Whole) const {
    __m256i low, high;
    look_up(_mm256_sub_epi8(top, x), &low, &high);
    return words(low, high);
  }
  [[gnu::always_inline]] Terms terms(__m256i x, __m256i top, Part part) const {
    __m256i low, high;
    look_up(_mm256_sub_epi8(top, x), &low, &high);
    return words(_mm256_and_si256(low, part.mask()), _mm256_and_si256(high, part.mask()));
  }

  [[gnu::always_inline]] static void add(Sums& sums, Terms t) {
    const __m256i one = _mm256_set1_epi16(1);
    sums = _mm256_add_epi32(sums, _mm256_add_epi32(_mm256_madd_epi16(t.low, one), _mm256_madd_epi16(t.high, one)));
  }
  static uint32_t total(Sums sums) { return sum_u32(sums); }

  template <bool kUnsigned> static __m256i lowest() { return _mm256_set1_epi8(kUnsigned ? 0 : -128); }
  template <bool kUnsigned> static __m256i max(__m256i a, __m256i b) {
    return kUnsigned ? _mm256_max_epu8(a, b) : _mm256_max_epi8(a, b);
  }
  // Turned into descending unsigned bytes first: then PHMINPOSUW finds it.
  template <bool kUnsigned> [[gnu::always_inline]] static __m256i broadcast_largest(__m256i v) {
    const __m256i reverse = _mm256_set1_epi8(kUnsigned ? -1 : 0x7f);
    v = _mm256_xor_si256(v, reverse);
    const __m128i half = _mm_min_epu8(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i least = _mm_minpos_epu16(_mm_min_epu8(half, _mm_srli_epi16(half, 8)));
    return _mm256_xor_si256(_mm256_broadcastb_epi8(least), reverse);
  }

  // Packing saturates at 255: t * scale is at most 256 and a little, so that clamping after rounding gives the same.
  template <bool kUnsigned> [[gnu::always_inline]] static __m256i scaled(Terms t, float scale) {
    const __m256i bytes = _mm256_packus_epi16(scaled_words(t.low, scale), scaled_words(t.high, scale));
    return kUnsigned ? bytes : _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
  }

 private:
  static bool is_zero(const uint16_t* table) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table));
    return _mm256_testz_si256(v, v) != 0;
  }
  // The low bytes of 16 words, in both halves.
  static __m256i row(__m256i words) {
    return _mm256_broadcastsi128_si256(_mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }

  [[gnu::always_inline]] void look_up(__m256i index, __m256i* low, __m256i* high) const {
    const __m256i step = _mm256_set1_epi8(16);
    *low = *high = _mm256_setzero_si256();
    const auto pass = [&](uint32_t begin, uint32_t end, __m256i at) __attribute__((always_inline)) {
      // Unrolled, it would copy the rows about: there are more than registers.
#pragma GCC unroll 1
      for (uint32_t r = begin; r < end; ++r) {
        *low = _mm256_xor_si256(*low, _mm256_shuffle_epi8(low_[r], at));
        *high = _mm256_xor_si256(*high, _mm256_shuffle_epi8(high_[r], at));
        at = _mm256_subs_epi8(at, step);
      }
    };
    pass(0, rows_ < 8 ? rows_ : 8, index);
    if (rows_ > 8) pass(8, rows_, _mm256_xor_si256(index, _mm256_set1_epi8(-128)));
  }
  // Words less 2^15.
  [[gnu::always_inline]] static Terms words(__m256i low, __m256i high) {
    high = _mm256_xor_si256(high, _mm256_set1_epi8(-128));
    return {_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)};
  }
  // rne(t * scale) of both halves of every pair.
  [[gnu::always_inline]] static __m256i scaled_words(__m256i terms, float scale) {
    const __m256i t = _mm256_xor_si256(terms, _mm256_set1_epi16(-0x8000));
    const __m256 factor = _mm256_set1_ps(scale);
    const __m256i low = _mm256_and_si256(t, _mm256_set1_epi32(0xffff)), high = _mm256_srli_epi32(t, 16);
    const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(low), factor));
    const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(high), factor));
    return _mm256_or_si256(a, _mm256_slli_epi32(b, 16));
  }

  uint32_t rows_;
  __m256i low_[16], high_[16];
};

}  // namespace
}  // namespace lathe::kernels

#include "kernels/softmax/x86_rows.h"

namespace lathe::kernels {

void softmax_f32_x86_avx2(const SoftmaxF32Args& g) { softmax_f32<Lanes>(g); }
void softmax_s8_x86_avx2(const SoftmaxS8Args& g) { softmax_table_8<false>(g); }
void softmax_u8_x86_avx2(const SoftmaxS8Args& g) { softmax_table_8<true>(g); }

}  // namespace lathe::kernels
