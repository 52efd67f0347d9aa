// What cuts remove, place by place: the form in which a graph is rewritten. Used by prune/ only.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir.h"
#include "graph/links.h"
#include "prune/groups.h"

namespace lathe::prune {

class Removal {
 public:
  // Requires: check_cuts() passed, and the groups are of `graph`.
  Removal(std::span<const Group> groups, std::span<const Cut> cuts);

  // Positions that go from an axis, ascending; with parts, each is part * extent + index.
  const std::vector<int64_t>& gone(ValueId value, uint32_t axis) const;
  bool touches(ValueId value) const { return touched_.contains(value); }
  uint32_t parts(ValueId value, uint32_t axis) const;
  // `to` stands for `from` from now on.
  void rename(ValueId from, ValueId to);

  // What goes from the axes of a node, for OpDef::narrow.
  Narrowed narrowed(const Graph& graph, const Node& node) const;
  // The node's attributes after the cut.
  Attrs attrs(const Graph& graph, const Node& node) const;
  // The type that a value has after the cut. Requires: each axis that loses positions has a constant extent.
  TensorType type(const Graph& graph, ValueId value) const;
  // The bytes of a constant after the cut: shared with `value` where nothing goes. `of`: other bytes in the place of its own.
  Constant bytes(const Graph& graph, ValueId value) const { return bytes(graph, value, graph.value(value).constant); }
  Constant bytes(const Graph& graph, ValueId value, const Constant& of) const;

 private:
  std::map<std::pair<ValueId, uint32_t>, std::vector<int64_t>> gone_;
  std::map<std::pair<ValueId, uint32_t>, uint32_t> parts_;
  std::map<ValueId, bool> touched_;
};

// The indices in [0, extent) that are not in `gone`, which is ascending.
std::vector<int64_t> kept_indices(int64_t extent, std::span<const int64_t> gone);

// The groups are of this graph: every place exists, with indices within the axis. The error names the group.
Result<void> check_groups(const Graph& graph, std::span<const Group> groups);

}  // namespace lathe::prune
