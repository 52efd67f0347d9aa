// exp, tanh, sigmoid, erf and GELU for the freestanding core, which uses no libm.
//
// Thread-safe pure functions, the same on every target: only float32 and integer operations, never contracted. The vector
// forms in simd_math.h use the same constants with fused multiply-adds. Errors are in units in the last place against the exact
// value, over all finite arguments (tests/kernels/math_test.cc measures them).
#pragma once
#include <stdint.h>

#include "lathe/arith.h"

namespace lathe::kernels {

using lathe::sqrt_f32;

inline constexpr float kNaN = __builtin_nanf("");
inline constexpr float kFloatInfinity = __builtin_inff();

// exp(x) = 2^n exp(r), n = rne(x / ln 2), |r| <= ln 2 / 2. ln 2 is split so that n * kLn2High is exact; exp(r) is
// 1 + r + r^2 P(r), a minimax fit of our own, error 0.05 of 2^-24.
struct ExpConstants {
  static constexpr float kLowest = -104.0f;  // below: exp rounds to 0
  static constexpr float kHighest = 89.0f;   // above: infinity
  static constexpr float kNormal = -87.0f;   // from here on exp is no denormal number
  static constexpr float kLog2e = 1.44269504088896341f;
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;
  static constexpr float kP[5] = {1.38145988e-3f, 8.36871658e-3f, 4.1668389e-2f, 1.66665211e-1f, 4.9999994e-1f};
};

// tanh(x) = x + x^3 P(x^2) for |x| < kSplit (Cephes' tanhf), else sign(x) (1 - 2 / (exp(2 |x|) + 1)).
struct TanhConstants {
  static constexpr float kSplit = 0.625f;
  static constexpr float kP[5] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                                  -3.33332819422e-1f};
};

// erf(x) = x + x P(x^2) for |x| < kSplit, else sign(x) (1 - exp(Q(|x|))) with Q the logarithm of 1 - erf; minimax fits of our
// own, errors 0.32 and 0.03 of 2^-24. From kHighest on erf rounds to 1.
struct ErfConstants {
  static constexpr float kSplit = 0.9375f;
  static constexpr float kHighest = 4.0f;
  static constexpr float kP[6] = {-5.91941876e-4f, 4.97913081e-3f, -2.67570354e-2f,
                                  1.12815522e-1f,  -3.7612468e-1f, 1.28379151e-1f};
  static constexpr float kQ[7] = {1.93900807e-4f, -3.02316458e-3f, 2.21466515e-2f, -1.03764318e-1f,
                                  -6.37373745e-1f, -1.12756133f, -2.23499155e-4f};
};
// GELU is x (1 - h(|x|)), and x h(|x|) for negative x, with h(a) = erfc(a / sqrt 2) / 2 = exp(P(a)): a fit of our own for
// a < kHighest, error 0.6 of 2^-24; beyond, h is below 2^-27.
struct GeluConstants {
  static constexpr float kHighest = 5.7f;
  static constexpr float kP[8] = {5.87108252e-6f, -3.73633629e-5f, -2.91977864e-4f, 5.12185181e-3f,
                                  -3.65226939e-2f, -3.182607e-1f,  -7.97889292e-1f, -6.93147123e-1f};
};
// GELU's hyperbolic form: 0.5 (1 + tanh(u)) = sigmoid(2 u), 2 u = x (kGeluLinear + kGeluCubic x^2).
inline constexpr float kGeluLinear = 1.59576912160573071f;                // 2 sqrt(2 / pi)
inline constexpr float kGeluCubic = 1.59576912160573071f * 0.044715f;

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
  for (int32_t i = 1; i < 5; ++i) p = p * r + C::kP[i];
  const float e = (p * r + 1.0f) * r + 1.0f;
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

// At most 3 ulp.
constexpr float erf_f32(float x) {
  using C = ErfConstants;
  const float a = x < 0 ? -x : x;
  if (a < C::kSplit) {
    const float z = x * x;
    float p = C::kP[0];
    for (int32_t i = 1; i < 6; ++i) p = p * z + C::kP[i];
    return p * x + x;
  }
  const float t = min_f32(a, C::kHighest);
  float q = C::kQ[0];
  for (int32_t i = 1; i < 7; ++i) q = q * t + C::kQ[i];
  const float e = 1.0f - exp_f32(q);
  return x < 0 ? -e : (x != x ? x : e);
}

// x (1 + erf(x / sqrt 2)) / 2: within 2^-22 |x|.
constexpr float gelu_f32(float x) {
  using C = GeluConstants;
  const float a = min_f32(x < 0 ? -x : x, C::kHighest);
  float p = C::kP[0];
  for (int32_t i = 1; i < 8; ++i) p = p * a + C::kP[i];
  const float h = exp_f32(p);
  return x * (x < 0 ? h : 1.0f - h);
}
// GELU's approximation by tanh, through the sigmoid: within 2^-22 |x|.
constexpr float gelu_tanh_f32(float x) { return x * sigmoid_f32(x * (kGeluLinear + kGeluCubic * (x * x))); }
// x sigmoid(x): within 2^-22 |x|.
constexpr float silu_f32(float x) { return x * sigmoid_f32(x); }

}  // namespace lathe::kernels
