// Rules of rounding to a learned grid: not derivatives but the straight-through estimates that runtime/exec/fake_quant.cc defines.
#include "graph/grad/rule.h"

namespace lathe::grad {

void grad_fake_quant(Backward& b) {
  const std::vector<ValueId> g = b.nodes(Op::kFakeQuantGrad, b.attrs<FakeQuantAttrs>(), {b.x(0), b.x(1), b.dy()});
  for (size_t i = 0; i < 2; ++i)
    if (b.wants(i)) b.set(i, g[i]);
}

// du = dy / s, where y = clamp(u, lo, hi) s, but for what would lead further out of [lo, hi]. Not dy s: the update of u by gradient
// descent is then that of y by its own gradient, relative to s, so that a rate suits large and small scales. A factor that has left the
// range comes back when its gradient says so.
void grad_step_size(Backward& b) {
  const auto& a = b.attrs<ClampAttrs>();
  if (b.wants(1)) b.refuse(1, ": scales are constants");
  const ValueId zero = b.scalar(0), low = b.scalar(a.lo), high = b.scalar(a.hi), u = b.x();
  const auto at_most = [&](ValueId x, ValueId y) { return b.node(Op::kLessEqual, NoAttrs{}, {x, y}); };
  ValueId g = b.div(b.dy(), b.x(1));
  g = b.where(at_most(u, low), b.node(Op::kMin, NoAttrs{}, {g, zero}), g);
  b.set(0, b.where(at_most(high, u), b.node(Op::kMax, NoAttrs{}, {g, zero}), g));
}

}  // namespace lathe::grad
