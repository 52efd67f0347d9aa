// Logarithm, powers, trigonometric and hyperbolic functions for the freestanding core, which uses no libm.
//
// Each is computed in double from series of known remainder and rounded once, so that results are within 1 ulp of the exact
// float (tests/kernels/math_test.cc measures it over all magnitudes). They serve operators outside the hot path: scalar, no
// tables beyond a few constants, the same on every target. Thread-safe pure functions; double arithmetic only, never contracted.
#pragma once
#include <stdint.h>

#include "kernels/math/math.h"
#include "lathe/arith.h"

namespace lathe::kernels {

using lathe::rne_f32;

inline constexpr double kInfinity64 = __builtin_inf();
inline constexpr double kPi = 3.14159265358979323846;

// 2^k. Requires: -1022 <= k <= 1023.
inline double exp2_int64(int32_t k) { return __builtin_bit_cast(double, static_cast<uint64_t>(k + 1023) << 52); }

// exp(r) - 1 by its series: r (1 + r/2 (1 + r/3 (...))). Requires: |r| < 0.36, where the remainder is below 2^-56.
inline double expm1_series(double r) {
  constexpr double kInverse[] = {1.0 / 13, 1.0 / 12, 1.0 / 11, 1.0 / 10, 1.0 / 9, 1.0 / 8,
                                 1.0 / 7,  1.0 / 6,  1.0 / 5,  1.0 / 4,  1.0 / 3, 1.0 / 2};
  double p = 1;
  for (const double c : kInverse) p = 1 + p * r * c;
  return p * r;
}

// exp(x) = 2^n exp(r), r = x - n ln 2. 0 below -708 and infinity above 709, both far outside the range of float.
inline double exp_f64(double x) {
  if (x != x) return x;
  if (x > 709) return kInfinity64;
  if (x < -708) return 0;
  constexpr double kLog2e = 1.44269504088896340736, kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  const double scaled = x * kLog2e;
  const int32_t n = static_cast<int32_t>(scaled + (scaled >= 0 ? 0.5 : -0.5));
  const double r = (x - n * kLn2High) - n * kLn2Low;
  return (1 + expm1_series(r)) * exp2_int64(n);
}

inline double expm1_f64(double x) { return x > -0.34 && x < 0.34 ? expm1_series(x) : exp_f64(x) - 1; }

// 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...). Requires: |s| < 0.1716, where the remainder is below 2^-54.
inline double twice_atanh_series(double s) {
  const double z = s * s;
  double p = 1.0 / 21;
  for (int32_t k = 19; k > 0; k -= 2) p = 1.0 / k + p * z;
  return 2 * s * p;
}

// x = 2^e m with m in [sqrt 1/2, sqrt 2); log m = 2 atanh((m - 1) / (m + 1)). Requires: x is no denormal double.
inline double log_f64(double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity64 : __builtin_nan("");
  if (x == kInfinity64) return x;
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  int32_t e = static_cast<int32_t>(bits >> 52) - 1023;
  double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffu) | uint64_t{1023} << 52);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++e;
  }
  return e * 0.69314718055994530942 + twice_atanh_series((m - 1) / (m + 1));
}

// log(1 + x) without losing small x.
inline double log1p_f64(double x) { return x > -0.29 && x < 0.41 ? twice_atanh_series(x / (2 + x)) : log_f64(1 + x); }

// Two Newton steps from the float root. Requires: 0 or in the range of normal floats, or infinite or negative (NaN).
inline double sqrt_f64(double x) {
  if (!(x > 0) || x == kInfinity64) return x == 0 || x == kInfinity64 ? x : __builtin_nan("");
  double y = static_cast<double>(sqrt_f32(static_cast<float>(x)));
  y = 0.5 * (y + x / y);
  return 0.5 * (y + x / y);
}

// An angle as quadrant * pi/2 + rest, |rest| <= pi/4.
struct Angle {
  uint32_t quadrant;
  double rest;
};

// Payne and Hanek: x = m 2^e with a 24-bit integer m, and x 2/pi modulo 4 needs only those bits of 2/pi that m 2^e brings to
// weights below 4. 96 of them leave 70 good bits. Requires: 2^20 <= x < infinity.
inline Angle reduce_large_angle(float x) {
  // 32 zeros, then the binary digits of 2/pi.
  constexpr uint32_t kTwoOverPi[] = {0,           0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                     0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint64_t m = (bits & 0x7fffffu) | 0x800000u;
  const uint32_t first = (bits >> 23) - 150 + 30;  // digit of weight 2^1 once it is multiplied by 2^e
  const uint32_t at = first / 32, shift = first % 32;
  uint32_t a[3];
  for (uint32_t i = 0; i < 3; ++i) {
    const uint64_t pair = static_cast<uint64_t>(kTwoOverPi[at + i]) << 32 | kTwoOverPi[at + i + 1];
    a[i] = static_cast<uint32_t>(pair >> (32 - shift));
  }
  const uint64_t low = m * a[2], middle = m * a[1] + (low >> 32);
  const uint32_t high = static_cast<uint32_t>(m * a[0] + (middle >> 32));
  const uint64_t fraction = static_cast<uint64_t>(high & 0x3fffffffu) << 34 | (middle & 0xffffffffu) << 2 | (low >> 30 & 3);
  // As a signed number the fraction lies in [-1/2, 1/2), which rounds the quadrant to the nearest.
  const double turns = static_cast<double>(static_cast<int64_t>(fraction)) * 0x1p-64;
  return {(high >> 30) + static_cast<uint32_t>(fraction >> 63), turns * (kPi / 2)};
}

// Requires: x is finite and at least 0. Below 2^20 by Cody and Waite: pi/2 in three parts of 33 bits.
inline Angle reduce_angle(float x) {
  if (x >= 0x1p20f) return reduce_large_angle(x);
  constexpr double kHigh = 1.57079632673412561417e+00, kMiddle = 6.07710050630396597660e-11, kLow = 2.02226624871116645580e-21;
  const double wide = static_cast<double>(x);
  const int32_t n = static_cast<int32_t>(wide * 0.63661977236758134308 + 0.5);
  return {static_cast<uint32_t>(n), ((wide - n * kHigh) - n * kMiddle) - n * kLow};
}

// Series for |r| <= pi/4; remainders below 2^-54.
inline double sin_series(double r) {
  const double z = r * r;
  double p = 1;
  for (int32_t k = 16; k >= 2; k -= 2) p = 1 - p * z / (k * (k + 1));
  return p * r;
}
inline double cos_series(double r) {
  const double z = r * r;
  double p = 1;
  for (int32_t k = 16; k >= 2; k -= 2) p = 1 - p * z / (k * (k - 1));
  return p;
}

struct SinCos {
  double sin, cos;
};
inline SinCos sin_cos(float x) {
  if (x - x != 0) return {__builtin_nan(""), __builtin_nan("")};
  const Angle a = reduce_angle(x < 0 ? -x : x);
  const double s = sin_series(a.rest), c = cos_series(a.rest);
  const bool odd = (a.quadrant & 1) != 0;
  const double sine = (a.quadrant & 2) != 0 ? -(odd ? c : s) : (odd ? c : s);
  const double cosine = ((a.quadrant + 1) & 2) != 0 ? -(odd ? s : c) : (odd ? s : c);
  return {x < 0 ? -sine : sine, cosine};
}

// atan(x) for x >= 0: pi/2 - atan(1 / x) above 1, pi/4 + atan((x - 1) / (x + 1)) above tan(pi/8); then the series, whose
// remainder is below 2^-38 of the result.
inline double atan_positive(double x) {
  if (x > 1) return kPi / 2 - atan_positive(1 / x);
  if (x > 0.41421356237309504880) return kPi / 4 + atan_positive((x - 1) / (x + 1));
  const double z = x * x;
  double p = 1.0 / 27;
  for (int32_t k = 25; k > 0; k -= 2) p = 1.0 / k - p * z;
  return p * x;
}
inline double atan_f64(double x) { return x < 0 ? -atan_positive(-x) : atan_positive(x); }

// f(|x|) with the sign of x; -0 stays -0.
template <class F> float odd_function(float x, const F& f) {
  if (x != x || x == 0) return x;
  const double y = f(static_cast<double>(x < 0 ? -x : x));
  return static_cast<float>(x < 0 ? -y : y);
}

inline float log_f32(float x) { return static_cast<float>(log_f64(static_cast<double>(x))); }
inline float sin_f32(float x) { return x == 0 ? x : static_cast<float>(sin_cos(x).sin); }
inline float cos_f32(float x) { return static_cast<float>(sin_cos(x).cos); }
inline float tan_f32(float x) {
  const SinCos s = sin_cos(x);
  return x == 0 ? x : static_cast<float>(s.sin / s.cos);
}
// atan(x / sqrt(1 - x^2)), NaN outside [-1, 1].
inline float asin_f32(float x) {
  return odd_function(x, [](double a) { return atan_f64(a / sqrt_f64((1 - a) * (1 + a))); });
}
// 2 atan(sqrt((1 - x) / (1 + x))), NaN outside [-1, 1].
inline float acos_f32(float x) {
  const double a = static_cast<double>(x);
  return static_cast<float>(2 * atan_f64(sqrt_f64((1 - a) / (1 + a))));
}
inline float atan_f32(float x) { return odd_function(x, atan_f64); }
inline float sinh_f32(float x) {
  return odd_function(x, [](double a) {
    const double e = expm1_f64(a);
    return a > 100 ? kInfinity64 : 0.5 * (e + e / (e + 1));
  });
}
inline float cosh_f32(float x) {
  const double e = exp_f64(static_cast<double>(x < 0 ? -x : x));
  return static_cast<float>(0.5 * (e + 1 / e));
}
// log(a + sqrt(a^2 + 1)); from 1e4 on the root is a within 2^-27.
inline float asinh_f32(float x) {
  return odd_function(x, [](double a) {
    return a > 1e4 ? log_f64(a) + 0.69314718055994530942 : log1p_f64(a + a * a / (1 + sqrt_f64(a * a + 1)));
  });
}
// log(x + sqrt(x^2 - 1)), NaN below 1.
inline float acosh_f32(float x) {
  const double t = static_cast<double>(x) - 1;
  if (!(t >= 0)) return kNaN;
  return static_cast<float>(t > 1e4 ? log_f64(t + 1) + 0.69314718055994530942 : log1p_f64(t + sqrt_f64(t * (t + 2))));
}
// log((1 + x) / (1 - x)) / 2, NaN outside [-1, 1].
inline float atanh_f32(float x) {
  return odd_function(x, [](double a) { return 0.5 * log1p_f64(2 * a / (1 - a)); });
}

// log(1 + exp(x)).
inline double softplus_f64(double x) { return (x > 0 ? x : 0) + log1p_f64(exp_f64(x > 0 ? -x : x)); }
inline float softplus_f32(float x) { return x != x ? x : static_cast<float>(softplus_f64(static_cast<double>(x))); }
// x tanh(softplus(x)) = x n / (n + 2) with n = exp(x) (exp(x) + 2).
inline float mish_f32(float x) {
  const double e = exp_f64(static_cast<double>(x < 40 ? x : 40)), n = e * (e + 2);
  return x != x || x >= 40 ? x : (x < -200 ? 0.0f : static_cast<float>(static_cast<double>(x) * (n / (n + 2))));
}
// x for x >= 0, else alpha (exp(beta x) - 1); all times gamma.
inline float elu_f32(float x, float alpha, float beta, float gamma) {
  const double a = static_cast<double>(x);
  const double y = x >= 0 ? a : static_cast<double>(alpha) * expm1_f64(a * static_cast<double>(beta));
  return static_cast<float>(y * static_cast<double>(gamma));
}

// Toward zero. Values of 2^23 and more have no fraction; NaN stays.
constexpr float trunc_f32(float x) {
  if (!(x < 0x1p23f && x > -0x1p23f)) return x;
  const float t = static_cast<float>(static_cast<int32_t>(x));
  return t == 0 ? x * 0.0f : t;
}
constexpr float floor_f32(float x) {
  const float t = trunc_f32(x);
  return t > x ? t - 1.0f : t;
}
constexpr float ceil_f32(float x) {
  const float t = trunc_f32(x);
  return t < x ? t + 1.0f : t;
}
constexpr float abs_f32(float x) { return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, x) & 0x7fffffffu); }
constexpr float sign_f32(float x) { return x > 0 ? 1.0f : (x < 0 ? -1.0f : x); }

// a - b trunc(a / b), exactly, with the sign of a: the mantissas are divided bit by bit.
constexpr float fmod_f32(float a, float b) {
  const float x = abs_f32(a), y = abs_f32(b);
  if (a - a != 0 || b != b || y == 0) return kNaN;
  if (x < y) return a;
  const auto split = [](float v, int32_t* exponent) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, v), e = bits >> 23;
    *exponent = e == 0 ? -149 : static_cast<int32_t>(e) - 150;
    return e == 0 ? bits : (bits & 0x7fffffu) | 0x800000u;
  };
  int32_t ex = 0, ey = 0;
  const uint32_t my = split(y, &ey);
  uint32_t mx = split(x, &ex) % my;
  for (; ex > ey; --ex) mx = (mx << 1) % my;
  // The rest is mx 2^ey with mx below 2^24: exact.
  float r = static_cast<float>(mx);
  for (; ey > 0; --ey) r *= 2.0f;
  for (; ey < 0; ++ey) r *= 0.5f;
  return a < 0 ? -r : r;
}

// x to the power y as IEEE 754's pow: exp(y log |x|), negative x only with integer y.
inline float pow_f32(float x, float y) {
  if (y == 0 || x == 1) return 1.0f;
  if (x != x || y != y) return kNaN;
  const float size = abs_f32(y);
  const bool integer = trunc_f32(y) == y;
  const bool odd = integer && size < 0x1p24f && (static_cast<int32_t>(size) & 1) != 0;
  if (x < 0 && !integer && x != -kFloatInfinity && size != kFloatInfinity) return kNaN;
  if (x == -1 && size == kFloatInfinity) return 1.0f;
  const double l = log_f64(static_cast<double>(abs_f32(x)));
  const double r = exp_f64(static_cast<double>(y) * l);
  const bool negative = odd && (__builtin_bit_cast(uint32_t, x) >> 31) != 0;
  return static_cast<float>(negative ? -r : r);
}

}  // namespace lathe::kernels
