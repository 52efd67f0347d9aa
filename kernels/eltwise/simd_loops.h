// Elementwise kernels over a Lanes type. Included by this family's ISA files only, after their lanes.
#pragma once
#include "kernels/eltwise/eltwise.h"
#include "kernels/math/simd_math.h"

namespace lathe::kernels {
namespace {

template <class L, class Op> [[gnu::always_inline]] inline void map_f32(const UnaryF32Args& g, const Op& op) {
  for_each_vector<L>(
      g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) { L::store(g.y + i, op(L::load(g.x + i, part)), part); });
}

template <class L> void unary_f32(const UnaryF32Args& g) {
  using F = typename L::F;
  const F a(g.a), b(g.b);
  switch (g.op) {
    case UnaryOp::kClamp: return map_f32<L>(g, [&](F x) __attribute__((always_inline)) { return clamp_lanes<L>(x, a, b); });
    case UnaryOp::kSigmoid: return map_f32<L>(g, [](F x) __attribute__((always_inline)) { return sigmoid_lanes<L>(x); });
    case UnaryOp::kTanh: return map_f32<L>(g, [](F x) __attribute__((always_inline)) { return tanh_lanes<L>(x); });
    case UnaryOp::kExp: return map_f32<L>(g, [](F x) __attribute__((always_inline)) { return exp_lanes<L>(x); });
    case UnaryOp::kSqrt: return map_f32<L>(g, [](F x) __attribute__((always_inline)) { return L::sqrt(x); });
    case UnaryOp::kLeakyRelu:
      return map_f32<L>(g, [&](F x) __attribute__((always_inline)) { return L::select(x >= F(0.0f), x, a * x); });
    case UnaryOp::kHardSwish:
      return map_f32<L>(g, [](F x) __attribute__((always_inline)) {
        return F(x * (clamp_lanes<L>(x + F(3.0f), F(0.0f), F(6.0f)) * F(1.0f / 6.0f)));
      });
    case UnaryOp::kErf: return map_f32<L>(g, [](F x) __attribute__((always_inline)) { return erf_lanes<L>(x); });
    case UnaryOp::kGelu: return map_f32<L>(g, [](F x) __attribute__((always_inline)) { return gelu_lanes<L>(x); });
    case UnaryOp::kGeluTanh: return map_f32<L>(g, [](F x) __attribute__((always_inline)) { return gelu_tanh_lanes<L>(x); });
    case UnaryOp::kSilu: return map_f32<L>(g, [](F x) __attribute__((always_inline)) { return silu_lanes<L>(x); });
  }
}

// An operand of a row: a vector of values, or one value for all.
template <class L> struct VectorOperand {
  const float* p;
  template <class P> [[gnu::always_inline]] typename L::F at(uint32_t i, P part) const { return L::load(p + i, part); }
};
template <class L> struct SplatOperand {
  typename L::F v;
  explicit SplatOperand(const float* p) : v(*p) {}
  template <class P> [[gnu::always_inline]] typename L::F at(uint32_t, P) const { return v; }
};

template <class L, class A, class B, class Op> [[gnu::always_inline]] inline void map_rows(const BinaryF32Args& g, const Op& op) {
  const typename L::F lo(g.lo), hi(g.hi);
  for (uint32_t r = 0; r < g.rows; ++r) {
    const A a{g.a + r * g.a_row};
    const B b{g.b + r * g.b_row};
    float* y = g.y + r * g.y_row;
    for_each_vector<L>(g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      L::store(y + i, clamp_lanes<L>(op(a.at(i, part), b.at(i, part)), lo, hi), part);
    });
  }
}

template <class L, class Op> [[gnu::always_inline]] inline void map_operands(const BinaryF32Args& g, const Op& op) {
  if (g.n == 0) return;
  if (g.a_step != 0 && g.b_step != 0) return map_rows<L, VectorOperand<L>, VectorOperand<L>>(g, op);
  if (g.a_step != 0) return map_rows<L, VectorOperand<L>, SplatOperand<L>>(g, op);
  if (g.b_step != 0) return map_rows<L, SplatOperand<L>, VectorOperand<L>>(g, op);
  return map_rows<L, SplatOperand<L>, SplatOperand<L>>(g, op);
}

template <class L> void binary_f32(const BinaryF32Args& g) {
  using F = typename L::F;
  switch (g.op) {
    case BinaryOp::kAdd: return map_operands<L>(g, [](F a, F b) __attribute__((always_inline)) { return F(a + b); });
    case BinaryOp::kSub: return map_operands<L>(g, [](F a, F b) __attribute__((always_inline)) { return F(a - b); });
    case BinaryOp::kMul: return map_operands<L>(g, [](F a, F b) __attribute__((always_inline)) { return F(a * b); });
    case BinaryOp::kDiv: return map_operands<L>(g, [](F a, F b) __attribute__((always_inline)) { return F(a / b); });
  }
}

// 8-bit rows. `op` maps the operands' values less their zero points to the real result in steps of y.
template <class L, bool kUnsigned, class Op> [[gnu::always_inline]] inline void map_rows_8(const BinaryS8Args& g, const Op& op) {
  using I = typename L::I;
  const Rounding<L> rounding(g.c.zero_point, g.c.lo, g.c.hi);
  const I a_zero(g.c.a_zero), b_zero(g.c.b_zero);
  for (uint32_t r = 0; r < g.rows; ++r) {
    const uint8_t* a = static_cast<const uint8_t*>(g.a) + r * g.a_row;
    const uint8_t* b = static_cast<const uint8_t*>(g.b) + r * g.b_row;
    uint8_t* y = static_cast<uint8_t*>(g.y) + r * g.y_row;
    const auto splat = [](const uint8_t* p, uint32_t flip) {
      const uint8_t v = static_cast<uint8_t>(*p ^ flip);
      return I(kUnsigned ? v : static_cast<int8_t>(v));
    };
    const I a_one = g.a_step == 0 ? splat(a, g.c.a_flip) : I(0), b_one = g.b_step == 0 ? splat(b, g.c.b_flip) : I(0);
    for_each_vector<L>(g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      const I av = g.a_step == 0 ? a_one : L::template load8<kUnsigned>(a + i, g.c.a_flip, part);
      const I bv = g.b_step == 0 ? b_one : L::template load8<kUnsigned>(b + i, g.c.b_flip, part);
      L::store8(y + i, rounding(op(av - a_zero, bv - b_zero)), part);
    });
  }
}

template <class L, bool kUnsigned> void binary_8(const BinaryS8Args& g) {
  using F = typename L::F;
  using I = typename L::I;
  if (g.n == 0) return;
  const F m_a(g.c.m_a), m_b(g.c.m_b);
  switch (g.op) {
    case BinaryOp::kAdd:
      return map_rows_8<L, kUnsigned>(
          g, [&](I a, I b) __attribute__((always_inline)) { return F(L::to_float(a) * m_a + L::to_float(b) * m_b); });
    case BinaryOp::kSub:
      return map_rows_8<L, kUnsigned>(
          g, [&](I a, I b) __attribute__((always_inline)) { return F(L::to_float(a) * m_a - L::to_float(b) * m_b); });
    default:
      // The product of two differences has 17 bits: exact as a float product too.
      return map_rows_8<L, kUnsigned>(
          g, [&](I a, I b) __attribute__((always_inline)) { return F(L::to_float(a) * L::to_float(b) * m_a); });
  }
}

template <class L, bool kUnsigned> void regrid_8(const RegridS8Args& g) {
  using F = typename L::F;
  const Rounding<L> rounding(g.c.zero_point, g.c.lo, g.c.hi);
  const typename L::I zero(g.c.x_zero);
  const F m_pos(g.c.m_pos), m_neg(g.c.m_neg);
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  for_each_vector<L>(g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
    const F d = L::to_float(L::template load8<kUnsigned>(x + i, g.c.x_flip, part) - zero);
    L::store8(y + i, rounding(d * L::select(d < F(0.0f), m_neg, m_pos)), part);
  });
}

// The same for both storages: zero point and limits say which.
template <class L> void quantize_8(const QuantizeF32Args& g) {
  const Rounding<L> rounding(g.c.zero_point, g.c.lo, g.c.hi);
  const typename L::F scale(g.c.scale);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  for_each_vector<L>(g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
    L::store8(y + i, rounding(L::load(g.x + i, part) / scale), part);
  });
}

template <class L, bool kUnsigned> void dequantize_8(const DequantizeF32Args& g) {
  const typename L::F scale(g.c.scale);
  const typename L::I zero(g.c.zero_point);
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  for_each_vector<L>(g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
    L::store(g.y + i, L::to_float(L::template load8<kUnsigned>(x + i, g.c.x_flip, part) - zero) * scale, part);
  });
}

}  // namespace
}  // namespace lathe::kernels
