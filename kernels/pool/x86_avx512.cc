// Pooling and means for AVX-512.
#include "kernels/math/x86_avx512_lanes.h"

#include "kernels/pool/max_rows.h"
#include "kernels/pool/simd_loops.h"

namespace lathe::kernels {
namespace {

// 64 channels of bytes, or the first of them.
template <bool kUnsigned> struct Bytes {
  using T = uint8_t;
  using V = __m512i;
  static constexpr uint32_t kWidth = 64;
  __mmask64 lanes = ~uint64_t{0};
  static V lowest(T q) { return _mm512_set1_epi8(static_cast<char>(q)); }
  static V larger(V a, V b) { return kUnsigned ? _mm512_max_epu8(a, b) : _mm512_max_epi8(a, b); }
  V take(const T* p, V best) const { return larger(best, _mm512_maskz_loadu_epi8(lanes, p)); }
  void put(T* p, V v) const { _mm512_mask_storeu_epi8(p, lanes, v); }
};

// The same for all 64.
template <bool kUnsigned> struct WholeBytes : Bytes<kUnsigned> {
  using typename Bytes<kUnsigned>::T;
  using typename Bytes<kUnsigned>::V;
  static V take(const T* p, V best) { return Bytes<kUnsigned>::larger(best, _mm512_loadu_si512(p)); }
  static void put(T* p, V v) { _mm512_storeu_si512(p, v); }
};

template <bool kUnsigned> void max_pool_8(const MaxPoolS8Args& a) {
  const uint8_t lowest = static_cast<uint8_t>(a.lowest);
  if (a.g.c >= 64) return max_strips(a, WholeBytes<kUnsigned>{}, lowest);
  const Bytes<kUnsigned> some{(uint64_t{1} << a.g.c) - 1};
  max_rows(a.g, some, static_cast<const uint8_t*>(a.x), static_cast<uint8_t*>(a.y), a.row_begin, a.row_end, lowest);
}

struct Floats {
  using T = float;
  using V = __m512;
  static constexpr uint32_t kWidth = 16;
  __mmask16 lanes = 0xffff;
  static V lowest(T v) { return _mm512_set1_ps(v); }
  // MAXPS gives its second operand if one is NaN.
  static V larger(V a, V b) { return _mm512_max_ps(a, b); }
  V take(const T* p, V best) const { return _mm512_max_ps(_mm512_maskz_loadu_ps(lanes, p), best); }
  void put(T* p, V v) const { _mm512_mask_storeu_ps(p, lanes, v); }
};

}  // namespace

void max_pool_s8_x86_avx512(const MaxPoolS8Args& a) { max_pool_8<false>(a); }
void max_pool_u8_x86_avx512(const MaxPoolS8Args& a) { max_pool_8<true>(a); }
void max_pool_f32_x86_avx512(const MaxPoolF32Args& a) {
  if (a.g.c >= 16) return max_strips(a, Floats{}, -kFloatInfinity);
  max_rows(a.g, Floats{static_cast<__mmask16>((1u << a.g.c) - 1)}, a.x, a.y, a.row_begin, a.row_end, -kFloatInfinity);
}
void avg_pool_s8_x86_avx512(const AvgPoolS8Args& a) { avg_pool_8<Lanes, false>(a); }
void avg_pool_u8_x86_avx512(const AvgPoolS8Args& a) { avg_pool_8<Lanes, true>(a); }

}  // namespace lathe::kernels
