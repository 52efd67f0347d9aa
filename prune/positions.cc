#include "prune/positions.h"

#include <algorithm>

namespace lathe::prune {

Positions::Positions(const Graph& graph, bool inner) : graph_(graph), inner_(inner) {
  for (const NodeId id : graph.order()) nodes_.push_back(std::make_unique<NodeLinks>(graph, id));
  count_parts();
  allocate();
  freeze_borders();
  for (const auto& node : nodes_) apply(*node);
  // What is frozen is known now; that decides which axis of a reshape can keep its positions apart.
  for (const auto& node : nodes_)
    for (const MergeLink& link : node->links.merge_links()) merge(graph_.node(node->id), link);
  heads_.resize(parent_.size());
  averaged_.resize(parent_.size());
  for (const auto& node : nodes_) mark(*node);
}

void Positions::count_parts() {
  for (const auto& n : nodes_) {
    const Node& node = graph_.node(n->id);
    for (uint32_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNoId || graph_.value(v).kind != ValueKind::kConstant) continue;
      for (uint32_t axis = 0; axis < graph_.value(v).type.dims.size(); ++axis) {
        uint32_t parts = 1;
        for (const PartsLink& link : n->links.parts_links())
          if (link.at == in_axis(i, axis)) parts = static_cast<uint32_t>(link.parts);
        const auto [known, fresh] = parts_.emplace(std::pair(v, axis), parts);
        if (fresh || known->second == parts) continue;
        known->second = std::max(known->second, parts);
        torn_.emplace_back(v, axis);
      }
    }
  }
}

uint32_t Positions::append(int64_t count) {
  const auto begin = static_cast<uint32_t>(parent_.size());
  parent_.resize(parent_.size() + static_cast<size_t>(count));
  for (size_t i = begin; i < parent_.size(); ++i) parent_[i] = static_cast<uint32_t>(i);
  reason_.resize(parent_.size(), -1);
  return begin;
}

void Positions::allocate() {
  first_.resize(graph_.value_count());
  for (ValueId v = 0; v < graph_.value_count(); ++v) {
    if (graph_.value(v).dead) continue;
    for (uint32_t axis = 0; axis < graph_.value(v).type.dims.size(); ++axis) first_[v].push_back(append(count(v, axis)));
  }
}

int64_t Positions::count(ValueId value, uint32_t axis) const {
  return axis_positions(graph_.dims(), graph_.value(value).type.dims[axis]) * parts(value, axis);
}

uint32_t Positions::parts(ValueId value, uint32_t axis) const {
  const auto found = parts_.find({value, axis});
  return found == parts_.end() ? 1 : found->second;
}

uint32_t Positions::find(uint32_t position) const {
  while (parent_[position] != position) position = parent_[position] = parent_[parent_[position]];
  return position;
}

// The earlier position is the set's: sets do not depend on the order of links. The earlier reason stays.
void Positions::unite(uint32_t a, uint32_t b) {
  a = find(a), b = find(b);
  if (a == b) return;
  if (b < a) std::swap(a, b);
  parent_[b] = a;
  if (reason_[a] < 0 || (reason_[b] >= 0 && reason_[b] < reason_[a])) reason_[a] = reason_[b];
}

const std::string* Positions::frozen(uint32_t set) const {
  return reason_[set] < 0 ? nullptr : &reasons_[static_cast<size_t>(reason_[set])];
}

void Positions::freeze(uint32_t set, std::string why) {
  if (reason_[set] >= 0) return;
  reason_[set] = static_cast<int32_t>(reasons_.size());
  reasons_.push_back(std::move(why));
}

void Positions::freeze_axis(ValueId value, uint32_t axis, const std::string& why) {
  const auto number = static_cast<int32_t>(reasons_.size());
  reasons_.push_back(why);
  for (int64_t i = 0; i < count(value, axis); ++i)
    if (int32_t& reason = reason_[set_of(value, axis, i)]; reason < 0) reason = number;
}

// Ports of the graph, variables, and axes that have one position only.
void Positions::freeze_borders() {
  const auto whole = [&](ValueId v, const std::string& why) {
    for (uint32_t axis = 0; axis < first_[v].size(); ++axis) freeze_axis(v, axis, why);
  };
  for (const ValueId v : graph_.outputs()) whole(v, "output '" + graph_.value(v).name + "' of the graph");
  for (const ValueId v : graph_.inputs()) whole(v, "input '" + graph_.value(v).name + "' of the graph");
  for (ValueId v = 0; v < graph_.value_count(); ++v) {
    const Value& value = graph_.value(v);
    if (value.dead) continue;
    if (value.kind == ValueKind::kVariable) whole(v, "variable '" + value.name + "'");
    for (uint32_t axis = 0; axis < first_[v].size(); ++axis)
      if (count(v, axis) == 1) freeze_axis(v, axis, "'" + value.name + "' has one channel only");
  }
  for (const auto& [value, axis] : torn_)
    freeze_axis(value, axis, "layers read '" + graph_.value(value).name + "' in different groups");
}

void Positions::apply(const Node& node, const SameLink& link) {
  const ValueId a = value_at(node, link.a), b = value_at(node, link.b);
  for (int64_t i = 0; i < link.count; ++i) {
    const auto at_a = static_cast<uint32_t>(first(a, link.a.axis) + link.a_begin + i * link.a_step);
    const auto at_b = static_cast<uint32_t>(first(b, link.b.axis) + link.b_begin + i * link.b_step);
    for (uint32_t k = 0; k < link.a_block; ++k) unite(at_a + k, at_b);
    for (uint32_t k = 0; k < link.b_block; ++k) unite(at_a, at_b + k);
  }
}

void Positions::apply(const NodeLinks& n) {
  const Node& node = graph_.node(n.id);
  for (const SameLink& link : n.links.same_links()) apply(node, link);
  for (const FreezeLink& link : n.links.freezes())
    freeze_axis(value_at(node, link.at), link.at.axis, link.why + " at '" + node.name + "'");
}

// Whether flat positions that share an index of a factor are united already: the factor then costs nothing.
bool Positions::agrees(uint32_t flat, int64_t size, int64_t stride, int64_t extent) const {
  std::vector<uint32_t> sets(static_cast<size_t>(extent));
  for (int64_t at = 0; at < size; ++at) {
    const uint32_t set = find(flat + static_cast<uint32_t>(at));
    uint32_t& first = sets[static_cast<size_t>(at / stride % extent)];
    if (at / stride < extent && at % stride == 0) first = set;
    if (first != set) return false;
  }
  return true;
}

// The factor that can keep its positions apart: of those that are not frozen, one that agrees with what is united already (a
// batch and heads in one axis, say, taken apart again), else the outermost (or innermost).
std::optional<size_t> Positions::keeper(const Node& node, const std::vector<AxisRef>& factors, uint32_t flat,
                                        int64_t size) const {
  std::optional<size_t> best;
  int64_t stride = size;
  bool agreed = false;
  for (size_t i = 0; i < factors.size(); ++i) {
    const ValueId v = value_at(node, factors[i]);
    const int64_t extent = count(v, factors[i].axis);
    stride /= extent;
    bool alive = false;
    for (int64_t k = 0; k < extent; ++k) alive = alive || frozen(set_of(v, factors[i].axis, k)) == nullptr;
    if (!alive) continue;
    const bool agreeing = agrees(flat, size, stride, extent);
    if (!best || (agreeing && !agreed) || (inner_ && agreeing == agreed)) best = i;
    agreed = agreed || agreeing;
  }
  return best;
}

void Positions::split(const Node& node, const std::vector<AxisRef>& factors, uint32_t flat, int64_t size) {
  const std::optional<size_t> kept = keeper(node, factors, flat, size);
  int64_t stride = size;
  for (size_t i = 0; i < factors.size(); ++i) {
    const ValueId v = value_at(node, factors[i]);
    const uint32_t axis = factors[i].axis;
    const int64_t extent = count(v, axis);
    stride /= extent;
    if (i != kept) {
      freeze_axis(v, axis, "'" + node.name + "' makes one axis of it and others, whose positions it keeps");
      continue;
    }
    for (int64_t at = 0; at < size; ++at)
      unite(flat + static_cast<uint32_t>(at), first(v, axis) + static_cast<uint32_t>(at / stride % extent));
  }
  if (kept) return;
  for (int64_t at = 0; at < size; ++at)
    freeze(find(flat + static_cast<uint32_t>(at)),
           "'" + node.name + "' makes one axis of several, none of which can lose positions");
}

void Positions::merge(const Node& node, const MergeLink& link) {
  int64_t size = 1;
  for (const AxisRef at : link.a) size *= count(value_at(node, at), at.axis);
  if (size == 0) return;
  const auto& single = link.a.size() == 1 ? link.a : link.b;
  const bool flat = single.size() == 1;
  const uint32_t begin = flat ? first(value_at(node, single[0]), single[0].axis) : append(size);
  for (const auto* side : {&link.a, &link.b})
    if (side->size() > 1) split(node, *side, begin, size);
}

void Positions::mark(const NodeLinks& n) {
  const Node& node = graph_.node(n.id);
  const auto note = [&](AxisRef at, std::vector<bool>& flags) {
    const ValueId v = value_at(node, at);
    for (int64_t i = 0; i < count(v, at.axis); ++i) flags[set_of(v, at.axis, i)] = true;
  };
  for (const AxisRef at : n.links.averaged_axes()) note(at, averaged_);
  const bool activations = std::none_of(node.inputs.begin(), node.inputs.end(),
                                        [&](ValueId v) { return v != kNoId && graph_.value(v).kind == ValueKind::kConstant; });
  if (activations)
    for (const AxisRef at : n.links.batch_axes()) note(at, heads_);
}

}  // namespace lathe::prune
