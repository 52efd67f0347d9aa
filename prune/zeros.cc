#include "prune/zeros.h"

#include <algorithm>
#include <map>
#include <set>

#include "prune/random_run.h"
#include "prune/slices.h"

namespace lathe::prune {
namespace {

// The zero channels of one group.
class GroupZeros {
 public:
  // `alive`: by activation of the group and index along its axis, whether a run saw anything but 0 there.
  GroupZeros(const Graph& graph, const Group& group, std::span<const std::vector<bool>> alive)
      : graph_(graph), group_(group), alive_(alive) {
    for (size_t k = 0; k < group.activations.size(); ++k) by_value_[group.activations[k].value] = k;
  }

  // Whether activation k is zero for the channel, and why: a parameter that is zero, or an operand that is.
  bool zero(size_t k, uint32_t channel) {
    const auto [it, fresh] = zero_.emplace(std::pair{k, channel}, false);
    if (fresh) it->second = find_zero(k, channel);  // a graph has no cycles
    return it->second;
  }

  bool goes(uint32_t channel) {
    for (size_t k = 0; k < group_.activations.size(); ++k)
      if (!unused(k, channel)) return false;
    return !group_.activations.empty();
  }

 private:
  bool find_zero(size_t k, uint32_t channel) {
    for (const int64_t i : group_.activations[k].indices[channel])
      if (alive_[k][static_cast<size_t>(i)]) return false;
    const Node* node = graph_.producer(group_.activations[k].value);
    if (node == nullptr) return false;
    for (const ValueId v : node->inputs) {
      const auto carried = by_value_.find(v);
      if (carried != by_value_.end() && zero(carried->second, channel)) return true;
      if (constant_zero(v, MemberRole::kOutput, channel) || constant_zero(v, MemberRole::kGamma, channel)) return true;
    }
    return false;
  }

  // Whether `v` is a member in that role, with nothing but zeros for the channel.
  bool constant_zero(ValueId v, MemberRole role, uint32_t channel) const {
    for (const Member& m : group_.members) {
      const Value& value = graph_.value(m.value);
      if (m.value != v || m.role != role || value.type.dtype != DType::kF32 || !value.constant.valid()) continue;
      const auto w = value.constant.as<float>();
      const auto elements = member_elements(graph_, m, channel);
      return std::all_of(elements.begin(), elements.end(), [&](size_t i) { return w[i] == 0; });
    }
    return false;
  }

  // Whether nothing depends on activation k of the channel: it is zero, or all that read it weigh it with zero or make what is
  // unused itself.
  bool unused(size_t k, uint32_t channel) {
    const auto [it, fresh] = unused_.emplace(std::pair{k, channel}, false);
    if (fresh) it->second = zero(k, channel) || unread(group_.activations[k].value, channel);
    return it->second;
  }

  bool unread(ValueId v, uint32_t channel) {
    if (graph_.is_output(v)) return false;
    for (const NodeId n : graph_.consumers(v)) {
      const Node& node = graph_.node(n);
      const bool weighed = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId w) { return constant_zero(w, MemberRole::kInput, channel); });
      const bool inside = std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId r) {
        const auto at = by_value_.find(r);
        return at != by_value_.end() && unused(at->second, channel);
      });
      if (!weighed && !inside) return false;
    }
    return true;
  }

  const Graph& graph_;
  const Group& group_;
  std::span<const std::vector<bool>> alive_;
  std::map<ValueId, size_t> by_value_;
  std::map<std::pair<size_t, uint32_t>, bool> zero_, unused_;
};

// Of an activation that is zero in all its channels.
bool all_zero(GroupZeros& zeros, const Group& group, size_t k) {
  for (uint32_t c = 0; c < group.channels; ++c)
    if (!zeros.zero(k, c)) return false;
  return group.channels > 0;
}

// The channels of a group that go; a note where some stay though they are zero.
void add_cut(size_t g, const Group& group, GroupZeros& zeros, Zeros* out) {
  std::vector<uint32_t> found;
  for (uint32_t c = 0; c < group.channels; ++c)
    if (zeros.goes(c)) found.push_back(c);
  if (found.empty()) return;
  std::vector<uint32_t> allowed;
  if (group.frozen.empty()) allowed = allowed_cut(group, found, found.size());
  if (allowed.size() < found.size())
    out->notes.push_back(std::to_string(found.size() - allowed.size()) + " zero channels of '" + group.name + "' stay: " +
                         (group.frozen.empty() ? "one must stay in each segment, and segments stay equal" : group.frozen));
  if (!allowed.empty()) out->cuts.push_back({g, std::move(allowed)});
}

// Two zeros or more in every four inputs in a row.
bool is_two_of_four(const Graph& graph, const Member& member) {
  const auto w = graph.value(member.value).constant.as<float>();
  const auto& dims = graph.value(member.value).type.dims;
  size_t inner = 1;
  for (size_t d = member.axis + 1; d < dims.size(); ++d) inner *= static_cast<size_t>(graph.dims().value(dims[d]).value_or(1));
  const auto length = static_cast<size_t>(graph.dims().value(dims[member.axis]).value_or(0));
  if (length < 4) return false;
  for (size_t row = 0; row + length * inner <= w.size(); row += length * inner)
    for (size_t i = 0; i < inner; ++i)
      for (size_t k = 0; k + 4 <= length; k += 4) {
        int zeros = 0;
        for (size_t j = k; j < k + 4; ++j) zeros += w[row + j * inner + i] == 0;
        if (zeros < 2) return false;
      }
  return true;
}

// By activation of all groups in turn and index along its axis: whether it is not always 0 on random inputs.
Result<std::vector<std::vector<bool>>> living_indices(const Graph& graph, const std::vector<Group>& groups) {
  Graph watched = graph;
  std::vector<std::pair<size_t, uint32_t>> wanted;  // output, axis
  for (const Group& g : groups)
    for (const Member& a : g.activations) {
      const auto at = std::find(watched.outputs().begin(), watched.outputs().end(), a.value);
      wanted.emplace_back(static_cast<size_t>(at - watched.outputs().begin()), a.axis);
      if (at == watched.outputs().end()) watched.add_output(a.value);
    }
  LATHE_TRY(const std::vector<RunOutput> outputs, run_random(watched, {}));
  std::vector<std::vector<bool>> alive;
  for (const auto& [output, axis] : wanted) {
    const RunOutput& run = outputs[output];
    size_t inner = 1;
    for (size_t d = axis + 1; d < run.dims.size(); ++d) inner *= static_cast<size_t>(run.dims[d]);
    const auto length = static_cast<size_t>(run.dims[axis]);
    auto& here = alive.emplace_back(length, false);
    for (size_t i = 0; i < run.values.size(); ++i)
      if (run.values[i] != 0) here[i / inner % length] = true;
  }
  return alive;
}

}  // namespace

Result<Zeros> find_zeros(const Graph& graph, const std::vector<Group>& groups) {
  LATHE_TRY(const auto alive, living_indices(graph, groups));
  Zeros out;
  std::set<ValueId> zero_values;
  size_t first = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t count = groups[g].activations.size();
    GroupZeros zeros(graph, groups[g], std::span(alive).subspan(first, count));
    for (size_t k = 0; k < count; ++k)
      if (all_zero(zeros, groups[g], k)) zero_values.insert(groups[g].activations[k].value);
    add_cut(g, groups[g], zeros, &out);
    first += count;
  }
  std::set<NodeId> taken;
  for (Branch& b : find_branches(graph)) {
    if (!zero_values.contains(graph.node(b.sum).inputs[b.operand])) continue;
    // One inside another goes with it, or when the caller looks again.
    if (taken.contains(b.sum) || std::any_of(b.nodes.begin(), b.nodes.end(), [&](NodeId n) { return taken.contains(n); }))
      continue;
    taken.insert(b.nodes.begin(), b.nodes.end());
    taken.insert(b.sum);
    out.branches.push_back(std::move(b));
  }
  return out;
}

Sparsity weight_sparsity(const Graph& graph, const std::vector<Group>& groups) {
  Sparsity out;
  std::set<ValueId> seen;
  for (const Group& g : groups)
    for (const Member& m : g.members) {
      const Value& v = graph.value(m.value);
      if (m.role != MemberRole::kInput || v.type.dtype != DType::kF32 || !v.constant.valid() || !seen.insert(m.value).second)
        continue;
      const auto w = v.constant.as<float>();
      const auto zeros = static_cast<uint64_t>(std::count(w.begin(), w.end(), 0.0f));
      out.weights += w.size();
      out.zeros += zeros;
      out.layers += zeros > 0;
      out.two_of_four += zeros > 0 && is_two_of_four(graph, m);
    }
  return out;
}

}  // namespace lathe::prune
