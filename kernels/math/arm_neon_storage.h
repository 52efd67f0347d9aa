// Loads and stores of 4 floats as they lie in memory: float, or half precision. For Arm files only. Armv8-A has both conversions;
// FCVTN rounds half to even.
#pragma once
#include <arm_neon.h>
#include <stdint.h>

namespace lathe::kernels {
namespace {

inline __attribute__((always_inline)) float32x4_t load4(const float* p) { return vld1q_f32(p); }
inline __attribute__((always_inline)) float32x4_t load4(const uint16_t* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

// The first min(n, 4).
inline __attribute__((always_inline)) void store4(float* p, float32x4_t v, uint32_t n) {
  if (n >= 4) return vst1q_f32(p, v);
  float32x2_t part = vget_low_f32(v);
  if ((n & 2) != 0) {
    vst1_f32(p, part);
    p += 2, part = vget_high_f32(v);
  }
  if ((n & 1) != 0) vst1_lane_f32(p, part, 0);
}
inline __attribute__((always_inline)) void store4(uint16_t* p, float32x4_t v, uint32_t n) {
  const uint16x4_t halves = vreinterpret_u16_f16(vcvt_f16_f32(v));
  if (n >= 4) return vst1_u16(p, halves);
  uint64_t bits = vget_lane_u64(vreinterpret_u64_u16(halves), 0);
  if ((n & 2) != 0) {
    __builtin_memcpy(p, &bits, 4);
    p += 2, bits >>= 32;
  }
  if ((n & 1) != 0) *p = static_cast<uint16_t>(bits);
}

// lathe/arith.h's clamp_f32 bit for bit, signs of zeros included: a NaN passes both comparisons.
inline __attribute__((always_inline)) float32x4_t clamp_with_nan(float32x4_t v, float32x4_t lo, float32x4_t hi) {
  const float32x4_t a = vbslq_f32(vcltq_f32(v, lo), lo, v);
  return vbslq_f32(vcgtq_f32(a, hi), hi, a);
}

}  // namespace
}  // namespace lathe::kernels
