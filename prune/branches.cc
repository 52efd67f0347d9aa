// Whole layers: a branch beside a shortcut, cut away.
#include <algorithm>
#include <set>

#include "graph/op_def.h"
#include "graph/rewriter.h"
#include "prune/rewrite.h"

namespace lathe::prune {
namespace {

// Nodes that serve `root` only, and the activations that they start from.
struct Side {
  std::vector<NodeId> nodes;
  std::set<ValueId> starts;
  bool weighted = false;
};

bool reads_outside(const Graph& graph, ValueId v, const std::set<NodeId>& inside) {
  if (graph.is_output(v)) return true;
  const std::vector<NodeId> readers = graph.consumers(v);
  return std::any_of(readers.begin(), readers.end(), [&](NodeId n) { return !inside.contains(n); });
}

Side side_of(const Graph& graph, NodeId sum, ValueId root) {
  std::set<NodeId> inside;
  Side side;
  const std::vector<NodeId>& order = graph.order();
  // Against the order: all readers of a node's results have been looked at. The sum reads the root; what else it reads is the
  // other side's.
  const auto from = std::find(order.rbegin(), order.rend(), sum);
  std::set<ValueId> wanted{root};
  for (auto it = from + 1; it != order.rend(); ++it) {
    const Node& node = graph.node(*it);
    const bool serves = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return wanted.contains(v); });
    const bool shared = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
      return v == root ? graph.is_output(v) || graph.consumers(v).size() > 1 : reads_outside(graph, v, inside);
    });
    if (!serves || shared) continue;
    inside.insert(*it);
    side.nodes.push_back(*it);
    side.weighted = side.weighted || op_def(node.op).macs != nullptr;
    for (const ValueId v : node.inputs)
      if (v != kNoId) wanted.insert(v);
  }
  for (const ValueId v : wanted) {
    const Value& value = graph.value(v);
    const bool made_inside = value.producer != kNoId && inside.contains(value.producer);
    if (value.kind != ValueKind::kConstant && !made_inside) side.starts.insert(v);
  }
  std::reverse(side.nodes.begin(), side.nodes.end());
  return side;
}

// Whether `branch` may go and `shortcut` stay: both start at the same value.
bool goes(const Side& branch, const Side& shortcut) {
  return branch.weighted && !shortcut.starts.empty() &&
         std::includes(branch.starts.begin(), branch.starts.end(), shortcut.starts.begin(), shortcut.starts.end());
}

Result<void> check_branch(const Graph& graph, const Branch& b) {
  if (b.sum < graph.node_count() && !graph.node(b.sum).dead && graph.node(b.sum).name == b.name && b.operand < 2) return {};
  return fail(Code::kInvalidArgument, "branch '" + b.name + "' is of another graph");
}

}  // namespace

std::vector<Branch> find_branches(const Graph& graph) {
  std::vector<Branch> branches;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const OpDef& def = op_def(node.op);
    if (!def.sum || node.attrs != default_attrs(node.op) || node.inputs[0] == node.inputs[1]) continue;
    const TensorType& type = graph.value(node.outputs[0]).type;
    if (graph.value(node.inputs[0]).type != type || graph.value(node.inputs[1]).type != type) continue;
    const Side sides[] = {side_of(graph, id, node.inputs[0]), side_of(graph, id, node.inputs[1])};
    // The longer side is the branch: a projection is the shortcut.
    const uint32_t longer = sides[1].nodes.size() > sides[0].nodes.size() ? 1 : 0;
    if (!goes(sides[longer], sides[1 - longer])) continue;
    branches.push_back({.name = node.name, .sum = id, .operand = longer, .nodes = sides[longer].nodes});
  }
  return branches;
}

Result<Graph> remove_branches(const Graph& graph, std::span<const Branch> branches) {
  Graph out = graph;
  Rewriter rewriter(out);
  for (const Branch& b : branches) {
    LATHE_CHECK_OK(check_branch(graph, b));
    const Node& node = out.node(b.sum);
    const ValueId shortcut = node.inputs[1 - b.operand], sum = node.outputs[0];
    if (out.is_output(sum) && (out.value(shortcut).producer == kNoId || out.is_output(shortcut)))
      return fail(Code::kUnsupported,
                  "branch '" + b.name + "': nothing would be computed for output '" + out.value(sum).name + "'");
    rewriter.replace(sum, shortcut);
  }
  rewriter.sweep();
  LATHE_CHECK_OK(rewriter.ok());
  LATHE_CHECK_OK(verify(out));
  return out;
}

Result<Graph> mask_branches(const Graph& graph, std::span<const Branch> branches) {
  Graph out = graph;
  Rewriter rewriter(out);
  for (const Branch& b : branches) {
    LATHE_CHECK_OK(check_branch(graph, b));
    const ValueId x = out.node(b.sum).inputs[b.operand];
    if (out.value(x).type.dtype != DType::kF32) return fail(Code::kUnsupported, "branch '" + b.name + "' is not float32");
    const ValueId zero = rewriter.constant(b.name + ":none", {DType::kF32, {}}, Constant::of(std::vector<float>{0.0f}));
    rewriter.set_input(b.sum, b.operand, rewriter.insert(b.sum, Op::kMul, BinaryAttrs{}, {x, zero}, b.name + ":masked"));
  }
  LATHE_CHECK_OK(rewriter.ok());
  LATHE_CHECK_OK(verify(out));
  return out;
}

}  // namespace lathe::prune
