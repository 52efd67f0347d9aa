#include "prune/head_blocks.h"

#include <algorithm>

#include "prune/rewrite.h"

namespace lathe::prune {
namespace {

const Member* projection_weight(const Graph& graph, const Group& group, size_t* how_many) {
  const Member* found = nullptr;
  *how_many = 0;
  for (const Member& m : group.members) {
    if (m.role != MemberRole::kInput) continue;
    found = &m;
    *how_many += graph.consumers(m.value).size();
  }
  return found;
}

// Whether the weight is a matrix from `link.in_axis` to `link.out_axis`.
bool is_matrix(const Graph& graph, ValueId weight, const AbsorbLink& link) {
  const Value& w = graph.value(weight);
  if (w.type.dtype != DType::kF32 || !w.constant.valid()) return false;
  for (uint32_t d = 0; d < w.type.dims.size(); ++d)
    if (d != link.in_axis && d != link.out_axis && graph.dims().value(w.type.dims[d]) != 1) return false;
  return true;
}

// The sum that adds the projection's result to a shortcut.
ValueId sum_of(const Graph& graph, std::span<const Branch> branches, NodeId projection) {
  for (const Branch& b : branches)
    if (std::find(b.nodes.begin(), b.nodes.end(), projection) != b.nodes.end()) return graph.node(b.sum).outputs[0];
  return graph.node(projection).outputs[0];
}

HeadBlock block_of(const Graph& graph, std::span<const Group> groups, size_t g, std::span<const Branch> branches) {
  const Group& group = groups[g];
  HeadBlock block;
  block.group = g;
  const auto refuse = [&](std::string why) {
    block.refused = std::move(why);
    return block;
  };
  if (!group.frozen.empty()) return refuse(group.frozen);
  size_t readers = 0;
  const Member* weight = projection_weight(graph, group, &readers);
  if (weight == nullptr || readers != 1) return refuse(std::to_string(readers) + " layers read its heads, not one output projection");
  block.projection = graph.consumers(weight->value)[0];
  LinkSource source;
  const Node& node = graph.node(block.projection);
  const Links links = node_links(graph, node, source);
  if (!links.absorb() || node.inputs[links.absorb()->weight] != weight->value || !is_matrix(graph, weight->value, *links.absorb()))
    return refuse("its output projection '" + node.name + "' is no float32 matrix");
  block.link = *links.absorb();
  block.joined = node.inputs[block.link.data];
  const auto last = static_cast<uint32_t>(graph.value(block.joined).type.dims.size() - 1);
  const auto lies_last = [&](const Member& m) { return m.value == block.joined && m.axis == last; };
  if (weight->parts != 1 || std::none_of(group.activations.begin(), group.activations.end(), lies_last))
    return refuse("its heads do not lie side by side in front of '" + node.name + "'");
  block.columns = weight->indices;
  block.sum = sum_of(graph, branches, block.projection);
  return block;
}

}  // namespace

std::vector<HeadBlock> find_head_blocks(const Graph& graph, std::span<const Group> groups) {
  const std::vector<Branch> branches = find_branches(graph);
  std::vector<HeadBlock> blocks;
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g].heads) blocks.push_back(block_of(graph, groups, g, branches));
  return blocks;
}

}  // namespace lathe::prune
