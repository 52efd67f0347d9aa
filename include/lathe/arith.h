// The arithmetic of every integer result, defined once.
//
// Reference kernels, the quantizer, constant folding and firmware call these functions; SIMD kernels compute
// the same values lane by lane and are tested for equality. Every product, sum and quotient is one float32
// operation in the order written: build with -ffp-contract=off and without fast-math, in the default rounding
// mode. Thread-safe: pure functions.
#pragma once
#include <stdint.h>

namespace lathe {

// max and min as the definitions need them: a NaN operand v yields a.
constexpr float max_f32(float v, float a) { return v > a ? v : a; }
constexpr float min_f32(float v, float b) { return v < b ? v : b; }

// A float result's fused clamp: unlike the quantized one it lets a NaN through, so that a broken float model shows.
constexpr float clamp_f32(float v, float lo, float hi) {
  const float a = v < lo ? lo : v;
  return a > hi ? hi : a;
}

// Round half to even, |v| any. Adding and taking away 2^23 leaves the integer nearest to v, because a float32 of
// that size has no fraction bits; larger values are integers already.
constexpr float rne_f32(float v) {
  constexpr float kShift = 8388608.0f;  // 2^23
  if (v >= 0) return v < kShift ? (v + kShift) - kShift : v;
  return v > -kShift ? (v - kShift) + kShift : v;
}

// R(v, z) = int(rne(clamp(v, lo - z, hi - z))) + z. The clamp comes first, so the conversion never overflows and NaN
// gives lo. `lo`, `hi`: the type's range or a fused clamp's, in quantized steps. Requires: lo <= hi, |lo|, |hi|, |z| < 2^22.
constexpr int32_t round_clamp(float v, int32_t z, int32_t lo, int32_t hi) {
  const float a = static_cast<float>(lo - z), b = static_cast<float>(hi - z);
  return static_cast<int32_t>(rne_f32(min_f32(max_f32(v, a), b))) + z;
}

// quantize: R(x / scale, z), true division.
constexpr int32_t quantize(float x, float scale, int32_t z, int32_t lo, int32_t hi) {
  return round_clamp(x / scale, z, lo, hi);
}

constexpr float dequantize(int32_t q, float scale, int32_t z) { return static_cast<float>(q - z) * scale; }

// conv, GEMM, fully connected: R(float(acc) * m, z).
constexpr int32_t requantize(int32_t acc, float m, int32_t z, int32_t lo, int32_t hi) {
  return round_clamp(static_cast<float>(acc) * m, z, lo, hi);
}

// With a residual, rounded once: R(float(acc) * m + float(r - z_r) * m_r, z).
constexpr int32_t requantize_residual(int32_t acc, float m, int32_t r, int32_t z_r, float m_r, int32_t z, int32_t lo,
                                      int32_t hi) {
  const float conv = static_cast<float>(acc) * m;
  const float res = static_cast<float>(r - z_r) * m_r;
  return round_clamp(conv + res, z, lo, hi);
}

// dynamic quantization, conv, GEMM, fully connected: (float(acc) * s_t) * s_w, to which bias and residual are added in float.
constexpr float dequantize_sum(int32_t acc, float s_t, float s_w) { return (static_cast<float>(acc) * s_t) * s_w; }

// add: R(float(a - z_a) * m_a + float(b - z_b) * m_b, z). sub: the same with -.
constexpr int32_t add_quantized(int32_t a, int32_t z_a, float m_a, int32_t b, int32_t z_b, float m_b, int32_t z, int32_t lo,
                                int32_t hi) {
  const float x = static_cast<float>(a - z_a) * m_a;
  const float y = static_cast<float>(b - z_b) * m_b;
  return round_clamp(x + y, z, lo, hi);
}
constexpr int32_t sub_quantized(int32_t a, int32_t z_a, float m_a, int32_t b, int32_t z_b, float m_b, int32_t z, int32_t lo,
                                int32_t hi) {
  const float x = static_cast<float>(a - z_a) * m_a;
  const float y = static_cast<float>(b - z_b) * m_b;
  return round_clamp(x - y, z, lo, hi);
}

// mul: R(float((a - z_a) * (b - z_b)) * m, z).
constexpr int32_t mul_quantized(int32_t a, int32_t z_a, int32_t b, int32_t z_b, float m, int32_t z, int32_t lo, int32_t hi) {
  return round_clamp(static_cast<float>((a - z_a) * (b - z_b)) * m, z, lo, hi);
}

// regrid (concat, pad, copy): R(float(q - z_i) * m, z).
constexpr int32_t regrid(int32_t q, int32_t z_i, float m, int32_t z, int32_t lo, int32_t hi) {
  return round_clamp(static_cast<float>(q - z_i) * m, z, lo, hi);
}

// mean of n, average pool: R(float(sum - n * z_x) * m_n, z), m_n = s_x / (s_y * n).
constexpr int32_t mean_quantized(int32_t sum, int32_t n, int32_t z_x, float m_n, int32_t z, int32_t lo, int32_t hi) {
  return round_clamp(static_cast<float>(sum - n * z_x) * m_n, z, lo, hi);
}

// softmax: R(float(t) * (256 / float(sum)), -128); t from the 16-bit table of exp(-s d).
constexpr int32_t softmax_quantized(uint32_t t, uint32_t sum) {
  return round_clamp(static_cast<float>(t) * (256.0f / static_cast<float>(sum)), -128, -128, 127);
}

}  // namespace lathe
