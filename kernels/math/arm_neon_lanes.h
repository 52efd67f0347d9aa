// Vectors of eight lanes, as pairs of NEON registers, for the Arm files of the elementwise, pooling and softmax families: the
// counterpart of x86_avx2_lanes.h. Eight, because a pair halves the cost of widening and narrowing bytes.
//
// Only arm_*.cc files include this. Everything is in an anonymous namespace and inlined: an ISA archive may hold no weak
// symbol.
#pragma once
#include <arm_neon.h>
#include <stdint.h>

namespace lathe::kernels {
namespace {

struct Lanes {
  static constexpr uint32_t kWidth = 8;
  static constexpr uint32_t kBlock = 0;  // bytes go vector by vector (x86_avx2_lanes.h has blocks)

  struct Mask {
    uint32x4_t low, high;
  };
  struct F {
    float32x4_t low, high;
    F() = default;
    F(float32x4_t l, float32x4_t h) : low(l), high(h) {}
    explicit F(float v) : low(vdupq_n_f32(v)), high(low) {}
    friend F operator+(F a, F b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
    friend F operator-(F a, F b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
    friend F operator*(F a, F b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
    friend F operator/(F a, F b) { return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)}; }
    friend Mask operator<(F a, F b) { return {vcltq_f32(a.low, b.low), vcltq_f32(a.high, b.high)}; }
    friend Mask operator>=(F a, F b) { return {vcgeq_f32(a.low, b.low), vcgeq_f32(a.high, b.high)}; }
  };
  struct I {
    int32x4_t low, high;
    I() = default;
    I(int32x4_t l, int32x4_t h) : low(l), high(h) {}
    explicit I(int32_t v) : low(vdupq_n_s32(v)), high(low) {}
    friend I operator+(I a, I b) { return {vaddq_s32(a.low, b.low), vaddq_s32(a.high, b.high)}; }
    friend I operator-(I a, I b) { return {vsubq_s32(a.low, b.low), vsubq_s32(a.high, b.high)}; }
  };

  // All lanes, or the first n of them.
  struct Whole {};
  struct Part {
    uint32_t n;
  };

  static Mask mask(Part p) {
    const uint32x4_t n = vdupq_n_u32(p.n), low = {0, 1, 2, 3}, high = {4, 5, 6, 7};
    return {vcltq_u32(low, n), vcltq_u32(high, n)};
  }
  static F load(const float* p, Whole) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  static F load(const float* p, Part n) {
    float lanes[8] = {};
    for (uint32_t i = 0; i < n.n; ++i) lanes[i] = p[i];
    return load(lanes, Whole{});
  }
  static void store(float* p, F v, Whole) {
    vst1q_f32(p, v.low);
    vst1q_f32(p + 4, v.high);
  }
  static void store(float* p, F v, Part n) {
    float lanes[8];
    store(lanes, v, Whole{});
    for (uint32_t i = 0; i < n.n; ++i) p[i] = lanes[i];
  }
  static void store(int32_t* p, I v) {
    vst1q_s32(p, v.low);
    vst1q_s32(p + 4, v.high);
  }
  // v where `m` holds, `other` elsewhere.
  static F select(Mask m, F v, F other) { return {vbslq_f32(m.low, v.low, other.low), vbslq_f32(m.high, v.high, other.high)}; }
  // v where there are lanes, `other` in the rest.
  static F keep(F v, F, Whole) { return v; }
  static F keep(F v, F other, Part n) { return select(mask(n), v, other); }
  static I keep(I v, I, Whole) { return v; }
  static I keep(I v, I other, Part n) {
    const Mask m = mask(n);
    return {vbslq_s32(m.low, v.low, other.low), vbslq_s32(m.high, v.high, other.high)};
  }

  // Bytes as int32, every byte xor `flip` first; kUnsigned says how they extend.
  template <bool kUnsigned> static I widen(uint8x8_t bytes, uint32_t flip) {
    const uint8x8_t v = veor_u8(bytes, vdup_n_u8(static_cast<uint8_t>(flip)));
    if constexpr (kUnsigned) {
      const int16x8_t wide = vreinterpretq_s16_u16(vmovl_u8(v));
      return {vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide)};
    } else {
      const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(v));
      return {vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide)};
    }
  }
  template <bool kUnsigned> static I load8(const uint8_t* p, uint32_t flip, Whole) { return widen<kUnsigned>(vld1_u8(p), flip); }
  template <bool kUnsigned> static I load8(const uint8_t* p, uint32_t flip, Part n) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n.n; ++i) bytes |= static_cast<uint64_t>(p[i]) << (8 * i);
    return widen<kUnsigned>(vcreate_u8(bytes), flip);
  }
  // The low byte of every lane.
  static uint8x8_t low_bytes(I v) {
    return vmovn_u16(vuzp1q_u16(vreinterpretq_u16_s32(v.low), vreinterpretq_u16_s32(v.high)));
  }
  static void store8(uint8_t* p, I v, Whole) { vst1_u8(p, low_bytes(v)); }
  static void store8(uint8_t* p, I v, Part n) {
    const uint64_t bytes = vget_lane_u64(vreinterpret_u64_u8(low_bytes(v)), 0);
    for (uint32_t i = 0; i < n.n; ++i) p[i] = static_cast<uint8_t>(bytes >> (8 * i));
  }

  // table[index], one load a lane.
  static I lookup16(const uint16_t* table, I index) {
    const auto pick = [&](int32x4_t at) __attribute__((always_inline)) {
      const int32x4_t found = {table[at[0]], table[at[1]], table[at[2]], table[at[3]]};
      return found;
    };
    return {pick(index.low), pick(index.high)};
  }

  static F to_float(I v) { return {vcvtq_f32_s32(v.low), vcvtq_f32_s32(v.high)}; }
  // Half to even. Requires: |v| < 2^31.
  static I round(F v) { return {vcvtnq_s32_f32(v.low), vcvtnq_s32_f32(v.high)}; }
  // v > a ? v : a and v < a ? v : a: with a NaN the second operand. FMAX would return the NaN, FMAXNM the number on either side.
  static F max(F v, F a) { return select({vcgtq_f32(v.low, a.low), vcgtq_f32(v.high, a.high)}, v, a); }
  static F min(F v, F a) { return select({vcltq_f32(v.low, a.low), vcltq_f32(v.high, a.high)}, v, a); }
  // min(max(v, lo), hi) for a result of arithmetic, whose NaN is quiet, and limits that are numbers: FMAXNM then gives lo.
  static F limit(F v, F lo, F hi) {
    return {vminnmq_f32(vmaxnmq_f32(v.low, lo.low), hi.low), vminnmq_f32(vmaxnmq_f32(v.high, lo.high), hi.high)};
  }
  static I max(I a, I b) { return {vmaxq_s32(a.low, b.low), vmaxq_s32(a.high, b.high)}; }
  // a * b + c and c - a * b, rounded once.
  static F mul_add(F a, F b, F c) { return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)}; }
  static F neg_mul_add(F a, F b, F c) { return {vfmsq_f32(c.low, a.low, b.low), vfmsq_f32(c.high, a.high, b.high)}; }
  static F sqrt(F v) { return {vsqrtq_f32(v.low), vsqrtq_f32(v.high)}; }
  static float sqrt_one(float v) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(v)), 0); }
  // 2^k. Requires: -126 <= k <= 127.
  static F exp2(I k) {
    const I bits = k + I(127);
    return {vreinterpretq_f32_s32(vshlq_n_s32(bits.low, 23)), vreinterpretq_f32_s32(vshlq_n_s32(bits.high, 23))};
  }
  // e * 2^n. Requires: n is an integer, |n| <= 252.
  static F times_exp2(F e, F n) {
    // Two factors, because 2^n itself may be infinite or denormal while e * 2^n is not.
    const I k = round(n), half{vshrq_n_s32(k.low, 1), vshrq_n_s32(k.high, 1)};
    return e * exp2(half) * exp2(k - half);
  }
  // e with the low nine bits of `shifted` added to its exponent. Requires: the result is normal.
  static F add_exponent(F e, F shifted) {
    const auto add = [](float32x4_t v, float32x4_t s) {
      return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(v), vshlq_n_s32(vreinterpretq_s32_f32(s), 23)));
    };
    return {add(e.low, shifted.low), add(e.high, shifted.high)};
  }
  // 0 where x < limit, else v.
  static F zero_below(F v, F x, F limit) { return select(x < limit, F(0.0f), v); }
  static float sum_lanes(F v) { return vaddvq_f32(vaddq_f32(v.low, v.high)); }
  static float max_lanes(F v) { return vmaxnmvq_f32(vmaxnmq_f32(v.low, v.high)); }
  static F abs(F v) { return {vabsq_f32(v.low), vabsq_f32(v.high)}; }
  // The size of `v` with the sign of `sign`. Requires: v >= 0.
  static F with_sign(F v, F sign) {
    const uint32x4_t top = vdupq_n_u32(0x80000000u);
    return {vbslq_f32(top, sign.low, v.low), vbslq_f32(top, sign.high, v.high)};
  }
};

}  // namespace
}  // namespace lathe::kernels
