// exp, tanh, sigmoid and square root for the freestanding core, which uses no libm.
//
// Thread-safe pure functions, the same on every target: only float32 and integer operations, never contracted. The vector
// forms in simd_math.h use the same constants with fused multiply-adds. Errors are in units in the last place against the exact
// value, over all finite arguments (tests/kernels/math_test.cc measures them).
#pragma once
#include <stdint.h>

namespace lathe::kernels {

inline constexpr float kNaN = __builtin_nanf("");
inline constexpr float kFloatInfinity = __builtin_inff();

// exp(x) = 2^n exp(r), n = rne(x / ln 2), |r| <= ln 2 / 2. ln 2 is split so that n * kLn2High is exact; exp(r) is the
// polynomial of Cephes' expf (S. Moshier).
struct ExpConstants {
  static constexpr float kLowest = -104.0f;  // below: exp rounds to 0
  static constexpr float kHighest = 89.0f;   // above: infinity
  static constexpr float kLog2e = 1.44269504088896341f;
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;
  static constexpr float kP[6] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                  4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
};

// tanh(x) = x + x^3 P(x^2) for |x| < kSplit (Cephes' tanhf), else sign(x) (1 - 2 / (exp(2 |x|) + 1)).
struct TanhConstants {
  static constexpr float kSplit = 0.625f;
  static constexpr float kP[5] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                                  -3.33332819422e-1f};
};

// 2^k as a float. Requires: -126 <= k <= 127.
constexpr float exp2_int(int32_t k) { return __builtin_bit_cast(float, (k + 127) << 23); }

// At most 2 ulp, denormal results included. NaN gives NaN.
constexpr float exp_f32(float x) {
  using C = ExpConstants;
  if (x != x) return x;
  if (x > C::kHighest) return kFloatInfinity;
  if (x < C::kLowest) return 0.0f;
  const float scaled = x * C::kLog2e;
  const int32_t n = static_cast<int32_t>(scaled + (scaled >= 0 ? 0.5f : -0.5f));
  const float r = (x - static_cast<float>(n) * C::kLn2High) - static_cast<float>(n) * C::kLn2Low;
  float p = C::kP[0];
  for (int32_t i = 1; i < 6; ++i) p = p * r + C::kP[i];
  const float e = p * (r * r) + r + 1.0f;
  // Two factors, because 2^n itself may be infinite or denormal while e * 2^n is not.
  const int32_t half = n / 2;
  return e * exp2_int(half) * exp2_int(n - half);
}

// 1 / (1 + exp(-x)), at most 3 ulp: through exp(-|x|), which never overflows.
constexpr float sigmoid_f32(float x) {
  const float e = exp_f32(x < 0 ? x : -x);
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

// At most 3 ulp.
constexpr float tanh_f32(float x) {
  using C = TanhConstants;
  const float a = x < 0 ? -x : x;
  if (a < C::kSplit) {
    const float z = x * x;
    float p = C::kP[0];
    for (int32_t i = 1; i < 5; ++i) p = p * z + C::kP[i];
    return p * z * x + x;
  }
  const float t = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
  return x < 0 ? -t : t;
}

// Correctly rounded (IEEE 754 squareRoot, round to nearest even) with integers alone; a negative argument gives NaN.
constexpr float sqrt_f32(float x) {
  if (!(x > 0)) return x == 0 ? x : kNaN;
  if (x == kFloatInfinity) return x;
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

}  // namespace lathe::kernels
