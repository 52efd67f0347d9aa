// Run-time packing with AVX2.
#include <immintrin.h>

#include "kernels/gemm_pack/simd_loops.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

struct Bytes {
  using V = __m128i;
  const uint8_t* b;
  __m128i flip;

  Bytes(const uint8_t* from, uint32_t bits) : b(from), flip(_mm_set1_epi8(static_cast<char>(bits))) {}

  LATHE_INLINE __m128i load(const uint8_t* p, uint32_t count) const {
    if (count == 0) return _mm_setzero_si128();
    const __m128i v = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), flip);
    if (count >= 16) return v;
    const __m128i index = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm_and_si128(v, _mm_cmpgt_epi8(_mm_set1_epi8(static_cast<char>(count)), index));
  }
  static LATHE_INLINE void interleave(const __m128i r[4], __m128i c[4]) {
    const __m128i ab_low = _mm_unpacklo_epi8(r[0], r[1]), ab_high = _mm_unpackhi_epi8(r[0], r[1]);
    const __m128i cd_low = _mm_unpacklo_epi8(r[2], r[3]), cd_high = _mm_unpackhi_epi8(r[2], r[3]);
    c[0] = _mm_unpacklo_epi16(ab_low, cd_low);
    c[1] = _mm_unpackhi_epi16(ab_low, cd_low);
    c[2] = _mm_unpacklo_epi16(ab_high, cd_high);
    c[3] = _mm_unpackhi_epi16(ab_high, cd_high);
  }
  static LATHE_INLINE void transpose4(__m128i r[4]) {
    const __m128i a = _mm_unpacklo_epi32(r[0], r[1]), b = _mm_unpackhi_epi32(r[0], r[1]);
    const __m128i c = _mm_unpacklo_epi32(r[2], r[3]), d = _mm_unpackhi_epi32(r[2], r[3]);
    r[0] = _mm_unpacklo_epi64(a, c);
    r[1] = _mm_unpackhi_epi64(a, c);
    r[2] = _mm_unpacklo_epi64(b, d);
    r[3] = _mm_unpackhi_epi64(b, d);
  }
};

class Panel {
 public:
  explicit Panel(int8_t* packed) : packed_(packed), low_(_mm256_setzero_si256()), high_(_mm256_setzero_si256()) {}

  LATHE_INLINE void put(__m128i c0, __m128i c1, __m128i c2, __m128i c3) {
    const __m256i low = _mm256_set_m128i(c1, c0), high = _mm256_set_m128i(c3, c2);
    _mm256_store_si256(reinterpret_cast<__m256i*>(packed_), low);
    _mm256_store_si256(reinterpret_cast<__m256i*>(packed_ + 32), high);
    low_ = _mm256_add_epi32(low_, quad_sums(low));
    high_ = _mm256_add_epi32(high_, quad_sums(high));
    packed_ += 64;
  }
  void store_bias(int32_t* bias, int32_t factor) const {
    const __m256i f = _mm256_set1_epi32(factor);
    _mm256_store_si256(reinterpret_cast<__m256i*>(bias), _mm256_mullo_epi32(low_, f));
    _mm256_store_si256(reinterpret_cast<__m256i*>(bias + 8), _mm256_mullo_epi32(high_, f));
  }

 private:
  // Sums of quads of k: adding bytes in pairs cannot saturate (two of them fit 16 bits by far).
  static LATHE_INLINE __m256i quad_sums(__m256i v) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), v), _mm256_set1_epi16(1));
  }

  int8_t* packed_;
  __m256i low_, high_;
};

struct Floats {
  using V = __m256;
  static constexpr uint32_t kWidth = 8;

  static LATHE_INLINE __m256 load(const float* p, uint32_t count, float scale) {
    if (count == 0) return _mm256_setzero_ps();
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), index);
    return _mm256_mul_ps(_mm256_maskload_ps(p, mask), _mm256_set1_ps(scale));
  }
  static LATHE_INLINE void store(float* p, __m256 v) { _mm256_store_ps(p, v); }
  static LATHE_INLINE void transpose(__m256 r[8]) {
    __m256 t[8], u[8];
    LATHE_UNROLL
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    LATHE_UNROLL
    for (int i = 0; i < 2; ++i) {
      u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
      u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
      u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
      u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    LATHE_UNROLL
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
      r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
  }
};

}  // namespace

void gemm_pack_s8_x86_avx2(const GemmPackS8Args& g) { gemm_pack_s8<Bytes, Panel>(g); }
void gemm_pack_f32_x86_avx2(const GemmPackF32Args& g) { gemm_pack_f32<Floats>(g); }

}  // namespace lathe::kernels
