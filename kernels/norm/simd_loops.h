// Layer normalization over a Lanes type. Included by this family's ISA files only, after their lanes.
#pragma once
#include "kernels/math/simd_math.h"
#include "kernels/norm/norm.h"

namespace lathe::kernels {
namespace {

// Sums over one row wait for one another: this many run side by side.
inline constexpr uint32_t kSums = 4;

// Sum of f(x) over a row: kSums vectors side by side, then their tree and that of the lanes. A function of n alone.
template <class L, class Term> [[gnu::always_inline]] inline float sum_row(const float* x, uint32_t n, const Term& term) {
  using F = typename L::F;
  F sums[kSums];
  for (F& s : sums) s = F(0.0f);
  for_each_strip<L, kSums>(n, [&](uint32_t i, auto strip, auto part) __attribute__((always_inline)) {
    for (uint32_t v = 0; v < strip.kVectors; ++v)
      sums[v] = sums[v] + L::keep(term(L::load(x + i + v * L::kWidth, part)), F(0.0f), part);
  });
  return L::sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <class L> void layer_norm_f32(const LayerNormF32Args& a) {
  using F = typename L::F;
  const float n = static_cast<float>(a.n);
  for (uint32_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.n;
    float* y = a.y + r * a.n;
    const F mean(sum_row<L>(x, a.n, [](F v) __attribute__((always_inline)) { return v; }) / n);
    const float squares = sum_row<L>(x, a.n, [&](F v) __attribute__((always_inline)) { return F((v - mean) * (v - mean)); });
    const F inverse = F(1.0f) / L::sqrt(F(squares / n + a.epsilon));
    for_each_vector<L>(a.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      const F scaled = (L::load(x + i, part) - mean) * inverse;
      const F bias = a.bias != nullptr ? L::load(a.bias + i, part) : F(0.0f);
      L::store(y + i, L::mul_add(scaled, L::load(a.scale + i, part), bias), part);
    });
  }
}

// Sums over a row of bytes q, as they are for u8 storage and as q + 128 for s8: neither d nor V depends on that.
struct RowSums {
  uint32_t sum, squares;
};

// row_sums(x, n) gives RowSums, the ISA's own way; `flip` is 0x80 for s8 storage.
template <class L, class Sums>
[[gnu::always_inline]] inline void layer_norm_8(const LayerNormS8Args& a, uint32_t flip, const Sums& row_sums) {
  using F = typename L::F;
  const Rounding<L> rounding(a.c.zero_point, a.c.lo, a.c.hi);
  const F n(static_cast<float>(a.n)), c(a.c.c);
  for (uint32_t r = 0; r < a.rows; ++r) {
    const uint8_t* x = static_cast<const uint8_t*>(a.x) + r * a.n;
    uint8_t* y = static_cast<uint8_t*>(a.y) + r * a.n;
    const RowSums s = row_sums(x, a.n);
    const int64_t variance = int64_t{a.n} * s.squares - int64_t{s.sum} * s.sum;
    const F inverse = F(1.0f) / L::sqrt(F(static_cast<float>(variance)) + c);
    // n q and the sum are integers below 2^24, so that d is exact, whether rounded once or twice.
    const F minus_sum(-static_cast<float>(s.sum));
    for_each_vector<L>(a.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      const F d = L::mul_add(L::to_float(L::template load8<true>(x + i, flip, part)), n, minus_sum);
      L::store8(y + i, rounding(d * inverse * L::load(a.g + i, part) + L::load(a.b + i, part)), part);
    });
  }
}

}  // namespace
}  // namespace lathe::kernels
