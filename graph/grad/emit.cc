#include "graph/grad/emit.h"

namespace lathe::grad {

void Emitter::fail(Code code, std::string message) {
  if (ok_) ok_ = lathe::fail(code, std::move(message));
}

std::vector<ValueId> Emitter::nodes(Op op, Attrs attrs, std::vector<ValueId> inputs) {
  const std::vector<ValueId> none(op_def(op).outputs, kNoId);
  if (!ok_) return none;
  const Result<NodeId> made = graph_.add_node(op, std::move(attrs), std::move(inputs), graph_.fresh_name(stem_));
  if (made) return graph_.node(*made).outputs;
  ok_ = tl::unexpected<Error>(made.error());
  return none;
}

ValueId Emitter::node(Op op, Attrs attrs, std::vector<ValueId> inputs) {
  return nodes(op, std::move(attrs), std::move(inputs))[0];
}

ValueId Emitter::scalar(float v) {
  return graph_.add_constant(graph_.fresh_name(stem_), {DType::kF32, {}}, Constant::of(std::vector<float>{v}));
}

ValueId Emitter::integers(const std::vector<int64_t>& v) {
  const Dim size = graph_.dims().constant(static_cast<int64_t>(v.size()));
  return graph_.add_constant(graph_.fresh_name(stem_), {DType::kS64, {size}}, Constant::of(v));
}

ValueId Emitter::swap_last(ValueId a) {
  const size_t n = rank(a);
  Ints perm = axes_from(0, n);
  if (n >= 2) std::swap(perm.values[n - 1], perm.values[n - 2]);
  return transpose(a, perm);
}

ValueId Emitter::sum_to(ValueId a, ValueId like) {
  if (!ok_) return kNoId;
  const std::vector<Dim> from = graph_.value(a).type.dims, to = graph_.value(like).type.dims;
  const size_t more = from.size() - to.size();
  Ints axes;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool repeated = i < more || (graph_.dims().value(to[i - more]) == 1 && from[i] != to[i - more]);
    if (repeated) axes.values[axes.count++] = static_cast<int32_t>(i);
  }
  if (axes.count == 0) return a;
  const ValueId summed = sum(a, axes);
  return more == 0 ? summed : reshape_like(summed, like);
}

ValueId Emitter::along(ValueId vector, size_t axis, size_t rank) {
  if (axis + 1 == rank) return vector;
  std::vector<int64_t> target(rank - axis, 1);
  target[0] = -1;
  return reshape(vector, target);
}

ValueId Emitter::count(ValueId a, const Ints& axes) {
  if (!ok_) return kNoId;
  int64_t known = 1;
  bool all = true;
  std::vector<int64_t> list;
  for (int32_t i = 0; i < axes.count; ++i) {
    const auto n = graph_.dims().value(graph_.value(a).type.dims[static_cast<size_t>(axes[i])]);
    all = all && n.has_value();
    known *= n.value_or(1);
    list.push_back(axes[i]);
  }
  if (all) return scalar(static_cast<float>(known));
  const ValueId extents = node(Op::kGather, AxisAttrs{0}, {shape_of(a), integers(list)});
  const ValueId product = node(Op::kReduceProd, ReduceAttrs{axes_from(0, 1), 0}, {extents});
  return node(Op::kCast, CastAttrs{static_cast<int32_t>(DType::kF32)}, {product});
}

int64_t Emitter::extent(ValueId a, size_t axis) {
  if (!ok_) return 1;
  const Dim d = graph_.value(a).type.dims[axis];
  const auto n = graph_.dims().value(d);
  if (!n) fail(Code::kUnsupported, "its gradient needs a constant extent in place of " + graph_.dims().text(d));
  return n.value_or(1);
}

Ints axes_from(size_t first, size_t rank) {
  Ints axes;
  for (size_t i = first; i < rank; ++i) axes.values[axes.count++] = static_cast<int32_t>(i);
  return axes;
}

Ints axes_but(size_t axis, size_t rank) {
  Ints axes;
  for (size_t i = 0; i < rank; ++i)
    if (i != axis) axes.values[axes.count++] = static_cast<int32_t>(i);
  return axes;
}

Ints inverse(const Ints& perm) {
  Ints out = perm;
  for (int32_t i = 0; i < perm.count; ++i) out.values[perm[i]] = i;
  return out;
}

}  // namespace lathe::grad
