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

// This many rows go together: one alone waits for its sums.
inline constexpr uint32_t kRows = 8;

template <class L>
[[gnu::always_inline]] inline void norm_rows(const LayerNormF32Args& a, const float* x, float* y, uint32_t rows) {
  using F = typename L::F;
  const float n = static_cast<float>(a.n);
  float mean[kRows], inverse[kRows];
  for (uint32_t r = 0; r < rows; ++r)
    mean[r] = sum_row<L>(x + r * a.n, a.n, [](F v) __attribute__((always_inline)) { return v; }) / n;
  for (uint32_t r = 0; r < rows; ++r) {
    const F m(mean[r]);
    const float squares =
        sum_row<L>(x + r * a.n, a.n, [&](F v) __attribute__((always_inline)) { return F((v - m) * (v - m)); });
    inverse[r] = 1.0f / L::sqrt_one(squares / n + a.epsilon);
  }
  for (uint32_t r = 0; r < rows; ++r) {
    const F m(mean[r]), factor(inverse[r]);
    for_each_vector<L>(a.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      const F scaled = (L::load(x + r * a.n + i, part) - m) * factor;
      const F bias = a.bias != nullptr ? L::load(a.bias + i, part) : F(0.0f);
      L::store(y + r * a.n + i, L::mul_add(scaled, L::load(a.scale + i, part), bias), part);
    });
  }
}

template <class L> void layer_norm_f32(const LayerNormF32Args& a) {
  for (uint32_t first = 0; first < a.rows; first += kRows) {
    norm_rows<L>(a, a.x + first * a.n, a.y + first * a.n, a.rows - first < kRows ? a.rows - first : kRows);
  }
}

// Sums over a row of bytes q, as they are for u8 storage and as q + 128 for s8: neither d nor V depends on that.
struct RowSums {
  uint32_t sum, squares;
};

// One row's results: d = n q - sum as floats. n q and the sum are integers below 2^24, so that d is exact, whether rounded once
// or twice.
template <class L> struct RowScale {
  typename L::F n, minus_sum, inverse;
  [[gnu::always_inline]] typename L::F operator()(typename L::F q, typename L::F g, typename L::F b) const {
    return L::mul_add(q, n, minus_sum) * inverse * g + b;
  }
};

template <class L, bool kUnsigned>
[[gnu::always_inline]] inline uint32_t norm_blocks(const LayerNormS8Args& a, const uint8_t* x, uint8_t* y,
                                                   const RowScale<L>& scale) {
  const typename L::Whole whole{};
  const typename L::template BlockIn<true> in(kUnsigned ? 0 : 0x80, 0);
  const typename L::template BlockOut<kUnsigned> out(a.c.zero_point, a.c.lo, a.c.hi);
  uint32_t i = 0;
  for (; i + L::kBlock <= a.n; i += L::kBlock) {
    typename L::F v[4];
    in.in_order(x + i, v);
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t at = i + k * L::kWidth;
      v[k] = scale(v[k], L::load(a.g + at, whole), L::load(a.b + at, whole));
    }
    out.in_order(y + i, v);
  }
  return i;
}

template <class L, bool kUnsigned>
[[gnu::always_inline]] inline void norm_row_8(const LayerNormS8Args& a, const uint8_t* x, uint8_t* y, const RowScale<L>& scale) {
  const Rounding<L> rounding(a.c.zero_point, a.c.lo, a.c.hi);
  uint32_t done = 0;
  if constexpr (L::kBlock != 0) done = norm_blocks<L, kUnsigned>(a, x, y, scale);
  for_each_vector_from<L>(done, a.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
    const typename L::F q = L::to_float(L::template load8<true>(x + i, kUnsigned ? 0 : 0x80, part));
    L::store8(y + i, rounding(scale(q, L::load(a.g + i, part), L::load(a.b + i, part))), part);
  });
}

// row_sums(x, n) gives RowSums, the ISA's own way.
template <class L, bool kUnsigned, class Sums>
[[gnu::always_inline]] inline void layer_norm_8(const LayerNormS8Args& a, const Sums& row_sums) {
  using F = typename L::F;
  const F n(static_cast<float>(a.n));
  for (uint32_t first = 0; first < a.rows; first += kRows) {
    const uint32_t rows = a.rows - first < kRows ? a.rows - first : kRows;
    const uint8_t* x = static_cast<const uint8_t*>(a.x) + first * a.n;
    uint8_t* y = static_cast<uint8_t*>(a.y) + first * a.n;
    float minus_sum[kRows], inverse[kRows];
    for (uint32_t r = 0; r < rows; ++r) {
      const RowSums s = row_sums(x + r * a.n, a.n);
      const int64_t variance = int64_t{a.n} * s.squares - int64_t{s.sum} * s.sum;
      minus_sum[r] = -static_cast<float>(s.sum);
      inverse[r] = 1.0f / L::sqrt_one(static_cast<float>(variance) + a.c.c);
    }
    for (uint32_t r = 0; r < rows; ++r)
      norm_row_8<L, kUnsigned>(a, x + r * a.n, y + r * a.n, RowScale<L>{n, F(minus_sum[r]), F(inverse[r])});
  }
}

}  // namespace
}  // namespace lathe::kernels
