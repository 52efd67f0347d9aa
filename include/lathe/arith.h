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

// Correctly rounded (IEEE 754 squareRoot, round to nearest even) with integers alone; a negative argument gives NaN.
constexpr float sqrt_f32(float x) {
  if (!(x > 0)) return x == 0 ? x : __builtin_nanf("");
  if (x == __builtin_inff()) return x;
  uint32_t bits = __builtin_bit_cast(uint32_t, x);
  int32_t exponent = static_cast<int32_t>(bits >> 23) - 127;
  uint32_t mantissa = bits & 0x7fffffu;
  if (exponent == -127) {
    for (exponent = -126; (mantissa & 0x800000u) == 0; --exponent) mantissa <<= 1;
  }
  mantissa |= 0x800000u;
  // x = mantissa 2^(exponent - 23). The root of mantissa 2^25, or 2^26 where the exponent is odd, has 25 bits: 24 and one
  // that tells how to round. A tie cannot occur: it would need an odd square, and these squares end in 25 zero bits.
  const bool odd = (exponent & 1) != 0;
  uint64_t rest = static_cast<uint64_t>(mantissa) << (odd ? 26 : 25);
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 48; bit != 0; bit >>= 2) {
    if (rest >= root + bit) {
      rest -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  const uint32_t rounded = static_cast<uint32_t>((root + 1) >> 1);  // 2^23 ... 2^24
  const int32_t half = (exponent - (odd ? 1 : 0)) / 2;
  return __builtin_bit_cast(float, rounded + (static_cast<uint32_t>(half + 126) << 23));
}

// layer norm over a row of n values q: d = n q - sum, V = n sum(q^2) - sum^2, r = 1 / sqrt(float(V) + c) with
// c = n^2 epsilon / s_x^2; R(float(d) * r * g + b, z) with g = scale / s_y, b = bias / s_y. d and V are exact integers and
// the same for q, q - zero_point and q + 128. Requires: n <= kMaxLayerNorm, so that sum(q^2) of bytes fits uint32, V fits
// int64, and |d| <= 255 n < 2^24 is exact as a float.
inline constexpr uint32_t kMaxLayerNorm = 65536;
constexpr float layer_norm_inverse(int64_t variance, float c) { return 1.0f / sqrt_f32(static_cast<float>(variance) + c); }
constexpr int32_t layer_norm_quantized(int32_t d, float r, float g, float b, int32_t z, int32_t lo, int32_t hi) {
  return round_clamp(static_cast<float>(d) * r * g + b, z, lo, hi);
}

}  // namespace lathe
