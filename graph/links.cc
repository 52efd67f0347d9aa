#include "graph/links.h"

#include <algorithm>

namespace lathe {
int64_t axis_positions(const DimTable& dims, Dim extent) {
  if (const auto value = dims.value(extent)) return *value;
  // The table's form of a product has the constant factor last.
  const DimNode& node = dims.node(extent);
  if (node.op != DimOp::kMul) return 0;
  return dims.value(Dim{static_cast<uint32_t>(node.b)}).value_or(0);
}

Dim Links::dim(AxisRef at) const {
  const TensorType& type = at.result ? out[at.index] : *in[at.index].type;
  return type.dims[at.axis];
}

std::optional<int64_t> Links::extent(AxisRef at) const { return dims.value(dim(at)); }

int64_t Links::positions(AxisRef at) const { return axis_positions(dims, dim(at)); }

void Links::same(AxisRef a, AxisRef b) {
  mentioned_.insert(mentioned_.end(), {a, b});
  if (dim(a) == dim(b)) {
    same_.push_back({.a = a, .b = b, .count = positions(a)});
    return;
  }
  for (const AxisRef at : {a, b}) frozen(at, "meets an axis of unknown extent");
}

void Links::same(const SameLink& link) {
  mentioned_.insert(mentioned_.end(), {link.a, link.b});
  same_.push_back(link);
}

void Links::merge(std::vector<AxisRef> a, std::vector<AxisRef> b) {
  mentioned_.insert(mentioned_.end(), a.begin(), a.end());
  mentioned_.insert(mentioned_.end(), b.begin(), b.end());
  // A symbol in front of both sides, a batch, runs outside of the positions of what follows.
  const auto symbols = [&](AxisRef at) {
    const int64_t count = extent(at) ? extent(at).value() : std::max<int64_t>(positions(at), 1);
    return dims.floordiv(dim(at), dims.constant(std::max<int64_t>(count, 1)));
  };
  const auto constant_from = [&](const std::vector<AxisRef>& side, size_t first) {
    return std::all_of(side.begin() + static_cast<std::ptrdiff_t>(first), side.end(),
                       [&](AxisRef at) { return extent(at).has_value(); });
  };
  const bool plain = constant_from(a, 0) && constant_from(b, 0);
  const bool batched =
      !plain && !extent(a[0]) && !extent(b[0]) && symbols(a[0]) == symbols(b[0]) && constant_from(a, 1) && constant_from(b, 1);
  if (!plain && !batched) {
    for (const auto* side : {&a, &b})
      for (const AxisRef at : *side) frozen(at, "is reshaped together with an axis of unknown extent");
    return;
  }
  for (auto* side : {&a, &b})
    if (positions((*side)[0]) == 0) side->erase(side->begin());
  if (a.empty() || b.empty()) return;
  if (a.size() == 1 && b.size() == 1) same_.push_back({.a = a[0], .b = b[0], .count = positions(a[0])});
  else merged_.push_back({std::move(a), std::move(b)});
}

void Links::makes(AxisRef weight, AxisRef result) {
  same(weight, result);
  role(weight, LinkRole::kOutput);
}

void Links::role(AxisRef at, LinkRole role) { roles_.push_back({at, role}); }

void Links::reduced(AxisRef at) {
  if (!extent(at)) return frozen(at, "a sum runs over an axis of unknown extent");
  mentioned_.push_back(at);
  reduced_.push_back(at);
  role(at, LinkRole::kInput);
}

void Links::averaged(AxisRef at) {
  if (!extent(at)) return frozen(at, "a mean runs over an axis of unknown extent");
  mentioned_.push_back(at);
  averaged_.push_back(at);
}

void Links::frozen(AxisRef at, std::string why) {
  mentioned_.push_back(at);
  if (positions(at) > 0) frozen_.push_back({at, std::move(why)});
}

void Links::segments(AxisRef at, int64_t count) { segments_.push_back({at, count}); }
void Links::parts(AxisRef weight, int64_t count) { parts_.push_back({weight, count}); }
void Links::batched(AxisRef at) { batched_.push_back(at); }
void Links::untouched(AxisRef at) { mentioned_.push_back(at); }

bool Links::mentions(AxisRef at) const { return std::find(mentioned_.begin(), mentioned_.end(), at) != mentioned_.end(); }

const Narrowed::Axis* Narrowed::find(AxisRef at) const {
  for (const Axis& axis : axes_)
    if (axis.at == at) return &axis;
  return nullptr;
}

int64_t Narrowed::kept(AxisRef at, int64_t begin, int64_t end) const {
  const std::vector<int64_t>& gone = find(at)->gone;
  const auto first = std::lower_bound(gone.begin(), gone.end(), begin), last = std::lower_bound(gone.begin(), gone.end(), end);
  return end - begin - (last - first);
}

Links node_links(const Graph& graph, const Node& node, LinkSource& source) {
  source.operands.clear();
  source.results.clear();
  for (const ValueId v : node.inputs) {
    OperandView view;
    if (v != kNoId) {
      const Value& value = graph.value(v);
      view = {&value.type, &value.quant, value.contents ? &*value.contents : nullptr,
              value.constant.valid() ? &value.constant : nullptr};
    }
    source.operands.push_back(view);
  }
  for (const ValueId v : node.outputs) source.results.push_back(graph.value(v).type);
  Links links(graph.dims(), source.operands, source.results, node.attrs);
  const OpDef& def = op_def(node.op);
  if (def.links != nullptr) def.links(links);
  const auto freeze = [&](bool result, size_t count, const auto& rank) {
    for (size_t i = 0; i < count; ++i)
      for (size_t axis = 0; axis < rank(i); ++axis) {
        const AxisRef at{result, static_cast<uint32_t>(i), static_cast<uint32_t>(axis)};
        if (!links.mentions(at)) links.frozen(at, std::string("op ") + op_name(node.op));
      }
  };
  freeze(false, source.operands.size(), [&](size_t i) { return source.operands[i] ? source.operands[i].type->dims.size() : 0; });
  freeze(true, source.results.size(), [&](size_t i) { return source.results[i].dims.size(); });
  return links;
}

namespace ops {

void link_elementwise(Links& l) {
  const size_t rank = l.out[0].dims.size();
  for (size_t axis = 0; axis < rank; ++axis) l.untouched(out_axis(axis));
  for (size_t i = 0; i < l.in.size(); ++i) {
    if (!l.has(i)) continue;
    const size_t missing = rank - l.rank(i);
    for (size_t axis = 0; axis < l.rank(i); ++axis) {
      const AxisRef from = in_axis(i, axis), to = out_axis(missing + axis);
      if (l.dim(from) == l.dim(to) || !l.dims.is(l.dim(from), 1)) l.same(from, to);
      else l.untouched(from);
    }
  }
}

}  // namespace ops
}  // namespace lathe
