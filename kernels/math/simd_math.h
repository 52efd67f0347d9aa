// Vector forms of math.h over a Lanes type (<isa>_lanes.h), with fused multiply-adds. Included by ISA files only, after their
// lanes.
#pragma once
#include <stdint.h>

#include "kernels/math/math.h"
#include "lathe/arith.h"

namespace lathe::kernels {
namespace {

// Calls body(i, Whole) for every whole vector of n elements and body(i, Part) for what is left.
template <class L, class Body> [[gnu::always_inline]] inline void for_each_vector(uint32_t n, const Body& body) {
  uint32_t i = 0;
  for (; i + L::kWidth <= n; i += L::kWidth) body(i, typename L::Whole{});
  if (i < n) body(i, typename L::Part{n - i});
}

// The same in strips of kVectors neighbouring vectors, body(i, Strip<kVectors>, Whole), and then vector by vector, body(i,
// Strip<1>, Whole or Part): for loops whose sums would wait for one another if there were only one.
template <uint32_t kCount> struct Strip {
  static constexpr uint32_t kVectors = kCount;
};
template <class L, uint32_t kVectors, class Body>
[[gnu::always_inline]] inline void for_each_strip(uint32_t n, const Body& body) {
  uint32_t begin = 0;
  for (; begin + kVectors * L::kWidth <= n; begin += kVectors * L::kWidth) body(begin, Strip<kVectors>{}, typename L::Whole{});
  for_each_vector<L>(n - begin, [&](uint32_t i, auto part) __attribute__((always_inline)) { body(begin + i, Strip<1>{}, part); });
}

// What is left of n elements after the first `done`: for_each_vector over them.
template <class L, class Body>
[[gnu::always_inline]] inline void for_each_vector_from(uint32_t done, uint32_t n, const Body& body) {
  for_each_vector<L>(n - done, [&](uint32_t i, auto part) __attribute__((always_inline)) { body(done + i, part); });
}

// NaN stays NaN.
template <class L> [[gnu::always_inline]] inline typename L::F clamp_lanes(typename L::F v, typename L::F lo, typename L::F hi) {
  return L::min(hi, L::max(lo, v));
}

// ARITHMETIC's R(v, z) for limits that are the same in all lanes.
template <class L> struct Rounding {
  typename L::F lo, hi;
  typename L::I z;
  Rounding(int32_t zero_point, int32_t q_lo, int32_t q_hi)
      : lo(static_cast<float>(q_lo - zero_point)), hi(static_cast<float>(q_hi - zero_point)), z(zero_point) {}
  [[gnu::always_inline]] typename L::I operator()(typename L::F v) const { return L::round(L::limit(v, lo, hi)) + z; }
};

// exp(x) = e 2^n: adding kRound to x / ln 2 rounds it to n and leaves n in the low bits of `shifted`.
template <class L> struct ExpParts {
  typename L::F e, n, shifted;
};
template <class L> [[gnu::always_inline]] inline ExpParts<L> exp_parts(typename L::F x) {
  using C = ExpConstants;
  using F = typename L::F;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
  const F shifted = L::mul_add(x, F(C::kLog2e), F(kRound)), n = shifted - F(kRound);
  const F r = L::neg_mul_add(n, F(C::kLn2Low), L::neg_mul_add(n, F(C::kLn2High), x));
  F p = F(C::kP[0]);
  for (uint32_t i = 1; i < 5; ++i) p = L::mul_add(p, r, F(C::kP[i]));
  return {L::mul_add(L::mul_add(p, r, F(1.0f)), r, F(1.0f)), n, shifted};
}

// At most 2 ulp, denormal results included; NaN stays NaN.
template <class L> [[gnu::always_inline]] inline typename L::F exp_lanes(typename L::F x) {
  using C = ExpConstants;
  using F = typename L::F;
  const ExpParts<L> parts = exp_parts<L>(clamp_lanes<L>(x, F(C::kLowest), F(C::kHighest)));
  return L::times_exp2(parts.e, parts.n);
}

// The same for kNormal <= x <= 88: no result is denormal or infinite, so that n is added to the exponent.
template <class L> [[gnu::always_inline]] inline typename L::F exp_normal_lanes(typename L::F x) {
  const ExpParts<L> parts = exp_parts<L>(x);
  return L::add_exponent(parts.e, parts.shifted);
}

// The same for x <= 88; 0 below kNormal.
template <class L> [[gnu::always_inline]] inline typename L::F exp_or_zero_lanes(typename L::F x) {
  return L::zero_below(exp_normal_lanes<L>(x), x, typename L::F(ExpConstants::kNormal));
}

// At most 3 ulp.
template <class L> [[gnu::always_inline]] inline typename L::F sigmoid_lanes(typename L::F x) {
  using F = typename L::F;
  const F e = exp_lanes<L>(F(0.0f) - L::abs(x));
  return L::select(x < F(0.0f), e, F(1.0f)) / (F(1.0f) + e);
}

// At most 3 ulp.
template <class L> [[gnu::always_inline]] inline typename L::F tanh_lanes(typename L::F x) {
  using C = TanhConstants;
  using F = typename L::F;
  const F a = L::abs(x), z = x * x;
  F p = F(C::kP[0]);
  for (uint32_t i = 1; i < 5; ++i) p = L::mul_add(p, z, F(C::kP[i]));
  const F small = L::mul_add(p * z, x, x);
  // From 10 on tanh rounds to 1.
  const F large = F(1.0f) - F(2.0f) / (exp_normal_lanes<L>(L::min(F(20.0f), a + a)) + F(1.0f));
  return L::select(a < F(C::kSplit), small, L::with_sign(large, x));
}

// At most 3 ulp.
template <class L> [[gnu::always_inline]] inline typename L::F erf_lanes(typename L::F x) {
  using C = ErfConstants;
  using F = typename L::F;
  const F a = L::abs(x), z = x * x, t = L::min(F(C::kHighest), a);
  F p = F(C::kP[0]);
  for (uint32_t i = 1; i < 6; ++i) p = L::mul_add(p, z, F(C::kP[i]));
  F q = F(C::kQ[0]);
  for (uint32_t i = 1; i < 7; ++i) q = L::mul_add(q, t, F(C::kQ[i]));
  return L::select(a < F(C::kSplit), L::mul_add(p, x, x), L::with_sign(F(1.0f) - exp_normal_lanes<L>(q), x));
}

// Within 2^-22 |x| all three.
template <class L> [[gnu::always_inline]] inline typename L::F gelu_lanes(typename L::F x) {
  using C = GeluConstants;
  using F = typename L::F;
  const F a = L::min(F(C::kHighest), L::abs(x));
  F p = F(C::kP[0]);
  for (uint32_t i = 1; i < 8; ++i) p = L::mul_add(p, a, F(C::kP[i]));
  const F h = exp_normal_lanes<L>(p);
  return x * L::select(x < F(0.0f), h, F(1.0f) - h);
}
template <class L> [[gnu::always_inline]] inline typename L::F gelu_tanh_lanes(typename L::F x) {
  using F = typename L::F;
  return x * sigmoid_lanes<L>(x * L::mul_add(F(kGeluCubic), x * x, F(kGeluLinear)));
}
template <class L> [[gnu::always_inline]] inline typename L::F silu_lanes(typename L::F x) { return x * sigmoid_lanes<L>(x); }

}  // namespace
}  // namespace lathe::kernels
