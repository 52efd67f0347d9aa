// Requantization of accumulators to s8, equal to lathe/arith.h bit for bit. For the Arm files of the gemm and dwconv families
// only.
//
// R's clamp comes after the conversion here. FCVTNS rounds half to even and saturates, and so does every step that follows (to 16
// bits, adding z, to 8 bits): a value beyond the bounds stays beyond them until the byte clamp, and one within them is exact.
// Multipliers are finite, so that no NaN arises.
#pragma once
#include <arm_neon.h>
#include <stdint.h>

namespace lathe::kernels {
namespace {

struct Requantize {
  int16x8_t zero;
  int8x16_t lo, hi;
  float32x4_t residual_scale;
  int8x8_t residual_zero;
};

inline __attribute__((always_inline)) Requantize make_requantize(int32_t z, int32_t lo, int32_t hi, float residual_scale,
                                                                 int32_t residual_zero) {
  return {vdupq_n_s16(static_cast<int16_t>(z)), vdupq_n_s8(static_cast<int8_t>(lo)), vdupq_n_s8(static_cast<int8_t>(hi)),
          vdupq_n_f32(residual_scale), vdup_n_s8(static_cast<int8_t>(residual_zero))};
}

// float(acc) * m of 8 channels.
struct Scaled8 {
  float32x4_t low, high;
};
inline __attribute__((always_inline)) Scaled8 scaled(int32x4_t acc0, int32x4_t acc1, float32x4_t m0, float32x4_t m1) {
  return {vmulq_f32(vcvtq_f32_s32(acc0), m0), vmulq_f32(vcvtq_f32_s32(acc1), m1)};
}

// v + float(r - z_r) * m_r.
inline __attribute__((always_inline)) Scaled8 with_residual(const Requantize& q, Scaled8 v, int8x8_t residual) {
  const int16x8_t r = vsubl_s8(residual, q.residual_zero);
  v.low = vaddq_f32(v.low, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(r))), q.residual_scale));
  v.high = vaddq_f32(v.high, vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(r)), q.residual_scale));
  return v;
}

inline __attribute__((always_inline)) int16x8_t rounded(const Requantize& q, Scaled8 v) {
  return vqaddq_s16(vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(v.low)), vcvtnq_s32_f32(v.high)), q.zero);
}

inline __attribute__((always_inline)) int8x8_t clamped8(const Requantize& q, Scaled8 v) {
  return vmin_s8(vmax_s8(vqmovn_s16(rounded(q, v)), vget_low_s8(q.lo)), vget_low_s8(q.hi));
}
inline __attribute__((always_inline)) int8x16_t clamped16(const Requantize& q, Scaled8 v0, Scaled8 v1) {
  return vminq_s8(vmaxq_s8(vqmovn_high_s16(vqmovn_s16(rounded(q, v0)), rounded(q, v1)), q.lo), q.hi);
}

// The first n < 8 bytes.
inline __attribute__((always_inline)) void store_first(int8_t* y, int8x8_t v, uint32_t n) {
  uint64_t bytes = vget_lane_u64(vreinterpret_u64_s8(v), 0);
  if ((n & 4) != 0) {
    __builtin_memcpy(y, &bytes, 4);
    y += 4, bytes >>= 32;
  }
  if ((n & 2) != 0) {
    __builtin_memcpy(y, &bytes, 2);
    y += 2, bytes >>= 16;
  }
  if ((n & 1) != 0) *y = static_cast<int8_t>(bytes);
}
// n >= 16: all of them.
inline __attribute__((always_inline)) void store_up_to16(int8_t* y, int8x16_t v, uint32_t n) {
  if (n >= 16) return vst1q_s8(y, v);
  if (n < 8) return store_first(y, vget_low_s8(v), n);
  vst1_s8(y, vget_low_s8(v));
  store_first(y + 8, vget_high_s8(v), n - 8);
}

}  // namespace
}  // namespace lathe::kernels
