// Softmax over a Lanes type. Included by this family's ISA files only, after their lanes.
#pragma once
#include "kernels/math/simd_math.h"
#include "kernels/softmax/softmax.h"

namespace lathe::kernels {
namespace {

// The order of additions is the lanes', then a tree over them: a function of n alone.
template <class L> [[gnu::always_inline]] inline float sum_of(typename L::F v) {
  float lanes[L::kWidth];
  L::store(lanes, v, typename L::Whole{});
  for (uint32_t half = L::kWidth / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <class L> [[gnu::always_inline]] inline float max_of(typename L::F v) {
  float lanes[L::kWidth];
  L::store(lanes, v, typename L::Whole{});
  float highest = lanes[0];
  for (uint32_t i = 1; i < L::kWidth; ++i) highest = lanes[i] > highest ? lanes[i] : highest;
  return highest;
}

template <class L> void softmax_f32(const SoftmaxF32Args& g) {
  using F = typename L::F;
  const F none(-kFloatInfinity);
  for (uint32_t r = 0; r < g.rows; ++r) {
    const float* x = g.x + r * g.n;
    float* y = g.y + r * g.n;
    F highest = none;
    for_each_vector<L>(g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      highest = L::max(L::keep(L::load(x + i, part), none, part), highest);
    });
    const F shift(max_of<L>(highest));
    F sum(0.0f);
    for_each_vector<L>(g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      const F e = exp_lanes<L>(L::load(x + i, part) - shift);
      sum = sum + L::keep(e, F(0.0f), part);
      L::store(y + i, e, part);
    });
    const F inverse(1.0f / sum_of<L>(sum));
    for_each_vector<L>(g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      L::store(y + i, L::load(y + i, part) * inverse, part);
    });
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
