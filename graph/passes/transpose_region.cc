#include "graph/passes/transpose_region.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/op_def.h"
#include "graph/passes/match.h"
#include "graph/passes/permutation.h"

namespace lathe::passes {
namespace {

size_t rank_of(const Graph& graph, ValueId v) { return graph.value(v).type.dims.size(); }

// Operands that are permuted with the node: all of an elementwise op's or Concat's, else the first (the others are parameters
// along an axis).
size_t permuted_operands(const Node& node) {
  const bool all = std::holds_alternative<BinaryAttrs>(node.attrs) || node.op == Op::kConcat;
  return all ? node.inputs.size() : 1;
}

bool broadcasts_scalar(const Graph& graph, const Node& node, ValueId v) {
  return rank_of(graph, v) == 0 && std::holds_alternative<BinaryAttrs>(node.attrs);
}

bool can_permute_operand(const Graph& graph, const Node& node, ValueId v, size_t rank) {
  if (v == kNoId) return false;
  if (broadcasts_scalar(graph, node, v)) return true;
  const Value& value = graph.value(v);
  if (value.quant && value.quant->axis >= 0) return false;
  if (value.kind != ValueKind::kConstant) return rank_of(graph, v) == rank;
  return rank_of(graph, v) <= rank && known_dims(graph, v) &&
         (rank_of(graph, v) == rank || std::holds_alternative<BinaryAttrs>(node.attrs));
}

// Values through which a region grows: as large in rank as q, and not constant.
bool links(const Graph& graph, ValueId v, const Ints& q) {
  return v != kNoId && graph.value(v).kind == ValueKind::kTemporary && rank_of(graph, v) == static_cast<size_t>(q.count);
}

bool contains(const Region& region, NodeId n) {
  return std::find(region.nodes.begin(), region.nodes.end(), n) != region.nodes.end();
}

// The result of a Transpose of v by `perm` that stands before the region, or kNoId.
ValueId transposed_before(const Graph& graph, const Region& region, ValueId v, const Ints& perm) {
  const std::vector<NodeId>& order = graph.order();
  const auto end = std::find(order.begin(), order.end(), region.nodes.front());
  for (auto at = order.begin(); at != end; ++at) {
    const Ints* p = transpose_perm(graph, *at);
    if (p != nullptr && graph.node(*at).inputs[0] == v && *p == perm) return graph.node(*at).outputs[0];
  }
  return kNoId;
}

// A reader outside the region that takes v' as it is: a Reshape does not see moved axes of size 1.
bool reads_any_order(const Graph& graph, NodeId reader, ValueId v, const Ints& q) {
  return graph.node(reader).op == Op::kReshape && graph.node(reader).inputs[0] == v &&
         moves_only_ones(graph.dims(), graph.value(v).type, inverse(q));
}

// What the border below result v costs. Of several Transposes that are outputs of the graph only one can become v' itself.
void cost_below(const Graph& graph, const Region& region, ValueId v, RegionCost& cost) {
  bool wrapped = graph.is_output(v), taken = false;
  for (NodeId reader : graph.consumers(v)) {
    if (contains(region, reader)) continue;
    const Ints* p = transpose_perm(graph, reader);
    if (p == nullptr) {
      wrapped = wrapped || !reads_any_order(graph, reader, v, region.q);
      continue;
    }
    const bool is_output = graph.is_output(graph.node(reader).outputs[0]);
    if (!is_identity(compose(region.q, *p)) || (is_output && taken)) continue;
    ++cost.removed;
    taken = taken || is_output;
  }
  cost.inserted_below += wrapped ? 1 : 0;
}

// What an operand v from outside the region costs.
void cost_above(const Graph& graph, const Region& region, ValueId v, RegionCost& cost) {
  const Ints* p = transpose_perm(graph.producer(v));
  if (p == nullptr) {
    ++cost.untransposed;
    cost.inserted_above += transposed_before(graph, region, v, inverse(region.q)) == kNoId ? 1 : 0;
    return;
  }
  const std::vector<NodeId> readers = graph.consumers(v);
  const bool goes =
      !graph.is_output(v) && std::all_of(readers.begin(), readers.end(), [&](NodeId n) { return contains(region, n); });
  cost.removed += goes ? 1 : 0;
  cost.inserted_above += is_identity(compose(*p, inverse(region.q))) ? 0 : 1;
}

// Converts one region; holds the twins made so far.
class Converter {
 public:
  Converter(Rewriter& rewriter, const Region& region) : rewriter_(rewriter), graph_(rewriter.graph()), region_(region) {}

  void run() {
    for (NodeId n : region_.nodes) convert(n);
    for (NodeId n : region_.nodes) wrap(n);
    std::vector<std::string> names;
    for (NodeId n : region_.nodes) names.push_back(graph_.node(n).name);
    for (size_t i = region_.nodes.size(); i-- > 0;) rewriter_.erase(region_.nodes[i]);
    for (size_t i = 0; i < names.size(); ++i) rewriter_.rename_producer(made_[i], names[i]);
  }

 private:
  void convert(NodeId n) {
    const Node node = graph_.node(n);
    Attrs attrs = node.attrs;
    if (op_def(node.op).permute != nullptr) op_def(node.op).permute(attrs, region_.q);
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i = 0; i < permuted_operands(node); ++i) inputs[i] = twin(n, node, inputs[i]);
    const ValueId out = node.outputs[0];
    made_.push_back(rewriter_.insert(n, node.op, attrs, inputs, graph_.fresh_name(node.name), graph_.value(out).quant));
    twins_[out] = made_.back();
  }

  ValueId twin(NodeId before, const Node& node, ValueId v) {
    if (broadcasts_scalar(graph_, node, v)) return v;
    const auto found = twins_.find(v);
    if (found != twins_.end()) return found->second;
    const ValueId made = graph_.value(v).kind == ValueKind::kConstant ? constant_twin(v) : operand_twin(before, v);
    twins_[v] = made;
    return made;
  }

  ValueId constant_twin(ValueId v) {
    const Value value = graph_.value(v);
    std::vector<int64_t> dims = *known_dims(graph_, v);
    dims.insert(dims.begin(), static_cast<size_t>(region_.q.count) - dims.size(), 1);
    const Ints perm = inverse(region_.q);
    TensorType type{value.type.dtype, {}};
    for (int32_t i = 0; i < perm.count; ++i) type.dims.push_back(graph_.dims().constant(dims[static_cast<size_t>(perm[i])]));
    return rewriter_.constant(graph_.fresh_name(value.name), type, permuted(value.constant, dtype_bytes(type.dtype), dims, perm),
                              value.quant);
  }

  ValueId operand_twin(NodeId before, ValueId v) {
    const Node* producer = graph_.producer(v);
    const Ints* p = transpose_perm(producer);
    const ValueId from = p == nullptr ? v : producer->inputs[0];
    const Ints perm = p == nullptr ? inverse(region_.q) : compose(*p, inverse(region_.q));
    if (is_identity(perm)) return from;
    if (const ValueId known = transposed_before(graph_, region_, from, perm); known != kNoId) return known;
    return rewriter_.insert(before, Op::kTranspose, PermAttrs{perm}, {from},
                            graph_.fresh_name(graph_.value(from).name + ".transpose"), graph_.value(from).quant);
  }

  // Gives readers outside the region what they read before: Transposes are composed with the new order, others read a Transpose
  // of the twin.
  void wrap(NodeId n) {
    const ValueId v = graph_.node(n).outputs[0], made = twins_[v];
    const Ints q = region_.q;
    for (NodeId reader : graph_.consumers(v)) {
      if (contains(region_, reader)) continue;
      if (transpose_perm(graph_, reader) != nullptr) {
        compose_reader(reader, made);
      } else if (reads_any_order(graph_, reader, v, q)) {
        rewriter_.set_input(reader, 0, made);
      }
    }
    const std::vector<NodeId> readers = graph_.consumers(v);
    if (!graph_.is_output(v) && std::all_of(readers.begin(), readers.end(), [&](NodeId r) { return contains(region_, r); }))
      return;
    const ValueId back = rewriter_.insert(next_to(n), Op::kTranspose, PermAttrs{q}, {made},
                                          graph_.fresh_name(graph_.value(v).name + ".transpose"), graph_.value(v).quant);
    rewriter_.replace(v, back);
  }

  void compose_reader(NodeId reader, ValueId made) {
    const Ints perm = compose(region_.q, *transpose_perm(graph_, reader));
    const ValueId out = graph_.node(reader).outputs[0];
    const bool may_vanish = !graph_.is_output(out) || !graph_.is_output(made);
    if (is_identity(perm) && may_vanish) {
      rewriter_.replace(out, made);
    } else {
      const ValueId fresh = rewriter_.insert(reader, Op::kTranspose, PermAttrs{perm}, {made},
                                             graph_.fresh_name(graph_.node(reader).name), graph_.value(out).quant);
      rewriter_.replace(out, fresh);
    }
    rewriter_.erase(reader);
  }

  // The node that stands directly after n.
  NodeId next_to(NodeId n) const {
    const std::vector<NodeId>& order = graph_.order();
    const auto at = std::find(order.begin(), order.end(), n) + 1;
    return at == order.end() ? kNoId : *at;
  }

  Rewriter& rewriter_;
  Graph& graph_;
  const Region& region_;
  std::map<ValueId, ValueId> twins_;
  std::vector<ValueId> made_;  // first results, by region node
};

}  // namespace

bool can_permute(const Graph& graph, NodeId n, const Ints& q) {
  const Node& node = graph.node(n);
  const OpDef& def = op_def(node.op);
  if (node.dead || !def.layout_free || node.op == Op::kTranspose || node.outputs.size() != 1 || !links(graph, node.outputs[0], q))
    return false;
  if (def.permute != nullptr) {
    Attrs attrs = node.attrs;
    if (!(def.permute(attrs, q) == q)) return false;
  }
  bool any = false;
  for (size_t i = 0; i < permuted_operands(node); ++i) {
    if (!can_permute_operand(graph, node, node.inputs[i], static_cast<size_t>(q.count))) return false;
    any = any || graph.value(node.inputs[i]).kind != ValueKind::kConstant;
  }
  for (size_t i = permuted_operands(node); i < node.inputs.size(); ++i) {
    if (node.inputs[i] != kNoId && graph.value(node.inputs[i]).kind != ValueKind::kConstant) return false;
  }
  return any;
}

Region single_region(NodeId seed, const Ints& q) { return {q, {seed}}; }

Region grow_region(const Graph& graph, NodeId seed, const Ints& q) {
  std::set<NodeId> seen = {seed};
  std::vector<NodeId> work = {seed};
  const auto visit = [&](NodeId n) {
    if (n != kNoId && can_permute(graph, n, q) && seen.insert(n).second) work.push_back(n);
  };
  while (!work.empty()) {
    const Node& node = graph.node(work.back());
    work.pop_back();
    for (size_t i = 0; i < permuted_operands(node); ++i) {
      if (links(graph, node.inputs[i], q)) visit(graph.value(node.inputs[i]).producer);
    }
    for (NodeId reader : graph.consumers(node.outputs[0])) visit(reader);
  }
  Region region{q, {}};
  for (NodeId n : graph.order()) {
    if (seen.contains(n)) region.nodes.push_back(n);
  }
  return region;
}

RegionCost region_cost(const Graph& graph, const Region& region) {
  RegionCost cost;
  std::set<ValueId> outside;
  for (NodeId n : region.nodes) {
    const Node& node = graph.node(n);
    for (size_t i = 0; i < permuted_operands(node); ++i) {
      const ValueId v = node.inputs[i];
      const bool inside = graph.value(v).producer != kNoId && contains(region, graph.value(v).producer);
      if (!inside && graph.value(v).kind != ValueKind::kConstant && !broadcasts_scalar(graph, node, v)) outside.insert(v);
    }
    cost_below(graph, region, node.outputs[0], cost);
  }
  for (ValueId v : outside) cost_above(graph, region, v, cost);
  return cost;
}

void convert_region(Rewriter& rewriter, const Region& region) { Converter(rewriter, region).run(); }

}  // namespace lathe::passes
