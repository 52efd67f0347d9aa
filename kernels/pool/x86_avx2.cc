// Pooling and means for AVX2.
#include "kernels/math/x86_avx2_lanes.h"

#include "kernels/pool/max_rows.h"
#include "kernels/pool/simd_loops.h"

namespace lathe::kernels {
namespace {

// 32, 16, 8 or fewer channels of bytes.
template <bool kUnsigned> struct Bytes32 {
  using T = uint8_t;
  using V = __m256i;
  static constexpr uint32_t kWidth = 32;
  static V lowest(T q) { return _mm256_set1_epi8(static_cast<char>(q)); }
  static V larger(V a, V b) { return kUnsigned ? _mm256_max_epu8(a, b) : _mm256_max_epi8(a, b); }
  static V take(const T* p, V best) { return larger(best, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static void put(T* p, V v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
};
template <bool kUnsigned> struct Bytes16 {
  using T = uint8_t;
  using V = __m128i;
  static constexpr uint32_t kWidth = 16;
  static V lowest(T q) { return _mm_set1_epi8(static_cast<char>(q)); }
  static V larger(V a, V b) { return kUnsigned ? _mm_max_epu8(a, b) : _mm_max_epi8(a, b); }
  static V take(const T* p, V best) { return larger(best, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static void put(T* p, V v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
};
template <bool kUnsigned> struct Bytes8 : Bytes16<kUnsigned> {
  using typename Bytes16<kUnsigned>::T;
  using typename Bytes16<kUnsigned>::V;
  static constexpr uint32_t kWidth = 8;
  static V take(const T* p, V best) {
    return Bytes16<kUnsigned>::larger(best, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static void put(T* p, V v) { _mm_storel_epi64(reinterpret_cast<__m128i*>(p), v); }
};
template <bool kUnsigned> struct FewBytes : Bytes16<kUnsigned> {
  using typename Bytes16<kUnsigned>::T;
  using typename Bytes16<kUnsigned>::V;
  uint32_t n;
  explicit FewBytes(uint32_t count) : n(count) {}
  V take(const T* p, V best) const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; ++i) bytes |= static_cast<uint64_t>(p[i]) << (8 * i);
    return Bytes16<kUnsigned>::larger(best, _mm_cvtsi64_si128(static_cast<long long>(bytes)));
  }
  void put(T* p, V v) const {
    const uint64_t bytes = static_cast<uint64_t>(_mm_cvtsi128_si64(v));
    for (uint32_t i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(bytes >> (8 * i));
  }
};

template <bool kUnsigned> void max_pool_8(const MaxPoolS8Args& a) {
  const uint8_t lowest = static_cast<uint8_t>(a.lowest);
  if (a.g.c >= 32) return max_strips(a, Bytes32<kUnsigned>{}, lowest);
  if (a.g.c >= 16) return max_strips(a, Bytes16<kUnsigned>{}, lowest);
  if (a.g.c >= 8) return max_strips(a, Bytes8<kUnsigned>{}, lowest);
  max_rows(a.g, FewBytes<kUnsigned>(a.g.c), static_cast<const uint8_t*>(a.x), static_cast<uint8_t*>(a.y), a.row_begin, a.row_end,
           lowest);
}

// Contiguous values: psadbw adds unsigned bytes. Signed ones are turned to q + 128 first, and 128 k comes off again.
template <bool kUnsigned> int32_t sum_row_8(const uint8_t* x, uint32_t k) {
  const __m256i flip = _mm256_set1_epi8(kUnsigned ? 0 : static_cast<char>(0x80));
  __m256i sums = _mm256_setzero_si256();
  uint32_t j = 0;
  for (; j + 32 <= k; j += 32) {
    const __m256i v = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + j)), flip);
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(v, _mm256_setzero_si256()));
  }
  uint32_t total = sum_u64(sums);
  for (; j < k; ++j) total += kUnsigned ? x[j] : static_cast<uint8_t>(x[j] ^ 0x80);
  return static_cast<int32_t>(total - (kUnsigned ? 0u : 128u * k));
}

template <bool kUnsigned> void mean_8(const MeanS8Args& g) {
  if (g.k_step != 1) return mean_columns_8<Lanes, kUnsigned>(g);
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  for (uint32_t i = 0; i < g.n; ++i) {
    const int32_t sum = sum_row_8<kUnsigned>(x + i * g.step, g.k);
    y[i] =
        static_cast<uint8_t>(mean_quantized(sum, static_cast<int32_t>(g.k), g.c.x_zero, g.c.m, g.c.zero_point, g.c.lo, g.c.hi));
  }
}

}  // namespace

void max_pool_s8_x86_avx2(const MaxPoolS8Args& a) { max_pool_8<false>(a); }
void max_pool_u8_x86_avx2(const MaxPoolS8Args& a) { max_pool_8<true>(a); }
void max_pool_f32_x86_avx2(const MaxPoolF32Args& a) { max_pool_f32<Lanes>(a); }
void avg_pool_s8_x86_avx2(const AvgPoolS8Args& a) { avg_pool_8<Lanes, false>(a); }
void avg_pool_u8_x86_avx2(const AvgPoolS8Args& a) { avg_pool_8<Lanes, true>(a); }
void avg_pool_f32_x86_avx2(const AvgPoolF32Args& a) { avg_pool_f32<Lanes>(a); }
void mean_s8_x86_avx2(const MeanS8Args& g) { mean_8<false>(g); }
void mean_u8_x86_avx2(const MeanS8Args& g) { mean_8<true>(g); }
void mean_f32_x86_avx2(const MeanF32Args& g) { mean_f32<Lanes>(g); }

}  // namespace lathe::kernels
