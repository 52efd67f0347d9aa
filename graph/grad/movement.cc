// Rules of ops that move elements.
#include "graph/grad/rule.h"

namespace lathe::grad {

void grad_reshape(Backward& b) { b.set(0, b.reshape_like(b.dy(), b.x())); }
void grad_transpose(Backward& b) { b.set(0, b.transpose(b.dy(), inverse(b.attrs<PermAttrs>().perm))); }
void grad_expand(Backward& b) { b.set(0, b.sum_to(b.dy(), b.x())); }
void grad_trilu(Backward& b) { b.set(0, b.node(Op::kTrilu, b.attrs<TriluAttrs>(), {b.dy()})); }

void grad_concat(Backward& b) {
  const int32_t axis = b.attrs<AxisAttrs>().axis;
  int32_t begin = 0;
  for (size_t i = 0; i < b.node_of().inputs.size() && b.ok(); ++i) {
    const int32_t end = begin + static_cast<int32_t>(b.extent(b.x(i), static_cast<size_t>(axis)));
    if (b.wants(i)) b.set(i, b.node(Op::kSlice, SliceAttrs{{1, {axis}}, {1, {begin}}, {1, {end}}, {1, {1}}}, {b.dy()}));
    begin = end;
  }
}

namespace {

// The extents of v, -1 in place of one that is not constant.
std::vector<int64_t> target_of(Backward& b, ValueId v) {
  std::vector<int64_t> target;
  bool open = false;
  for (size_t i = 0; i < b.rank(v); ++i) {
    const auto n = b.graph().dims().value(b.graph().value(v).type.dims[i]);
    target.push_back(n || open ? b.extent(v, i) : -1);
    open = open || !n;
  }
  return target;
}

// step - 1 zeros behind every element along `axis`.
ValueId stretched(Backward& b, ValueId v, size_t axis, int32_t step) {
  if (step == 1) return v;
  std::vector<int64_t> target = target_of(b, v), apart = target;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  PadAttrs pad;
  pad.before.count = pad.after.count = static_cast<int32_t>(apart.size());
  pad.after.values[axis + 1] = step - 1;
  target[axis] = b.extent(v, axis) * step;
  return b.reshape(b.node(Op::kPad, pad, {b.reshape(v, apart)}), target);
}

ValueId reversed(Backward& b, ValueId v, size_t axis) {
  const int32_t n = static_cast<int32_t>(b.extent(v, axis));
  return b.node(Op::kSlice, SliceAttrs{{1, {static_cast<int32_t>(axis)}}, {1, {n - 1}}, {1, {-n - 1}}, {1, {-1}}}, {v});
}

}  // namespace

// What was left out has no gradient: zeros between and around it.
void grad_slice(Backward& b) {
  const auto& a = b.attrs<SliceAttrs>();
  PadAttrs pad;
  pad.before.count = pad.after.count = static_cast<int32_t>(b.rank(b.x()));
  ValueId g = b.dy();
  for (int32_t i = 0; i < a.axes.count; ++i) {
    const int32_t step = std::abs(a.steps[i]);
    if (step > 1 && b.rank(b.x()) == kMaxRank)
      return b.fail(Code::kUnsupported, "its gradient needs an axis more than there can be");
    const size_t axis = static_cast<size_t>(a.axes[i]);
    const int64_t size = b.extent(b.x(), axis), count = b.extent(g, axis);
    int64_t begin = std::min(std::max<int64_t>(a.begins[i] < 0 ? a.begins[i] + size : a.begins[i], 0), size);
    if (a.steps[i] < 0) {  // the same elements from the last one on
      begin = std::min(begin, size - 1) - std::max<int64_t>(count - 1, 0) * step;
      g = reversed(b, g, axis);
    }
    g = stretched(b, g, axis, step);
    const int64_t taken = b.extent(g, axis);
    pad.before.values[axis] = static_cast<int32_t>(begin);
    pad.after.values[axis] = static_cast<int32_t>(size - begin - taken);
  }
  b.set(0, b.node(Op::kPad, pad, {g}));
}

void grad_pad(Backward& b) {
  PadAttrs cut = b.attrs<PadAttrs>();
  cut.value = 0;
  for (int32_t i = 0; i < cut.before.count; ++i) {
    cut.before.values[i] = -cut.before[i];
    cut.after.values[i] = -cut.after[i];
  }
  b.set(0, b.node(Op::kPad, cut, {b.dy()}));
}

// Every row that was read adds its gradient to the row it came from; with the axis in front, ScatterNd does it.
void grad_gather(Backward& b) {
  if (b.wants(1)) return b.refuse(1, ": it is an index");
  const size_t axis = static_cast<size_t>(b.attrs<AxisAttrs>().axis), rank = b.rank(b.x()), places = b.rank(b.x(1));
  Ints rows, data;  // dy's axes: indices first; x's: `axis` first
  for (size_t i = 0; i < places; ++i) rows.values[rows.count++] = static_cast<int32_t>(axis + i);
  data.values[data.count++] = static_cast<int32_t>(axis);
  for (size_t i = 0; i < rank; ++i) {
    if (i == axis) continue;
    rows.values[rows.count++] = static_cast<int32_t>(i < axis ? i : i + places - 1);
    data.values[data.count++] = static_cast<int32_t>(i);
  }
  const ValueId zeros = b.zeros_like(b.transpose(b.x(), data));
  const ValueId one = b.integers({1});
  const ValueId tuples = places == 0 ? one : b.node(Op::kConcat, AxisAttrs{0}, {b.shape_of(b.x(1)), one});
  const ScatterAttrs sum{.axis = 0, .reduction = static_cast<int32_t>(ScatterReduction::kAdd)};
  const ValueId g = b.node(Op::kScatterNd, sum, {zeros, b.node(Op::kReshape, NoAttrs{}, {b.x(1), tuples}), b.transpose(b.dy(), rows)});
  b.set(0, b.transpose(g, inverse(data)));
}

// Every element that was read adds its gradient where it came from.
void grad_gather_elements(Backward& b) {
  if (b.wants(1)) return b.refuse(1, ": it is an index");
  const ScatterAttrs sum{.axis = b.attrs<AxisAttrs>().axis, .reduction = static_cast<int32_t>(ScatterReduction::kAdd)};
  b.set(0, b.node(Op::kScatterElements, sum, {b.zeros_like(b.x()), b.x(1), b.dy()}));
}

void grad_gather_nd(Backward& b) {
  if (b.wants(1)) return b.refuse(1, ": it is an index");
  if (b.attrs<GatherNdAttrs>().batch_dims != 0) return b.fail(Code::kUnsupported, "its gradient needs batch_dims 0");
  const ScatterAttrs sum{.axis = 0, .reduction = static_cast<int32_t>(ScatterReduction::kAdd)};
  b.set(0, b.node(Op::kScatterNd, sum, {b.zeros_like(b.x()), b.x(1), b.dy()}));
}

namespace {

// Updates that are added leave the data's gradient alone; those that replace hide what they fall on.
void scatter(Backward& b, ValueId updates, Op op) {
  ScatterAttrs a = b.attrs<ScatterAttrs>();
  const auto kind = static_cast<ScatterReduction>(a.reduction);
  if (kind != ScatterReduction::kNone && kind != ScatterReduction::kAdd)
    return b.fail(Code::kUnsupported, "its gradient needs updates that replace or are added");
  if (b.wants(0)) b.set(0, kind == ScatterReduction::kAdd ? b.dy() : b.node(op, a, {b.dy(), b.x(1), b.zeros_like(b.x(2))}));
  if (b.wants(2)) b.set(2, updates);
}

}  // namespace

void grad_scatter_elements(Backward& b) {
  const AxisAttrs along{b.attrs<ScatterAttrs>().axis};
  scatter(b, b.wants(2) ? b.node(Op::kGatherElements, along, {b.dy(), b.x(1)}) : kNoId, Op::kScatterElements);
}
void grad_scatter_nd(Backward& b) {
  scatter(b, b.wants(2) ? b.node(Op::kGatherNd, GatherNdAttrs{}, {b.dy(), b.x(1)}) : kNoId, Op::kScatterNd);
}

// Its own inverse.
void grad_reverse_sequence(Backward& b) {
  b.set(0, b.node(Op::kReverseSequence, b.attrs<ReverseSequenceAttrs>(), {b.dy(), b.x(1)}));
}

}  // namespace lathe::grad
