#include "prune/removal.h"

#include <algorithm>
#include <cstring>

#include "graph/op_def.h"

namespace lathe::prune {

Removal::Removal(std::span<const Group> groups, std::span<const Cut> cuts) {
  for (const Cut& cut : cuts) {
    const Group& group = groups[cut.group];
    for (const auto* list : {&group.members, &group.activations}) {
      for (const Member& m : *list) {
        if (cut.channels.empty()) continue;
        std::vector<int64_t>& gone = gone_[{m.value, m.axis}];
        for (const uint32_t c : cut.channels) gone.insert(gone.end(), m.indices[c].begin(), m.indices[c].end());
        if (m.parts > 1) parts_[{m.value, m.axis}] = m.parts;
        touched_[m.value] = true;
      }
    }
  }
  for (auto& [place, gone] : gone_) std::sort(gone.begin(), gone.end());
}

const std::vector<int64_t>& Removal::gone(ValueId value, uint32_t axis) const {
  static const std::vector<int64_t> kNone;
  const auto found = gone_.find({value, axis});
  return found == gone_.end() ? kNone : found->second;
}

uint32_t Removal::parts(ValueId value, uint32_t axis) const {
  const auto found = parts_.find({value, axis});
  return found == parts_.end() ? 1 : found->second;
}

void Removal::rename(ValueId from, ValueId to) {
  for (uint32_t axis = 0; axis < kMaxRank; ++axis) {
    if (const auto found = gone_.find({from, axis}); found != gone_.end()) gone_[{to, axis}] = found->second;
  }
  if (touches(from)) touched_[to] = true;
}

Narrowed Removal::narrowed(const Graph& graph, const Node& node) const {
  Narrowed out;
  const auto note = [&](ValueId v, bool result, size_t index) {
    if (v == kNoId) return;
    const std::vector<Dim>& dims = graph.value(v).type.dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const auto a = static_cast<uint32_t>(axis);
      if (gone(v, a).empty() || parts(v, a) > 1 || !graph.dims().value(dims[axis])) continue;
      out.remove(result ? out_axis(axis, index) : in_axis(index, axis), graph.dims().value(dims[axis]).value_or(0), gone(v, a));
    }
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) note(node.inputs[i], false, i);
  for (size_t i = 0; i < node.outputs.size(); ++i) note(node.outputs[i], true, i);
  return out;
}

Attrs Removal::attrs(const Graph& graph, const Node& node) const {
  Attrs attrs = node.attrs;
  if (const OpDef& def = op_def(node.op); def.narrow != nullptr) def.narrow(attrs, narrowed(graph, node));
  return attrs;
}

TensorType Removal::type(const Graph& graph, ValueId value) const {
  TensorType type = graph.value(value).type;
  for (size_t axis = 0; axis < type.dims.size(); ++axis) {
    const auto a = static_cast<uint32_t>(axis);
    if (gone(value, a).empty()) continue;
    // Of an extent of positions times symbols, the symbols stay.
    DimTable& dims = graph.dims();
    const int64_t positions = axis_positions(dims, type.dims[axis]);
    const int64_t left = positions - static_cast<int64_t>(gone(value, a).size()) / parts(value, a);
    type.dims[axis] = dims.mul(dims.floordiv(type.dims[axis], dims.constant(positions)), dims.constant(left));
  }
  return type;
}

namespace {

// What stays of a constant, axis by axis; where the last axis has parts, it is another list for every part of axis 0.
struct Kept {
  std::vector<std::vector<int64_t>> axes;
  std::vector<std::vector<int64_t>> parts;
  std::vector<int64_t> extents;
  size_t element = 0;

  const std::vector<int64_t>& last(int64_t first_index) const {
    return parts.empty() ? axes.back()
                         : parts[static_cast<size_t>(first_index * static_cast<int64_t>(parts.size()) / extents[0])];
  }
};

// Copies what stays below axis `axis`; `first` is the index along axis 0.
void copy_kept(const Kept& kept, size_t axis, const std::byte* from, int64_t first, std::vector<std::byte>& to) {
  if (axis == kept.axes.size()) {
    to.insert(to.end(), from, from + kept.element);
    return;
  }
  size_t stride = kept.element;
  for (size_t i = axis + 1; i < kept.extents.size(); ++i) stride *= static_cast<size_t>(kept.extents[i]);
  const bool last = axis > 0 && axis + 1 == kept.axes.size();
  for (const int64_t i : last ? kept.last(first) : kept.axes[axis])
    copy_kept(kept, axis + 1, from + static_cast<size_t>(i) * stride, axis == 0 ? i : first, to);
}

}  // namespace

Constant Removal::bytes(const Graph& graph, ValueId id, const Constant& of) const {
  const Value& value = graph.value(id);
  if (!touches(id)) return of;
  Kept kept;
  kept.element = dtype_bytes(value.type.dtype);
  for (size_t axis = 0; axis < value.type.dims.size(); ++axis) {
    const auto a = static_cast<uint32_t>(axis);
    const int64_t extent = graph.dims().value(value.type.dims[axis]).value_or(0);
    kept.extents.push_back(extent);
    const uint32_t n = parts(id, a);
    if (n == 1) {
      kept.axes.push_back(kept_indices(extent, gone(id, a)));
      continue;
    }
    kept.axes.emplace_back();
    for (const int64_t i : kept_indices(extent * n, gone(id, a))) {
      kept.parts.resize(n);
      kept.parts[static_cast<size_t>(i / extent)].push_back(i % extent);
    }
  }
  std::vector<std::byte> out;
  copy_kept(kept, 0, of.bytes.data(), 0, out);
  return Constant::copy(out);
}

std::vector<int64_t> kept_indices(int64_t extent, std::span<const int64_t> gone) {
  std::vector<int64_t> kept;
  auto next = gone.begin();
  for (int64_t i = 0; i < extent; ++i) {
    if (next != gone.end() && *next == i) ++next;
    else kept.push_back(i);
  }
  return kept;
}

namespace {

bool fits(const Graph& graph, const Member& m, uint32_t channels) {
  if (m.value >= graph.value_count() || graph.value(m.value).dead || m.axis >= graph.value(m.value).type.dims.size())
    return false;
  const int64_t extent = axis_positions(graph.dims(), graph.value(m.value).type.dims[m.axis]) * m.parts;
  if (m.indices.size() != channels) return false;
  return std::all_of(m.indices.begin(), m.indices.end(), [&](const std::vector<int64_t>& list) {
    return std::all_of(list.begin(), list.end(), [&](int64_t i) { return i >= 0 && i < extent; });
  });
}

}  // namespace

Result<void> check_groups(const Graph& graph, std::span<const Group> groups) {
  for (const Group& group : groups)
    for (const auto* list : {&group.members, &group.activations})
      for (const Member& m : *list)
        if (!fits(graph, m, group.channels))
          return fail(Code::kInvalidArgument, "group '" + group.name + "' is of another graph: it names what this one has not");
  return {};
}

}  // namespace lathe::prune
