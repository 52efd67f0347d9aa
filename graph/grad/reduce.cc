// Rules of reductions, normalizations and pools.
#include "graph/grad/rule.h"

namespace lathe::grad {
namespace {

// v, a reduction of x over `axes`, with those axes as 1.
ValueId with_axes(Backward& b, ValueId v, const ReduceAttrs& a) {
  if (a.keep_dims != 0) return v;
  std::vector<int64_t> kept(b.rank(b.x()), 1), ones(b.rank(b.x()), 0);
  for (int32_t i = 0; i < a.axes.count; ++i) {
    kept[static_cast<size_t>(a.axes[i])] = 0;
    ones[static_cast<size_t>(a.axes[i])] = 1;
  }
  const ValueId target = b.add(b.mul(b.shape_of(b.x()), b.integers(kept)), b.integers(ones));
  return b.node(Op::kReshape, NoAttrs{}, {v, target});
}

ValueId spread(Backward& b, ValueId v) { return b.expand_like(v, b.x()); }

// y (dy - sum dy y)
void softmax_along(Backward& b, size_t axis) {
  Ints axes;
  axes.values[axes.count++] = static_cast<int32_t>(axis);
  b.set(0, b.mul(b.y(), b.sub(b.dy(), b.sum(b.mul(b.dy(), b.y()), axes))));
}

ValueId one_over_root(Backward& b, ValueId variance, float epsilon) {
  return b.div(b.scalar(1), b.fn(Op::kSqrt, b.add(variance, epsilon)));
}

}  // namespace

void grad_reduce_sum(Backward& b) { b.set(0, spread(b, with_axes(b, b.dy(), b.attrs<ReduceAttrs>()))); }

void grad_mean(Backward& b) {
  const auto& a = b.attrs<ReduceAttrs>();
  b.set(0, spread(b, b.div(with_axes(b, b.dy(), a), b.count(b.x(), a.axes))));
}

// Along one axis the derivative by an element is the product of those before and those behind it, which a zero among them does not
// spoil; along several, one after the other.
void grad_reduce_prod(Backward& b) {
  const auto& a = b.attrs<ReduceAttrs>();
  std::vector<ValueId> parts{b.x()};
  for (int32_t i = 0; i < a.axes.count; ++i)
    parts.push_back(b.node(Op::kReduceProd, ReduceAttrs{{1, {a.axes[i]}}, 1}, {parts.back()}));
  ValueId g = with_axes(b, b.dy(), a);
  for (int32_t i = a.axes.count; i-- > 0;) {
    const ValueId x = parts[static_cast<size_t>(i)];
    const ValueId before = b.node(Op::kCumProd, CumulateAttrs{.axis = a.axes[i], .exclusive = 1, .reverse = 0}, {x});
    const ValueId behind = b.node(Op::kCumProd, CumulateAttrs{.axis = a.axes[i], .exclusive = 1, .reverse = 1}, {x});
    g = b.mul(b.mul(before, behind), g);
  }
  b.set(0, g);
}

// The results go back to where they came from.
void grad_top_k(Backward& b) {
  const ScatterAttrs place{.axis = b.attrs<TopKAttrs>().axis, .reduction = static_cast<int32_t>(ScatterReduction::kNone)};
  if (b.dy(0) != kNoId) b.set(0, b.node(Op::kScatterElements, place, {b.zeros_like(b.x()), b.y(1), b.dy(0)}));
}

// Those that hold the extreme share its gradient.
void grad_extreme(Backward& b) {
  const auto& a = b.attrs<ReduceAttrs>();
  const ValueId hit = b.node(Op::kEqual, NoAttrs{}, {b.x(), with_axes(b, b.y(), a)});
  const ValueId ones = b.where(hit, b.scalar(1), b.scalar(0));
  b.set(0, b.mul(ones, b.div(with_axes(b, b.dy(), a), b.sum(ones, a.axes))));
}

void grad_softmax(Backward& b) { softmax_along(b, static_cast<size_t>(b.attrs<AxisAttrs>().axis)); }

void grad_masked_softmax(Backward& b) {
  if (b.attrs<MaskedSoftmaxAttrs>().normalize == 0) return b.fail(Code::kUnsupported, "masked scores have no gradient");
  if (b.wants(1)) return b.refuse(1, ": it is a mask");
  softmax_along(b, b.rank(b.x()) - 1);
}

// With h = (x - mean) r and g = dy scale: dx = r (g - mean g - h mean(g h)).
void grad_layer_norm(Backward& b) {
  const auto& a = b.attrs<LayerNormAttrs>();
  const Ints axes = axes_from(static_cast<size_t>(a.axis), b.rank(b.x()));
  const ValueId centred = b.sub(b.x(), b.mean(b.x(), axes));
  const ValueId r = one_over_root(b, b.mean(b.square(centred), axes), a.epsilon);
  const ValueId h = b.mul(centred, r);
  if (b.wants(1)) b.set(1, b.sum_to(b.mul(b.dy(), h), b.x(1)));
  if (b.wants(2)) b.set(2, b.sum_to(b.dy(), b.x(2)));
  if (!b.wants(0)) return;
  const ValueId g = b.mul(b.dy(), b.x(1));
  b.set(0, b.mul(r, b.sub(b.sub(g, b.mean(g, axes)), b.mul(h, b.mean(b.mul(g, h), axes)))));
}

// By statistics that are given.
void grad_batch_norm(Backward& b) {
  const auto& a = b.attrs<BatchNormAttrs>();
  const size_t axis = static_cast<size_t>(a.axis), rank = b.rank(b.x());
  if (b.wants(3) || b.wants(4)) return b.refuse(b.wants(3) ? 3 : 4, ": statistics are not trained");
  const ValueId r = one_over_root(b, b.x(4), a.epsilon);
  const auto channel_sum = [&](ValueId v, size_t like) { return b.reshape_like(b.sum(v, axes_but(axis, rank)), b.x(like)); };
  if (b.wants(0)) b.set(0, b.mul(b.dy(), b.along(b.mul(b.x(1), r), axis, rank)));
  if (b.wants(1)) {
    const ValueId h = b.mul(b.sub(b.x(), b.along(b.x(3), axis, rank)), b.along(r, axis, rank));
    b.set(1, channel_sum(b.mul(b.dy(), h), 1));
  }
  if (b.wants(2)) b.set(2, channel_sum(b.dy(), 2));
}

void grad_batch_norm_train(Backward& b) {
  if (b.dy(1) != kNoId || b.dy(2) != kNoId) return b.fail(Code::kUnsupported, "statistics have no gradient of their own");
  const std::vector<ValueId> g =
      b.nodes(Op::kBatchNormGrad, b.attrs<BatchNormTrainAttrs>(), {b.x(), b.dy(), b.x(1), b.x(2), b.y(1), b.y(2)});
  for (size_t i = 0; i < 3; ++i)
    if (b.wants(i)) b.set(i, g[i]);
}

void grad_max_pool(Backward& b) { b.set(0, b.node(Op::kMaxPool2dGrad, b.attrs<Pool2dAttrs>(), {b.x(), b.dy()})); }
void grad_avg_pool(Backward& b) { b.set(0, b.node(Op::kAvgPool2dGrad, b.attrs<Pool2dAttrs>(), {b.x(), b.dy()})); }

}  // namespace lathe::grad
