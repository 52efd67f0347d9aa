// Rules of functions of each element: dx = dy f'(x), summed over what broadcasting repeated.
#include "graph/grad/rule.h"

namespace lathe::grad {
namespace {

// g is the gradient of operand i, before broadcasting is undone.
void set_broadcast(Backward& b, size_t i, ValueId g) { b.set(i, b.sum_to(g, b.x(i))); }

ValueId clamped(Backward& b) {
  const auto& a = b.attrs<BinaryAttrs>();
  return b.before_clamp(a.lo, a.hi);
}

void choose(Backward& b, ValueId first_wins) {
  const ValueId zero = b.scalar(0);
  if (b.wants(0)) set_broadcast(b, 0, b.where(first_wins, b.dy(), zero));
  if (b.wants(1)) set_broadcast(b, 1, b.where(first_wins, zero, b.dy()));
}

// dx = dy * slope
void scaled(Backward& b, ValueId slope) { b.set(0, b.mul(b.dy(), slope)); }

ValueId one_minus_square(Backward& b) { return b.sub(b.scalar(1), b.square(b.x())); }

// x where x > at, as a condition.
ValueId above(Backward& b, float at) { return b.node(Op::kLess, NoAttrs{}, {b.scalar(at), b.x()}); }
ValueId below(Backward& b, float at) { return b.node(Op::kLess, NoAttrs{}, {b.x(), b.scalar(at)}); }

}  // namespace

void grad_add(Backward& b) {
  const ValueId g = clamped(b);
  for (size_t i = 0; i < 2; ++i)
    if (b.wants(i)) set_broadcast(b, i, g);
}

void grad_sub(Backward& b) {
  const ValueId g = clamped(b);
  if (b.wants(0)) set_broadcast(b, 0, g);
  if (b.wants(1)) set_broadcast(b, 1, b.mul(g, -1.0f));
}

void grad_mul(Backward& b) {
  const ValueId g = clamped(b);
  for (size_t i = 0; i < 2; ++i)
    if (b.wants(i)) set_broadcast(b, i, b.mul(g, b.x(1 - i)));
}

// d(u / v) = du / v - u dv / v^2
void grad_div(Backward& b) {
  const ValueId g = b.div(clamped(b), b.x(1));
  if (b.wants(0)) set_broadcast(b, 0, g);
  if (b.wants(1)) set_broadcast(b, 1, b.mul(b.mul(g, b.div(b.x(0), b.x(1))), -1.0f));
}

void grad_max(Backward& b) { choose(b, b.node(Op::kLessEqual, NoAttrs{}, {b.x(1), b.x(0)})); }
void grad_min(Backward& b) { choose(b, b.node(Op::kLessEqual, NoAttrs{}, {b.x(0), b.x(1)})); }

// d(u^v) = v u^(v-1) du + u^v log(u) dv
void grad_pow(Backward& b) {
  if (b.wants(0)) {
    const ValueId power = b.node(Op::kPow, NoAttrs{}, {b.x(0), b.add(b.x(1), -1.0f)});
    set_broadcast(b, 0, b.mul(b.mul(b.dy(), b.x(1)), power));
  }
  if (b.wants(1)) set_broadcast(b, 1, b.mul(b.mul(b.dy(), b.y()), b.fn(Op::kLog, b.x(0))));
}

void grad_where(Backward& b) {
  const ValueId zero = b.scalar(0);
  if (b.wants(1)) set_broadcast(b, 1, b.where(b.x(0), b.dy(), zero));
  if (b.wants(2)) set_broadcast(b, 2, b.where(b.x(0), zero, b.dy()));
}

void grad_clamp(Backward& b) {
  const auto& a = b.attrs<ClampAttrs>();
  b.set(0, b.before_clamp(a.lo, a.hi));
}

void grad_sigmoid(Backward& b) { scaled(b, b.sub(b.y(), b.square(b.y()))); }
void grad_tanh(Backward& b) { scaled(b, b.sub(b.scalar(1), b.square(b.y()))); }
void grad_exp(Backward& b) { scaled(b, b.y()); }
void grad_log(Backward& b) { b.set(0, b.div(b.dy(), b.x())); }
void grad_sqrt(Backward& b) { b.set(0, b.div(b.mul(b.dy(), 0.5f), b.y())); }
void grad_abs(Backward& b) { scaled(b, b.fn(Op::kSign, b.x())); }
void grad_sin(Backward& b) { scaled(b, b.fn(Op::kCos, b.x())); }
void grad_cos(Backward& b) { scaled(b, b.mul(b.fn(Op::kSin, b.x()), -1.0f)); }
void grad_softplus(Backward& b) { scaled(b, b.fn(Op::kSigmoid, b.x())); }

void grad_tan(Backward& b) { scaled(b, b.add(b.square(b.y()), 1.0f)); }
void grad_sinh(Backward& b) { scaled(b, b.fn(Op::kCosh, b.x())); }
void grad_cosh(Backward& b) { scaled(b, b.fn(Op::kSinh, b.x())); }
void grad_atan(Backward& b) { b.set(0, b.div(b.dy(), b.add(b.square(b.x()), 1.0f))); }
void grad_atanh(Backward& b) { b.set(0, b.div(b.dy(), one_minus_square(b))); }
void grad_asin(Backward& b) { b.set(0, b.div(b.dy(), b.fn(Op::kSqrt, one_minus_square(b)))); }
void grad_acos(Backward& b) { b.set(0, b.div(b.mul(b.dy(), -1.0f), b.fn(Op::kSqrt, one_minus_square(b)))); }
void grad_asinh(Backward& b) { b.set(0, b.div(b.dy(), b.fn(Op::kSqrt, b.add(b.square(b.x()), 1.0f)))); }
void grad_acosh(Backward& b) { b.set(0, b.div(b.dy(), b.fn(Op::kSqrt, b.add(b.square(b.x()), -1.0f)))); }

// Steps have no slope: what comes before them gets nothing.
void grad_step(Backward&) {}

// x tanh(softplus x) = x t: t + x (1 - t^2) sigmoid(x)
void grad_mish(Backward& b) {
  const ValueId t = b.fn(Op::kTanh, b.fn(Op::kSoftplus, b.x()));
  scaled(b, b.add(t, b.mul(b.mul(b.x(), b.sub(b.scalar(1), b.square(t))), b.fn(Op::kSigmoid, b.x()))));
}

// 2 / sqrt(pi) exp(-x^2)
void grad_erf(Backward& b) {
  scaled(b, b.mul(b.fn(Op::kExp, b.mul(b.square(b.x()), -1.0f)), 1.12837916709551257f));
}

// x sigmoid(x): s + x s (1 - s)
void grad_silu(Backward& b) {
  const ValueId s = b.fn(Op::kSigmoid, b.x());
  scaled(b, b.add(s, b.mul(b.y(), b.sub(b.scalar(1), s))));
}

// x P(x) with the normal distribution P: P + x p. Approximate: P = (1 + tanh u) / 2, p = (1 - tanh^2 u) u' / 2.
void grad_gelu(Backward& b) {
  const ValueId x = b.x();
  if (b.attrs<GeluAttrs>().approximate == 0) {
    const ValueId p = b.mul(b.add(b.fn(Op::kErf, b.mul(x, 0.70710678118654752f)), 1.0f), 0.5f);
    const ValueId density = b.mul(b.fn(Op::kExp, b.mul(b.square(x), -0.5f)), 0.39894228040143268f);
    return scaled(b, b.add(p, b.mul(x, density)));
  }
  constexpr float kRoot = 0.79788456080286536f, kCube = 0.044715f;
  const ValueId square = b.square(x);
  const ValueId t = b.fn(Op::kTanh, b.mul(b.mul(x, b.add(b.mul(square, kCube), 1.0f)), kRoot));
  const ValueId slope = b.mul(b.add(b.mul(square, 3 * kCube), 1.0f), kRoot);
  const ValueId tail = b.mul(b.mul(b.sub(b.scalar(1), b.square(t)), slope), x);
  scaled(b, b.mul(b.add(b.add(t, tail), 1.0f), 0.5f));
}

void grad_leaky_relu(Backward& b) {
  b.set(0, b.where(above(b, 0), b.dy(), b.mul(b.dy(), b.attrs<LeakyReluAttrs>().alpha)));
}

// Below 0, y = gamma alpha (exp(beta x) - 1) has the slope beta (y + gamma alpha).
void grad_elu(Backward& b) {
  const auto& a = b.attrs<EluAttrs>();
  const ValueId slope = b.mul(b.add(b.y(), a.gamma * a.alpha), a.beta);
  scaled(b, b.where(above(b, 0), b.scalar(a.gamma), slope));
}

void grad_hard_sigmoid(Backward& b) { b.set(0, b.mul(b.before_clamp(0, 1), b.attrs<HardSigmoidAttrs>().alpha)); }

// 0 below -3, 1 above 3, else (2 x + 3) / 6.
void grad_hard_swish(Backward& b) {
  const ValueId inner = b.mul(b.add(b.mul(b.x(), 2.0f), 3.0f), 1.0f / 6);
  scaled(b, b.where(below(b, -3), b.scalar(0), b.where(above(b, 3), b.scalar(1), inner)));
}

}  // namespace lathe::grad
