// Softmax over a Lanes type. Included by this family's ISA files only, after their lanes.
#pragma once
#include "kernels/math/simd_math.h"
#include "kernels/softmax/softmax.h"

namespace lathe::kernels {
namespace {

// This many rows go together: one alone waits for its maximum, then for its sum.
inline constexpr uint32_t kRows = 8;

// Rows of at least a vector. The order of additions is the lanes', then a tree over them: a function of n alone.
template <class L> [[gnu::always_inline]] inline void wide_rows(const float* x, float* y, uint32_t rows, uint32_t n) {
  using F = typename L::F;
  const F none(-kFloatInfinity);
  float top[kRows], inverse[kRows];
  for (uint32_t r = 0; r < rows; ++r) {
    F highest = none;
    for_each_vector<L>(n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      highest = L::max(L::keep(L::load(x + r * n + i, part), none, part), highest);
    });
    top[r] = L::max_lanes(highest);
  }
  for (uint32_t r = 0; r < rows; ++r) {
    const F shift(top[r]);
    F sum(0.0f);
    for_each_vector<L>(n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      const F e = exp_or_zero_lanes<L>(L::load(x + r * n + i, part) - shift);
      sum = sum + L::keep(e, F(0.0f), part);
      L::store(y + r * n + i, e, part);
    });
    inverse[r] = 1.0f / L::sum_lanes(sum);
  }
  for (uint32_t r = 0; r < rows; ++r) {
    const F factor(inverse[r]);
    for_each_vector<L>(n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      L::store(y + r * n + i, L::load(y + r * n + i, part) * factor, part);
    });
  }
}

// Rows shorter than a vector: one row a lane, brought into columns and back.
template <class L> [[gnu::always_inline]] inline void narrow_rows(const float* x, float* y, uint32_t rows, uint32_t n) {
  using F = typename L::F;
  const typename L::Whole whole{};
  float columns[L::kWidth][L::kWidth] = {};
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t i = 0; i < n; ++i) columns[i][r] = x[r * n + i];
  }
  F top(-kFloatInfinity), sum(0.0f);
  for (uint32_t i = 0; i < n; ++i) top = L::max(L::load(columns[i], whole), top);
  for (uint32_t i = 0; i < n; ++i) {
    const F e = exp_or_zero_lanes<L>(L::load(columns[i], whole) - top);
    sum = sum + e;
    L::store(columns[i], e, whole);
  }
  const F inverse = F(1.0f) / sum;
  for (uint32_t i = 0; i < n; ++i) L::store(columns[i], L::load(columns[i], whole) * inverse, whole);
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t i = 0; i < n; ++i) y[r * n + i] = columns[i][r];
  }
}

template <class L> void softmax_f32(const SoftmaxF32Args& g) {
  const bool narrow = g.n < L::kWidth;
  const uint32_t at_once = narrow ? L::kWidth : kRows;
  for (uint32_t first = 0; first < g.rows; first += at_once) {
    const uint32_t rows = g.rows - first < at_once ? g.rows - first : at_once;
    const float* x = g.x + first * g.n;
    float* y = g.y + first * g.n;
    narrow ? narrow_rows<L>(x, y, rows, g.n) : wide_rows<L>(x, y, rows, g.n);
  }
}

// The 16-bit terms of a vector of x. Lanes past the end look entry 0 up, which is neither summed nor stored.
template <class L, bool kUnsigned, class P>
[[gnu::always_inline]] inline typename L::I terms(const uint8_t* x, typename L::I top, const uint16_t* table, P part) {
  return L::lookup16(table, L::keep(top - L::template load8<kUnsigned>(x, 0, part), typename L::I(0), part));
}

template <class L, bool kUnsigned>
[[gnu::always_inline]] inline void softmax_row_8(const uint8_t* x, uint8_t* y, uint32_t n, const uint16_t* table) {
  using F = typename L::F;
  using I = typename L::I;
  int32_t highest = kUnsigned ? 0 : -128;
  for (uint32_t i = 0; i < n; ++i) {
    const int32_t v = kUnsigned ? x[i] : static_cast<int8_t>(x[i]);
    highest = v > highest ? v : highest;
  }
  const I top(highest);
  uint32_t sum = 0;
  I sums(0);
  for_each_vector<L>(n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
    sums = sums + L::keep(terms<L, kUnsigned>(x + i, top, table, part), I(0), part);
  });
  uint32_t lanes[L::kWidth];
  L::store(reinterpret_cast<int32_t*>(lanes), sums);
  for (uint32_t i = 0; i < L::kWidth; ++i) sum += lanes[i];
  const F scale(256.0f / static_cast<float>(sum));
  const Rounding<L> rounding(-128, -128, 127);
  const I storage(kUnsigned ? 128 : 0);
  for_each_vector<L>(n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
    const I t = terms<L, kUnsigned>(x + i, top, table, part);
    L::store8(y + i, rounding(L::to_float(t) * scale) + storage, part);
  });
}

template <class L, bool kUnsigned> void softmax_8(const SoftmaxS8Args& g) {
  if (g.n == 0) return;
  for (uint32_t r = 0; r < g.rows; ++r) {
    softmax_row_8<L, kUnsigned>(static_cast<const uint8_t*>(g.x) + r * g.n, static_cast<uint8_t*>(g.y) + r * g.n, g.n, g.table);
  }
}

}  // namespace
}  // namespace lathe::kernels
