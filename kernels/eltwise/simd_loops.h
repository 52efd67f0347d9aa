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

// 8-bit loops do whole blocks first, where the lanes have them, and return how many elements those were; the rest goes vector by
// vector.

// An operand of an 8-bit row: its values less their zero point.
template <class L, bool kUnsigned> struct ByteOperand {
  using F = typename L::F;
  const uint8_t* p;
  uint32_t step, flip;
  typename L::I zero;
  F one;  // the value, where there is one for the row

  ByteOperand(const void* row, uint32_t s, uint32_t f, int32_t z)
      : p(static_cast<const uint8_t*>(row)), step(s), flip(f), zero(z), one(0.0f) {
    if (step != 0) return;
    const uint8_t v = static_cast<uint8_t>(*p ^ flip);
    one = F(static_cast<float>((kUnsigned ? v : static_cast<int8_t>(v)) - z));
  }
  template <class P> [[gnu::always_inline]] F at(uint32_t i, P part) const {
    return step == 0 ? one : F(L::to_float(L::template load8<kUnsigned>(p + i, flip, part) - zero));
  }
};

template <class L, bool kUnsigned, class Op, class Row>
[[gnu::always_inline]] inline void each_row_8(const BinaryS8Args& g, const Op& op, const Row& blocks) {
  const Rounding<L> rounding(g.c.zero_point, g.c.lo, g.c.hi);
  for (uint32_t r = 0; r < g.rows; ++r) {
    const ByteOperand<L, kUnsigned> a(static_cast<const uint8_t*>(g.a) + r * g.a_row, g.a_step, g.c.a_flip, g.c.a_zero),
        b(static_cast<const uint8_t*>(g.b) + r * g.b_row, g.b_step, g.c.b_flip, g.c.b_zero);
    uint8_t* y = static_cast<uint8_t*>(g.y) + r * g.y_row;
    for_each_vector_from<L>(blocks(a, b, y), g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
      L::store8(y + i, rounding(op(a.at(i, part), b.at(i, part))), part);
    });
  }
}

template <class L, bool kUnsigned, class Op>
[[gnu::always_inline]] inline void map_block_rows_8(const BinaryS8Args& g, const Op& op) {
  using F = typename L::F;
  using Operand = ByteOperand<L, kUnsigned>;
  const typename L::template BlockIn<kUnsigned> in_a(g.c.a_flip, g.c.a_zero), in_b(g.c.b_flip, g.c.b_zero);
  const typename L::template BlockOut<kUnsigned> out(g.c.zero_point, g.c.lo, g.c.hi);
  each_row_8<L, kUnsigned>(g, op, [&](const Operand& a, const Operand& b, uint8_t* y) __attribute__((always_inline)) {
    uint32_t i = 0;
    for (; i + L::kBlock <= g.n; i += L::kBlock) {
      F av[4] = {a.one, a.one, a.one, a.one}, bv[4] = {b.one, b.one, b.one, b.one};
      if (a.step != 0) in_a(a.p + i, av);
      if (b.step != 0) in_b(b.p + i, bv);
      for (uint32_t v = 0; v < 4; ++v) av[v] = op(av[v], bv[v]);
      out(y + i, av);
    }
    return i;
  });
}

// `op` maps the operands' values less their zero points to the real result in steps of y.
template <class L, bool kUnsigned, class Op> [[gnu::always_inline]] inline void map_rows_8(const BinaryS8Args& g, const Op& op) {
  using Operand = ByteOperand<L, kUnsigned>;
  if constexpr (L::kBlock != 0) {
    if (g.n >= L::kBlock) return map_block_rows_8<L, kUnsigned>(g, op);
  }
  each_row_8<L, kUnsigned>(g, op, [](const Operand&, const Operand&, uint8_t*) { return 0u; });
}

template <class L, bool kUnsigned> void binary_8(const BinaryS8Args& g) {
  using F = typename L::F;
  if (g.n == 0) return;
  const F m_a(g.c.m_a), m_b(g.c.m_b);
  switch (g.op) {
    case BinaryOp::kAdd:
      return map_rows_8<L, kUnsigned>(g, [&](F a, F b) __attribute__((always_inline)) { return F(a * m_a + b * m_b); });
    case BinaryOp::kSub:
      return map_rows_8<L, kUnsigned>(g, [&](F a, F b) __attribute__((always_inline)) { return F(a * m_a - b * m_b); });
    default:
      // The product of two differences has 17 bits: exact as a float product too.
      return map_rows_8<L, kUnsigned>(g, [&](F a, F b) __attribute__((always_inline)) { return F(a * b * m_a); });
  }
}

// `scale` maps x less its zero point to steps of y.
template <class L, bool kUnsigned, class Scale>
[[gnu::always_inline]] inline uint32_t regrid_blocks(const RegridS8Args& g, const Scale& scale) {
  const typename L::template BlockIn<kUnsigned> in(g.c.x_flip, g.c.x_zero);
  const typename L::template BlockOut<kUnsigned> out(g.c.zero_point, g.c.lo, g.c.hi);
  uint32_t i = 0;
  for (; i + L::kBlock <= g.n; i += L::kBlock) {
    typename L::F v[4];
    in(static_cast<const uint8_t*>(g.x) + i, v);
    for (auto& f : v) f = scale(f);
    out(static_cast<uint8_t*>(g.y) + i, v);
  }
  return i;
}

template <class L, bool kUnsigned, class Scale>
[[gnu::always_inline]] inline void map_regrid(const RegridS8Args& g, const Scale& scale) {
  const Rounding<L> rounding(g.c.zero_point, g.c.lo, g.c.hi);
  const typename L::I zero(g.c.x_zero);
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  uint32_t done = 0;
  if constexpr (L::kBlock != 0) done = regrid_blocks<L, kUnsigned>(g, scale);
  for_each_vector_from<L>(done, g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
    L::store8(y + i, rounding(scale(L::to_float(L::template load8<kUnsigned>(x + i, g.c.x_flip, part) - zero))), part);
  });
}

template <class L, bool kUnsigned> void regrid_8(const RegridS8Args& g) {
  using F = typename L::F;
  const F m_pos(g.c.m_pos), m_neg(g.c.m_neg);
  if (g.c.m_pos == g.c.m_neg) {
    return map_regrid<L, kUnsigned>(g, [&](F d) __attribute__((always_inline)) { return F(d * m_pos); });
  }
  map_regrid<L, kUnsigned>(g, [&](F d) __attribute__((always_inline)) { return F(d * L::select(d < F(0.0f), m_neg, m_pos)); });
}

template <class L, bool kUnsigned> [[gnu::always_inline]] inline uint32_t quantize_blocks(const QuantizeF32Args& g) {
  const typename L::template BlockOut<kUnsigned> out(g.c.zero_point, g.c.lo, g.c.hi);
  const typename L::F scale(g.c.scale);
  uint32_t i = 0;
  for (; i + L::kBlock <= g.n; i += L::kBlock) {
    typename L::F v[4];
    for (uint32_t k = 0; k < 4; ++k) v[k] = L::load(g.x + i + k * L::kWidth, typename L::Whole{}) / scale;
    out.in_order(static_cast<uint8_t*>(g.y) + i, v);
  }
  return i;
}

template <class L, bool kUnsigned> void quantize_8(const QuantizeF32Args& g) {
  const Rounding<L> rounding(g.c.zero_point, g.c.lo, g.c.hi);
  const typename L::F scale(g.c.scale);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  uint32_t done = 0;
  if constexpr (L::kBlock != 0) done = quantize_blocks<L, kUnsigned>(g);
  for_each_vector_from<L>(done, g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
    L::store8(y + i, rounding(L::load(g.x + i, part) / scale), part);
  });
}

template <class L, bool kUnsigned> [[gnu::always_inline]] inline uint32_t dequantize_blocks(const DequantizeF32Args& g) {
  const typename L::template BlockIn<kUnsigned> in(g.c.x_flip, g.c.zero_point);
  const typename L::F scale(g.c.scale);
  uint32_t i = 0;
  for (; i + L::kBlock <= g.n; i += L::kBlock) {
    typename L::F v[4];
    in.in_order(static_cast<const uint8_t*>(g.x) + i, v);
    for (uint32_t k = 0; k < 4; ++k) L::store(g.y + i + k * L::kWidth, v[k] * scale, typename L::Whole{});
  }
  return i;
}

template <class L, bool kUnsigned> void dequantize_8(const DequantizeF32Args& g) {
  const typename L::F scale(g.c.scale);
  const typename L::I zero(g.c.zero_point);
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint32_t done = 0;
  if constexpr (L::kBlock != 0) done = dequantize_blocks<L, kUnsigned>(g);
  for_each_vector_from<L>(done, g.n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
    L::store(g.y + i, L::to_float(L::template load8<kUnsigned>(x + i, g.c.x_flip, part) - zero) * scale, part);
  });
}

}  // namespace
}  // namespace lathe::kernels
