// Positions (value, axis, index) of a graph, united where links say that they carry the same channel. Used by prune/groups.cc
// only.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir.h"
#include "graph/links.h"

namespace lathe::prune {

// The links of a node, with what they refer to.
struct NodeLinks {
  explicit NodeLinks(const Graph& graph, NodeId node) : id(node), links(node_links(graph, graph.node(node), source)) {}
  NodeId id;
  LinkSource source;
  Links links;
};

class Positions {
 public:
  // Reads all links of the graph, unites and freezes. `inner`: of several axes that a reshape makes one, the innermost keeps its
  // positions apart, not the outermost.
  Positions(const Graph& graph, bool inner);

  const std::vector<std::unique_ptr<NodeLinks>>& nodes() const { return nodes_; }
  // How many positions an axis has: its constant extent times its parts; 0 if the extent is not constant.
  int64_t count(ValueId value, uint32_t axis) const;
  uint32_t parts(ValueId value, uint32_t axis) const;
  // The set that a position belongs to. Requires: 0 <= index < count().
  uint32_t set_of(ValueId value, uint32_t axis, int64_t index) const {
    return find(first(value, axis) + static_cast<uint32_t>(index));
  }
  const std::string* frozen(uint32_t set) const;  // why; null: it is not
  void freeze(uint32_t set, std::string why);
  bool heads(uint32_t set) const { return heads_[set]; }
  bool averaged(uint32_t set) const { return averaged_[set]; }
  ValueId value_at(const Node& node, AxisRef at) const { return at.result ? node.outputs[at.index] : node.inputs[at.index]; }

 private:
  uint32_t first(ValueId value, uint32_t axis) const { return first_[value][axis]; }
  uint32_t find(uint32_t position) const;
  void unite(uint32_t a, uint32_t b);
  uint32_t append(int64_t count);
  void count_parts();
  void allocate();
  void freeze_axis(ValueId value, uint32_t axis, const std::string& why);
  void freeze_borders();
  void apply(const NodeLinks& node);
  void apply(const Node& node, const SameLink& link);
  void merge(const Node& node, const MergeLink& link);
  // Unites each position of the `flat` ones with one of the factor that keeps its positions apart.
  void split(const Node& node, const std::vector<AxisRef>& factors, uint32_t flat, int64_t size);
  std::optional<size_t> keeper(const Node& node, const std::vector<AxisRef>& factors, uint32_t flat, int64_t size) const;
  bool agrees(uint32_t flat, int64_t size, int64_t stride, int64_t extent) const;
  void mark(const NodeLinks& node);

  const Graph& graph_;
  bool inner_;
  std::vector<std::unique_ptr<NodeLinks>> nodes_;
  std::map<std::pair<ValueId, uint32_t>, uint32_t> parts_;
  std::vector<std::pair<ValueId, uint32_t>> torn_;  // axes that readers divide into different parts
  std::vector<std::vector<uint32_t>> first_;        // by value, by axis
  mutable std::vector<uint32_t> parent_;
  std::vector<int32_t> reason_;         // by set: index into reasons_, -1: not frozen
  std::vector<bool> heads_, averaged_;  // by set, once all are united
  std::vector<std::string> reasons_;
};

}  // namespace lathe::prune
